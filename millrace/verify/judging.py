"""The verdict on one run of a pattern: every check that the evidence allows, and `unknown` for all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from millrace.verify import keys, timing, unclosed
from millrace.verify.case import Case, Question
from millrace.verify.checks import absences, acknowledged, checkers, earlier_alerts, labels, partitions
from millrace.verify.evidence import Evidence
from millrace.verify.latency import Latency
from millrace.verify.verdict import Promise, Verdict

NOTED = (acknowledged, partitions, labels, absences, earlier_alerts, keys, unclosed)
"""What a verdict mentions besides its checks."""


def judge(question: Question, evidence: Evidence) -> Verdict:
    """Compare what a pattern wrote with what the oracle expects."""
    case = Case(question, evidence)
    latencies = () if question.is_finite else tuple(timing.latencies(case))
    return Verdict(
        pattern=question.pattern,
        checks=tuple(checker.check(case) for checker in checkers(case)),
        promises=tuple(promises_of(question, latencies)),
        latencies=latencies,
        alerts_by_rule=timing.alert_times(case),
        dead_letters_by_reason=dict(Counter(reason for _, reason in case.letters).most_common()),
        notes=(*question.notes, *(note for each in NOTED for note in each.notes(case))),
    )


def promises_of(question: Question, latencies: Sequence[Latency]) -> Iterator[Promise]:
    """Each promised figure beside the measured one."""
    promised = {} if question.is_finite else question.promises or {}
    by_name = {each.name: each for each in latencies}
    for name, limit in promised.items():
        measured = by_name[timing.PROMISED].quantile(0.99) if name == "alert_latency_ms_p99" else None
        if measured is None or measured < 0:  # then a clock is wrong
            yield Promise(name, limit, measured, "unknown")
        else:
            yield Promise(name, limit, measured, "kept" if measured <= limit else "broken")
