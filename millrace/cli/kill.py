"""millrace kill: end servers as a crash would."""

from typing import Annotated

import typer

from millrace import stack
from millrace.cli.printing import Json, complete_servers, print_json, report, settings


def kill(
    names: Annotated[
        list[str], typer.Argument(metavar="SERVER...", help="Servers or services.", autocompletion=complete_servers)
    ],
    stay_dead: Annotated[
        bool, typer.Option("--stay-dead", help="The watcher leaves them dead until the next `millrace up`.")
    ] = False,
    json: Json = False,
) -> None:
    """End servers with SIGKILL, for drills: the watcher restarts them, or `millrace up` does.

    Examples:  millrace kill datanode-1  |  millrace kill kafka --stay-dead
    """
    chosen = settings()
    stack.kill(chosen, names, report, stay_dead=stay_dead)
    if json:
        print_json("kill", servers=stack.status(chosen))
