"""Lateness: only what arrived well behind the newest event may be kept out of the windows as late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from millrace.oracle import Origin, Refusal, accept
from millrace.rules.outputs import DEAD_LETTERS, DUPLICATE
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.evidence import place_of

REFUSED_LATER = (DUPLICATE, "unknown:")
"""The reasons of refusals that need more than the message itself."""


def lateness(case: Case) -> Found:
    """Late dead letters of events that were not late."""
    accepted, late, bounds = case.expected.accepted, case.late, case.question.bounds
    disorder_ms = case.question.use.disorder_ms
    offenders = [
        f"{place_of(origin)} is a late dead letter but was not accepted" for origin in late if origin not in accepted
    ]
    time = case.question.use.judged.time or ""
    arrived_ms = {(record.topic, record.partition, record.offset): record.ingest_ms for record in case.judged}
    ahead = sorted((arrived_ms[origin], moment_ms) for origin, moment_ms in _moments(case, time, arrived_ms))
    newest_ms, position = 0, 0
    for origin in sorted(late & accepted.keys(), key=lambda origin: arrived_ms[origin]):
        while position < len(ahead) and ahead[position][0] <= arrived_ms[origin] + bounds.ahead_ms:
            newest_ms = max(newest_ms, ahead[position][1])
            position += 1
        behind_ms = newest_ms - accepted[origin][time]
        if behind_ms <= disorder_ms:
            offenders.append(f"{place_of(origin)} is a late dead letter, only {behind_ms} ms behind the newest event")
    return Found({"late": len(late)}, offenders)


def _moments(case: Case, time: str, arrived_ms: Mapping[Origin, int]) -> Iterator[tuple[Origin, int]]:
    """The events that move time, and to which moment: all that can be read, even if a later stage refuses them.

    As in the engines, a clock that is ahead moves no other event's time.
    """
    judged, expected = case.question.use.judged, case.expected
    for origin, event in expected.accepted.items():
        yield origin, min(event[time], arrived_ms[origin])
    for record in case.judged:
        if expected.refused.get(record.origin, "").startswith(REFUSED_LATER):
            read = accept(judged, record.value, record.ingest_ms)
            if not isinstance(read, Refusal):
                yield record.origin, min(read[time], record.ingest_ms)


CHECKER = Checker("lateness", "Were only late events kept out of the windows?", lateness, needs=(DEAD_LETTERS.name,))
