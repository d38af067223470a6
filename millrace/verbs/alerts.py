"""The alerts of a pattern, and why one of them was raised."""

from __future__ import annotations

import json
import operator
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from millrace.alerts import rules_of, why
from millrace.errors import InfraError, UsageError
from millrace.oracle import Record
from millrace.patterns import Variant
from millrace.rules import ALERTS
from millrace.rules.rules import Rule
from millrace.stores.topics import Tail, lengths
from millrace.target import Target

ID_LEAST = 6
"""So many characters of an id name an alert, where no other begins with them."""
CONDITION = re.compile(r"(\w+)\s*(>=|<=|!=|=|>|<)\s*(.*)")
COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
SPANS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


@dataclass(frozen=True)
class Found:
    """One alert, and its place in its topic."""

    alert: Mapping[str, Any]
    sentence: str
    topic: str
    partition: int
    offset: int
    arrived_ms: int


@dataclass(frozen=True)
class Explanation:
    """An alert with its rule and the accepted events that it rests on."""

    pattern: str
    found: Found
    doc: str
    is_current: bool
    """Whether the rule still is as it was when it alerted."""
    events: tuple[Mapping[str, Any], ...]
    missing: tuple[str, ...]
    """Ids of events that are no longer in their topic."""


def alerts(
    target: Target,
    variant: Variant,
    *,
    rule: str = "",
    key: str = "",
    since_ms: int = 0,
    until_ms: int | None = None,
    where: Sequence[str] = (),
    no_canaries: bool = False,
) -> list[Found]:
    """The alerts of a pattern in the order of their arrival, each id once: those that arrived in the span, `until_ms`
    excluded, and whose operands fulfil all conditions; with `no_canaries` only those of others."""
    conditions = [condition(each) for each in where]
    rules = rules_of(variant)
    if rule and rule not in rules:
        raise UsageError(f"{variant.name} runs no rule '{rule}'; choose one of: {', '.join(rules)}")
    chosen: dict[str, Found] = {}
    for each in _read(target, variant, rules):
        alert = each.alert
        is_then = since_ms <= each.arrived_ms and (until_ms is None or each.arrived_ms < until_ms)
        is_of = rule in ("", alert["rule"]) and key in ("", alert["key"], alert["subject"])
        is_of = is_of and not (no_canaries and variant.use.is_of_canary(alert))
        if is_then and is_of and all(holds(alert["operands"] or {}) for holds in conditions):
            chosen.setdefault(alert["alert_id"], each)
    return list(chosen.values())


def explain(target: Target, variants: Iterable[Variant], alert_id: str) -> Explanation:
    """Why the alert was raised whose id is or begins with this."""
    return _explained(target, *named(target, variants, alert_id))


def named(target: Target, variants: Iterable[Variant], alert_id: str) -> tuple[Variant, Found]:
    """The alert whose id is or begins with this, and the first of the patterns that has it."""
    if not re.fullmatch(rf"[0-9a-f]{{{ID_LEAST},32}}", alert_id):
        raise UsageError(
            f"'{alert_id}' is not an id of an alert: {ID_LEAST} to 32 hexadecimal digits; `millrace alerts` prints them"
        )
    by_name = {variant.name: variant for variant in variants}
    held = lengths(target.bootstrap, {name: variant.topic(ALERTS) for name, variant in by_name.items()})
    for variant in (by_name[name] for name, length in held.items() if length):
        every = alerts(target, variant)
        chosen = [each for each in every if each.alert["alert_id"].startswith(alert_id)]
        if len(chosen) > 1:
            raise UsageError(f"{len(chosen)} alerts of {variant.name} begin with {alert_id}; give more of the id")
        if chosen:
            return variant, chosen[0]
    raise InfraError(f"no alert {alert_id} in the topics; `millrace alerts PATTERN` lists those that are there")


def condition(text: str) -> Callable[[Mapping[str, Any]], bool]:
    """The condition on operands in a text such as `amount_cents>=50000`; false if an alert lacks the operand."""
    if (found := CONDITION.fullmatch(text.strip())) is None:
        raise UsageError(
            f"--where {text}: give an operand, one of {' '.join(COMPARED)} and a value: amount_cents>=50000"
        )
    name, compared, wanted = found[1], found[2], found[3].strip()

    def holds(operands: Mapping[str, Any]) -> bool:
        if name not in operands:
            return False
        value = str(operands[name])
        with suppress(ValueError):
            return COMPARED[compared](float(value), float(wanted))
        return COMPARED[compared](value, wanted)

    return holds


def since(text: str, now_ms: int | None = None, option: str = "--since") -> int:
    """The moment that a text names: a span before now, as in 15m, 2h or 1d, or a time of UTC, as 2026-11-21T09:14."""
    if not text:
        return 0
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    if span := re.fullmatch(r"(\d+)([smhd])", text):
        return now_ms - int(span[1]) * SPANS_S[span[2]] * 1_000
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)
    except ValueError:
        raise UsageError(
            f"{option} {text}: give a span such as 15m, 2h or 1d, or a time such as 2026-11-21T09:14"
        ) from None


def _read(target: Target, variant: Variant, rules: Mapping[str, Rule]) -> Iterator[Found]:
    topic = variant.topic(ALERTS)
    with closing(Tail(target.bootstrap, {ALERTS.name: topic})) as tail:
        for record in tail.new():
            try:
                alert = json.loads(record.value or b"")
                yield Found(alert, why(alert, rules), topic, record.partition, record.offset, record.ingest_ms)
            except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
                continue  # `verify` reports messages that are no alerts


def _explained(target: Target, variant: Variant, found: Found) -> Explanation:
    wanted = [str(each) for each in found.alert["event_ids"]]
    events: dict[str, Mapping[str, Any]] = {}
    enriched, judged = variant.use.enriched, variant.use.judged
    with closing(Tail(target.bootstrap, {enriched.name: variant.topic(enriched)})) as tail:
        for record in tail.new():
            if (event := _event(record, wanted)) is None:
                continue
            place = f"{event.get('source_partition')}-{event.get('source_offset')}"
            identity = str(event.get(judged.id)) if judged.id else place
            if identity in wanted and str(event.get(judged.key)) == str(found.alert["subject"]):
                events.setdefault(identity, event)
    rule = rules_of(variant).get(found.alert["rule"])
    return Explanation(
        variant.name,
        found,
        rule.doc if rule else "",
        rule is not None and rule.version == found.alert["rule_version"],
        tuple(events[each] for each in wanted if each in events),
        tuple(each for each in wanted if each not in events),
    )


def _event(record: Record, wanted: Iterable[str]) -> Mapping[str, Any] | None:
    """An event that may be one of those; most messages are left out unread."""
    value = record.value or b""
    # An event without an id is known by its place, two numbers of the message.
    if not any(all(part in value for part in each.encode().split(b"-")) for each in wanted):
        return None
    try:
        event = json.loads(value)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
