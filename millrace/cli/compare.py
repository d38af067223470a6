"""millrace compare: patterns on one tape."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millrace.cli.changes import complete_patterns, known_pattern
from millrace.cli.printing import Json, fields, plain_table, print_json, print_rows, result_console, settings

if TYPE_CHECKING:
    from millrace.verbs.comparison import Comparison


def compare(
    patterns: Annotated[
        list[str],
        typer.Argument(
            metavar="PATTERN...",
            help="Names of two patterns or more; `millrace patterns` lists them.",
            autocompletion=complete_patterns,
            callback=lambda names: [known_pattern(name) for name in names],
        ),
    ],
    tape: Annotated[str, typer.Argument(metavar="TAPE", help="Name of the traffic that all patterns received.")],
    json: Json = False,
) -> None:
    """Compare patterns on the same traffic: verdict, alerts, processor time and latencies, side by side.

    All patterns must have received the same traffic under the same name, and must have been validated afterwards. The
    figures are those of the latest verdicts. Of each rule there are the alerts of a pattern, and how many it lacks that
    another one of these has.

    Examples:
    millrace traffic flink --name tape-1 && millrace validate flink
    millrace traffic spark --name tape-1 && millrace validate spark
    millrace compare flink spark tape-1
    millrace compare flink spark streams storm tape-1
    """
    from millrace.target import Target
    from millrace.verbs import comparison

    found = comparison.compare(Target.read(settings()), patterns, tape)
    if json:
        print_json("compare", **fields(found))
        return
    rows = list(figures(found))
    console = result_console()
    if not console.is_terminal:
        print_rows(rows)
        return
    table = plain_table(*rows[0])
    for row in rows[1:]:
        table.add_row(*row)
    console.print(table)


def figures(found: "Comparison") -> Iterator[tuple[str, ...]]:
    """A row for each figure, a column for each pattern."""
    own = [found.figures[name] for name in found.patterns]
    yield f"tape {found.tape}", *found.patterns
    yield "verdict", *(each["verdict"] for each in own)
    yield "events", *(f"{each['events']:,}" for each in own)
    for rule in dict.fromkeys(rule for each in own for rule in each["alerts"] or ()):
        yield f"alerts of {rule}", *(_alerts(each["alerts"], rule) for each in own)
    for part in sorted({part for each in own for part in each["cpu_s"]}):
        yield f"processor time of {part} in s", *(_number(each["cpu_s"].get(part)) for each in own)
    latencies = [{each["name"]: each for each in one["latencies"]} for one in own]
    for name in dict.fromkeys(name for each in latencies for name in each):
        yield f"{name}, p50 / p99 in ms", *(_quantiles(each.get(name, {})) for each in latencies)


def _alerts(by_rule: dict[str, dict[str, int]] | None, rule: str) -> str:
    """The alerts of a rule, and those of others that are absent; `-` where the pattern does not run it."""
    if by_rule is None:
        return "unknown"
    if rule not in by_rule:
        return "-"
    lacking = by_rule[rule]["lacking"]
    return f"{by_rule[rule]['found']:,}" + (f" ({lacking:,} lacking)" if lacking else "")


def _quantiles(latency: dict[str, Any]) -> str:
    return " / ".join(_number(latency.get(quantile)) for quantile in ("p50_ms", "p99_ms"))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
