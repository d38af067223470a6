"""How long the latest events and alerts took, by stage."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Mapping
from itertools import chain
from typing import Any

from millrace.rules import WindowRule
from millrace.rules.rules import Rule
from millrace.verify.latency import latency

RECENT_S = 60
SHOWN_EVERY_MS = 2_000

HOP, ACCEPTED, ALERTS, IN, JUDGED, OUT, WINDOWS = (
    "bare hop",
    "accepted events",
    "alerts",
    "until Kafka has the event",
    "until it is judged",
    "until Kafka has the alert",
    "window alerts",
)
FROM = {
    HOP: "a plain message, from its intended send",
    ACCEPTED: "from the intended send of the event",
    ALERTS: "from the intended send of the event",
    IN: "of an alert's event, from its intended send",
    JUDGED: "of an alert's event, in the engine",
    OUT: "from the engine",
    WINDOWS: "after the end of their window",
}
PARTS = (IN, JUDGED, OUT)
"""The stages that add up to ALERTS."""
BUCKETS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000)


def late_by_ms(alert: Mapping[str, Any], at_ms: int, rules: Mapping[str, Rule]) -> int:
    """How late an alert is: after the end of its window, or after its event was to be sent, where that is known."""
    if isinstance(rule := rules.get(alert["rule"]), WindowRule):
        return int(at_ms - rule.window.end_ms(alert["window_start_ms"], alert["at_ms"]))
    sent_ms = alert.get("sent_ms")
    return int(at_ms - (alert["ingest_ms"] if sent_ms is None else sent_ms))


class Histogram:
    """Counts of times by bucket, since the start; a promise ends one, so that what keeps it is counted exactly."""

    def __init__(self, promised_ms: int) -> None:
        self.bounds_ms = sorted({*BUCKETS_MS, promised_ms})
        self.counts = [0] * (len(self.bounds_ms) + 1)
        self.sum_ms = 0.0

    def take(self, ms: float) -> None:
        self.counts[bisect_left(self.bounds_ms, ms)] += 1
        self.sum_ms += ms


class Latencies:
    """The latest times of each stage; exact quantiles of those that the last minute brought."""

    def __init__(self, rules: Mapping[str, Rule], promised_ms: int) -> None:
        self._rules = rules
        self._seconds: dict[str, OrderedDict[int, Counter[float]]] = {name: OrderedDict() for name in FROM}
        """How often each time was measured in each second, of the newest seconds with any."""
        self.histograms = {name: Histogram(promised_ms) for name in (HOP, ACCEPTED, ALERTS, WINDOWS)}
        self._shown: list[dict[str, Any]] = []
        self._shown_ms = 0

    def hop(self, at_ms: int, sent_ms: int) -> None:
        """Take the time of a plain message."""
        self._take(HOP, at_ms, at_ms - sent_ms)

    def accepted(self, at_ms: int, event: Mapping[str, Any]) -> None:
        """Take the time of an accepted event."""
        if event.get("sent_ms") is not None:
            self._take(ACCEPTED, at_ms, at_ms - event["sent_ms"])

    def alert(self, at_ms: int, alert: Mapping[str, Any]) -> None:
        """Take the times of an alert."""
        late_ms = late_by_ms(alert, at_ms, self._rules)
        if isinstance(self._rules.get(alert["rule"]), WindowRule):
            self._take(WINDOWS, at_ms, late_ms)
            return
        sent_ms, ingest_ms, emit_ms = alert.get("sent_ms"), alert["ingest_ms"], alert["emit_ms"]
        self._take(JUDGED, at_ms, emit_ms - ingest_ms)
        self._take(OUT, at_ms, at_ms - emit_ms)
        if sent_ms is not None:
            self._take(IN, at_ms, ingest_ms - sent_ms)
            self._take(ALERTS, at_ms, late_ms)

    def shown(self, now_ms: int) -> list[dict[str, Any]]:
        """The quantiles of each stage over the last minute; of what is kept, where the last minute brought nothing."""
        if now_ms - self._shown_ms >= SHOWN_EVERY_MS:
            self._shown_ms = now_ms
            self._shown = [self._row(name, now_ms) for name in FROM if self._seconds[name]]
        return self._shown

    def _row(self, name: str, now_ms: int) -> dict[str, Any]:
        kept, since_s = self._seconds[name], now_ms // 1000 - RECENT_S
        recent = [times for second, times in kept.items() if second >= since_s]
        found = latency(name, chain.from_iterable(times.elements() for times in recent or kept.values()))
        return {
            "name": name,
            "from": FROM[name],
            "is_part": name in PARTS,
            "is_recent": bool(recent),
            "count": found.count,
            "p50_ms": found.quantile(0.5),
            "p99_ms": found.quantile(0.99),
            "max_ms": found.worst,
        }

    def _take(self, name: str, at_ms: int, ms: float) -> None:
        seconds = self._seconds[name]
        times = seconds.setdefault(at_ms // 1000, Counter())
        times[ms] += 1
        if len(seconds) > RECENT_S:
            seconds.popitem(last=False)
        if name in self.histograms:
            self.histograms[name].take(max(ms, 0))
