"""The failures of a query, in a row and lately."""

from __future__ import annotations

from millrace.engines.spark.failures import Failures
from millrace.engines.spark.tuning import FAILURES_KEPT, RESTARTS_MOST
from millrace.job import RESTARTS_KEPT


def failed(failures: Failures, at_ms: int) -> None:
    failures.add("no route")
    failures.count(at_ms)


def test_a_batch_ends_the_row_and_hides_no_failure() -> None:
    failures = Failures()
    for at_ms in (1, 3):
        failed(failures, at_ms)
        assert failures.in_a_row == 1
        failures.end_row(at_ms + 1)
    assert (failures.in_a_row, failures.well_ms, failures.problem) == (0, 4, "no route")
    assert [*failures.own_ms] == [1, 3]


def test_failures_in_a_row_become_too_many_and_those_with_a_batch_between_them_never() -> None:
    row, between = Failures(), Failures()
    for at_ms in range(1, 10 * RESTARTS_MOST, 2):
        failed(row, at_ms)
        failed(between, at_ms)
        between.end_row(at_ms + 1)
        assert row.are_too_many == (row.in_a_row > RESTARTS_MOST)
        assert not between.are_too_many


def test_those_that_an_unreachable_store_explains_never_are_too_many() -> None:
    failures = Failures()
    for _ in range(10 * RESTARTS_MOST):
        failures.add("HBase does not answer")
    assert not failures.are_too_many
    assert (failures.in_a_row, [*failures.own_ms]) == (10 * RESTARTS_MOST, [])


def test_the_newest_failures_are_kept_that_show_a_crash_loop() -> None:
    assert FAILURES_KEPT == RESTARTS_KEPT
    failures = Failures()
    for at_ms in range(2 * RESTARTS_KEPT):
        failed(failures, at_ms)
    assert [*failures.own_ms] == [*range(RESTARTS_KEPT, 2 * RESTARTS_KEPT)]
