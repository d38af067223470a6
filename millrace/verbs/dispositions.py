"""What people make of alerts: each mark is a message of `PATTERN.dispositions`, and the last one of an alert counts."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from millrace.errors import UsageError
from millrace.oracle import Refusal, accept
from millrace.patterns import Variant
from millrace.rules import Text
from millrace.rules.outputs import CONFIRMED, DISMISSED, DISPOSITIONS, MARKS
from millrace.stores.topics import NoTopicError, Publisher, Tail
from millrace.target import Target
from millrace.verbs.alerts import Found

NONE = "none"
"""In place of the mark of an alert that has none."""


@dataclass(frozen=True)
class Disposition:
    """The mark of one alert."""

    alert_id: str
    mark: str
    note: str
    by: str
    at_ms: int
    rule: str
    rule_version: str
    alert_at_ms: int


@dataclass(frozen=True)
class Precision:
    """How many alerts of a rule on one day were right, of those that people have decided."""

    day: str
    rule: str
    rule_version: str
    alerts: int
    confirmed: int
    dismissed: int

    @property
    def precision(self) -> float | None:
        decided = self.confirmed + self.dismissed
        return self.confirmed / decided if decided else None


def require_mark(mark: str) -> None:
    """Raise a usage error unless this is a mark."""
    if mark not in MARKS:
        raise UsageError(f"'{mark}' is not a mark of an alert; choose one of: {', '.join(MARKS)}")


def mark(
    publisher: Publisher, variant: Variant, alert: Mapping[str, Any], mark: str, *, by: str, note: str = ""
) -> Disposition:
    """Mark an alert; returns once Kafka has acknowledged it."""
    require_mark(mark)
    made = Disposition(
        alert_id=alert["alert_id"],
        mark=mark,
        note=note,
        by=by,
        at_ms=time.time_ns() // 1_000_000,
        rule=alert["rule"],
        rule_version=alert["rule_version"],
        alert_at_ms=alert["at_ms"],
    )
    value = json.dumps(asdict(made), ensure_ascii=False).encode()
    if isinstance(refused := accept(DISPOSITIONS, value, made.at_ms), Refusal):
        raise UsageError(_complaint(refused.reason))
    publisher.publish([(variant.topic(DISPOSITIONS), made.alert_id.encode(), value)])
    return made


def _complaint(reason: str) -> str:
    problem, _, name = reason.partition(":")
    if problem == "card-number":
        return f"{name}: it holds a card number; leave it out"
    most = {field.name: field.max_length for field in DISPOSITIONS.fields if isinstance(field, Text)}[name]
    return f"{name}: one line of {'1 to' if name == 'by' else 'at most'} {most} characters"


def dispositions(target: Target, variant: Variant) -> dict[str, Disposition]:
    """The mark of each alert that has one, by its id; none in a backfill, and none before the topic is provisioned."""
    found: dict[str, Disposition] = {}
    try:
        opened = Tail(target.bootstrap, {DISPOSITIONS.name: variant.topic(DISPOSITIONS)})
    except NoTopicError:
        return found
    with closing(opened) as tail:
        for record in tail.new():
            event = accept(DISPOSITIONS, record.value or b"", record.ingest_ms)
            if not isinstance(event, Refusal):
                found[event["alert_id"]] = Disposition(**{name: event[name] for name in DISPOSITIONS.names})
    return found


def marked(found: Iterable[Found], marks: Mapping[str, Disposition], mark: str) -> list[Found]:
    """The alerts with a mark, or those with none."""
    if mark not in (*MARKS, NONE):
        raise UsageError(f"--marked {mark}: choose one of: {', '.join((*MARKS, NONE))}")
    own = {alert_id: each.mark for alert_id, each in marks.items()}
    return [each for each in found if own.get(each.alert["alert_id"], NONE) == mark]


def day_of(at_ms: int) -> str:
    """The day of an alert for which its mark counts."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()


def precision(found: Iterable[Found], marks: Mapping[str, Disposition]) -> Sequence[Precision]:
    """Of each rule, in each version, and each day."""
    counts: dict[tuple[str, str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for each in found:
        alert = each.alert
        own = counts[day_of(alert["at_ms"]), alert["rule"], alert["rule_version"]]
        own["alerts"] += 1
        if (disposition := marks.get(alert["alert_id"])) is not None:
            own[disposition.mark] += 1
    return [
        Precision(*of, alerts=own["alerts"], confirmed=own[CONFIRMED], dismissed=own[DISMISSED])
        for of, own in sorted(counts.items())
    ]
