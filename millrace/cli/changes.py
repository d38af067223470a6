"""Options and output of the verbs that change something."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from millrace.cli.printing import plain_table, print_json, print_rows, result_console
from millrace.errors import UsageError
from millrace.stores.changes import Change, pending

if TYPE_CHECKING:
    from millrace.verbs.meaning import Meaning, Redeclared

SIGNS = {"create": "+", "start": "+", "change": "~", "remove": "-", "stop": "-", "keep": " "}
COLOURS = {"create": "green", "start": "green", "change": "yellow", "remove": "red", "stop": "red", "keep": "dim"}


def complete_patterns() -> list[str]:
    """The names of all patterns."""
    from millrace.patterns import names

    return names()


def known_pattern(name: str) -> str:
    """The name, or a usage error if there is no such pattern."""
    from millrace.patterns import PatternError, require_known

    try:
        require_known(name)
    except PatternError as error:
        raise UsageError(str(error)) from None
    return name


def complete_runs() -> list[str]:
    """The names of all patterns and backfills."""
    from millrace.patterns import backfills

    return [*complete_patterns(), *backfills.names()]


def known_run(name: str) -> str:
    """The name of a pattern or a backfill, or a usage error if there is none."""
    from millrace.patterns import backfills

    return name if name in backfills.names() else known_pattern(name)


PatternName = Annotated[
    str,
    typer.Argument(
        metavar="PATTERN",
        help="Name of a pattern; `millrace patterns` lists them.",
        autocompletion=complete_patterns,
        callback=known_pattern,
    ),
]
RunName = Annotated[
    str,
    typer.Argument(
        metavar="PATTERN",
        help="Name of a pattern or of a backfill; `millrace patterns` lists the patterns.",
        autocompletion=complete_runs,
        callback=known_run,
    ),
]
WOULD_CHANGE = 3
PlanOnly = Annotated[
    bool,
    typer.Option("--plan", help=f"Show the changes without making them; exit code {WOULD_CHANGE} if there are any."),
]


AlertId = Annotated[
    str, typer.Argument(metavar="ALERT_ID", help="Id of the alert, or its beginning, as `millrace alerts` prints it.")
]


PatternOfAlert = Annotated[
    str,
    typer.Option(
        "--pattern",
        metavar="PATTERN",
        help="The pattern of the alert. Default: the first one that has it.",
        autocompletion=complete_runs,
    ),
]


ForRun = Annotated[
    str,
    typer.Option(
        "--for",
        metavar="RUN",
        help="Name of a test run: `teardown --for RUN` stops only jobs that `deploy --for RUN` started, and not those "
        "that ran before.",
    ),
]


def end_plan(changes: Sequence[Change], *, plan: bool) -> None:
    """Exit with the code of a plan if something would change."""
    if plan and pending(changes):
        raise typer.Exit(WOULD_CHANGE)


def print_changes(
    verb: str,
    pattern: str,
    changes: Sequence[Change],
    *,
    plan: bool,
    json: bool,
    meaning: "Sequence[Meaning] | None" = None,
) -> None:
    """Print the changes and their number; with a `meaning`, what they change in the declarations, and from where on."""
    if json:
        more = {} if meaning is None else {"meaning": meaning}
        print_json(verb, pattern=pattern, plan=plan, changes=changes, **more)
        return
    console = result_console()
    # The limits of events are in each job of the pattern.
    differing = list(dict.fromkeys(change for each in meaning or () for change in each.changes))
    if not console.is_terminal:
        print_rows((change.action, change.kind, change.name, change.detail) for change in changes)
        print_rows((each.action, each.kind, each.name, difference(each)) for each in differing)
        print_rows(("since", "job", each.job, since(each)) for each in meaning or ())
        return
    table = plain_table()
    for change in changes:
        style = COLOURS[change.action]
        table.add_row(SIGNS[change.action], change.kind, change.name, change.detail, style=style)
    for each in differing:
        table.add_row(SIGNS[each.action], each.kind, each.name, Text(difference(each)), style=COLOURS[each.action])
    console.print(table)
    for job in meaning or ():
        console.print(f"{job.job}: takes effect {since(job)}", markup=False)
    count = len(pending(changes))
    would = "would change" if plan else "changed"
    console.print(f"{pattern}: {f'{count} {would}' if count else f'nothing {would}'}", style="bold")


def difference(each: "Redeclared") -> str:
    """A field of a declaration, as it is deployed and as it is declared."""
    if each.action != "change":
        return f"{each.field}: {each.old or each.new}"
    return f"{each.field}: {each.old or 'none'} -> {each.new or 'none'}"


def since(each: "Meaning") -> str:
    """From which messages on a job does otherwise."""
    return "; ".join(_since(each))


def _since(each: "Meaning") -> Iterator[str]:
    yield each.since
    for topic, offsets in each.offsets.items():
        yield f"committed now: {topic} {', '.join(f'{number}: {offset}' for number, offset in sorted(offsets.items()))}"
    if each.note:
        yield each.note
