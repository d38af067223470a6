"""millrace validate: the verdict on a pattern's output."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from millrace.cli.changes import RunName
from millrace.cli.printing import (
    Json,
    plain_table,
    print_json,
    print_rows,
    progress,
    refuse_json,
    result_console,
    settings,
)
from millrace.settings import EVERY_S, SETTLE_S, SETTLED_AFTER_S, VALIDATE_WITHIN_S

if TYPE_CHECKING:
    from millrace.verbs.validate import Validation
    from millrace.verify import Verdict

COLOURS = {"ok": "green", "kept": "green", "failed": "red", "broken": "yellow", "unknown": "yellow"}


def validate(
    pattern: RunName,
    within_s: Annotated[
        float,
        typer.Option("--within", metavar="SECONDS", min=1, help="How long to wait at most for outstanding output."),
    ] = VALIDATE_WITHIN_S,
    settled_after_s: Annotated[
        float,
        typer.Option(
            "--settled-after",
            metavar="SECONDS",
            min=0,
            help="If no output arrives for this long, outstanding output counts as lost.",
        ),
    ] = SETTLED_AFTER_S,
    continuous: Annotated[
        bool,
        typer.Option("--continuous", help="Judge segment after segment until Ctrl-C, and write each to the ledger."),
    ] = False,
    by_ledger: Annotated[
        bool,
        typer.Option(
            "--by-ledger",
            help="Judge the segments since the ledger's last entry; without a ledger, everything.",
        ),
    ] = False,
    every_s: Annotated[
        float,
        typer.Option(
            "--every", metavar="SECONDS", min=5, max=3_600, help="With --continuous: the length of a segment."
        ),
    ] = EVERY_S,
    settle_s: Annotated[
        float,
        typer.Option(
            "--settle", metavar="SECONDS", min=0, help="With --continuous: how long after its end a segment is judged."
        ),
    ] = SETTLE_S,
    json: Json = False,
) -> None:
    """Compare the output of a pattern with the oracle's, and print the verdict.

    The oracle evaluates the rules in plain Python on all messages of the raw topics. The checks find alerts and stored
    events that are lost, duplicated, wrong or late. The verdict is ok, failed, or unknown if a check could not run.
    Exit code 0 only for ok.

    With --continuous the stream is judged in segments, each once, with the state that earlier segments left: for a
    pattern that runs for longer than its topics retain messages. Segments cover alerts, enrichment, window results,
    dead letters, files, tables and the labels of runs. `millrace verdicts` shows the ledger. With --by-ledger no
    message is needed that an earlier segment has judged; over segments that are `assumed` the verdict is unknown.

    Examples:
    millrace validate flink-spark
    millrace validate flink-spark --continuous --every 60
    millrace validate flink --within 600 --settled-after 10 --json
    """
    from millrace import deployments
    from millrace.target import Target
    from millrace.verbs import validate as validating

    if continuous:
        from millrace.verbs import ledger

        refuse_json(json, f"`millrace verdicts {pattern} --json` prints the ledger")
        ledger.follow(
            Target.read(settings()),
            pattern,
            every_s=every_s,
            settle_s=settle_s,
            report=progress,
        )
        return
    target = Target.read(settings())
    if by_ledger and deployments.is_judged(target, pattern):
        found = validating.validate_by_ledger(target, pattern, within_s=within_s, report=progress)
    else:
        found = validating.validate(
            target, pattern, within_s=within_s, settled_after_s=settled_after_s, report=progress
        )
    if json:
        print_json("validate", **as_data(found))
    else:
        print_verdict(found)
    if found.verdict.status != "ok":
        raise typer.Exit(1)


def as_data(found: "Validation") -> dict[str, object]:
    """The verdict as JSON."""
    record = found.verdict.record()
    return {**record, "verdict": found.verdict.status, "record": str(found.record), "report": str(found.page)}


def print_verdict(found: "Validation") -> None:
    """Print the verdict."""
    verdict, console = found.verdict, result_console()
    if not console.is_terminal:
        print_rows(
            [
                ("verdict", verdict.status),
                *((c.name, c.status, c.why or "; ".join(c.offenders)) for c in verdict.checks),
                *(("note", note) for note in verdict.notes),
            ]
        )
        return
    print_checks(console, verdict)
    print_latencies(console, verdict)
    console.print(f"\n[bold]{verdict.pattern}: [{COLOURS[verdict.status]}]{verdict.status}[/][/bold]")
    console.print(f"report {found.page}", style="dim")


def print_checks(console: Console, verdict: "Verdict") -> None:
    table = plain_table("check", "", "figures")
    for check in verdict.checks:
        figures = ", ".join(f"{name} {value}" for name, value in check.figures.items() if name != "offenders")
        table.add_row(check.name, f"[{COLOURS[check.status]}]{check.status}[/]", check.why or figures)
        for offender in check.offenders:
            table.add_row("", "", f"[red]{offender}[/]")
    console.print(table)
    for note in verdict.notes:
        console.print(note, style="yellow", markup=False)


def print_latencies(console: Console, verdict: "Verdict") -> None:
    table = plain_table("latency in ms", "count", "p50", "p95", "p99", "p99.9")
    for each in verdict.latencies:
        quantiles = (each.quantile(q) for q in (0.5, 0.95, 0.99, 0.999))
        table.add_row(each.name, str(each.count), *("" if q is None else f"{q:.0f}" for q in quantiles))
    console.print()
    console.print(table)
    for promise in verdict.promises:
        measured = "not measured" if promise.measured is None else f"{promise.measured:.0f}"
        console.print(
            f"promise {promise.name} {promise.promised:.0f}: {measured}, [{COLOURS[promise.status]}]{promise.status}[/]"
        )
