"""A ledger goes on when its pattern is declared otherwise: no right run is red, and no state stops the validator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from millrace.oracle import Record
from millrace.rules import Enrichment
from millrace.verify import Evidence, Question
from millrace.verify.evidence import FILES, Versions
from pipelines.fraud import FRAUD
from tests.pipelines.pretend import START_MS, messages, ran, topics
from tests.pipelines.segmented import Ledger, wrong
from tests.pipelines.test_segments import LAST_MS, LIMITS, PLAN, STREAM, arrived, live, read

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


UPGRADED_MS = CHANGED_MS + 5_000
"""After the last cut before the change."""
ENRICHMENT = FRAUD.enrichment
ADDING = replace(ENRICHMENT, adds={**ENRICHMENT.adds, "twice": lambda now, before: now.amount_cents + now.amount_cents})
(MERCHANT,) = (each for each in ENRICHMENT.lookups if each.by == "merchant")
TAKING = replace(
    ENRICHMENT,
    lookups=tuple(
        replace(each, take={**each.take, "again": "category"}) if each is MERCHANT else each
        for each in ENRICHMENT.lookups
    ),
)


def with_fields(enrichment: Enrichment) -> Question:
    """The question about the pattern with more fields."""
    enriched = enrichment.enriched("enriched", FRAUD.enriched.doc)
    bare = replace(FRAUD, rules=(), summaries=(), tables=(), canaries=None, enrichment=enrichment, enriched=enriched)
    in_force = {"enrichment": Versions(UPGRADED_MS, frozenset({ENRICHMENT.version}))}
    return replace(STREAM, use=bare, in_force=in_force)


def filled(event: Mapping[str, Any], enrichment: Enrichment) -> dict[str, Any]:
    """An event as it comes out after the upgrade."""
    more = {"twice": 2 * event["amount_cents"], "again": event["merchant_category"]}
    return {**event, **{name: more[name] for name in enrichment.names - ENRICHMENT.names}}


def upgraded(good: Evidence, enrichment: Enrichment, stopped_ms: int) -> Evidence:
    """The run with more fields since the upgrade, and what came out before the job stopped once more."""
    outs: list[Record] = []
    for record in good.outputs["enriched"] or ():
        more = replace(record, value=json.dumps(filled(read(record), enrichment)).encode())
        if record.ingest_ms >= stopped_ms:
            outs.append(replace(more, ingest_ms=max(record.ingest_ms, UPGRADED_MS)))
        else:
            outs.append(record)
            is_again = record.ingest_ms >= stopped_ms - 5_000
            outs += [replace(more, ingest_ms=UPGRADED_MS + 6_000)] if is_again else []
    rows = [each if each["ingest_ms"] + 8 < stopped_ms else filled(each, enrichment) for each in good.stores[FILES]]
    return replace(good, outputs={**good.outputs, "enriched": arrived(outs)}, stores={FILES: rows})


@pytest.mark.parametrize("enrichment", [ADDING, TAKING])
@pytest.mark.parametrize("stopped_ms", [CHANGED_MS - 3_000, CHANGED_MS + 3_000])
def test_what_came_out_before_a_field_was_added_may_come_again_with_it(
    good: Evidence, enrichment: Enrichment, stopped_ms: int
) -> None:
    evidence = upgraded(good, enrichment, stopped_ms)
    assert wrong(changed((STREAM, evidence), (with_fields(enrichment), evidence)).segments) == {}


def test_a_wrong_row_of_what_came_after_the_change_is_red(good: Evidence) -> None:
    question, evidence = with_fields(ADDING), upgraded(good, ADDING, CHANGED_MS)
    *rows, last = evidence.stores[FILES]
    evidence = replace(evidence, stores={FILES: [*rows, {**last, "twice": 1}]})
    (causes,) = wrong(changed((STREAM, evidence), (question, evidence)).segments).values()
    assert [cause.partition(":")[0] for cause in causes] == ["", "wrong"]
