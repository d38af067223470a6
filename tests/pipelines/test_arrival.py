"""The order of arrival: that of each partition, whatever the clock of its broker; then the streams in their rank."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from millrace import oracle
from millrace.oracle import Record
from millrace.rules import Enrichment, EventRule, EventType, Last, Lookup, Max, Text, UseCase, Whole
from millrace.verify import Evidence, Question, judge
from millrace.verify.expected import Arrival, tape_of
from millrace.verify.ledger.step import Limits
from tests.pipelines.pretend import START_MS, alert
from tests.pipelines.segmented import Ledger, figures, wrong

OWN = {"key": "key", "time": "at_ms", "past_ms": 10**9, "future_ms": 10**9}
levels = EventType("levels", "A level.", (Text("key"), Whole("level"), Whole("at_ms", least=0)), **OWN)
marks = EventType(
    "marks",
    "A mark, whose name is behind that of the levels.",
    (Text("key"), Whole("mark"), Whole("at_ms", least=0)),
    **OWN,
)
zones = EventType("zones", "The zone of a key.", (Text("key"), Text("zone")), key="key", compacted=True)
MARK = Last(marks, "mark")
adding = Enrichment(
    on=levels,
    lookups=(Lookup(zones, by="key", take={"zone": "zone"}),),
    remembers={"last": MARK},
    adds={"mark": lambda n, b: b.last.mark},
)
higher = EventRule(
    "higher", "More than before.", levels, lambda now, before: now.level > before.highest, {"highest": Max("level")}
)
lower = EventRule(
    "lower",
    "Less than the last.",
    levels,
    lambda now, before: now.level < before.last.level,
    {"last": Last(levels, "level")},
)
USE = UseCase(
    name="ranked",
    judged=levels,
    others=(marks,),
    references=(zones,),
    enrichment=adding,
    enriched=adding.enriched("enriched", "Every accepted level."),
    rules=(higher, lower),
    summaries=(),
    tables=(),
)
QUESTION = Question("ranked", USE, USE.rules)
LIMITS = Limits(outstanding_ms=60_000, grace_ms=15_000)


def message(kind: str, partition: int, offset: int, after_ms: int, **fields: Any) -> Record:
    timed = {} if kind == "zones" else {"at_ms": START_MS}
    content = json.dumps({"key": "k", **timed, **fields}).encode()
    return Record(kind, partition, offset, START_MS + after_ms, b"k", content)


ZONE = message("zones", 0, 0, 0, zone="z")


def ran(tape: Sequence[Record]) -> Evidence:
    """What a pattern leaves behind that reads the messages in this order."""
    raw: dict[str, list[Record]] = {"zones": [ZONE], "levels": [], "marks": []}
    for record in tape:
        raw[record.topic].append(record)
    zone = {"key": "k", "zone": "z"}
    enriched, alerts = [], []
    for each in oracle.judge(USE, USE.rules, tape, {"zones": {"k": zone}}):
        if each.record.topic == "levels":
            assert each.event is not None
            enriched.append(each.event | {"source_topic": "ranked.levels"})
            arrived_ms = each.record.ingest_ms
            alerts += [alert(found, None, arrived_ms, arrived_ms + 9, found.rule_version) for found in each.findings]
    return Evidence(
        raw={kind: sorted(own, key=lambda each: each.offset) for kind, own in raw.items()},
        outputs={
            kind: [
                Record(kind, 0, n, START_MS + 10_000, b"k", json.dumps(event).encode()) for n, event in enumerate(own)
            ]
            for kind, own in {"enriched": enriched, "alerts": alerts, "dead-letters": [], "windows": []}.items()
        },
        kinds={"ranked.levels": "levels"},
    )


def alerts_of(evidence: Evidence) -> list[Any]:
    return [json.loads(each.value or b"") for each in evidence.outputs["alerts"]]


def both(evidence: Evidence) -> tuple[str, int, Mapping[str, list[str]], int]:
    """The status and the races of the whole verdict, and the same of one in segments."""
    verdict = judge(QUESTION, evidence)
    segments = Ledger(QUESTION, evidence, LIMITS).through([START_MS + 1_500, START_MS + 20_000])
    races = int(str(verdict.check("enrichment").figures["races"]))
    return verdict.status, races, wrong(segments), figures(segments)["enrichment"]["races"]


def test_of_the_same_millisecond_streams_come_in_their_rank_whatever_their_names() -> None:
    mark, level = message("marks", 0, 0, 100, mark=7), message("levels", 0, 0, 100, level=1)
    assert both(ran([mark, level])) == ("ok", 0, {}, 0)
    assert both(ran([level, mark])) == ("ok", 1, {}, 1), "also possible, but not how they arrived"


def test_the_last_event_of_the_judged_stream_itself_is_the_same_whenever_those_of_others_come() -> None:
    first, mark = message("levels", 0, 0, 0, level=5), message("marks", 0, 0, 100, mark=7)
    second = message("levels", 0, 1, 100, level=3)
    found = ran([first, second, mark])
    assert [alert["rule"] for alert in alerts_of(found)] == ["lower"]
    assert both(found) == ("ok", 1, {}, 1)


def test_reference_data_of_the_same_millisecond_is_there_before_its_events() -> None:
    level = message("levels", 0, 0, 0, level=1)
    assert both(ran([level])) == ("ok", 0, {}, 0)


def test_a_clock_that_was_set_back_changes_no_order_within_a_partition() -> None:
    first, second = message("levels", 0, 0, 2_000, level=1), message("levels", 0, 1, 1_000, level=5)
    third = message("levels", 0, 2, 1_900, level=5)
    found = ran([first, second, third])
    assert len(found.outputs["alerts"] or ()) == 1
    assert both(found) == ("ok", 0, {}, 0)


@pytest.mark.parametrize("kind", ["levels", "marks"])
def test_it_holds_back_what_follows_in_its_partition_beside_other_partitions(kind: str) -> None:
    back = [message(kind, 0, 0, 5_000, level=1, mark=1), message(kind, 0, 1, 1_000, level=1, mark=1)]
    other = message("levels", 1, 0, 3_000, level=1)
    raw = {"zones": [], "marks": [], "levels": [other]}
    raw[kind] = [*raw[kind], *back]
    places = [(each.topic, each.partition, each.offset) for each in tape_of(USE, raw, {"zones": {}}, {}, Arrival(), 0)]
    assert places == [other.origin, back[0].origin, back[1].origin]
