"""Alerts that the page no longer keeps, read back from their topic: newest first, a page at a time, or as a file.

A page ends where it has enough alerts, or once the time of a request is over; the offsets before it are where the next
one continues. So a request holds some thousand messages at most, however many the topic has.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from millrace.alerts import rules_of
from millrace.dashboard.alerts import details, row
from millrace.dashboard.shown import text
from millrace.errors import InfraError, UsageError
from millrace.oracle import Record
from millrace.patterns import Variant
from millrace.rules import ALERTS
from millrace.rules.rules import Rule
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.verbs.alerts import Found
from millrace.verbs.dispositions import NONE, dispositions

SHOWN_MOST = 300
EXPORTED_MOST = 20_000
READ_MOST = 5_000
"""Messages at once, of all partitions together."""
BUFFERED_KB = 8_192
WITHIN_S = 5.0
EXPORTED_WITHIN_S = 10.0
"""Shorter than Airflow's api-server waits for the page."""
PLACES = re.compile(r"\d{1,5}-\d{1,18}(,\d{1,5}-\d{1,18})*")

Offsets = Mapping[int, int]
"""Partition -> the offset before which the next page continues."""
Alert = tuple[dict[str, Any], dict[str, Any], Record]
"""The row of the list, the alert, and its message."""


@dataclass(frozen=True)
class Filter:
    """Which alerts a person wants to see; the text may be in what the list shows."""

    rule: str = ""
    wanted: str = ""
    marked: str = ""
    since_ms: int = 0
    until_ms: int | None = None
    """The first moment that is too late."""
    key: str = ""
    """The key of an alert or its subject, as the page names it: all of it, while the text may be a part."""

    def fits(self, shown: Mapping[str, Any], mark: str) -> bool:
        """Whether a row of the list fits; the times are those of the arrival."""
        words = " ".join(str(shown[name]) for name in ("subject", "key", "rule", "sentence"))
        return (
            self.rule in ("", shown["rule"])
            and self.key in ("", shown["key_id"], shown["subject_id"])
            and self.wanted.lower() in words.lower()
            and self.marked in ("", mark)
            and self.since_ms <= shown["arrived_ms"]
            and (self.until_ms is None or shown["arrived_ms"] < self.until_ms)
        )


@dataclass(frozen=True)
class Older:
    """One page of alerts, newest first."""

    alerts: tuple[Alert, ...]
    before: Offsets | None
    """Where the next page continues; None if nothing older can fit."""
    reached_ms: int
    """When the oldest message came that was read."""


def asked(params: Mapping[str, str]) -> tuple[Filter, Offsets | None]:
    """What a request asks for, and where it continues; raises a value error for a time that is no number."""
    rule, wanted, marked, key = (params.get(name, "") for name in ("rule", "wanted", "marked", "key"))
    until_ms = int(params["until_ms"]) if "until_ms" in params else None
    only = Filter(rule, wanted, marked, int(params.get("since_ms", 0)), until_ms, key)
    return only, places(params["before"]) if "before" in params else None


def places(words: str) -> dict[int, int]:
    """The offsets in a text such as `0-1200,1-1187`; raises a usage error if it is none."""
    if not PLACES.fullmatch(words):
        raise UsageError(f"'{words}' is no list of partitions and offsets such as 0-1200,1-1187")
    pairs = (each.split("-") for each in words.split(","))
    return {int(partition): int(offset) for partition, offset in pairs}


class Archive:
    """Reads the topics of alerts, one request at a time."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def older(
        self, variant: Variant, only: Filter, marks: Mapping[str, Mapping[str, Any]], before: Offsets | None = None
    ) -> dict[str, Any]:
        """The next alerts that fit, for the page."""
        own = {alert_id: str(made["mark"]) for alert_id, made in marks.items()}
        with closing(self._opened(variant)) as tail:
            deadline = time.monotonic() + WITHIN_S
            found = _older(tail, tail.spans()[ALERTS.name], variant, only, own, before, SHOWN_MOST, deadline)
        rows = [
            {**shown, "place": f"{record.partition}-{record.offset}", "mark": marks.get(shown["id"])}
            for shown, _, record in found.alerts
        ]
        after = ",".join(f"{number}-{at}" for number, at in found.before.items()) if found.before else None
        return {"alerts": rows, "before": after, "reached_ms": found.reached_ms}

    def export(self, variant: Variant, only: Filter, suffix: str) -> bytes:
        """All alerts that fit as a file, tokens shortened; refused if they are too many for a page."""
        from millrace.verbs.export import content  # pyarrow takes as much memory as all else here

        made = dispositions(self._target, variant)
        own = {alert_id: each.mark for alert_id, each in made.items()}
        least = f"choose a later start, or run `millrace alerts {variant.name} --to FILE`"
        deadline, before = time.monotonic() + EXPORTED_WITHIN_S, None
        chosen: dict[str, Found] = {}
        with closing(self._opened(variant)) as tail:
            spans = tail.spans()[ALERTS.name]
            while True:
                page = _older(tail, spans, variant, only, own, before, READ_MOST, deadline)
                for shown, alert, record in page.alerts:
                    topic = variant.topic(ALERTS)
                    place = (topic, record.partition, record.offset, record.ingest_ms)
                    chosen[shown["id"]] = Found(text(dict(alert)), shown["sentence"], *place)
                if len(chosen) > EXPORTED_MOST:
                    raise UsageError(f"more than {EXPORTED_MOST:,} alerts fit; {least}")
                if page.before is None:
                    break
                if time.monotonic() > deadline:
                    raise InfraError(f"the alerts were not read within {EXPORTED_WITHIN_S:g} s; {least}")
                before = page.before
        shortened = {each: replace(found, by=text(found.by), note=text(found.note)) for each, found in made.items()}
        written = content(list(reversed(chosen.values())), shortened, suffix)
        return written.encode() if isinstance(written, str) else written

    def at(self, variant: Variant, alert_id: str, place: Offsets) -> dict[str, Any] | None:
        """The alert with this id at a place of its topic, with what the drawer shows of it."""
        with closing(self._opened(variant)) as tail:
            ends = {number: offset + 1 for number, offset in place.items()}
            records = list(tail.between(ALERTS.name, place, ends, tail.spans()[ALERTS.name]))
        found = _alert(variant, rules_of(variant), records[0]) if records else None
        return details(*found, variant.topic(ALERTS)) if found and found[0]["id"] == alert_id else None

    def _opened(self, variant: Variant) -> Tail:
        return Tail(self._target.bootstrap, {ALERTS.name: variant.topic(ALERTS)}, buffered_kb=BUFFERED_KB)


def _older(
    tail: Tail,
    spans: Mapping[int, tuple[int, int]],
    variant: Variant,
    only: Filter,
    marks: Mapping[str, str],
    before: Offsets | None,
    most: int,
    deadline: float,
) -> Older:
    """Read backwards from some offsets, by default from those of the filter, until so many alerts fit."""
    rules = rules_of(variant)
    floors, left = ({number: span[at] for number, span in spans.items()} for at in (0, 1))
    if only.since_ms:
        floors = left | tail.offsets_at(ALERTS.name, only.since_ms)
    if before is None and only.until_ms is not None:
        before = tail.offsets_at(ALERTS.name, only.until_ms)
    left = {number: min(at, (before or {}).get(number, at)) for number, at in left.items()}
    found: list[Alert] = []
    reached_ms = 0
    while any(left[number] > floors[number] for number in left):
        starts = {number: max(floors[number], at - READ_MOST // len(left)) for number, at in left.items()}
        starts = {number: min(start, left[number]) for number, start in starts.items()}
        records = _timed(tail.between(ALERTS.name, starts, left, spans))
        firsts = {record.partition: at_ms for at_ms, record in reversed(records)}
        if gaps := {each: start for each, start in starts.items() if each not in firsts and start < left[each]}:
            left |= gaps  # a transaction's markers alone
            continue
        # What one partition has in front of its start may be newer than what another one has behind its own.
        edge_ms = max((at_ms for number, at_ms in firsts.items() if starts[number] > floors[number]), default=0)
        unread = {record.partition for at_ms, record in records if at_ms < edge_ms}
        for at_ms, record in sorted(records, key=_newest_last, reverse=True):
            if at_ms < edge_ms or len(found) == most:
                unread.add(record.partition)
                continue
            left[record.partition], reached_ms = record.offset, at_ms
            if (each := _alert(variant, rules, record)) and only.fits(each[0], marks.get(each[0]["id"], NONE)):
                found.append(each)
        left |= {number: start for number, start in starts.items() if number not in unread}
        if len(found) == most or time.monotonic() > deadline:
            break
    is_whole = all(left[number] <= floors[number] for number in left)
    return Older(tuple(found), None if is_whole else left, reached_ms)


def _timed(records: Iterable[Record]) -> list[tuple[int, Record]]:
    """Each message with its time, not before those in front of it in its partition: a clock may be set back."""
    latest: dict[int, int] = {}
    found = []
    for each in records:
        latest[each.partition] = max(latest.get(each.partition, 0), each.ingest_ms)
        found.append((latest[each.partition], each))
    return found


def _newest_last(timed: tuple[int, Record]) -> tuple[int, int, int]:
    at_ms, record = timed
    return at_ms, record.partition, record.offset


def _alert(variant: Variant, rules: Mapping[str, Rule], record: Record) -> Alert | None:
    """The alert in a message; none for that of a canary, and for what is no alert, as on the page."""
    try:
        alert = json.loads(record.value or b"")
        return None if variant.use.is_of_canary(alert) else (row(alert, record, rules), alert, record)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        return None  # `verify` reports it
