"""millrace down: stop the stack."""

from typing import Annotated

import typer

from infra import stack
from infra.cli.printing import Json, print_json, report, settings


def down(
    purge: Annotated[
        bool,
        typer.Option("--purge", help="Also remove all data, logs and configurations; records of measurements stay."),
    ] = False,
    json: Json = False,
) -> None:
    """Stop every job and server of the stack, in reverse order. Data stays unless --purge is given.

    Examples:  millrace down  |  millrace down --purge
    """
    chosen = settings()
    stack.down(chosen, purge=purge, report=report)
    if json:
        print_json(stack.status(chosen))
