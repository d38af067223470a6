"""The verdict on a pattern that promises at-most-once: what restarts lost is counted, and all else must be right."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from millrace.cli.deploy import deploy
from millrace.errors import UsageError
from millrace.oracle import Origin, Record
from millrace.patterns import load
from millrace.patterns.loss import InFlight
from millrace.rules import WindowRule
from millrace.settings import Settings
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.verbs import ledger
from millrace.verify import Evidence, Verdict, judge, losses
from millrace.verify.ledger.step import Limits
from millrace.verify.losses import without
from millrace.verify.spoiling import self_test
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC
from tests.patterns import own_patterns
from tests.pipelines.pretend import HOURS_MS, PARTITIONS, QUESTION, START_MS, messages, ran, topics

PLAN = plan_for(TRAFFIC, 1_000, 40, seed=3, name="p", customers=40, frauds=0.1, edges=0.1, races=0.02)
RULES = tuple(rule for rule in FRAUD.rules if not isinstance(rule, WindowRule))
STREAMS = ("transactions", "device-locations")
LOST_MS = 4_000
"""The worker had as much traffic in flight."""
ENDED_MS = START_MS + 8_000
QUIET = replace(QUESTION, rules=RULES, summaries=(), stores=(), promises={}, is_once=True, is_at_most_once=True)


@pytest.fixture(scope="module")
def raw() -> dict[str, list[Record]]:
    return topics(messages(PLAN))


@dataclass(frozen=True)
class Killed:
    """A run whose worker was killed once; it may have written the state of the first messages in flight."""

    raw: Mapping[str, Sequence[Record]]
    restarts: tuple[InFlight, ...]
    in_flight: Sequence[Record]
    """In the order of arrival."""

    @staticmethod
    def at(raw: Mapping[str, Sequence[Record]], ended_ms: int) -> Killed:
        restarts, records = [], []
        for kind in STREAMS:
            for partition in range(PARTITIONS):
                own = [
                    record
                    for record in raw[kind]
                    if record.partition == partition and ended_ms - LOST_MS <= record.ingest_ms < ended_ms
                ]
                records += own
                first, end = own[0].offset, own[-1].offset + 1
                restarts.append(InFlight(f"pretended.{kind}", partition, first, end, ended_ms))
        order = {kind: rank for rank, kind in enumerate(("device-locations", "transactions"))}
        records.sort(key=lambda record: (record.ingest_ms, order[record.topic], record.offset))
        return Killed(raw, tuple(restarts), records)

    def left(self, came_out: int, remembered: int) -> Evidence:
        """What is there if so many of the messages in flight came out, and the state has so many more."""
        lost = frozenset(record.origin for record in self.in_flight[came_out:])
        forgotten = frozenset(record.origin for record in self.in_flight[came_out + remembered :])
        found = left_by(without(self.raw, forgotten))
        outputs = {
            kind: [each for each in records or () if not comes_of(each, lost, self.raw)]
            for kind, records in found.outputs.items()
        }
        return replace(found, raw=self.raw, outputs=outputs)

    def judged(self, evidence: Evidence) -> Verdict:
        return judge(replace(QUIET, in_flight=self.restarts), evidence)


def left_by(raw: Mapping[str, Sequence[Record]]) -> Evidence:
    """What a job with rules over single events leaves."""
    found = ran(PLAN, raw, RULES)
    return replace(found, outputs={**found.outputs, "windows": []}, stores={})


def comes_of(output: Record, origins: Collection[Origin], raw: Mapping[str, Sequence[Record]]) -> bool:
    """Whether an output comes of one of these messages."""
    event = json.loads(output.value or b"")
    if output.topic == "alerts":
        places = {(r.topic, r.partition, r.offset) for r in raw["transactions"] if names(r) in event["event_ids"]}
        return bool(places & set(origins)) and not places - set(origins)
    prefix = "source_" if output.topic == "enriched" else ""
    topic, partition, offset = (event[f"{prefix}{name}"] for name in ("topic", "partition", "offset"))
    return (topic.partition(".")[2], partition, offset) in origins


def names(record: Record) -> str | None:
    try:
        return str(json.loads(record.value or b"")["transaction_id"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


@pytest.fixture(scope="module")
def killed(raw: dict[str, list[Record]]) -> Killed:
    return Killed.at(raw, ENDED_MS)


def red(verdict: Verdict) -> set[str]:
    return {check.name for check in verdict.checks if check.status != "ok"}


def test_a_run_without_a_restart_has_lost_nothing(raw: dict[str, list[Record]]) -> None:
    verdict = judge(QUIET, left_by(raw))
    assert red(verdict) == set()
    assert verdict.check("absences").figures == dict.fromkeys(verdict.check("absences").figures, 0)


@pytest.mark.parametrize("kind", ["enriched", "dead-letters"])
def test_what_comes_long_after_later_messages_of_its_partition_is_unknown(
    raw: dict[str, list[Record]], kind: str
) -> None:
    """The last event of a key, or a dead letter; an alert comes with its event."""
    found = left_by(raw)
    assert red(judge(QUIET, delayed(found, kind, HOURS_MS))) == {"order"}
    assert judge(QUIET, delayed(found, kind, HOURS_MS)).status == "unknown"
    assert red(judge(QUIET, delayed(found, kind, 600_000))) == set()


def delayed(evidence: Evidence, kind: str, by_ms: int) -> Evidence:
    """The evidence with one of the first messages of an output at its end, so much later."""
    records = list(evidence.outputs[kind] or ())
    last = {each.key: n for n, each in enumerate(records)}
    late = records.pop(min(n for each, n in last.items() if kind == "enriched" or b"transactions" in (each or b"")))
    records.append(replace(late, offset=len(records) + 1, ingest_ms=records[-1].ingest_ms + by_ms))
    return replace(evidence, outputs={**evidence.outputs, kind: records})


@pytest.mark.parametrize(("came_out", "remembered"), [(0, 0), (0, 20), (25, 1), (25, 60)])
def test_what_a_restart_lost_is_counted_whatever_the_state_remembers_of_it(
    killed: Killed, came_out: int, remembered: int
) -> None:
    verdict = killed.judged(killed.left(came_out, remembered))
    assert {c.name: (c.why, c.offenders) for c in verdict.checks if c.status != "ok"} == {}
    figures = verdict.check("absences").figures
    lost = [record for record in killed.in_flight[came_out:] if record.topic == "transactions"]
    assert figures["restarts"] == 1
    of_others = figures["events lost"] + figures["refusals lost"] - len(lost)  # type: ignore[operator]
    assert 0 <= of_others < 10  # reports of phones that must be refused
    assert figures["alerts lost"]
    assert [note for note in verdict.notes if "as at-most-once allows" in note]


def test_alerts_that_lack_lost_events_are_reported_apart(killed: Killed) -> None:
    figures = killed.judged(killed.left(0, 0)).check("absences").figures
    assert figures["alerts that rest on lost state"]
    assert figures["alerts absent for lost state"]


@pytest.fixture(scope="module")
def good(killed: Killed) -> Evidence:
    return killed.left(came_out=10, remembered=20)


def with_output(evidence: Evidence, kind: str, change: Callable[[list[Record]], list[Record]]) -> Evidence:
    return replace(evidence, outputs={**evidence.outputs, kind: change(list(evidence.outputs[kind] or ()))})


def test_a_loss_without_a_restart_is_red(good: Evidence) -> None:
    assert {"absences", "conservation"} <= red(judge(QUIET, good))


def test_a_loss_that_no_restart_had_in_flight_is_red(killed: Killed, good: Evidence) -> None:
    for kind, check in (("enriched", "absences"), ("dead-letters", "refusals")):
        assert check in red(killed.judged(with_output(good, kind, lambda own: own[:-1])))


def test_a_restart_explains_nothing_that_arrived_after_it(killed: Killed, good: Evidence) -> None:
    before = tuple(replace(each, at_ms=each.at_ms - 100_000) for each in killed.restarts)
    assert "absences" in red(judge(replace(QUIET, in_flight=before), good))


@pytest.mark.parametrize("kind", ["enriched", "alerts", "dead-letters"])
def test_an_output_that_is_there_twice_is_red(killed: Killed, good: Evidence, kind: str) -> None:
    twice = with_output(good, kind, lambda own: [*own, replace(own[-1], offset=own[-1].offset + 1)])
    assert "repetitions" in red(killed.judged(twice))


def test_an_id_that_is_accepted_twice_is_red(killed: Killed, good: Evidence) -> None:
    letters = [json.loads(record.value or b"") for record in good.outputs["dead-letters"] or ()]
    at = next(n for n, letter in enumerate(letters) if letter["reason"] == "duplicate")
    places = {(r.partition, r.offset): r for r in killed.raw["transactions"]}
    again = places[letters[at]["partition"], letters[at]["offset"]]
    events = [json.loads(record.value or b"") for record in good.outputs["enriched"] or ()]
    first = next(event for event in events if event["transaction_id"] == names(again))
    copy = {**first, "source_offset": again.offset, "ingest_ms": again.ingest_ms, "emit_ms": again.ingest_ms}

    def accepted(own: list[Record]) -> list[Record]:
        return [*own, replace(own[-1], offset=len(own), ingest_ms=again.ingest_ms, value=json.dumps(copy).encode())]

    twice = with_output(good, "dead-letters", lambda own: [*own[:at], *own[at + 1 :]])
    assert "refusals" in red(killed.judged(with_output(twice, "enriched", accepted)))


def test_a_wrong_or_missing_alert_on_an_event_that_was_not_in_flight_is_red(killed: Killed, good: Evidence) -> None:
    *_, last = [json.loads(record.value or b"") for record in good.outputs["alerts"] or ()]
    check = f"alerts: {last['rule']}"
    name, shown = next(iter(last["operands"].items()))
    wrong = json.dumps({**last, "operands": {**last["operands"], name: f"{shown}1"}}).encode()
    altered = with_output(good, "alerts", lambda own: [*own[:-1], replace(own[-1], value=wrong)])
    assert check in red(killed.judged(altered))
    assert check in red(killed.judged(with_output(good, "alerts", lambda own: own[:-1])))


def test_an_event_that_no_memory_explains_is_red(killed: Killed, good: Evidence) -> None:
    events = [json.loads(record.value or b"") for record in good.outputs["enriched"] or ()]
    at = max(n for n, event in enumerate(events) if event["phone_latitude"] is not None)
    moved = json.dumps({**events[at], "phone_latitude": 1.0}).encode()
    altered = with_output(good, "enriched", lambda own: [*own[:at], replace(own[at], value=moved), *own[at + 1 :]])
    assert "enrichment" in red(killed.judged(altered))


def test_so_much_in_flight_of_one_key_that_nothing_shows_what_is_remembered_is_unknown(
    killed: Killed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "TRIED_MOST", 1)
    verdict = killed.judged(killed.left(came_out=0, remembered=60))
    assert verdict.check("absences").status == "unknown"
    assert "too much of one key was in flight" in verdict.check("absences").why


def test_a_deploy_that_asks_for_a_ledger_of_such_a_pattern_is_refused_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("millrace.verbs.deploy.deploy", lambda *_, **__: pytest.fail("it was deployed"))
    with pytest.raises(UsageError, match="storm-at-most-once promises at-most-once"):
        deploy("storm-at-most-once", verdicts=True)


def test_a_ledger_does_not_judge_such_a_pattern(tmp_path: Path) -> None:
    target = Target(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {"KAFKA_BOOTSTRAP": "nowhere"})
    with (
        own_patterns(tmp_path, {"lossy": {"of": "storm-at-most-once"}}),
        pytest.raises(UsageError, match=r"lossy promises at-most-once, .*; `millrace validate` judges it"),
    ):
        ledger.Ledger(target, load("lossy"), every_s=10, settle_s=0, limits=Limits())


def everything(killed: Killed, at_ms: int = ENDED_MS + 60_000) -> tuple[InFlight, ...]:
    """Lines of a record that explain any loss."""
    return tuple(replace(each, first=0, end=10**6, at_ms=at_ms) for each in killed.restarts)


def without_outputs(killed: Killed, gone: Collection[Origin]) -> Evidence:
    found = left_by(killed.raw)
    outputs = {
        kind: [each for each in records or () if not comes_of(each, gone, killed.raw)]
        for kind, records in found.outputs.items()
    }
    return replace(found, outputs=outputs, partitions={"enriched": 1})


def doubted(verdict: Verdict) -> tuple[str, ...]:
    check = verdict.check("absences")
    assert verdict.status == check.status == "unknown"
    assert check.why == "no worker can have had in flight what the record of restarts names"
    return check.offenders


def test_events_that_are_lost_before_later_ones_of_their_key_are_unknown(killed: Killed) -> None:
    gone = frozenset(record.origin for n, record in enumerate(killed.in_flight) if n % 3)
    found = doubted(killed.judged(without_outputs(killed, gone)))
    assert all("came out behind some that are lost" in each for each in found)


@pytest.mark.parametrize("skew_ms", [0, -30_000], ids=["one clock", "another broker's clock"])
def test_a_loss_that_a_line_over_everything_explains_is_unknown(killed: Killed, skew_ms: int) -> None:
    """All of the last twelve seconds is lost, and what came out before is said to have been in flight, too."""
    since_ms = max(record.ingest_ms for record in killed.raw["transactions"]) - 12_000
    gone = frozenset(each.origin for kind in STREAMS for each in killed.raw[kind] if each.ingest_ms > since_ms)
    evidence = without_outputs(killed, gone)
    enriched = [replace(each, ingest_ms=each.ingest_ms + skew_ms) for each in evidence.outputs["enriched"] or ()]
    evidence = replace(evidence, outputs={**evidence.outputs, "enriched": enriched})
    found = doubted(judge(replace(QUIET, in_flight=everything(killed)), evidence))
    assert all("outputs of the first were complete before the last arrived" in each for each in found)


def test_clocks_of_brokers_that_differ_leave_no_doubt(killed: Killed) -> None:
    evidence = killed.left(25, 1)
    enriched = [replace(each, ingest_ms=each.ingest_ms - 30_000) for each in evidence.outputs["enriched"] or ()]
    other = replace(evidence, outputs={**evidence.outputs, "enriched": enriched})
    assert killed.judged(evidence).status == killed.judged(other).status == "ok"


def test_more_than_a_worker_holds_is_unknown(killed: Killed, monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = killed.left(0, 0)
    assert killed.judged(evidence).status == "ok"
    monkeypatch.setattr(losses, "IN_FLIGHT_MOST", 10)
    assert any("are more than a worker holds" in each for each in doubted(killed.judged(evidence)))


def test_a_line_over_what_other_workers_read_is_unknown(killed: Killed) -> None:
    evidence = killed.left(0, 0)
    wider = tuple(replace(each, first=max(0, each.first - 1), at_ms=each.at_ms + 5_000) for each in killed.restarts)
    found = doubted(judge(replace(QUIET, in_flight=(*killed.restarts, *wider)), evidence))
    assert all("another worker began at offset" in each for each in found)


def test_a_worker_that_ends_before_it_commits_leaves_the_same_line_again(killed: Killed) -> None:
    again = tuple(replace(each, at_ms=each.at_ms + 5_000) for each in killed.restarts)
    assert judge(replace(QUIET, in_flight=(*killed.restarts, *again)), killed.left(0, 0)).status == "ok"


def test_a_line_of_a_topic_that_was_created_anew_is_no_doubt(killed: Killed) -> None:
    """Within a minute it names messages of the new one, too, also such as the next worker loses."""
    purchases = [each for each in killed.restarts if each.topic.endswith("transactions")]
    before = tuple(replace(each, first=0, at_ms=START_MS - 1) for each in purchases)
    assert judge(replace(QUIET, in_flight=(*killed.restarts, *before)), killed.left(25, 60)).status == "ok"


@pytest.mark.parametrize(
    "line",
    [InFlight('{"topic":"p', -1, 0, 0, 0), InFlight("p", None, 1, 2, 3), InFlight("p", 0, 1.5, 2, 3)],  # type: ignore[arg-type]
)
def test_a_line_that_is_damaged_leaves_the_run_unknown(killed: Killed, good: Evidence, line: InFlight) -> None:
    verdict = judge(replace(QUIET, in_flight=(*killed.restarts[1:], line)), good)
    assert verdict.status == "unknown"
    assert "a line of their record is damaged" in verdict.check("absences").why


def test_each_spoiling_of_such_a_run_is_noticed_by_its_check(raw: dict[str, list[Record]]) -> None:
    found = self_test(QUIET, replace(left_by(raw), labels=None))
    assert found.missed == []
    ways = {"restarts: one explains a lost event", "enriched: one is a day behind"}
    assert ways <= {each.name for each in found.outcomes}
