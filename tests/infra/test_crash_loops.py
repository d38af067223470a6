"""Which restarts of a job are a crash loop."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.job import OUTAGE_S, OUTAGES_MOST, OUTAGES_WITHIN_S, RESTARTS_KEPT, WELL_AFTER_S, is_crash_loop

NOW_S = 1_000_000.0
OUTAGES = st.lists(st.integers(OUTAGE_S + 1, WELL_AFTER_S), min_size=OUTAGES_MOST, max_size=2 * OUTAGES_MOST)
"""How long before the next one each outage began; the last one, before now."""
RESTARTS = st.lists(st.integers(0, OUTAGE_S), max_size=5)
"""How long after the first of an outage the others came."""


def began_ago_s(outages: list[int]) -> list[int]:
    return [sum(outages[n:]) for n in range(len(outages))]


@given(outages=OUTAGES, again=RESTARTS)
@example(outages=[*[OUTAGE_S + 1] * (OUTAGES_MOST - 1), WELL_AFTER_S], again=[])
def test_a_job_that_fails_often_crash_loops_though_it_completed_a_checkpoint_just_now(
    outages: list[int], again: list[int]
) -> None:
    ago_s = began_ago_s(outages)
    restarted_s = [NOW_S - at + later for at in ago_s for later in (0, *again)]
    often = len([at for at in ago_s if at < OUTAGES_WITHIN_S]) >= OUTAGES_MOST
    lately = outages[-1] - max(again, default=0) < WELL_AFTER_S
    assert is_crash_loop(restarted_s, NOW_S, NOW_S) == (often and lately)


@given(outages=OUTAGES)
def test_a_job_that_failed_often_and_runs_for_long_has_recovered(outages: list[int]) -> None:
    restarted_s = [NOW_S - WELL_AFTER_S - at for at in began_ago_s(outages)]
    assert not is_crash_loop(restarted_s, NOW_S - 1, NOW_S)


@pytest.mark.parametrize("every_s", [5, 10, 20, 31, 60, 74])
def test_the_restarts_that_are_kept_show_that_a_job_fails_again_and_again(every_s: int) -> None:
    restarted_s = [NOW_S - 1 - n * every_s for n in range(RESTARTS_KEPT)]
    assert is_crash_loop(restarted_s, NOW_S, NOW_S)


def test_a_job_that_fails_every_two_minutes_is_no_crash_loop() -> None:
    assert not is_crash_loop([NOW_S - 1 - n * 120 for n in range(RESTARTS_KEPT)], NOW_S, NOW_S)
