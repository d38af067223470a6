"""What the page shows that no topic holds, and what ends none of it; Kafka is away throughout."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millrace import deployments
from millrace.dashboard import figures
from millrace.dashboard import surroundings as around
from millrace.dashboard.reader import Reader, Span
from millrace.dashboard.surroundings import Surroundings
from millrace.job import Job
from millrace.machine.processes import wait_until
from millrace.oracle import Record
from millrace.patterns import PatternError, load
from millrace.patterns import topics as topics_of
from millrace.rules.outputs import VERDICTS_TOPIC
from millrace.settings import Settings
from millrace.stores import topics
from millrace.target import Target
from millrace.testing import token
from millrace.verbs import canaries
from millrace.verbs.canaries import Answer, State
from millrace.verify.ledger.chain import Entry
from millrace.verify.verdict import checked
from tests.pipelines.test_chain import MINUTE_MS, OK, OPEN, RED, ledger

WITHIN_S = 90
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(replace(Settings.read(os.environ), state=tmp_path), {"KAFKA_BOOTSTRAP": NOWHERE})


@pytest.fixture
def renewed() -> threading.Event:
    return threading.Event()


@pytest.fixture
def published() -> list[tuple[str, Any]]:
    return []


@pytest.fixture
def reader(
    target: Target, renewed: threading.Event, published: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reader]:
    """Reader and surroundings, running."""
    monkeypatch.setattr(around, "LOOK_EVERY_S", 0.2)
    monkeypatch.setattr(around.model, "read_all", lambda: ([load("flink")], []))
    monkeypatch.setattr(topics, "CONNECTS_WITHIN_S", 0.1)
    running = Reader(target.bootstrap, lambda name, data: published.append((name, json.loads(data))))
    looking = Surroundings(target, running, running._publish, renewed.set)
    running.start()
    looking.start()
    yield running
    looking.end()
    running.end()


def test_a_broker_that_is_away_is_named_and_patterns_are_shown(
    reader: Reader, published: list[tuple[str, Any]]
) -> None:
    assert wait_until(lambda: reader.around.get("kafka", {}).get("state") == "down", WITHIN_S)
    assert NOWHERE in reader.around["kafka"]["problem"]
    assert not reader.around["patterns"]["flink"]["is_provisioned"]
    assert [found["name"] for found in next(data for name, data in published if name == "patterns")] == ["flink"]


def test_a_pattern_is_deployed_or_not(reader: Reader, target: Target) -> None:
    def is_deployed() -> bool | None:
        found: bool | None = reader.around.get("patterns", {}).get("flink", {}).get("is_deployed")
        return found

    assert wait_until(lambda: is_deployed() is False, WITHIN_S)
    deployments.want(target, "flink", "")
    assert wait_until(lambda: is_deployed() is True, WITHIN_S)


def test_what_canaries_show_is_there_until_they_are_no_longer_sent(reader: Reader, target: Target) -> None:
    def shown() -> Any:
        return reader.around.get("patterns", {}).get("flink", {}).get("canaries", "not looked")

    assert wait_until(lambda: shown() is None, WITHIN_S)
    now_ms = time.time_ns() // 1_000_000
    answers = {rule.name: {"canary:0": Answer(now_ms, now_ms, 40)} for rule in load("flink").use.rules}
    known = State(60, now_ms - 600_000, ("canary:0",), now_ms, "", answers)
    canaries._write(target.settings, "flink", known)
    assert wait_until(lambda: shown() and shown()["status"] == "alive", WITHIN_S)
    text = figures.text({}, reader.around).decode()
    assert 'millrace_canary_latency_seconds{pattern="flink",rule="burst"} 0.04' in text
    canaries._write(target.settings, "flink", replace(known, answers={}))
    assert wait_until(lambda: shown()["status"] == "silent", WITHIN_S)
    assert 'millrace_canary_silence_seconds{pattern="flink",rule="burst"} 6' in figures.text({}, reader.around).decode()
    canaries.stopped(target.settings, "flink")
    assert wait_until(lambda: shown() is None, WITHIN_S)


def test_the_age_of_a_checkpoint_is_that_of_the_last_one(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    looking = Surroundings(target, Reader(NOWHERE, lambda name, data: None), lambda name, data: None, lambda: None)
    seen = []
    for now_ms, checkpoints in ((1, 0), (2, 1), (3, 1), (4, 2), (5, 0), (6, 1)):
        monkeypatch.setattr(around, "_now_ms", lambda now_ms=now_ms: now_ms)
        seen.append(looking._checkpointed_ms("streams", "streams", Job("running", checkpoints)))
    assert seen == [None, 2, 2, 4, None, 6]


def test_a_page_that_was_restarted_shows_no_fresh_checkpoint_of_a_job_that_is_stuck(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking = Surroundings(target, Reader(NOWHERE, lambda name, data: None), lambda name, data: None, lambda: None)
    seen = []
    for now_ms, checkpoints in ((101, 7), (102, 7), (103, 8), (104, 8)):
        monkeypatch.setattr(around, "_now_ms", lambda now_ms=now_ms: now_ms)
        seen.append(looking._checkpointed_ms("streams", "streams", Job("running", checkpoints)))
    assert seen == [None, None, 103, 103]
    assert looking._checkpointed_ms("flink", "flink", Job("running", 7, checkpointed_ms=5)) == 5


def test_a_job_is_down_since_it_was_first_seen_so_while_its_pattern_is_deployed(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking = Surroundings(target, Reader(NOWHERE, lambda name, data: None), lambda name, data: None, lambda: None)
    plan = SimpleNamespace(windows=(), summaries=())
    deployed = [Job("stopped"), Job("absent"), Job("starting"), Job("absent")]
    found, seen = [Job("stopped"), *deployed, Job("absent")], []
    for now_ms, job in enumerate(found):
        monkeypatch.setattr(around, "_now_ms", lambda now_ms=now_ms: now_ms)
        monkeypatch.setattr(deployments, "jobs", lambda target, name, job=job: {"flink": (plan, job)})
        if 0 < now_ms <= len(deployed):
            deployments.want(target, "flink", "")
        else:
            deployments.unwant(target, "flink")
        (shown,) = looking._jobs_of("flink")
        seen.append((shown["down_since_ms"], shown["is_up"]))
    assert seen == [(None, False), (1, False), (1, False), (None, True), (4, False), (None, False)]


@pytest.mark.parametrize("problem", [PatternError("half.yaml: broken"), KeyError("half.yaml: broken")])
def test_what_cannot_be_read_is_shown_and_ends_nothing(
    reader: Reader, problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise problem

    assert wait_until(lambda: reader.around.get("problem") == "", WITHIN_S)
    with monkeypatch.context() as patched:
        patched.setattr(around, "_files", broken)
        assert wait_until(lambda: "half.yaml: broken" in reader.around["problem"], WITHIN_S)
    assert wait_until(lambda: reader.around["problem"] == "", WITHIN_S)


def test_changed_files_are_taken_once_they_can_be_read(
    reader: Reader, renewed: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wait_until(lambda: reader.around.get("problem") == "", WITHIN_S)
    answers = iter(["rules.py, line 7: SyntaxError", ""])
    monkeypatch.setattr(around, "_problem_of", lambda names: next(answers))
    monkeypatch.setattr(around, "_files", lambda: {Path("rules.py"): 1})
    assert wait_until(lambda: "as they were: rules.py, line 7" in reader.around["problem"], WITHIN_S)
    assert not renewed.is_set()
    monkeypatch.setattr(around, "_files", lambda: {Path("rules.py"): 2})
    assert wait_until(renewed.is_set, WITHIN_S)


def test_the_uses_and_patterns_of_this_project_can_be_read() -> None:
    assert around._problem_of(["flink", "flood-flink"]) == ""


def test_a_pattern_file_with_an_error_is_named_with_it() -> None:
    assert around._problem_of(["flink", "flunk"]).startswith("there is no pattern 'flunk'")


def test_a_pattern_is_shown_as_it_was_while_its_file_has_an_error(
    looking: Surroundings, renewed: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def problem_of(names: list[str]) -> str:
        asked.append(names)
        return "flink.yaml: 'stagess' is no field" if len(asked) == 1 else ""

    monkeypatch.setattr(looking, "_renew", renewed.set)
    monkeypatch.setattr(around, "_problem_of", problem_of)
    monkeypatch.setattr(around, "_files", lambda: {Path("flink.yaml"): len(asked)})
    looking._files = {Path("flink.yaml"): -1}
    looking.look()
    assert looking._file_problem == (
        "The page shows rules and patterns as they were: flink.yaml: 'stagess' is no field"
    )
    assert looking._reader.around["patterns"]["flink"]["is_provisioned"]
    assert not renewed.is_set()
    looking.look()
    assert (asked, looking._file_problem, renewed.is_set()) == ([["flink"], ["flink"]], "", True)


def test_a_deployed_pattern_without_one_of_its_topics_is_still_followed(
    looking: Surroundings, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown() -> tuple[bool, list[str]]:
        looking.look()
        found = looking._reader.around["patterns"]["flink"]
        assert ("flink" in looking._reader.boards) == found["is_provisioned"]
        return found["is_provisioned"], found["missing"]

    partitions, ids = looking._partitions()
    there = {topic: numbers for topic, numbers in partitions.items() if topic != "flink.alerts"}
    monkeypatch.setattr(looking, "_partitions", lambda: (there, ids))
    assert shown() == (False, ["flink.alerts"]), "of a pattern that is not deployed some topics may be left"
    deployments.want(target, "flink", "")
    assert shown() == (True, ["flink.alerts"])
    assert 'millrace_pattern_deployed{pattern="flink"} 1.0' in figures.text({}, looking._reader.around).decode()


@pytest.fixture
def looking(target: Target, monkeypatch: pytest.MonkeyPatch) -> Surroundings:
    """Surroundings that look when a test does, at a Kafka with the topics of one pattern."""
    variant = load("flink")
    monkeypatch.setattr(around.model, "read_all", lambda: ([variant], []))
    reader = Reader(NOWHERE, lambda name, data: None)
    found = Surroundings(target, reader, lambda name, data: None, lambda: None)
    partitions = {topic: [0] for topic in (*topics_of(variant).values(), variant.topic(VERDICTS_TOPIC))}
    monkeypatch.setattr(found, "_partitions", lambda: (partitions, dict.fromkeys(partitions, "id")))
    monkeypatch.setattr(found, "_spans", lambda places, ids: {place: Span("id", 0, 0) for place in places})
    monkeypatch.setattr(found, "_lags_of", lambda variants, spans: {})

    def at_once(question: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        answer.set_result(question())
        return answer

    monkeypatch.setattr(reader, "ask", at_once)
    found.look()
    return found


def test_what_was_looked_at_last_is_as_old_as_that_look(looking: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict_at(looking, 3 * MINUTE_MS, monkeypatch)
    assert looking._reader.around["looked_ms"] == 3 * MINUTE_MS
    monkeypatch.setattr(looking, "_lags_of", lambda variants, spans: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        verdict_at(looking, 4 * MINUTE_MS, monkeypatch)
    assert looking._reader.around["looked_ms"] == 3 * MINUTE_MS
    assert "millrace_page_looked_timestamp_seconds 180.0" in figures.text({}, looking._reader.around).decode()


def test_messages_up_to_the_ends_of_the_last_look_are_still_to_be_read(
    looking: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, board = looking._reader, looking._reader.boards["flink"]
    monkeypatch.setattr(looking, "_spans", lambda places, ids: {place: Span("id", 0, 7) for place in places})
    looking.look()
    assert reader.tick()["boards"]["flink"]["behind"] == 7 * len(reader._next)
    for place in reader._next:
        reader._next[place] = 9  # messages have come since the look
    assert (reader.tick()["boards"]["flink"]["behind"], board.behind) == (0, 0)


def judge(looking: Surroundings, *entries: Entry, settled_ms: int = 2 * MINUTE_MS) -> None:
    """Each entry is in the topic of the ledger two minutes after the end of its segment."""
    topic = load("flink").topic(VERDICTS_TOPIC)
    name, kind = looking._reader._kinds[topic]
    for entry in entries:
        record = Record(kind, 0, entry.number, entry.cut_ms + settled_ms, None, entry.to_json().encode())
        looking._reader.boards[name].take(record)


def verdict_at(looking: Surroundings, now_ms: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(around, "_now_ms", lambda: now_ms)
    looking.look()
    return looking._reader.around["patterns"]["flink"]["verdict"]


def keep_record(target: Target, status: str, at: str) -> None:
    record = target.settings.state / "records" / f"{at.replace(':', '')}-verdict-flink.json"
    record.parent.mkdir(exist_ok=True)
    record.write_text(json.dumps({"at": f"{at}+00:00", "figures": {"status": status}}))
    deployments.verdict_file(target, "flink").write_text(record.name)


def test_of_removed_data_no_verdict_is_shown(
    target: Target, looking: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_record(target, "failed", "1970-01-01T00:00:30")
    assert verdict_at(looking, MINUTE_MS, monkeypatch)["status"] == "failed"
    deployments.forget(target, "flink")
    assert verdict_at(looking, MINUTE_MS, monkeypatch) is None


def test_a_red_segment_is_shown_and_alerts_for_an_hour_though_ok_ones_follow(
    looking: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = ledger(OK, RED, OK, OK)
    judge(looking, *entries[:1])
    assert verdict_at(looking, 3 * MINUTE_MS, monkeypatch)["status"] == "ok"
    judge(looking, *entries[1:])
    shown = verdict_at(looking, 6 * MINUTE_MS, monkeypatch)
    assert shown["status"] == "failed"
    assert (shown["since_ms"], shown["until_ms"]) == (MINUTE_MS, 2 * MINUTE_MS)
    assert shown["causes"] == ["conservation: transactions[0]@7 is neither enriched nor a dead letter"]
    assert shown["checks"] == {"conservation": "failed", "enrichment": "ok"}
    assert [(each["status"], each["why"]) for each in shown["findings"]] == [
        ("ok", ""),
        ("failed", shown["causes"][0]),
        ("ok", ""),
    ]
    text = figures.text({}, looking._reader.around).decode()
    assert 'millrace_verdict{pattern="flink",status="failed"} 1.0' in text
    assert 'millrace_verdict{pattern="flink",status="ok"} 0.0' in text
    assert verdict_at(looking, 63 * MINUTE_MS, monkeypatch)["status"] == "failed"
    shown = verdict_at(looking, 64 * MINUTE_MS, monkeypatch)
    assert (shown["status"], shown["since_ms"], shown["until_ms"]) == ("ok", 2 * MINUTE_MS, 4 * MINUTE_MS)


def test_a_card_in_a_ledger_and_in_the_problem_of_a_job_is_shortened(
    looking: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = token("anna")
    judge(looking, *ledger(checked("alerts: spree", "?", {}, [f"of 'anna', card is '{card}'"])))
    job = Job("failed", problem=f"no merchant for {card}")
    plan = SimpleNamespace(windows=(), summaries=())
    monkeypatch.setattr(deployments, "jobs", lambda target, name: {"flink": (plan, job)})
    looking._jobs_at = -around.JOBS_EVERY_S
    shown = json.dumps(verdict_at(looking, 3 * MINUTE_MS, monkeypatch))
    jobs = json.dumps(looking._reader.around["patterns"]["flink"]["jobs"])
    looking._report_problem(f"view.yaml: {card}")
    for each in (shown, jobs, looking._reader.around["problem"]):
        assert card[:13] in each
        assert card not in each


def test_a_segment_that_is_judged_late_counts_from_then_on(
    looking: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = ledger(RED, OK)
    judge(looking, *entries, settled_ms=300 * MINUTE_MS)
    assert verdict_at(looking, 303 * MINUTE_MS, monkeypatch)["status"] == "failed"


def test_an_assumed_segment_is_neither_ok_nor_an_alert(looking: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    judge(looking, *ledger(OK, assumed="the first messages were deleted"))
    shown = verdict_at(looking, 3 * MINUTE_MS, monkeypatch)
    assert (shown["status"], shown["causes"]) == ("assumed", ["the first messages were deleted"])
    text = figures.text({}, looking._reader.around).decode()
    values = {status: f'status="{status}"}} 1.0' in text for status in ("ok", "assumed", "unknown", "failed")}
    assert values == {"ok": False, "assumed": True, "unknown": False, "failed": False}


def test_an_entry_that_does_not_follow_from_the_one_before_is_never_ok(
    looking: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = ledger(OK, OK, OK)
    judge(looking, first, replace(second, messages=2), third)
    shown = verdict_at(looking, 6 * MINUTE_MS, monkeypatch)
    assert (shown["status"], shown["since_ms"]) == ("unknown", 2 * MINUTE_MS)
    assert shown["causes"] == ["entry 3 does not carry the digest of entry 2: one of them was altered"]
    looking._reader.boards["flink"].take(Record(VERDICTS_TOPIC, 0, 4, 7 * MINUTE_MS, None, b"{}"))
    assert "no entry of a ledger" in verdict_at(looking, 8 * MINUTE_MS, monkeypatch)["causes"][1]


def test_a_record_and_the_ledger_count_both(
    looking: Surroundings, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_record(target, "failed", "1970-01-01T00:01:00")
    judge(looking, *ledger(OK, OK))
    assert verdict_at(looking, 5 * MINUTE_MS, monkeypatch)["status"] == "failed"
    assert verdict_at(looking, 61 * MINUTE_MS, monkeypatch)["status"] == "ok"
    keep_record(target, "unknown", "1970-01-01T00:10:00")
    assert verdict_at(looking, 600 * MINUTE_MS, monkeypatch)["status"] == "unknown", "the last one counts at any age"
    keep_record(target, "ok", "1970-01-01T00:11:00")
    assert verdict_at(looking, 600 * MINUTE_MS, monkeypatch)["status"] == "ok"
    judge(looking, *ledger(OK, OK, OPEN)[2:], settled_ms=600 * MINUTE_MS)
    keep_record(target, "ok", "1970-01-01T10:04:00")
    assert verdict_at(looking, 605 * MINUTE_MS, monkeypatch)["causes"] == ["enrichment: could not be read"]


def test_a_ledger_is_as_old_as_its_newest_entry_while_it_is_continued(
    looking: Surroundings, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged_ms() -> Any:
        looking.look()
        text = figures.text({}, looking._reader.around).decode()
        judged = looking._reader.around["patterns"]["flink"]["judged_ms"]
        line = f'millrace_ledger_last_entry_timestamp_seconds{{pattern="flink"}} {(judged or 0) / 1000}\n'
        assert (line in text) == bool(judged)
        return judged

    def begin(at_s: int) -> None:
        deployments.want_companion(target, "flink", deployments.VALIDATOR)
        os.utime(deployments._companion_file(target, "flink", deployments.VALIDATOR), (at_s, at_s))

    deployments.want(target, "flink", "")
    board = looking._reader.boards["flink"]
    judge(looking, *ledger(OK, OK)[:1])
    assert judged_ms() is None, "an entry that somebody wrote by hand"
    board.ledger.findings.clear()
    begin(60)
    assert judged_ms() is None, "without events there is no entry"
    for at_ms in (90_000, 95_000):
        board.take(Record("transactions", 0, 0, at_ms, None, b"{}"))
    assert judged_ms() == 90_000
    judge(looking, *ledger(OK, OK))
    assert judged_ms() == 4 * MINUTE_MS
    begin(600)
    assert judged_ms() == 600_000, "it was deployed anew, and its validator has time to start"
    deployments.unwant(target, "flink")
    assert judged_ms() is None


def test_what_the_ledger_held_is_shown_while_kafka_is_away(
    looking: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(looking, *ledger(RED))
    assert verdict_at(looking, 3 * MINUTE_MS, monkeypatch)["status"] == "failed"

    def away() -> None:
        raise topics.TopicError("connection refused")

    monkeypatch.setattr(looking, "_partitions", away)
    assert verdict_at(looking, 4 * MINUTE_MS, monkeypatch)["status"] == "failed"
    assert looking._reader.around["kafka"]["state"] == "down"


def test_a_report_is_linked_though_it_is_written_after_its_record(target: Target, reader: Reader) -> None:
    record = target.settings.state / "records" / "20260101T000000.0-verdict-flink.json"
    record.parent.mkdir()
    record.write_text(json.dumps({"at": "2026-01-01T00:00:00+00:00", "figures": {"status": "failed"}}))
    deployments.verdict_file(target, "flink").write_text(record.name)

    def linked() -> str | None:
        verdict = reader.ask(lambda: reader.around.get("patterns", {}).get("flink", {}).get("verdict")).result(5)
        return None if verdict is None else str(verdict["page"])

    assert wait_until(lambda: linked() == "", WITHIN_S)
    record.with_suffix(".html").touch()
    assert wait_until(lambda: linked() == record.with_suffix(".html").name, WITHIN_S)
