"""Canaries: what a sender records of a pipeline in memory, and what `--status` makes of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace import oracle
from millrace.oracle import Record
from millrace.patterns import Variant, load
from millrace.settings import Settings
from millrace.stores.topics import TopicError
from millrace.target import Target
from millrace.verbs import canaries
from millrace.verbs.canaries import Answer, State
from pipelines.fraud import FRAUD
from tests.dashboard.playback import alert as as_written
from tests.infra.conftest import Millrace

NOW_MS = 1_790_000_000_000
KEYS = ("canary:0", "canary:3")
RULES = ("above-previous-max", "away-from-phone", "spree", "burst-at-once", "burst")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.read({"MILLRACE_STATE": str(tmp_path)})


@pytest.fixture
def flink() -> Variant:
    return load("flink")


def state(**silent_s: float) -> State:
    """Rounds of a minute for an hour; each rule was set off ten seconds ago, but for those that are named."""
    silent = {rule: silent_s.get(rule.replace("-", "_"), 10) for rule in RULES}
    answers = {
        rule: {KEYS[0]: answered(10), KEYS[1]: answered(seconds)} for rule, seconds in silent.items() if seconds < 3600
    }
    return State(60, NOW_MS - 3_600_000, KEYS, NOW_MS - 15_000, "", answers)


def answered(seconds: float) -> Answer:
    arrived_ms = round(NOW_MS - seconds * 1000)
    return Answer(arrived_ms, arrived_ms - 40, 40)


def status_of(settings: Settings, variant: Variant, known: State) -> canaries.Status:
    canaries._write(settings, variant.name, known)
    assert canaries.read(settings, variant.name) == known
    return canaries.status(settings, variant, NOW_MS)


def test_a_pattern_is_alive_if_each_rule_was_set_off_within_two_rounds(settings: Settings, flink: Variant) -> None:
    found = status_of(settings, flink, state(burst=119))
    assert (found.status, {each.rule: each.status for each in found.rules}) == ("alive", dict.fromkeys(RULES, "alive"))
    assert [each.silent_s for each in found.rules if each.rule == "burst"] == [119]
    assert {each.latency_ms for each in found.rules} == {40}


def test_a_rule_that_one_partition_does_not_set_off_is_silent(settings: Settings, flink: Variant) -> None:
    found = status_of(settings, flink, state(burst=121))
    assert found.status == "silent"
    assert "did not set off burst (canary:3, 121 s)" in found.why
    assert [each.rule for each in found.rules if each.status == "silent"] == ["burst"]


def test_alerts_that_come_an_hour_late_show_no_rule_alive(settings: Settings, flink: Variant) -> None:
    known = state()
    late = {key: Answer(NOW_MS - 10_000, NOW_MS - 3_500_000, 3_490_000) for key in KEYS}
    found = status_of(settings, flink, replace(known, answers={**known.answers, "burst": late}))
    assert found.status == "silent"
    assert [(each.silent_s, each.latency_ms) for each in found.rules if each.rule == "burst"] == [(3_500, 3_490_000)]


def test_a_rule_that_never_alerted_is_silent_since_the_canaries_began(settings: Settings, flink: Variant) -> None:
    known = state(spree=3600)
    assert status_of(settings, flink, known).status == "silent"
    begun = status_of(settings, flink, replace(known, since_ms=NOW_MS - 100_000))
    assert (begun.status, begun.why) == ("unknown", "canaries have yet to set off spree"), "two rounds are not over yet"


def test_canaries_that_are_not_sent_say_nothing_of_the_rules(settings: Settings, flink: Variant) -> None:
    found = canaries.status(settings, flink, NOW_MS)
    assert (found.status, found.rules) == ("unknown", ())
    assert "millrace deploy flink --canaries" in found.why
    unsent = replace(state(), sent_ms=NOW_MS - 121_000, problem="Kafka does not answer")
    found = status_of(settings, flink, unsent)
    assert (found.status, found.why) == ("unknown", "no canary was sent for 121 s: Kafka does not answer")


def test_a_partition_that_was_added_is_awaited_for_two_rounds(settings: Settings, flink: Variant) -> None:
    known = replace(state(), keys=(*KEYS, "canary:7"))
    added = replace(known, began_ms={"canary:7": NOW_MS - 30_000})
    found = status_of(settings, flink, added)
    assert (found.status, {each.status for each in found.rules}) == ("unknown", {"awaited"})
    later = replace(known, began_ms={"canary:7": NOW_MS - 121_000})
    assert status_of(settings, flink, later).status == "silent"


def test_a_damaged_file_is_as_none(settings: Settings, flink: Variant) -> None:
    canaries._write(settings, "flink", state())
    file = settings.state / "canaries" / "flink.json"
    file.write_text(file.read_text()[:-20])
    assert canaries.status(settings, flink, NOW_MS).status == "unknown"


@pytest.mark.parametrize("name", ["sent_ms", "since_ms", "arrived_ms"])
def test_a_state_of_moments_to_come_shows_no_rule_alive(settings: Settings, flink: Variant, name: str) -> None:
    def ahead(by_ms: int) -> State:
        if name != "arrived_ms":
            return replace(state(), **{name: NOW_MS + by_ms})
        late = Answer(NOW_MS + by_ms, NOW_MS, 40)
        return replace(state(), answers={**state().answers, "burst": dict.fromkeys(KEYS, late)})

    assert "still to come" not in status_of(settings, flink, ahead(59_000)).why, "another clock"
    found = status_of(settings, flink, ahead(61_000))
    assert (found.status, "still to come" in found.why) == ("unknown", True)


def test_a_rule_that_no_canary_sets_off_is_named(
    settings: Settings, flink: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = replace(canaries.declared(flink), rules=("burst",))
    monkeypatch.setattr(canaries, "declared", lambda variant: few)
    found = status_of(settings, flink, state(spree=3600))
    assert found.status == "alive"
    assert [each.rule for each in found.rules if each.status == "unwatched"] == [*RULES[:4]]
    assert f"each rule but {', '.join(RULES[:4])}, which no canary sets off, was set off" in found.why
    none = replace(few, rules=())
    monkeypatch.setattr(canaries, "declared", lambda variant: none)
    assert status_of(settings, flink, state()).status == "unknown", "nothing shows that any rule is alive"


def test_a_use_without_canaries_is_refused_before_anything_starts(
    millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.project.uses", lambda: {"fraud": replace(FRAUD, canaries=None)})
    for words in (("canaries", "flink"), ("canaries", "flink", "--status"), ("deploy", "flink", "--canaries")):
        done = millrace(tmp_path, *words)
        assert (done.returncode, "the use 'fraud' declares no canaries" in done.stderr) == (2, True), words


def test_the_exit_code_is_0_only_if_each_rule_is_alive(
    millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.read({"MILLRACE_STATE": str(tmp_path)})
    monkeypatch.setattr(canaries, "_now_ms", lambda: NOW_MS)
    for known, status, code in ((state(), "alive", 0), (state(burst=200), "silent", 1)):
        canaries._write(settings, "flink", known)
        done = millrace(tmp_path, "canaries", "flink", "--status", "--json")
        found = json.loads(done.stdout)
        assert (found["status"], done.returncode) == (status, code)
        done = millrace(tmp_path, "canaries", "flink", "--status")
        assert (f"{status}: " in done.stdout, done.returncode) == (True, code)
    canaries.stopped(settings, "flink")
    assert millrace(tmp_path, "canaries", "flink", "--status").returncode == 1


class Clock:
    """In place of the module `time`: a wait ends at once."""

    strftime, gmtime = staticmethod(time.strftime), staticmethod(time.gmtime)

    def __init__(self) -> None:
        self.now_s = NOW_MS / 1000

    def monotonic(self) -> float:
        return self.now_s

    def time_ns(self) -> int:
        return round(self.now_s * 1000) * 1_000_000

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Pipeline:
    """A pattern's topics in memory, and the oracle as its jobs: an alert is there 40 ms after its cause."""

    def __init__(self, variant: Variant, clock: Clock) -> None:
        self.variant, self.clock, self.is_alive, self.is_away = variant, clock, True, False
        self.alerts: list[Record] = []
        self.events: list[dict[str, Any]] = []
        self.ids: set[str] = set()
        self.references: dict[str, dict[str, Any]] = {each.name: {} for each in variant.use.references}
        self.state, self.sent = oracle.State(self.references), 0

    def publish(self, messages: Iterable[tuple[str, bytes, bytes]]) -> int:
        if self.is_away:
            raise TopicError("Kafka does not answer")
        use, now_ms = self.variant.use, self.clock.time_ns() // 1_000_000
        for topic, key, value in messages:
            record = Record(topic.partition(".")[2], 0, self.sent, now_ms, key, value)
            self.sent += 1
            reference = next((each for each in use.references if each.name == record.topic), None)
            if reference is not None:
                assert oracle.refer(reference, self.references[record.topic], record) is None
                continue
            for judged in oracle.advance(use, self.variant.event_rules, self.state, [record]):
                assert judged.reason is None
                if judged.event is not None and record.topic == use.judged.name:
                    self.events.append(dict(judged.event))
                    for finding in judged.findings:
                        self.alert(finding, dict(judged.event))
        newest_ms = max((event["at_ms"] for event in self.events), default=0)
        for rule in self.variant.window_rules:
            for finding in oracle.window_findings(rule, self.events):
                end_ms = rule.window.end_ms(finding.window_start_ms or 0, finding.at_ms)
                if end_ms + use.disorder_ms <= newest_ms:
                    self.alert(finding, {"ingest_ms": finding.at_ms})
        return 1

    def alert(self, finding: oracle.Finding, event: dict[str, Any]) -> None:
        if self.is_alive and finding.alert_id not in self.ids:
            self.ids.add(finding.alert_id)
            at_ms = self.clock.time_ns() // 1_000_000
            value = json.dumps(as_written(finding, event, at_ms)).encode()
            self.alerts.append(Record("alerts", 0, len(self.alerts), at_ms + 40, b"", value))

    def repeat(self) -> None:
        """Write all alerts once more, as a job does after a crash."""
        at_ms = self.clock.time_ns() // 1_000_000
        self.alerts += [
            replace(each, offset=len(self.alerts) + n, ingest_ms=at_ms) for n, each in enumerate(self.alerts)
        ]


class Tail:
    """Reads the alerts."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline, self.at = pipeline, 0

    def skip_to(self, at_ms: int) -> None:
        self.at = sum(each.ingest_ms < at_ms for each in self.pipeline.alerts)

    def new(self) -> Iterator[Record]:
        found, self.at = self.pipeline.alerts[self.at :], len(self.pipeline.alerts)
        return iter(found)

    def close(self) -> None: ...


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(canaries, "time", clock)
    return clock


@pytest.fixture(params=["flink", "flood-flink"])
def pipeline(request: pytest.FixtureRequest, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    pipeline = Pipeline(load(request.param), clock)
    monkeypatch.setattr(canaries, "Tail", lambda bootstrap, topics: Tail(pipeline))
    monkeypatch.setattr(canaries, "Publisher", lambda bootstrap: pipeline)
    monkeypatch.setattr(canaries, "require_provisioned", lambda target, variant: None)
    return pipeline


def send(settings: Settings, pipeline: Pipeline, rounds: int, after: Callable[[int], object] = lambda n: None) -> str:
    """The status after so many rounds, with something done after each."""
    done = 0

    def is_over() -> bool:
        nonlocal done
        done += 1
        after(done)
        return done == rounds

    canaries.send(Target(settings, {"KAFKA_BOOTSTRAP": "nowhere"}), pipeline.variant.name, until=is_over)
    return canaries.status(settings, pipeline.variant).status


def series(settings: Settings, pipeline: Pipeline) -> list[dict[str, Any]]:
    files = sorted((settings.state / "canaries").glob(f"{pipeline.variant.name}.*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_each_round_is_a_line_with_the_alerts_and_the_latency_of_each_rule(
    settings: Settings, pipeline: Pipeline
) -> None:
    assert send(settings, pipeline, 4) == "alive"
    found, keys = series(settings, pipeline), pipeline.variant.pattern.partitions
    assert [each["at_ms"] - found[0]["at_ms"] for each in found] == [0, 60_000, 120_000, 180_000]
    for each in found[1:]:
        assert each["rules"].keys() == {rule.name for rule in pipeline.variant.use.rules}
        assert all(own["alerts"] >= keys for own in each["rules"].values())
    per_event = {rule.name for rule in pipeline.variant.event_rules}
    assert {each["rules"][rule]["latency_ms"] for each in found[1:] for rule in per_event} <= {40}


def test_a_copy_of_an_old_alert_is_no_sign_of_life(settings: Settings, pipeline: Pipeline) -> None:
    def crash(rounds: int) -> None:
        pipeline.is_alive = rounds < 2
        if rounds >= 2:
            pipeline.repeat()

    assert send(settings, pipeline, 3, crash) == "alive", "two rounds are not over yet"
    assert send(settings, pipeline, 2, lambda n: crash(2)) == "silent"


def test_a_sender_takes_over_no_moments_to_come(settings: Settings, pipeline: Pipeline) -> None:
    assert send(settings, pipeline, 3) == "alive"
    name = pipeline.variant.name
    known = canaries.read(settings, name)
    assert known is not None
    canaries._write(settings, name, replace(known, sent_ms=1 << 42))
    assert canaries.status(settings, pipeline.variant).status == "unknown"
    assert send(settings, pipeline, 3) == "alive"


def test_a_forged_alert_of_a_moment_to_come_hides_no_later_one(settings: Settings, pipeline: Pipeline) -> None:
    def forge(rounds: int) -> None:
        if rounds == 2:
            ahead = [json.loads(each.value or b"") | {"at_ms": 1 << 42} for each in pipeline.alerts]
            newest = pipeline.alerts[-1]
            pipeline.alerts += [
                replace(newest, offset=newest.offset + 1 + n, value=json.dumps(each).encode())
                for n, each in enumerate(ahead)
            ]

    assert send(settings, pipeline, 6, forge) == "alive"


def test_a_sender_that_follows_without_a_gap_knows_since_when_a_rule_is_silent(
    settings: Settings, pipeline: Pipeline, clock: Clock
) -> None:
    send(settings, pipeline, 2)
    since_ms = canaries.read(settings, pipeline.variant.name).since_ms  # type: ignore[union-attr]
    pipeline.is_alive = False
    send(settings, pipeline, 1)
    assert send(settings, pipeline, 1) == "silent"
    silent_s = [each.silent_s or 0 for each in canaries.status(settings, pipeline.variant).rules]
    assert min(silent_s) > 120
    assert canaries.read(settings, pipeline.variant.name).since_ms == since_ms  # type: ignore[union-attr]
    clock.sleep(3_600)
    assert canaries.status(settings, pipeline.variant).status == "unknown", "nothing was sent for an hour"
    pipeline.is_alive = True
    assert send(settings, pipeline, 2) == "alive", "and of that hour nothing is known"


def test_partitions_that_are_added_begin_with_the_sender_that_knows_them(
    settings: Settings, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = canaries._keys(pipeline.variant)
    monkeypatch.setattr(canaries, "_keys", lambda variant: every[:1])
    assert send(settings, pipeline, 4) == "alive"
    monkeypatch.setattr(canaries, "_keys", lambda variant: every)
    send(settings, pipeline, 1)
    assert "silent" not in {each.status for each in canaries.status(settings, pipeline.variant).rules}
    assert send(settings, pipeline, 3) == "alive"


@pytest.mark.parametrize("mark", ["canary:", "é-canary:", "kanárek/<&>:"])
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_an_alert_of_a_mark_is_found_whether_its_writer_escapes_letters_or_not(mark: str, ensure_ascii: bool) -> None:
    alert = json.dumps({"subject": f"{mark}0"}, ensure_ascii=ensure_ascii).replace("<", "\\u003c").encode()
    assert canaries.written_as(mark) in alert


def test_a_server_that_is_away_is_awaited_and_named(settings: Settings, pipeline: Pipeline, clock: Clock) -> None:
    send(settings, pipeline, 2)
    problems: list[str] = []

    def look() -> None:
        clock.now_s += 5
        found = canaries.status(settings, pipeline.variant)
        if "Kafka does not answer" in found.why:
            problems.append(found.status)
            pipeline.is_away = False

    clock.sleep = lambda seconds: look() if pipeline.is_away else Clock.sleep(clock, seconds)  # type: ignore[method-assign]
    pipeline.is_away = True
    assert send(settings, pipeline, 2) == "alive"
    assert problems == ["unknown"]


def test_canaries_that_cannot_be_sent_from_the_first_are_no_silence_that_is_unseen(
    settings: Settings, pipeline: Pipeline, clock: Clock
) -> None:
    name = pipeline.variant.name
    seen: list[canaries.Status] = []

    def look(seconds: float) -> None:
        clock.now_s += 100
        seen.append(canaries.status(settings, pipeline.variant))
        if len(seen) == 2:
            raise KeyboardInterrupt

    clock.sleep = look  # type: ignore[method-assign]
    pipeline.is_away = True
    with pytest.raises(KeyboardInterrupt):
        canaries.send(Target(settings, {"KAFKA_BOOTSTRAP": "nowhere"}), name)
    assert [each.status for each in seen] == ["unknown", "unknown"]
    assert seen[1].why == "no canary was sent for 200 s: Kafka does not answer"
    assert {each.silent_s for each in seen[1].rules} == {200}, "the figures, and so the alarm, have it"
    assert canaries.read(settings, name) is None, "who ends them while Kafka is away gets no alarm"
