"""Whatever a field of an output holds, a verdict is reached, on a whole run and in segments, and names the message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from millrace.oracle import Record
from millrace.rules.layout import Forgotten, Mark, mark_row
from millrace.traffic import plan_for
from millrace.verify import Evidence, Question, Versions, judge
from millrace.verify.evidence import NESTED_MOST, StoredRow
from millrace.verify.ledger import state as states
from millrace.verify.ledger.chain import Entry, entry_of
from millrace.verify.ledger.segments import Segment
from millrace.verify.ledger.step import Limits
from pipelines.fraud.traffic import TRAFFIC
from tests.flood import test_segments_of_flood, test_verdict
from tests.pipelines import test_segments
from tests.pipelines.pretend import QUESTION, START_MS, messages, ran, topics
from tests.pipelines.segmented import NEVER_MS, Ledger, again
from tests.pipelines.test_segments_of_tables import Tables

OUTPUTS = ("enriched", "alerts", "dead-letters", "windows")
LIMITS = Limits(outstanding_ms=20_000, grace_ms=4_000)
HUGE, MISSING = "@huge", object()
NAMES = ("foreign", "\ud800", "a\nb")


def nested(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


VALUES: tuple[Any, ...] = (
    *(MISSING, None, True, 0, -1, 1.5, 2**63 - 1, -(2**63), 2**63, 10**400, HUGE, float("nan"), float("inf")),
    *("", "x", "0", "a\0b", "\ud800", [], ["x"], ["x"] * 300, [None], [1], {}, {"a": 1}, {"a": "x"}, {"\ud800": "x"}),
    *(nested(NESTED_MOST - 2), nested(NESTED_MOST), nested(600)),
)


@dataclass(frozen=True)
class Run:
    """A good run of a use, and where it is cut."""

    question: Question
    evidence: Evidence
    cuts_ms: Sequence[int]


def fraud() -> Run:
    plan = plan_for(TRAFFIC, 300, 20, seed=3, name="p", customers=30, frauds=0.2, edges=0.1)
    evidence = test_segments.live(ran(plan, topics(messages(plan))))
    return Run(replace(QUESTION, stores=("hdfs", "hbase")), evidence, range(START_MS, START_MS + 150_000, 15_000))


def flood() -> Run:
    plan = replace(test_verdict.PLAN, events=2_000, rate_per_s=500)
    evidence = test_verdict.evidence_of(test_verdict.run_of(plan), plan=plan)
    return Run(test_verdict.QUESTION, test_segments_of_flood.live(evidence), range(START_MS, START_MS + 40_000, 3_500))


@pytest.fixture(scope="module", params=[fraud, flood], ids=["fraud", "flood"])
def run(request: pytest.FixtureRequest) -> Run:
    return request.param()  # type: ignore[no-any-return]


def written(event: Mapping[str, Any]) -> bytes:
    kept = {name: value for name, value in event.items() if value is not MISSING}
    return json.dumps(kept).replace(f'"{HUGE}"', "9" * 5_000).encode()


def shapes(records: Sequence[Record]) -> Iterator[Record]:
    """A message of each rule or summary, and of each reason, from the middle of the run."""
    met = set()
    for record in records[len(records) // 3 :]:
        event = json.loads(record.value or b"")
        shape = tuple(event.get(name) for name in ("rule", "summary", "reason"))
        if shape not in met:
            met.add(shape)
            yield record


def with_spoilt(evidence: Evidence, kind: str) -> Evidence:
    """The run with messages besides, in each of which one field holds something else."""
    records, more = list(evidence.outputs[kind] or ()), list[Record]()
    for record in shapes(records):
        event = json.loads(record.value or b"")
        for name in (*event, *NAMES):
            more += [replace(record, value=written({**event, name: value})) for value in VALUES]
    own = sorted([*records, *more], key=lambda record: record.ingest_ms)
    counted: dict[int, int] = {}
    for n, record in enumerate(own):
        own[n] = replace(record, offset=counted.setdefault(record.partition, 0))
        counted[record.partition] += 1
    return replace(evidence, outputs={**evidence.outputs, kind: own})


def changed(question: Question, at_ms: int) -> Question:
    """The question after all rules and summaries had other versions until then."""
    names = [each.name for each in (*question.rules, *question.summaries)]
    return replace(question, in_force=dict.fromkeys(names, Versions((("00000000", at_ms),))))


def segments(run: Run, evidence: Evidence, question: Question | None = None, tables: Any = None) -> list[Segment]:
    """The run in segments, each judged from the state that the one before has written down."""
    ledger, entry = Ledger(question or run.question, evidence, LIMITS), None
    ledger.tables = tables
    for cut_ms in (*run.cuts_ms, NEVER_MS):
        if tables is not None:
            tables.at(cut_ms)
        found = ledger.to(cut_ms, is_last=cut_ms == NEVER_MS)
        entry = entry_of(found, {}, {}, "", entry, "")
        assert Entry.from_json(entry.to_json()) == entry
        before = ledger.state
        ledger.state = again(before)
        assert states.digest_of(states.lines(ledger.state)) == states.digest_of(states.lines(before))
    return ledger.segments


def red(found: Iterable[Segment]) -> set[str]:
    return {check.name for segment in found for check in segment.checks if check.status != "ok"}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_a_whole_run_is_judged(run: Run, kind: str) -> None:
    evidence = with_spoilt(run.evidence, kind)
    for question in (run.question, changed(run.question, run.cuts_ms[len(run.cuts_ms) // 4])):
        verdict = judge(question, evidence)
        assert verdict.check("readable").status == "failed"
        json.dumps(verdict.record(), ensure_ascii=False).encode()


@pytest.mark.parametrize("kind", OUTPUTS)
def test_segments_are_judged(run: Run, kind: str) -> None:
    evidence = with_spoilt(run.evidence, kind)
    for question in (run.question, changed(run.question, run.cuts_ms[len(run.cuts_ms) // 4])):
        assert "readable" in red(segments(run, evidence, question))


def test_tables_with_forgotten_keys_are_judged() -> None:
    run = fraud()
    for kind in ("enriched", "alerts"):
        evidence = with_spoilt(run.evidence, kind)
        tables = Tables(run.evidence, 0)
        customer = json.loads((run.evidence.outputs["enriched"] or ())[0].value or b"")["customer"]
        tables.marks = Forgotten({mark_row("customer", customer): Mark(START_MS, 1)})
        assert "readable" in red(segments(run, evidence, tables=tables))
        stores = {**run.evidence.stores, "forgotten": tables.marks}
        assert judge(run.question, replace(evidence, stores=stores)).check("readable").status == "failed"


def test_a_mark_under_a_name_that_is_no_text_is_read() -> None:
    run = fraud()
    tables = Tables(run.evidence, 0)
    tables.marks = Forgotten({b"\xff": Mark(START_MS, 1)})
    assert not [name for name in red(segments(run, run.evidence, tables=tables)) if "table" in name]


def test_a_row_of_a_file_with_values_that_json_lacks_is_judged() -> None:
    run = fraud()
    row = run.evidence.stores["files"][0]
    folder = "/f/date=2026-09-21/hour=14/part.parquet"
    foreign = (datetime(2026, 1, 1, tzinfo=UTC), Decimal("1.5"), b"\xff", [(b"a", 1)], float("nan"))
    rows = [StoredRow({**row, "source_offset": 10**6 + n, "foreign": value}, folder) for n, value in enumerate(foreign)]
    rows += [StoredRow({**row, "at_ms": value}, folder) for value in VALUES if value is not MISSING]
    evidence = replace(run.evidence, stores={"files": [*rows, *run.evidence.stores["files"]]})
    assert "files" in red(segments(run, evidence))
    assert judge(run.question, evidence).check("files").status == "failed"


def test_the_name_of_a_field_that_no_reader_can_write_again_is_in_an_entry() -> None:
    run = fraud()
    records = list(run.evidence.outputs["alerts"] or ())
    event = json.loads(records[0].value or b"")
    records[0] = replace(records[0], value=json.dumps({**event, "\ud800": 1}).encode())
    evidence = replace(run.evidence, outputs={**run.evidence.outputs, "alerts": records})
    (offender,) = judge(run.question, evidence).check("readable").offenders
    assert offender.endswith(r"'\ud800' is not declared")
    assert "readable" in red(segments(run, evidence))


@pytest.mark.parametrize("kind", OUTPUTS)
def test_a_message_that_python_can_just_read_is_named(kind: str) -> None:
    run = fraud()
    records = list(run.evidence.outputs[kind] or ())
    event = json.loads(records[0].value or b"")
    texts = ("[" * depth + "]" * depth for depth in (NESTED_MOST, *range(800, 1_000)))
    deep = [json.dumps({**event, "foreign": "@"}).replace('"@"', text).encode() for text in texts]
    more = [replace(records[-1], offset=len(records) + n, value=value) for n, value in enumerate(deep)]
    evidence = replace(run.evidence, outputs={**run.evidence.outputs, kind: [*records, *more]})
    once = replace(run.question, is_once=True)
    assert judge(once, evidence).check("readable").figures["offenders"] == len(deep)
    assert "readable" in red(segments(run, evidence, once))


def test_an_alert_with_a_full_list_and_without_the_start_of_its_window_is_named() -> None:
    run = fraud()
    records = list(run.evidence.outputs["alerts"] or ())
    at, alert = next(
        (n, a) for n, each in enumerate(records) if (a := json.loads(each.value or b""))["rule"] == "burst"
    )
    full = {**alert, "event_ids": [*alert["event_ids"], *map(str, range(1_000))], "window_start_ms": None}
    records.insert(at + 1, replace(records[at], value=json.dumps(full).encode()))
    records = [replace(each, offset=n) for n, each in enumerate(records)]
    evidence = replace(run.evidence, outputs={**run.evidence.outputs, "alerts": records})
    assert judge(run.question, evidence).check("alert ids").status == "failed"
    assert "alert ids" in red(segments(run, evidence))
