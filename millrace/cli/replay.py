"""millrace replay: what the rules as declared now would change."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from millrace.cli.changes import RunName
from millrace.cli.printing import Json, fields, print_json, print_rows, progress, result_console, settings

if TYPE_CHECKING:
    from millrace.verbs.replay import Replayed
    from millrace.verify.replayed import Difference, Example


def replay(
    pattern: RunName,
    rule: Annotated[
        str, typer.Option("--rule", metavar="RULE", help="Only this rule. Default: all rules of the pattern.")
    ] = "",
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="topics|hdfs|URI",
            help="Which events: those in the raw topics, or those that the pattern stored on HDFS.",
        ),
    ] = "topics",
    check: Annotated[bool, typer.Option("--check", help="Exit code 1 if an alert would appear or disappear.")] = False,
    json: Json = False,
) -> None:
    """List the alerts that would appear and disappear by the rules as declared now.

    The oracle judges all stored events by the rules as declared now, and compares its alerts with those in the topic.
    No job runs, and nothing changes. The first line has the time span of the events: retention has deleted older ones.

    Examples:
    millrace replay flink-spark
    millrace replay my-use --from hdfs --check
    """
    from millrace.target import Target
    from millrace.verbs import replay as replaying

    found = replaying.replay(
        Target.read(settings()),
        pattern,
        rule=rule,
        source=source,
        report=progress,
    )
    if json:
        print_json("replay", **fields(found))
    else:
        print_replayed(found)
    if check and not found.is_same:
        raise typer.Exit(1)


def print_replayed(found: "Replayed") -> None:
    """Print the span, and for each rule what would change."""
    console = result_console()
    span = moment(found.first_ms), moment(found.last_ms)
    if not console.is_terminal:
        print_rows([(found.pattern, str(found.events), *span), *(("note", note) for note in found.notes)])
        print_rows(row for each in found.rules for row in rows(each))
        return
    console.print(f"{found.pattern}: {found.events:,} events, arrived from {' to '.join(span)}", markup=False)
    for note in found.notes:
        console.print(note, style="yellow", markup=False)
    for each in found.rules:
        console.print(f"{each.rule}: {versions(each)}: {counts(each)}", style="bold", markup=False)
        for how, example in examples(each):
            console.print(f"  {how} {text(example)}", style="green" if how == "+" else "red", markup=False)


def rows(each: "Difference") -> "Iterator[tuple[str, ...]]":
    """A rule and its examples, for a pipe."""
    yield each.rule, versions(each), str(each.stay), str(each.appear), str(each.disappear)
    for how, example in examples(each):
        yield each.rule, how, text(example)


def examples(each: "Difference") -> "Iterator[tuple[str, Example]]":
    """The first alerts that would appear, then those that would disappear."""
    yield from (("+", example) for example in each.appearing)
    yield from (("-", example) for example in each.disappearing)


def versions(each: "Difference") -> str:
    return f"{', '.join(each.old) or 'no version'} -> {each.new or 'not run'}"


def counts(each: "Difference") -> str:
    return f"{each.stay:,} stay, {each.appear:,} would appear, {each.disappear:,} would disappear"


def text(example: "Example") -> str:
    """One alert on a line."""
    at_ms = example.at_ms if example.window_start_ms is None else example.window_start_ms
    operands = ", ".join(f"{name}={value}" for name, value in example.operands.items())
    return f"{example.key}  {moment(at_ms)}  {operands}  {', '.join(example.event_ids)}"


def moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
