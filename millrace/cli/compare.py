"""millrace compare: two patterns on one tape."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millrace.cli.changes import PatternName
from millrace.cli.printing import Json, fields, plain_table, print_json, print_rows, result_console, settings

if TYPE_CHECKING:
    from millrace.verbs.comparison import Comparison


def compare(
    left: PatternName,
    right: PatternName,
    tape: Annotated[str, typer.Argument(metavar="TAPE", help="Name of the traffic that both patterns received.")],
    json: Json = False,
) -> None:
    """Compare two patterns on the same traffic: verdict, processor time and latencies, side by side.

    Both patterns must have received the same traffic under the same name, and must have been validated afterwards. The
    figures are those of the latest verdicts.

    Examples:
    millrace traffic flink --name tape-1 && millrace validate flink
    millrace traffic spark --name tape-1 && millrace validate spark
    millrace compare flink spark tape-1
    """
    from millrace.target import Target
    from millrace.verbs import comparison

    found = comparison.compare(Target.read(settings()), left, right, tape)
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
    """A row for each figure, the left and the right pattern's."""
    left, right = (found.figures[name] for name in (found.left, found.right))
    yield f"tape {found.tape}", found.left, found.right
    yield "verdict", left["verdict"], right["verdict"]
    yield "events", f"{left['events']:,}", f"{right['events']:,}"
    for part in sorted({*left["cpu_s"], *right["cpu_s"]}):
        yield f"processor time of {part} in s", *(_number(each["cpu_s"].get(part)) for each in (left, right))
    of_left, of_right = ({each["name"]: each for each in one["latencies"]} for one in (left, right))
    for name in dict.fromkeys([*of_left, *of_right]):
        yield f"{name}, p50 / p99 in ms", *(_quantiles(each.get(name, {})) for each in (of_left, of_right))


def _quantiles(latency: dict[str, Any]) -> str:
    return " / ".join(_number(latency.get(quantile)) for quantile in ("p50_ms", "p99_ms"))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
