"""How long alerts and events of a run took, and when its alerts came; canaries have a series of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from millrace.oracle import Origin
from millrace.rules import WindowRule
from millrace.verify.case import Case
from millrace.verify.evidence import Event
from millrace.verify.latency import Latency, latency

FROM_SENT, FROM_INGEST, HOP = "alerts from intended send", "alerts from ingest", "bare hop"
RECEIVED, HOP_RECEIVED = "alerts from intended send to a reader", "bare hop to a reader"
PROMISED = "alerts as promised, once warm"
ENRICHED_FROM_SENT, WINDOWS_FROM_END = "enriched from intended send", "window alerts after the window's end"
WINDOWS_FROM_LAST = "window alerts after the window's last event"


def latencies(case: Case) -> Iterator[Latency]:
    """All latencies that the evidence gives, the bare hop beside them."""
    question, evidence = case.question, case.evidence
    alerts = [(at, alert) for at, alert in _first_copies(case) if case.is_timed(alert.get("sent_ms") or alert["at_ms"])]
    per_event = {rule.name for rule in question.rules if not isinstance(rule, WindowRule)}
    windows = {rule.name: rule.window for rule in question.rules if isinstance(rule, WindowRule)}
    events = [(at, alert) for at, alert in alerts if alert["rule"] in per_event]
    timed = [(at, alert) for at, alert in events if alert.get("sent_ms") is not None]
    yield latency(FROM_SENT, (at - alert["sent_ms"] for at, alert in timed))
    yield latency(FROM_INGEST, (at - alert["ingest_ms"] for at, alert in events if alert.get("ingest_ms") is not None))
    closed = [(at, alert) for at, alert in alerts if alert["rule"] in windows and alert["window_start_ms"] is not None]
    ends = ((at, windows[alert["rule"]].end_ms(alert["window_start_ms"], alert["at_ms"])) for at, alert in closed)
    yield latency(WINDOWS_FROM_END, (at - end for at, end in ends))
    yield latency(WINDOWS_FROM_LAST, (at - alert["at_ms"] for at, alert in closed))
    first: dict[Origin, tuple[int, Event]] = {}
    for record, event in case.enriched:
        if question.use.is_canary(event):
            continue
        first.setdefault(case.source(event), (record.ingest_ms, event))
    sent = ((at, event["sent_ms"]) for at, event in first.values() if case.is_timed(event.get("sent_ms")))
    yield latency(ENRICHED_FROM_SENT, (at - sent_ms for at, sent_ms in sent))
    yield latency(HOP, evidence.hop_ms or ())
    # What was received before the topic had it was not: the alert counts as if no reader had it.
    clocks_ms = question.bounds.clocks_ms
    appended_ms = {alert["alert_id"]: at for at, alert in timed}
    known = evidence.received_ms or {}
    times = {i: max(known[i], at) for i, at in appended_ms.items() if i in known and known[i] >= at - clocks_ms}
    received = [(times[alert["alert_id"]], alert) for _, alert in timed if alert["alert_id"] in times]
    yield latency(RECEIVED, (at - alert["sent_ms"] for at, alert in received))
    yield latency(HOP_RECEIVED, evidence.hop_received_ms or ())
    # Until a reader has the alert; until it is in the topic, if the reader missed it.
    promised = [(times.get(alert["alert_id"], at), alert) for at, alert in timed]
    began_ms = question.began_ms or [min((alert["sent_ms"] for _, alert in timed), default=0)]

    def is_warm(sent_ms: int) -> bool:
        return not any(0 <= sent_ms - each < question.warm_after_ms for each in began_ms)

    yield latency(PROMISED, (at - alert["sent_ms"] for at, alert in promised if is_warm(alert["sent_ms"])))


def alert_times(case: Case) -> dict[str, tuple[int, ...]]:
    """Rule -> when each of its alerts first reached the topic."""
    times: dict[str, list[int]] = defaultdict(list)
    for arrived_ms, alert in _first_copies(case):
        times[alert["rule"]].append(arrived_ms)
    return {rule: tuple(sorted(own)) for rule, own in sorted(times.items())}


def _first_copies(case: Case) -> Iterator[tuple[int, Event]]:
    """Each alert once, with the time at which its first copy reached the topic."""
    seen: dict[str, tuple[int, Event]] = {}
    for record, alert in case.alerts:
        if case.question.use.is_of_canary(alert):
            continue
        known = seen.get(alert["alert_id"])
        if known is None or record.ingest_ms < known[0]:
            seen[alert["alert_id"]] = record.ingest_ms, alert
    yield from seen.values()
