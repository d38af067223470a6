"""millrace kill: end servers as a crash would."""

from typing import Annotated

import typer

from infra import stack
from infra.cli.printing import Json, complete_servers, print_json, report, settings


def kill(
    names: Annotated[
        list[str], typer.Argument(metavar="SERVER...", help="Servers or services.", autocompletion=complete_servers)
    ],
    json: Json = False,
) -> None:
    """End servers with SIGKILL, for drills: `millrace status` then says dead, and `millrace up` brings them back.

    Examples:  millrace kill datanode-1  |  millrace kill kafka
    """
    chosen = settings()
    stack.kill(chosen, names, report)
    if json:
        print_json("kill", servers=stack.status(chosen))
