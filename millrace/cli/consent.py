"""Confirmation before a verb removes data."""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from millrace.cli.printing import progress_console
from millrace.errors import InfraError, UsageError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Remove without confirmation; required without a terminal.")]
SHOWN_MOST = 30


def require_consent(verb: str, removed: Callable[[], Sequence[str]], *, yes: bool, json: bool) -> None:
    """Return if a person or --yes confirms the removal; `removed` lists what is removed."""
    if yes:
        return
    if json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{verb} removes data; add --yes to confirm")
    names = removed()
    console = progress_console()
    console.print(f"{verb} permanently removes:" if names else f"{verb} finds no data to remove", style="bold")
    for name in names[:SHOWN_MOST]:
        console.print(f"  {name}", markup=False)
    if len(names) > SHOWN_MOST:
        console.print(f"  and {len(names) - SHOWN_MOST} more")
    if not typer.confirm("Go ahead?", err=True):
        raise InfraError("nothing was removed or stopped")
