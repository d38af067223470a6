"""millrace restart: stop and start some servers."""

from typing import Annotated

import typer

from millrace import stack
from millrace.cli.printing import Json, complete_servers, print_json, report, settings


def restart(
    names: Annotated[
        list[str], typer.Argument(metavar="SERVER...", help="Servers or services.", autocompletion=complete_servers)
    ],
    json: Json = False,
) -> None:
    """Stop the named servers and start them again with the current configuration; the others keep running.

    Examples:  millrace restart kafka  |  millrace restart flink-taskmanager
    """
    chosen = settings()
    stack.restart(chosen, names, report)
    if json:
        print_json("restart", servers=stack.status(chosen))
