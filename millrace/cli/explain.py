"""millrace explain: why an alert was raised."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from millrace.cli.changes import AlertId, PatternOfAlert, known_run
from millrace.cli.printing import Json, fields, print_json, print_rows, result_console, settings
from millrace.dashboard.shown import text

if TYPE_CHECKING:
    from millrace.verbs.alerts import Explanation
    from millrace.verbs.dispositions import Disposition

COLUMNS_MOST = 8


def explain(
    alert_id: AlertId,
    pattern: PatternOfAlert = "",
    json: Json = False,
) -> None:
    """Show why an alert was raised: its rule's sentence, its values, the events it rests on, and their places in Kafka.

    Tokens are shortened; with --json they are whole.

    Examples:
    millrace explain 752d93d27e
    millrace explain 752d93d27e --pattern flink --json
    """
    from millrace.patterns import load, readable
    from millrace.target import Target
    from millrace.verbs import alerts as finding
    from millrace.verbs.dispositions import dispositions

    variants, target = [load(known_run(pattern))] if pattern else readable(), Target.read(settings())
    explained = finding.explain(target, variants, alert_id)
    made = dispositions(target, load(explained.pattern)).get(explained.found.alert["alert_id"])
    if json:
        print_json("explain", **fields(explained), disposition=fields(made) if made else None)
        return
    print_explanation(result_console(), explained, made)


def print_explanation(console: Console, explained: "Explanation", made: "Disposition | None" = None) -> None:
    """One alert for people, its tokens shortened."""
    found, alert = explained.found, explained.found.alert
    console.print(f"[bold]{alert['rule']}[/]  {text(alert['subject'])}", highlight=False)
    console.print(text(f"{found.sentence[:1].upper()}{found.sentence[1:]}."), markup=False)
    if explained.doc:
        console.print(explained.doc, style="dim", markup=False)
    rule = f"{alert['rule']} {alert['rule_version']}"
    rows = {
        "pattern": explained.pattern,
        "alert id": alert["alert_id"],
        "key": alert["key"],
        "time of the event": _moment(alert["at_ms"]),
        "in its topic since": _moment(found.arrived_ms),
        "judged by": rule if explained.is_current else f"{rule}, which is no longer the rule's version",
        "found in": f"{found.topic} partition {found.partition} offset {found.offset}",
        **{name.replace("_", " "): value for name, value in (alert["operands"] or {}).items()},
        **({"marked": f"{made.mark} by {made.by}, {_moment(made.at_ms)}", "note": made.note} if made else {}),
    }
    console.print()
    for name, value in text(rows).items():
        console.print(f"{name:<24} {value}", markup=False)
    _print_events(console, explained)


def _print_events(console: Console, explained: "Explanation") -> None:
    if explained.events:
        shown = [name for name in explained.events[0] if name not in HIDDEN][:COLUMNS_MOST]
        rows = [[_place(each), *(text(_value(name, each.get(name))) for name in shown)] for each in explained.events]
        console.print()
        if console.is_terminal:
            table = Table("message", *(name.replace("_", " ") for name in shown), box=None, header_style="bold")
            for row in rows:
                table.add_row(*row)
            console.print(table)
        else:
            print_rows(rows)
    if explained.missing:
        some = text(", ".join(explained.missing[:3]))
        console.print(f"{len(explained.missing)} of its events are no longer in their topic: {some}", style="dim")


HIDDEN = frozenset({"flags", "source_topic", "source_partition", "source_offset", "ingest_ms", "sent_ms"})


def _place(event: Mapping[str, Any]) -> str:
    return f"{event['source_topic']} {event['source_partition']}/{event['source_offset']}"


def _value(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.endswith("_ms") and isinstance(value, int):
        return _moment(value)
    return f"{value / 100:.2f}" if name.endswith("_cents") and isinstance(value, int) else str(value)


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
