"""Heard: what a listener received of the alerts, their topic has, and had by then."""

from __future__ import annotations

from millrace.rules import ALERTS
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided


def heard(case: Case) -> Found | Undecided:
    """The alerts that a listener received, and that their topic lacks, or had much later.

    It reads committed messages only, and its record is removed with the topic; a clock that was set back may explain
    a time, and a broker that lost its disk an alert.
    """
    first_ms: dict[str, int] = {}
    for record, alert in case.alerts:
        first_ms[alert["alert_id"]] = min(record.ingest_ms, first_ms.get(alert["alert_id"], record.ingest_ms))
    received_ms, clocks_ms = case.evidence.received_ms or {}, case.question.bounds.clocks_ms
    offenders = [
        f"{identity} was received at {ms:.0f}, and "
        + (f"its topic had it at {first_ms[identity]}" if identity in first_ms else "is not there")
        for identity, ms in received_ms.items()
        if identity not in first_ms or ms < first_ms[identity] - clocks_ms
    ]
    figures = {"received": len(received_ms)}
    if offenders:
        return Undecided("alerts were received that their topic lacks, or had later", figures, tuple(offenders))
    return Found(figures)


CHECKER = Checker("heard", "Does the topic have every alert that a listener received?", heard, reads=(ALERTS.name,))
