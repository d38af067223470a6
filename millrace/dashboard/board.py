"""The figures of one pattern, made of the messages of its topics. Its size is bounded, however much arrives.

Canaries are in no figure but the counts of messages: a page of alerts, charts and latencies is of others.

A board belongs to one thread. `full` is what a browser that connects gets, `tick` what has changed since the last tick.
"""

from __future__ import annotations

import base64
import json
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from millrace.alerts import rules_of
from millrace.dashboard import view as views
from millrace.dashboard.alerts import details, row
from millrace.dashboard.events import Events
from millrace.dashboard.latencies import Latencies
from millrace.dashboard.shown import text
from millrace.dashboard.verdicts import Ledger
from millrace.dashboard.windows import SILENT_MS, Windows
from millrace.oracle import Record
from millrace.patterns import Variant
from millrace.patterns.plan import HOP
from millrace.rules import ALERTS, DEAD_LETTERS, WindowRule
from millrace.rules.outputs import (
    CONFIRMED,
    DISMISSED,
    DISPOSITIONS,
    LATE,
    REPLAYED,
    VERDICTS_TOPIC,
    WINDOWS_TOPIC,
)
from millrace.verbs.dispositions import day_of

SERIES = ("in", "accepted", "refused", "alerts")
SERIES_S = 300
RATE_OVER_S = 5
RECENT_S = 4
"""Each tick repeats so many seconds of the series: a message may be read some time after its append."""
ALERTS_KEPT = 1_000
IDS_KEPT = 50_000
REASONS_KEPT, SAMPLES_KEPT, EXCERPT_MOST = 40, 3, 400
POINTS_KEPT, POINTS_PER_TICK = 600, 40
PLACED, PLACED_S = "placed", 60
"""Events that the map would show if it showed all, and the seconds that it shows."""
KEYS_EVENTS_MOST = 20
DAYS_OF_PRECISION = 7
NOT_REFUSED = (LATE, REPLAYED)
"""Reasons of dead letters whose event is accepted, or was counted before."""
OTHER_REASONS, OTHER_RULES = "other reasons", "other rules"
NOT_READ = "earlier, not read"
"""In place of the rule or the reason of messages that are counted only."""


class Board:
    """What the page shows of a pattern, message by message."""

    def __init__(self, variant: Variant, view: views.View) -> None:
        self.variant, self.view = variant, view
        use = variant.use
        self._raw = {each.name for each in use.raw}
        self._references = {each.name for each in use.references}
        self._enriched = use.enriched.name
        self._rules = rules_of(variant)
        self._window_rules = {name for name, rule in self._rules.items() if isinstance(rule, WindowRule)}
        self._seconds: dict[str, Counter[int]] = {}
        self.totals: Counter[str] = Counter()
        self.by_rule: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.last_ms = 0
        """When the last message of a raw topic, or the last outcome, reached Kafka."""
        self.last_in_ms = 0
        self.last_out_ms = 0
        self.first_in_ms = 0
        """When the first message of a raw topic that was read reached Kafka."""
        self.accepted_at_ms = 0
        """The newest moment of an accepted event, not later than its arrival."""
        self._accepted_ms = 0
        """When the last accepted event reached Kafka."""
        self.unreadable = 0
        self.behind = 0
        """How many messages of Kafka are in no figure yet; the reader counts them."""
        self.latencies = Latencies(self._rules, variant.pattern.promises.alert_latency_ms_p99)
        charts = views.charts_of(view, use, variant.pattern.stages.windowing.summaries)
        self.windows = Windows(charts, view.figures, use.disorder_ms)
        self._ids: deque[str] = deque()
        self._known: set[str] = set()
        """The same ids. An ordered dict of them needs a third more, and grows long after it is full."""
        self._events = Events()
        self._alerts: deque[dict[str, Any]] = deque(maxlen=ALERTS_KEPT)
        self._new_alerts: deque[dict[str, Any]] = deque(maxlen=ALERTS_KEPT)
        self._incomplete: list[dict[str, Any]] = []
        """Alerts that a tick had without the fields of their last event; only those that are kept."""
        self._letters: defaultdict[str, deque[dict[str, Any]]] = defaultdict(lambda: deque(maxlen=SAMPLES_KEPT))
        self._has_new_letters = False
        self._points: deque[dict[str, Any]] = deque(maxlen=POINTS_KEPT)
        self._new_points: deque[dict[str, Any]] = deque(maxlen=POINTS_PER_TICK)
        self._alerts_at: dict[str, dict[str, Any]] = {}
        self._marks: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._new_marks: dict[str, dict[str, Any]] = {}
        self._decided: Counter[tuple[str, str, str]] = Counter()
        """By day, rule and mark, how many alerts have it; of the latest days."""
        self.ledger = Ledger()

    def skip(self, kind: str, messages: int) -> None:
        """Count messages of a topic that are too old to be read, or deleted; which are repeated or late, nothing shows.

        Those that Kafka has deleted count, too: a page that restarts shows no smaller totals than it did before.
        """
        self.totals[self._counted_as(kind)] += messages
        if kind == ALERTS.name and messages:
            self.by_rule[NOT_READ] += messages
        elif kind == DEAD_LETTERS.name and messages:
            self.totals["refused"] += messages
            self.reasons[NOT_READ] += messages

    def take(self, record: Record) -> None:
        """Count one message, and keep what the page shows of it."""
        kind = record.topic
        if kind == VERDICTS_TOPIC:
            self.ledger.take(record)
            return
        if kind != DISPOSITIONS.name:
            self._count(self._counted_as(kind), record.ingest_ms)
        if kind in self._raw:
            self.first_in_ms = self.first_in_ms or record.ingest_ms
            self.last_in_ms = max(self.last_in_ms, record.ingest_ms)
            return
        if kind in self._references or not record.value:
            return
        try:
            content = json.loads(record.value, parse_constant=_no_such_number)
            self._take_content(kind, record, content)
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, OSError):
            self.unreadable += 1

    def full(self, now_ms: int) -> dict[str, Any]:
        """All that a browser needs to begin."""
        self.windows.note_silence(now_ms - self._accepted_ms > SILENT_MS)
        return {
            "series": self._series(now_ms, SERIES_S),
            "alerts": [self._with_event(each) for each in self._alerts],
            "points": list(self._points),
            "marks": {each["id"]: self._marks[each["id"]] for each in self._alerts if each["id"] in self._marks},
            "charts": self.windows.charts(),
            "figures": self.windows.figures(),
            "letters": self._letters_shown(),
            "precision": self._precision(),
            **self._numbers(now_ms),
        }

    def tick(self, now_ms: int) -> dict[str, Any]:
        """What has changed since the last tick; lists that did not change are left out."""
        self.windows.note_silence(now_ms - self._accepted_ms > SILENT_MS)
        found: dict[str, Any] = {"series": self._series(now_ms, RECENT_S), **self._numbers(now_ms)}
        if alerts := self._alerts_of_tick():
            found["alerts"] = alerts
        if self._new_points:
            found["points"] = list(self._new_points)
            self._new_points.clear()
        if self._new_marks:
            found["marks"], self._new_marks = self._new_marks, {}
            found["precision"] = self._precision()
        if self._has_new_letters:
            found["letters"] = self._letters_shown()
            self._has_new_letters = False
        if self.windows.has_changed(now_ms):
            found["charts"], found["figures"] = self.windows.charts(), self.windows.figures()
        return found

    @property
    def judged_ms(self) -> int:
        """When the newest entry of the ledger came; before the first one, the first raw message; 0 without any."""
        return self.ledger.findings[-1].at_ms if self.ledger.findings else self.first_in_ms

    def rate(self, name: str, now_ms: int) -> float:
        """Messages a second, over the last complete seconds."""
        last = now_ms // 1000
        seconds = self._seconds.get(name, Counter())
        return sum(seconds.get(second, 0) for second in range(last - RATE_OVER_S, last)) / RATE_OVER_S

    def alert(self, alert_id: str) -> dict[str, Any] | None:
        """One of the latest alerts, as `explained` shows it."""
        alert = self._alerts_at.get(alert_id)
        return None if alert is None else self.explained(alert)

    def marks(self) -> dict[str, dict[str, Any]]:
        """The latest marks, by the ids of their alerts."""
        return dict(self._marks)

    def explained(self, alert: Mapping[str, Any]) -> dict[str, Any]:
        """An alert with its mark, the events that it rests on, and other events of its key, of those that are kept."""
        ids = _ids_of(alert)
        events = {each: json.loads(value) for each in ids if (value := self._events.get(each))}
        return {
            **alert,
            "mark": self._marks.get(alert["id"]),
            "events": [self._event_shown(event) for event in events.values()],
            "missing": len(ids) - len(events),
            "others": [self._event_shown(event) for event in self._events_of(alert["full_subject"], set(ids))],
        }

    def _counted_as(self, kind: str) -> str:
        return "accepted" if kind == self._enriched else kind

    def _count(self, name: str, at_ms: int) -> None:
        self.totals[name] += 1
        seconds = self._seconds.setdefault(name, Counter())
        seconds[at_ms // 1000] += 1
        if len(seconds) > 2 * SERIES_S:
            for second in sorted(seconds)[:-SERIES_S]:
                del seconds[second]

    def _take_content(self, kind: str, record: Record, content: dict[str, Any]) -> None:
        if kind == HOP:
            self.latencies.hop(record.ingest_ms, content["sent_ms"])
            return
        if kind == DISPOSITIONS.name:
            self._take_mark(content)
            return
        self.last_out_ms = max(self.last_out_ms, record.ingest_ms)
        use = self.variant.use
        if kind == DEAD_LETTERS.name:
            self._take_letter(record, content)
        elif kind == ALERTS.name:
            if not use.is_of_canary(content):
                self._take_alert(record, content)
        elif use.is_canary(content):
            return
        elif kind == self._enriched:
            self._take_accepted(record, content)
        elif kind == WINDOWS_TOPIC:
            self.windows.take(content)

    def _take_accepted(self, record: Record, event: dict[str, Any]) -> None:
        self.latencies.accepted(record.ingest_ms, event)
        at_ms = event.get(self.variant.use.enriched.time or "")
        if at_ms is not None:
            self.accepted_at_ms = max(self.accepted_at_ms, min(at_ms, record.ingest_ms))
            self.windows.pass_to(self.accepted_at_ms)
        self._accepted_ms = max(self._accepted_ms, record.ingest_ms)
        judged = self.variant.use.judged
        identity = str(event[judged.id]) if judged.id else f"{event['source_partition']}-{event['source_offset']}"
        value = record.value or b""
        is_new = self._events.get(identity) is None
        self._events.take(identity, value)
        if self.view.map:
            self._count(PLACED, record.ingest_ms)
            self._take_point(record, event, self.view.map)
        if is_new:
            self.windows.grow(event)

    def _take_point(self, record: Record, event: dict[str, Any], shown: views.Map) -> None:
        point = {
            "at_ms": record.ingest_ms,
            "place": [round(float(event[shown.longitude]), 3), round(float(event[shown.latitude]), 3)],
            "label": text(event.get(shown.label, "")),
            "flags": event.get("flags") or [],
        }
        longitude, latitude = event.get(shown.other_longitude), event.get(shown.other_latitude)
        if longitude is not None and latitude is not None:
            point["other"] = [round(float(longitude), 3), round(float(latitude), 3)]
        # Under load the flagged ones are shown rather than the others.
        if not point["flags"] and len(self._new_points) >= POINTS_PER_TICK // 2:
            return
        self._points.append(point)
        self._new_points.append(point)

    def _take_alert(self, record: Record, alert: dict[str, Any]) -> None:
        identity, rule = str(alert["alert_id"]), str(alert["rule"])
        if identity in self._known:
            self.totals["repeated alerts"] += 1
            return
        shown, ids = row(alert, record, self._rules), _ids_of(alert)
        in_detail = details(shown, alert, record, self.variant.topic(ALERTS))
        self._ids.append(identity)
        self._known.add(identity)
        if len(self._ids) > IDS_KEPT:
            self._known.remove(self._ids.popleft())
        self.by_rule[rule if rule in self._rules else OTHER_RULES] += 1
        self._count("alerts-of-windows" if rule in self._window_rules else "alerts-of-events", record.ingest_ms)
        self.latencies.alert(record.ingest_ms, alert)
        if len(self._alerts) == ALERTS_KEPT:
            self._events.release(_ids_of(self._alerts_at.pop(self._alerts[0]["id"])))
        self._events.cite(ids)
        self._alerts.append(shown)
        self._new_alerts.append(shown)
        self._alerts_at[identity] = in_detail

    def _take_mark(self, made: dict[str, Any]) -> None:
        day, rule = day_of(made["alert_at_ms"]), str(made["rule"])
        mark = {"mark": str(made["mark"]), "by": text(made["by"]), "note": text(made["note"]), "at_ms": made["at_ms"]}
        before = self._marks.pop(made["alert_id"], None)
        if rule in self._rules:
            self._decide(day, rule, before["mark"] if before else "", -1)
            self._decide(day, rule, mark["mark"], 1)
        self._marks[made["alert_id"]] = self._new_marks[made["alert_id"]] = mark
        if len(self._marks) > IDS_KEPT:
            self._marks.popitem(last=False)

    def _decide(self, day: str, rule: str, mark: str, alerts: int) -> None:
        """So many more alerts have the mark, if it decides anything; of older days nothing is kept."""
        if mark not in (CONFIRMED, DISMISSED):
            return
        self._decided[day, rule, mark] += alerts
        days = sorted({each for each, _, _ in self._decided})
        for each in [each for each in self._decided if each[0] not in days[-DAYS_OF_PRECISION:]]:
            del self._decided[each]

    def _alerts_of_tick(self) -> list[dict[str, Any]]:
        """The new alerts, and those of earlier ticks whose last event has come since."""
        before = [self._with_event(each) for each in self._incomplete if each["id"] in self._alerts_at]
        new = [self._with_event(each) for each in self._new_alerts]
        self._new_alerts.clear()
        if self.view.alert:
            self._incomplete = [each for each in (*before, *new) if "about" not in each]
        return [each for each in before if "about" in each] + new

    def _with_event(self, shown: dict[str, Any]) -> dict[str, Any]:
        """The alert with the chosen fields of its last event, which often comes a little after it."""
        if self.view.alert and "about" not in shown:
            ids = _ids_of(self._alerts_at[shown["id"]])
            value = self._events.get(ids[-1]) if ids else None
            if value is not None:
                event = json.loads(value)
                shown["about"] = [text(event.get(name)) for name in self.view.alert]
        return shown

    def _take_letter(self, record: Record, letter: dict[str, Any]) -> None:
        reason = str(letter["reason"])
        if not reason.startswith(NOT_REFUSED):
            self._count("refused", record.ingest_ms)
        counted = reason if reason in self.reasons or len(self.reasons) < REASONS_KEPT else OTHER_REASONS
        self.reasons[counted] += 1
        self._has_new_letters = True
        value = letter.get("value_base64")
        excerpt = text(base64.b64decode(value).decode("utf-8", errors="replace"))[:EXCERPT_MOST] if value else ""
        self._letters[counted].append(
            {
                "reason": counted,
                "full_reason": reason,
                "at_ms": record.ingest_ms,
                "topic": str(letter["topic"]),
                "partition": letter["partition"],
                "offset": letter["offset"],
                "excerpt": excerpt,
            }
        )

    def _letters_shown(self) -> dict[str, Any]:
        """Of each reason some messages: a rare one is not driven out by the others."""
        sample = sorted((each for own in self._letters.values() for each in own), key=itemgetter("at_ms"))
        return {"reasons": dict(self.reasons.most_common()), "sample": sample}

    def _precision(self) -> list[dict[str, Any]]:
        """How many alerts people have confirmed, of those that they decided, by day and rule, the latest day first."""
        days = sorted({day for day, _, _ in self._decided}, reverse=True)
        return [
            {"day": day, "rule": rule, **{mark: self._decided[day, rule, mark] for mark in (CONFIRMED, DISMISSED)}}
            for day in days
            for rule in self._rules
            if self._decided[day, rule, CONFIRMED] + self._decided[day, rule, DISMISSED]
        ]

    def _numbers(self, now_ms: int) -> dict[str, Any]:
        names = [*self._raw, "accepted", "refused", "alerts-of-events", "alerts-of-windows", WINDOWS_TOPIC]
        rates = {name: round(self.rate(name, now_ms), 1) for name in names}
        rates["in"] = round(sum(rates[name] for name in self._raw), 1)
        rates["alerts"] = round(rates["alerts-of-events"] + rates["alerts-of-windows"], 1)
        totals = dict(self.totals)
        totals["in"] = sum(self.totals[name] for name in self._raw)
        totals["alerts"] = self.by_rule.total()
        return {
            "rates": rates,
            "totals": totals,
            "by_rule": dict(self.by_rule),
            "latencies": self.latencies.shown(now_ms),
            "placed": self._placed(now_ms),
            "last_in_ms": self.last_in_ms,
            "last_out_ms": self.last_out_ms,
            "unreadable": self.unreadable,
            "behind": self.behind,
        }

    def _placed(self, now_ms: int) -> int:
        since_s = now_ms // 1000 - PLACED_S
        return sum(count for second, count in self._seconds.get(PLACED, Counter()).items() if second >= since_s)

    def _series(self, now_ms: int, seconds: int) -> dict[str, Any]:
        now_s = now_ms // 1000  # this second is not complete yet
        spans = range(now_s - seconds, now_s)
        of = {
            "in": [*self._raw],
            "accepted": ["accepted"],
            "refused": ["refused"],
            "alerts": ["alerts-of-events", "alerts-of-windows"],
        }
        counted: Mapping[str, Counter[int]] = self._seconds
        empty: Counter[int] = Counter()
        return {
            "from_s": spans.start,
            **{
                name: [sum(counted.get(each, empty)[second] for each in kinds) for second in spans]
                for name, kinds in of.items()
            },
        }

    def _events_of(self, subject: str, but: set[str]) -> list[dict[str, Any]]:
        """The latest events of a key that are kept, newest first; found by text, since few are ever asked for."""
        key, named, found = self.variant.use.judged.key, str(subject).encode(), []
        for identity, value in self._events.newest_first():
            if identity not in but and named in value:
                event = json.loads(value)
                if str(event.get(key)) == str(subject):
                    found.append(event)
                    if len(found) == KEYS_EVENTS_MOST:
                        break
        return found

    def _event_shown(self, event: Mapping[str, Any]) -> dict[str, Any]:
        fields = {name: text(event.get(name)) for name in self.view.event}
        return fields | {"flags": event.get("flags") or []}


def _ids_of(alert: Mapping[str, Any]) -> list[str]:
    """The events that an alert rests on."""
    return [str(each) for each in alert["event_ids"]]


def _no_such_number(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")
