"""millrace verify: whether the verdict itself can be trusted."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from millrace.cli.changes import complete_runs, known_run
from millrace.cli.printing import Json, plain_table, print_json, print_rows, progress, result_console, settings
from millrace.errors import UsageError

if TYPE_CHECKING:
    from millrace.verify.spoiling import Outcome, SelfTest


def known_run_if_any(name: str | None) -> str | None:
    """The name, if one is given, or a usage error if there is no such run."""
    return known_run(name) if name else None


def verify(
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="PATTERN",
            help="Name of a pattern or of a backfill. Default: each that has been deployed.",
            autocompletion=complete_runs,
            callback=known_run_if_any,
        ),
    ] = None,
    self_test: Annotated[
        bool,
        typer.Option("--self-test", help="Required: test the verdict."),
    ] = False,
    json: Json = False,
) -> None:
    """Test the verdict itself: damage a copy of a run; the responsible check must fail.

    The verdict of the run must be ok. Then a copy of it, in memory, is damaged in hundreds of ways, one at a time:
    messages and rows lost, repeated, swapped and altered in each column, wrong timestamps, foreign messages, absent
    topics and stores. Each time the check that covers this damage must fail. The same is done with the last hundred
    entries of a ledger, and with its last state, if the pattern was deployed with --verdicts.

    The time grows with the run: send a minute of traffic, not an hour. Exit code 1 if a damage passes all checks, or
    fails other checks only.

    Examples:
    millrace verify --self-test flink-spark
    millrace verify --self-test my-use --json
    """
    if not self_test:
        raise UsageError("add --self-test, the only thing that verify does; `millrace validate` prints the verdict")
    from millrace.target import Target
    from millrace.verbs import self_test as testing

    target = Target.read(settings())
    found = [
        testing.self_test(target, name, report=progress) for name in ([pattern] if pattern else testing.runs(target))
    ]
    if json:
        print_json("verify", runs=[as_data(each) for each in found])
    else:
        for each in found:
            print_outcomes(each)
    if any(each.missed for each in found):
        raise typer.Exit(1)


def as_data(found: "SelfTest") -> dict[str, object]:
    """The outcomes as JSON."""
    outcomes = [
        {"spoiling": each.name, "checks": each.checks, "noticed": each.noticed, "is_noticed": each.is_noticed}
        for each in found.outcomes
    ]
    return {"pattern": found.pattern, "spoilings": outcomes, "missed": len(found.missed)}


def print_outcomes(found: "SelfTest") -> None:
    """Print a line for each spoiling, and how many were missed."""
    console = result_console()
    if not console.is_terminal:
        print_rows([("spoiling", "must notice", "noticed", ""), *rows(found.outcomes)])
        return
    table = plain_table("spoiling", "must notice", "noticed", "")
    for row, each in zip(rows(found.outcomes), found.outcomes, strict=True):
        table.add_row(*row, style=None if each.is_noticed else "red")
    console.print(table)
    console.print(f"\n{found.pattern}: {len(found.outcomes)} spoilings, {len(found.missed)} not noticed")


def rows(outcomes: Iterable["Outcome"]) -> Iterable[tuple[str, ...]]:
    """A row for each spoiling: what it is, the checks that must notice it, and those that did."""
    for each in outcomes:
        yield each.name, _listed(each.checks), _listed(each.noticed), "noticed" if each.is_noticed else "MISSED"


def _listed(checks: tuple[str, ...]) -> str:
    """The names of a few checks, or how many there are."""
    return ", ".join(checks) if len(checks) <= 3 else f"{', '.join(checks[:2])} and {len(checks) - 2} more"
