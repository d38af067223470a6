"""millrace down: stop the stack."""

from typing import Annotated

import typer

from millrace import stack
from millrace.cli.consent import Yes, require_consent
from millrace.cli.printing import Json, print_json, report, settings


def down(
    purge: Annotated[
        bool,
        typer.Option(
            "--purge",
            help="Also remove all data, logs, configurations and the keys of tokens. Records of measurements stay.",
        ),
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Stop all jobs and servers of the stack, and keep the data.

    The next `millrace up` starts the servers with the same data.

    Examples:
    millrace down
    millrace down --purge --yes
    """
    chosen = settings()
    if purge:
        require_consent("down --purge", lambda: [str(path) for path in stack.purged(chosen)], yes=yes, json=json)
    stack.down(chosen, purge=purge, report=report)
    if json:
        print_json("down", servers=stack.status(chosen))
