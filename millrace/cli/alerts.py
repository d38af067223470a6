"""millrace alerts, and alerts on the terminal elsewhere: each as the sentence of its rule, with the values in it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from millrace.alerts import rules_of, why
from millrace.cli.changes import RunName
from millrace.cli.printing import Json, fields, plain_table, print_json, print_rows, result_console, settings
from millrace.dashboard.shown import text
from millrace.errors import UsageError
from millrace.rules import ALERTS
from millrace.rules.outputs import MARKS

if TYPE_CHECKING:
    from millrace.patterns import Variant
    from millrace.rules.rules import Rule
    from millrace.stores.topics import Tail
    from millrace.target import Target
    from millrace.verbs.dispositions import Precision

SHOWN_EVERY_S = 0.3  # alerts arrive faster than a person reads


def alerts(
    pattern: RunName,
    rule: Annotated[str, typer.Option("--rule", metavar="RULE", help="Only alerts of this rule.")] = "",
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="Only alerts of this key.")] = "",
    since: Annotated[
        str,
        typer.Option("--since", metavar="TIME", help="Only alerts since then: 15m, 2h, 1d, or 2026-11-21T09:14, UTC."),
    ] = "",
    until: Annotated[
        str, typer.Option("--until", metavar="TIME", help="Only alerts before then, in the same forms.")
    ] = "",
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="Only alerts with such an operand: amount_cents>=50000. Can be repeated.",
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write all of them to a .csv or .parquet file instead.")
    ] = None,
    marked: Annotated[
        str,
        typer.Option("--marked", metavar="MARK", help=f"Only alerts with this mark: {', '.join(MARKS)}, or none."),
    ] = "",
    no_canaries: Annotated[
        bool, typer.Option("--no-canaries", help="Leave out the alerts that synthetic events set off.")
    ] = False,
    precision: Annotated[
        bool, typer.Option("--precision", help="Print how many of them were confirmed, by rule and day, instead.")
    ] = False,
    last: Annotated[int, typer.Option("--last", metavar="COUNT", min=1, help="How many of the latest to print.")] = 50,
    json: Json = False,
) -> None:
    """Print the latest alerts of a pattern, oldest first, each with the beginning of its id and its rule's sentence.

    Tokens are shortened. With --json it prints all alerts, with their values, their whole tokens and their places in
    Kafka. `explain` shows one of them.

    Examples:
    millrace alerts flink-spark --since 15m
    millrace alerts flink --key ID --json
    millrace alerts flink --since 1d --where "amount_cents>=50000" --to alerts.parquet
    """
    from millrace.patterns import load
    from millrace.target import Target
    from millrace.verbs import alerts as finding
    from millrace.verbs import dispositions as marking
    from millrace.verbs.export import export, suffix_of

    if precision and to is not None:
        raise UsageError("--precision prints counts, and --to writes alerts; leave out either")
    variant, target = load(pattern), Target.read(settings())
    if to is not None:
        suffix_of(to)  # a wrong one is refused before Kafka is read
    found = finding.alerts(
        target,
        variant,
        rule=rule,
        key=key,
        since_ms=finding.since(since),
        until_ms=finding.since(until, option="--until") if until else None,
        where=where or (),
        no_canaries=no_canaries,
    )
    marks = marking.dispositions(target, variant)
    if marked:
        found = marking.marked(found, marks, marked)
    if precision:
        _print_precision(pattern, marking.precision(found, marks), json)
        return
    if to is not None:
        export(found, marks, to)
    if json:
        shown_marks = {each: fields(disposition) for each, disposition in marks.items()}
        answers = [{**fields(each), "disposition": shown_marks.get(each.alert["alert_id"])} for each in found]
        print_json("alerts", pattern=pattern, alerts=answers)
        return
    rules, console = rules_of(variant), result_console()
    if to is not None:
        console.print(f"{len(found)} alerts written to {to}", markup=False)
        return
    for each in found[-last:]:
        of = marks.get(each.alert["alert_id"])
        mark = f" [{of.mark} by {of.by}{': ' if of.note else ''}{of.note}]" if of else ""
        console.print(f"{each.alert['alert_id'][:10]}  {_sentence(each.alert, rules)}{text(mark)}", markup=False)
    if console.is_terminal:
        shown = min(last, len(found))
        console.print(
            f"{shown} of {len(found)} alerts; `millrace explain ID` shows one of them, `millrace mark ID` marks it",
            style="dim",
        )


def _print_precision(pattern: str, found: Sequence[Precision], as_json: bool) -> None:
    """By rule and day, how many alerts people have confirmed."""
    if as_json:
        print_json(
            "alerts", pattern=pattern, precision=[{**fields(each), "precision": each.precision} for each in found]
        )
        return
    heads = ("day", "rule", "version", "alerts", "confirmed", "dismissed", "precision")
    rows = [
        (
            *(each.day, each.rule, each.rule_version, str(each.alerts), str(each.confirmed), str(each.dismissed)),
            "" if each.precision is None else f"{each.precision:.2f}",
        )
        for each in found
    ]
    if not (console := result_console()).is_terminal:
        print_rows(rows)
        return
    table = plain_table(*heads)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def alert_line(value: bytes, rules: Mapping[str, Rule]) -> str:
    """One alert as a line: rule, key, time, and the rule's sentence, its tokens shortened; other messages unchanged."""
    try:
        return _sentence(json.loads(value), rules)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        return value.decode("utf-8", errors="replace")


def _sentence(alert: Mapping[str, Any], rules: Mapping[str, Rule]) -> str:
    at = datetime.fromtimestamp(alert["at_ms"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return f"{alert['rule']:<20} {text(alert['key'])}  {at}: {text(why(alert, rules))}"


@contextmanager
def alerts_shown(target: Target, variant: Variant, console: Console) -> Iterator[None]:
    """Print a pattern's alerts as they arrive while the block runs, then their number."""
    from millrace.stores.topics import Tail

    ended = threading.Event()
    with closing(Tail(target.bootstrap, {ALERTS.name: variant.topic(ALERTS)})) as tail:
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="alerts") as pool:
            shown = pool.submit(_show, tail, rules_of(variant), console, ended)
            try:
                yield
            finally:
                ended.set()
        console.print(f"{shown.result()} alerts arrived while the traffic ran", style="bold")


def _show(tail: Tail, rules: Mapping[str, Rule], console: Console, ended: threading.Event) -> int:
    shown_at, count = 0.0, 0
    for record in tail.follow():
        if ended.is_set():
            break
        if record is None or record.value is None:
            continue
        count += 1
        if time.monotonic() - shown_at > SHOWN_EVERY_S:
            shown_at = time.monotonic()
            console.print(alert_line(record.value, rules), markup=False)
    return count
