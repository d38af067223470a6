"""All checks of a run, a module each."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.verify.case import Case
from millrace.verify.checking import Checker
from millrace.verify.checks import (
    absences,
    acknowledged,
    alert_ids,
    alerts,
    conservation,
    declarations,
    earlier_alerts,
    enrichment,
    files,
    heard,
    labels,
    lateness,
    loss,
    numbers,
    order,
    partitions,
    readable,
    refusals,
    repetitions,
    substance,
    tables,
)


def checkers(case: Case) -> Iterator[Checker]:
    """The checks that apply to the run, in the order of the report."""
    if case.question.undeployed:
        yield declarations.CHECKER
    if case.question.lost:
        yield loss.CHECKER
    yield substance.CHECKER
    yield readable.CHECKER
    yield order.CHECKER
    if case.evidence.partitions:
        yield partitions.CHECKER
    if case.is_whole:
        yield acknowledged.CHECKER
    yield conservation.CHECKER
    if case.question.is_at_most_once:
        yield absences.CHECKER
    if case.question.is_once:
        yield repetitions.CHECKER
    yield refusals.CHECKER
    yield enrichment.CHECKER
    yield lateness.CHECKER
    yield from map(alerts.checker, case.question.rules)
    if case.question.in_force:
        yield earlier_alerts.CHECKER
    yield alert_ids.CHECKER
    if case.is_whole and case.evidence.received_ms and not case.question.is_finite:
        yield heard.CHECKER
    if labels.are_expected(case):
        yield labels.CHECKER
    yield from map(numbers.checker, case.question.summaries)
    if "hdfs" in case.question.stores:
        yield files.CHECKER
    if "hbase" in case.question.stores:
        yield from map(tables.checker, case.question.use.tables)
