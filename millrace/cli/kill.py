"""millrace kill: crash servers, for drills."""

from typing import Annotated

import typer

from millrace import stack
from millrace.cli.printing import Json, complete_servers, print_json, report, settings


def kill(
    names: Annotated[
        list[str], typer.Argument(metavar="SERVER...", help="Servers or services.", autocompletion=complete_servers)
    ],
    stay_dead: Annotated[
        bool, typer.Option("--stay-dead", help="Keep them dead until the next `millrace up`; the watcher leaves them.")
    ] = False,
    json: Json = False,
) -> None:
    """End servers with SIGKILL, for drills. The watcher restarts them; without a watcher, `millrace up` does.

    Examples:  millrace kill datanode-1  |  millrace kill kafka --stay-dead
    """
    chosen = settings()
    stack.kill(chosen, names, report, stay_dead=stay_dead)
    if json:
        print_json("kill", servers=stack.status(chosen))
