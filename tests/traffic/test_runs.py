"""A run whose sender was late has no latency that counts, and labels only while they hold; the verdict names both."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.errors import UsageError
from millrace.patterns.plan import HOP
from millrace.settings import Settings
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.traffic.planned import made_again, partition_of
from millrace.traffic.runs import Run
from millrace.traffic.tape import Digest
from millrace.verbs import sending, traffic
from millrace.verbs.sending import Behind, Load, TrafficError, closing_keys
from millrace.verify import Check, Verdict, Versions, judge
from millrace.verify.closing import closing_ms
from millrace.verify.verdict import Status
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC as FRAUD_TRAFFIC
from tests.patterns import problems
from tests.pipelines.pretend import QUESTION, SECRETS, messages, ran, topics
from tests.pipelines.pretend import START_MS as PRETENDED_MS
from tests.traffic.visits import TRAFFIC, VISITS

START_MS = 1_790_000_000_000
PLAN = plan_for(TRAFFIC, 200, 100, name="v")


def run(p99_ms: float | None = 3.0, max_ms: float | None = 20.0, **changes: Any) -> Run:
    digest = Digest()
    for message in TRAFFIC.messages(PLAN, {}, START_MS):
        digest.add(message)
    behind = {"p99_ms": p99_ms, "max_ms": max_ms}
    about = {"plan": asdict(PLAN), "rules": {rule.name: rule.version for rule in VISITS.rules}}
    made = Run(about, START_MS, 200, {"visits": 200}, 2.0, 100.0, behind, True, digest.hex, START_MS + 9_000)
    return replace(made, **changes)


def test_a_punctual_run_has_labels_by_window() -> None:
    found = traffic.counted(VISITS, [run()])
    assert (found.uncounted_ms, found.notes) == ((), ())
    assert found.labels is not None
    assert len(found.labels.meant) == 20  # three visits are one crowd
    assert found.labels.meant["crowd", ("p0", str(START_MS))] == "crowd"


def test_a_run_that_was_recorded_is_read_back(tmp_path: Any) -> None:
    assert Run(**json.loads(json.dumps(asdict(run())))) == run()


def test_no_latency_counts_of_a_sender_more_than_100_ms_behind_at_p99() -> None:
    assert traffic.counted(VISITS, [run(p99_ms=100.0)]).notes == ()
    found = traffic.counted(VISITS, [run(p99_ms=312.4), run()])
    assert found.uncounted_ms == ((START_MS, START_MS + 9_000),)
    assert found.notes == (
        "no latency of the run 'v' counts: its sender was 312 ms behind its plan at p99, more than 100",
    )
    assert found.labels is not None
    assert traffic.counted(VISITS, [run(p99_ms=312.4)]).labels is not None, "labels hold within their own slack"


def test_a_run_that_sent_nothing_excuses_no_latency() -> None:
    """Whoever adds a line to the record would have late alerts left out, as of a late sender or of a cold start."""
    empty = run(p99_ms=312.4, sent=0, by_topic={}, about={"file": "nothing.csv"})
    found = traffic.counted(VISITS, [empty, run()])
    assert (found.began_ms, found.uncounted_ms) == ((START_MS,), ())
    assert len(found.notes) == 1


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"max_ms": None}, "are unused: its sender's punctuality was not measured"),
        ({"max_ms": 500.0}, "are unused: a message left 500 ms after it was due, and labels hold for less than 500"),
        ({"is_complete": False}, "are unused: it was interrupted"),
        ({"by_topic": {}}, "are unused: it counts 200 messages, and 0 by topic"),
        ({"digest": "other"}, "are unused: this version generates other traffic from its plan; send it again"),
        (
            {"about": {"plan": {"name": "v", "events": 9, "rate_per_s": 10, "poison_share": 0.1}}},
            "are unused: it was recorded by another version of millrace; send it again",
        ),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_labels_that_may_be_untrue_are_not_used_and_the_reason_is_named(changed: dict[str, Any], why: str) -> None:
    found = traffic.counted(VISITS, [run(**changed)])
    assert found.labels is None
    assert found.notes == found.unlabelled
    assert len(found.notes) == 1
    assert "'v'" in found.notes[0]
    assert why in found.notes[0]


def test_only_a_sender_that_was_held_up_excuses_labels_that_are_unknown() -> None:
    (held_up,) = traffic.counted(VISITS, [run(max_ms=500.0)]).unlabelled
    (interrupted,) = traffic.counted(VISITS, [run(is_complete=False)]).unlabelled

    def verdict(status: Status, why: str, name: str = "labels") -> Verdict:
        return Verdict("visits", (Check(name, "?", status, {}, why=why),), (), (), {}, {})

    assert problems(verdict("unknown", held_up)) == []
    for wrong in (verdict("failed", held_up), verdict("unknown", interrupted), verdict("unknown", held_up, "alerts")):
        assert len(problems(wrong)) == 1


def test_labels_of_a_rule_that_was_changed_since_are_left_out_by_name() -> None:
    about = run().about
    old = run(about={**about, "rules": {**about["rules"], "crowd": "old"}})
    found = traffic.counted(VISITS, [old]).labels
    assert found is not None
    assert (found.meant, found.of_other_versions) == ({}, {"crowd"})
    both = traffic.counted(VISITS, [old, run()]).labels
    assert both is not None
    assert both.of_other_versions == {"crowd"}
    for since_ms, changed in ((run().start_ms, set()), (run().start_ms + 1, {"crowd"})):
        deployed = traffic.counted(VISITS, [run()], {"crowd": Versions(((None, since_ms),))}).labels
        assert deployed is not None
        assert deployed.of_other_versions == changed, "an earlier version may have judged it"
    unpinned = {name: value for name, value in about.items() if name != "rules"}
    (why,) = traffic.counted(VISITS, [run(about=unpinned)]).unlabelled
    assert why.endswith("it was recorded by another version of millrace; send it again")


def test_a_replayed_file_has_no_labels_and_that_is_no_fault() -> None:
    found = traffic.counted(VISITS, [run(about={"file": "log.csv", "speed": 1.0})])
    assert found == traffic.Counted(began_ms=(START_MS,))


def test_the_verdict_names_the_run_and_uses_no_latency_of_it() -> None:
    plan = plan_for(FRAUD.traffic, 200, 20, seed=3, name="p", frauds=0.1)  # type: ignore[arg-type] # it has one
    evidence = ran(plan, topics(messages(plan)))
    question = replace(QUESTION, notes=("no latency of the run 'p' counts",))
    counted = judge(question, evidence)
    dropped = judge(replace(question, uncounted_ms=[(PRETENDED_MS, PRETENDED_MS + 60_000)]), evidence)
    named = {each.name: each.count for each in counted.latencies}
    assert named["alerts from intended send"] > 0
    assert {each.name for each in dropped.latencies if each.count} == {"bare hop"}
    assert (dropped.status, dropped.promises_status) == (counted.status, "unknown")
    assert dropped.record()["notes"] == ["no latency of the run 'p' counts"]


def test_quantiles_of_lateness_are_those_of_all_messages() -> None:
    behind = Behind()
    behind.add(0.04, 50)
    behind.add(2.5, 49)
    behind.add(700, 1)
    assert behind.record() == {
        "name": "behind the plan",
        "count": 100,
        "p50_ms": 0.0,
        "p95_ms": 2.5,
        "p99_ms": 2.5,
        "p999_ms": 700.0,
        "max_ms": 700.0,
    }
    assert Behind().record()["max_ms"] is None


def test_the_closing_has_a_key_in_each_partition_or_the_use_is_named() -> None:
    keys = closing_keys(lambda number: f"k{number}", 8)
    assert [partition_of(key.encode(), 8) for key in keys] == list(range(8))
    with pytest.raises(TrafficError, match="reach only 1 of 2 partitions; let the use's closing_key give another"):
        closing_keys(lambda number: "same", 2)


def test_the_closing_lasts_until_the_longest_window_is_complete() -> None:
    assert closing_ms(FRAUD) == 10_000 + 5_000 + 2_000 + 3_000
    assert closing_ms(VISITS) == 1_000 + 5_000 + 2_000 + 3_000


def test_what_was_sent_is_made_again_from_the_record_to_the_last_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kafka:
        """Takes whatever is sent."""

        def __init__(self, config: Any) -> None:
            self.taken: list[tuple[str, bytes | None, bytes | None]] = taken

        def produce(self, *message: Any) -> None:
            self.taken.append(message)

        def poll(self, within_s: float) -> int:
            return 0

        def flush(self, within_s: float) -> int:
            return 0

    taken: list[tuple[str, bytes | None, bytes | None]] = []
    monkeypatch.setattr(sending, "Producer", Kafka)
    monkeypatch.setattr(sending, "_partitions", lambda *_: 2)
    plan = plan_for(FRAUD_TRAFFIC, 100, 1_000, name="again")
    kinds = [each.name for each in (*FRAUD.raw, *FRAUD.references)]
    load = traffic.generated(FRAUD, plan, SECRETS, for_ms=1_000)
    run = sending.send("", {kind: kind for kind in [*kinds, HOP]}, load)
    read = Run(**json.loads(json.dumps(asdict(run))))
    made = made_again(FRAUD, read, SECRETS)
    assert made is not None
    content, references, sent = made
    again = [(each.topic, each.value, each.key) for each in [*references, *sent]]
    assert again == [each for each in taken if each[0] != HOP]
    assert content.hex == read.content
    assert made_again(FRAUD, replace(read, about={"plan": asdict(plan)}), SECRETS) is None, "an earlier record"


@pytest.mark.parametrize("cut", [1, 40])
def test_a_record_that_a_crash_cut_off_is_named_by_its_line_and_damages_no_other(tmp_path: Path, cut: int) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    file = tmp_path / "patterns" / "visits.traffic.jsonl"
    traffic.keep(settings, "visits", run())
    traffic.keep(settings, "visits", run(p99_ms=4.0))
    file.write_bytes(file.read_bytes()[:-cut])
    if cut > 1:
        with pytest.raises(TrafficError, match=rf"{file}: line 2 is damaged \(.*\); remove this line"):
            traffic.runs(settings, "visits")
    traffic.keep(settings, "visits", run(p99_ms=5.0))
    lines = file.read_bytes().splitlines(keepends=True)
    assert len(lines) == 3
    file.write_bytes(b"".join(lines if cut == 1 else lines[::2]))
    found = [each.behind_ms["p99_ms"] for each in traffic.runs(settings, "visits")]
    assert found == ([3.0, 4.0, 5.0] if cut == 1 else [3.0, 5.0])
    assert traffic.gaps(settings, "visits") == [], "its line was removed, as the message has it"


def test_the_remedy_names_both_ways_of_a_line_that_no_chain_shows(tmp_path: Path) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    file = tmp_path / "patterns" / "visits.traffic.jsonl"
    traffic.keep(settings, "visits", run())
    remedy = "; restore what was written, or delete this record: its runs have no labels then"
    unnamed = json.dumps(asdict(run())).encode() + b"\n"
    file.write_bytes(file.read_bytes().replace(b"3.0", b"3.5") + unnamed)
    assert traffic.gaps(settings, "visits") == [
        f"{file}: line 1 is altered, or a line before it is missing{remedy}",
        f"{file}: line 2 has no chain to show that it is as written{remedy}",
    ]
    traffic.forget(settings, "visits")
    assert traffic.gaps(settings, "visits") == []


def test_a_line_that_is_removed_from_the_record_or_altered_is_named(tmp_path: Path) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    file = tmp_path / "patterns" / "visits.traffic.jsonl"
    assert traffic.gaps(settings, "visits") == []
    for p99_ms in (3.0, 4.0, 5.0):
        traffic.keep(settings, "visits", run(p99_ms=p99_ms))
    first, second, third = lines = file.read_bytes().splitlines(keepends=True)
    assert traffic.gaps(settings, "visits") == []
    assert [each.behind_ms["p99_ms"] for each in traffic.runs(settings, "visits")] == [3.0, 4.0, 5.0]

    def gaps(*lines: bytes) -> list[str]:
        file.write_bytes(b"".join(lines))
        found = traffic.gaps(settings, "visits")
        assert traffic.counted(VISITS, [], None, found).unrecorded == tuple(found)
        return [" ".join(each.split(": ")[1].split()[:2]) for each in found]

    assert gaps(second, third) == ["line 1"]
    assert gaps(first, third) == ["line 2"]
    assert gaps(first, second.replace(b"4.0", b"4.5"), third) == ["line 2"]
    assert gaps(first, second, third.replace(b"5.0", b"5.5")) == ["line 3"], "the last one, too"
    assert gaps(second, first, third) == ["line 1", "line 2", "line 3"]
    unnamed = json.dumps(asdict(run())).encode() + b"\n"
    assert gaps(unnamed, unnamed) == ["line 1", "line 2"], "no chain shows that it is as it was written"
    assert gaps(unnamed) == ["line 1"]
    assert gaps(*lines, unnamed) == ["line 4"]


@pytest.mark.parametrize(
    "changes",
    [
        {"about": None},
        {"about": {"plan": None}},
        {"about": {"plan": {**asdict(PLAN), "events": None}}},
        {"about": {"plan": {**asdict(PLAN), "shares": {"poison": "x"}}}},
        {"about": {"rules": []}},
        {"about": {"closing_keys": [None]}},
        {"start_ms": "now"},
        {"seconds": math.inf},
        {"by_topic": {"visits": None}},
        {"behind_ms": None},
    ],
    ids=str,
)
def test_a_record_of_another_shape_is_named_by_its_line(tmp_path: Path, changes: dict[str, Any]) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    traffic.keep(settings, "visits", run(**changes))
    with pytest.raises(TrafficError, match=r"line 1 is damaged \(.*\); remove this line"):
        traffic.runs(settings, "visits")


def test_a_record_from_before_plans_had_shares_is_read_at_any_rate(tmp_path: Path) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    slow = run(about={"plan": {"name": "v", "events": 9, "rate_per_s": 2, "poison_share": 0.1}})
    traffic.keep(settings, "visits", slow)
    assert traffic.runs(settings, "visits") == [slow]
    (why,) = traffic.counted(VISITS, [slow]).unlabelled
    assert why.endswith("it was recorded by another version of millrace; send it again")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"seconds": 1e306, "until_ms": 0}, None),
        ({"about": {"plan": {**asdict(PLAN), "more": 1}, "rules": {}}}, "it was recorded by another version"),
        ({"about": {"plan": {"name": "v", "shares": None}, "rules": {}}}, "it was recorded by another version"),
        ({"about": {"plan": {**asdict(PLAN), "shares": None}, "rules": {}}}, "it was recorded by another version"),
        ({"about": {"plan": {**asdict(PLAN), "events": 10**12}, "rules": {}}}, "its plan gives far more than it sent"),
    ],
)
def test_no_record_ends_in_a_traceback_or_without_end(changed: dict[str, Any], why: str | None) -> None:
    notes = traffic.counted(VISITS, [run(**changed)]).notes
    assert why is None if not notes else why in notes[0]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sizes": {}}, "the use declares other shares and sizes now: pages"),
        ({"sizes": {"pages": -1}}, "its pages was -1, and the use allows 1 to 100 now"),
        ({"shares": {"crowds": 1.5}}, "its crowds was 1.5, and the use allows 0 to 1.0 now"),
    ],
)
def test_a_plan_that_its_traffic_cannot_have_now_gives_no_labels(changes: dict[str, Any], why: str) -> None:
    found = traffic.counted(VISITS, [run(about={"plan": {**asdict(PLAN), **changes}, "rules": {}})])
    assert found.notes == (f"the labels of the run 'v' are unused: {why}; send it again",)


def named(name: str) -> Load:
    return traffic.generated(FRAUD, plan_for(FRAUD_TRAFFIC, 100, 100, name=name), SECRETS)


def test_generated_traffic_is_refused_under_a_name_that_the_pattern_was_sent_and_nothing_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    target = Target.read(settings, {})
    monkeypatch.setattr(traffic, "listening", lambda *_: pytest.fail("the pattern's topics were opened"))
    traffic.keep(settings, "flink", run(about=named("again").about, is_complete=False))
    with pytest.raises(UsageError, match=r"flink was sent traffic with the name 'again' before, .* another --name"):
        traffic.traffic(target, "flink", named("again"))


def test_a_name_is_new_to_another_pattern_and_again_once_the_data_is_removed(tmp_path: Path) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    traffic.keep(settings, "flink", run(about=named("again").about))
    traffic.require_new(settings, "flink", named("again-2"))
    traffic.require_new(settings, "spark", named("again"))
    traffic.forget(settings, "flink")
    traffic.require_new(settings, "flink", named("again"))


class Killed(BaseException):
    """What no handler sees."""


def test_a_sender_that_was_killed_has_taken_its_name_and_one_that_did_not_begin_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    target = Target.read(settings, {})
    monkeypatch.setattr(traffic, "listening", lambda *_: nullcontext())
    monkeypatch.setattr(traffic.lineage, "traffic", lambda *_: nullcontext(SimpleNamespace()))
    monkeypatch.setattr(sending, "_produce", lambda *_: None)
    monkeypatch.setattr(sending, "_flush", lambda *_: None)

    def away(*_: object) -> int:
        raise TrafficError("no topic")

    def killed(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(sending, "_partitions", away)
    with pytest.raises(TrafficError):
        traffic.traffic(target, "flink", named("again"))
    monkeypatch.setattr(sending, "_partitions", lambda *_: 2)
    monkeypatch.setattr(sending._Pace, "keep", killed)
    with pytest.raises(Killed):
        traffic.traffic(target, "flink", named("again"))
    assert traffic.runs(settings, "flink") == []
    for wanted in ("again", "other"):
        with pytest.raises(UsageError if wanted == "again" else Killed):
            traffic.traffic(target, "flink", named(wanted))
    with pytest.raises(UsageError, match="flink was sent traffic with the name 'other' before"):
        traffic._take_name(settings, "flink", named("other"))
    traffic.forget(settings, "flink")
    traffic.require_new(settings, "flink", named("again"))


def test_a_file_takes_no_name_and_may_be_sent_twice(tmp_path: Path) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    file = Load("again", {"file": "again"}, "transactions", 1, lambda _: [], lambda *_: iter(()))
    traffic.keep(settings, "flink", run(about=file.about))
    traffic.require_new(settings, "flink", file)
    traffic.require_new(settings, "flink", named("again"))


def test_two_default_names_of_one_second_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter((START_MS * 1_000_000, (START_MS + 1) * 1_000_000))
    monkeypatch.setattr("time.time_ns", lambda: next(moments))
    assert traffic.new_name() != traffic.new_name()
