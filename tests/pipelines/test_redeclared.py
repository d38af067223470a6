"""A ledger goes on when its pattern is declared otherwise: no right run is red, and no state stops the validator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.verify import Evidence, Question
from millrace.verify.evidence import FILES
from tests.pipelines.pretend import START_MS, messages, ran, topics
from tests.pipelines.segmented import Ledger, wrong
from tests.pipelines.test_segments import LAST_MS, LIMITS, PLAN, STREAM, live

CHANGED_MS = START_MS + 30_000
SOON = replace(LIMITS, copies_ms=15_000)


@pytest.fixture(scope="module")
def good() -> Evidence:
    return live(ran(PLAN, topics(messages(PLAN))))


def changed(before: tuple[Question, Evidence], after: tuple[Question, Evidence], until_ms: int = LAST_MS) -> Ledger:
    """A ledger whose pattern is declared otherwise under way, after the changed one has judged until then."""
    ledger = Ledger(*before, SOON)
    for cut_ms in range(START_MS, CHANGED_MS + 1, 10_000):
        ledger.to(cut_ms)
    assert wrong(ledger.segments) == {}
    ledger = ledger.again()
    ledger.question, ledger.evidence = after
    for cut_ms in range(CHANGED_MS + 10_000, until_ms, 10_000):
        ledger.to(cut_ms)
    return ledger


@pytest.mark.parametrize(("stored", "missing"), [(slice(None), 0), (slice(50, None), 0), (slice(-1), 1)])
def test_files_that_are_judged_from_now_on_may_hold_what_was_judged_before(
    good: Evidence, stored: slice, missing: int
) -> None:
    """A new job stores the topic from its beginning, as far as retention has left it."""
    rows = sorted(good.stores[FILES], key=lambda row: row["ingest_ms"])[stored]
    before = replace(STREAM, stores=()), replace(good, stores={})
    found = wrong(changed(before, (STREAM, replace(good, stores={FILES: rows}))).segments)
    assert [len(each) - 1 for each in found.values()] == ([missing] if missing else [])
    assert all("missing: " in cause for causes in found.values() for cause in causes if cause)
