"""millrace kill: crash servers, for drills."""

from typing import Annotated

import typer

from millrace import stack
from millrace.cli.printing import Json, ServerNames, print_json, report, settings


def kill(
    names: ServerNames,
    stay_dead: Annotated[
        bool,
        typer.Option("--stay-dead", help="The watcher does not restart these servers; the next `millrace up` does."),
    ] = False,
    json: Json = False,
) -> None:
    """End servers with SIGKILL, for drills.

    The watcher restarts them within 30 s. Without a watcher, `millrace up` restarts them.

    Examples:
    millrace kill datanode-1
    millrace kill kafka --stay-dead
    """
    chosen = settings()
    stack.kill(chosen, names, report, stay_dead=stay_dead)
    if json:
        print_json("kill", servers=stack.status(chosen))
