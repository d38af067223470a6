"""How the verbs that change something print what they did, or would do."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from millrace.cli.printing import print_json, print_rows, result_console
from millrace.errors import UsageError
from millrace.stores.changes import Change, pending

SIGNS = {"create": "+", "start": "+", "change": "~", "remove": "-", "stop": "-", "keep": " "}
COLOURS = {"create": "green", "start": "green", "change": "yellow", "remove": "red", "stop": "red", "keep": "dim"}


def complete_patterns() -> list[str]:
    """The patterns there are."""
    from millrace.patterns import names

    return names()


def known(name: str) -> str:
    """A name that a pattern has."""
    from millrace.patterns import PatternError, require_known

    try:
        require_known(name)
    except PatternError as error:
        raise UsageError(str(error)) from None
    return name


PatternName = Annotated[
    str,
    typer.Argument(
        metavar="PATTERN",
        help="A pattern; `millrace patterns` lists them.",
        autocompletion=complete_patterns,
        callback=known,
    ),
]
WOULD_CHANGE = 3
PlanOnly = Annotated[
    bool,
    typer.Option("--plan", help=f"Only show what would change; exit code {WOULD_CHANGE} if anything would."),
]


ForRun = Annotated[
    str,
    typer.Option(
        "--for",
        metavar="RUN",
        help="A run that deploys a pattern, uses it and tears it down: `teardown --for` stops only what "
        "`deploy --for` of the same run started.",
    ),
]


def end_plan(changes: Sequence[Change], *, plan: bool) -> None:
    """End a plan with its own exit code where something would change."""
    if plan and pending(changes):
        raise typer.Exit(WOULD_CHANGE)


def print_changes(verb: str, pattern: str, changes: Sequence[Change], *, plan: bool, json: bool) -> None:
    """The changes, and how many there were."""
    if json:
        print_json(verb, pattern=pattern, plan=plan, changes=changes)
        return
    console = result_console()
    if not console.is_terminal:
        print_rows((change.action, change.kind, change.name, change.detail) for change in changes)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for change in changes:
        style = COLOURS[change.action]
        table.add_row(SIGNS[change.action], change.kind, change.name, change.detail, style=style)
    console.print(table)
    count = len(pending(changes))
    would = "would change" if plan else "changed"
    console.print(f"{pattern}: {f'{count} {would}' if count else f'nothing {would}'}", style="bold")
