"""A pattern that runs without servers: the oracle writes what an engine would, at the times at which it would."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from millrace import oracle
from millrace.dashboard import facts, view
from millrace.dashboard.app import application
from millrace.dashboard.archive import Archive
from millrace.dashboard.board import Board
from millrace.dashboard.history import History
from millrace.dashboard.hub import Hub
from millrace.dashboard.reader import Reader
from millrace.machine import npm
from millrace.machine.processes import wait_until
from millrace.oracle import Finding, Record
from millrace.patterns import Variant
from millrace.patterns.plan import HOP
from millrace.rules import WindowRule
from millrace.settings import Settings
from millrace.traffic import plan_for
from millrace.traffic.tokens import secrets_under

NOWHERE = "127.0.0.1:1"
ENGINE_MS, WRITE_MS, SENT_MS = 5, 3, 2
LATE_BY_MS = 1_500
STARTS_WITHIN_S = 120

Due = tuple[int, Record]
"""When a message is in its topic, and the message."""


def records(variant: Variant, start_ms: int, seconds: int, rate_per_s: int, name: str = "r1") -> list[Due]:
    """All messages of a run, in the order of their times."""
    use = variant.use
    assert use.traffic is not None
    plan = plan_for(use.traffic, seconds * rate_per_s, rate_per_s, name=name)
    secrets = secrets_under(use, b"a key for tests, not for customers")
    rules = (*variant.event_rules, *variant.window_rules)
    numbers: Counter[str] = Counter()
    found: list[Due] = []

    def put(kind: str, at_ms: int, value: bytes | None, key: bytes | None = None) -> Record:
        record = Record(kind, 0, numbers[kind], at_ms, key, value)
        numbers[kind] += 1
        found.append((at_ms, record))
        return record

    def put_json(kind: str, at_ms: int, content: Mapping[str, Any]) -> None:
        put(kind, at_ms, json.dumps(content).encode())

    known: dict[str, dict[str, oracle.Event]] = {each.name: {} for each in use.references}
    references = {each.name: each for each in use.references}
    for message in use.traffic.references(plan, []):
        record = put(message.topic, start_ms - 1_000, message.value, message.key)
        oracle.refer(references[message.topic], known[message.topic], record)
    tape = [
        put(message.topic, start_ms + message.due_ms + SENT_MS, message.value, message.key)
        for message in use.traffic.messages(plan, secrets, start_ms)
    ]
    enriched: list[dict[str, Any]] = []
    for judged in oracle.judge(use, rules, tape, known):
        at_ms = judged.record.ingest_ms + ENGINE_MS + WRITE_MS
        topic = variant.topic(judged.record.topic)
        if judged.reason is not None:
            kind = next(each for each in use.raw if each.name == judged.record.topic)
            letter = {
                **{"reason": judged.reason, "topic": topic, "partition": 0, "offset": judged.record.offset},
                **{"ingest_ms": judged.record.ingest_ms, "stage": "events"},
                "value_base64": oracle.value_base64(kind, judged.record.value, judged.reason),
            }
            put_json("dead-letters", at_ms, letter)
        elif judged.record.topic == use.judged.name and judged.event is not None:
            event = dict(judged.event) | {"source_topic": topic}
            enriched.append(event)
            put_json(use.enriched.name, at_ms, event)
            for finding in judged.findings:
                put_json("alerts", at_ms, alert(finding, event, at_ms - WRITE_MS))
    for rule in variant.window_rules:
        for finding in oracle.window_findings(rule, enriched):
            end_ms = _end_of(rule, finding)
            put_json("alerts", end_ms + LATE_BY_MS, alert(finding, {"ingest_ms": finding.at_ms}, end_ms + 900))
    for name_ in variant.pattern.stages.windowing.summaries:
        summary = use.summary(name_)
        for (window_ms, *keys), measured in oracle.summary_rows(summary, enriched).items():
            end_ms = summary.window.end_ms(window_ms, window_ms)
            row = {"summary": name_, "window_start_ms": window_ms, "window_end_ms": end_ms, "emit_ms": end_ms + 900}
            put_json("windows", end_ms + LATE_BY_MS, row | dict(zip(summary.keys, keys, strict=True)) | measured)
    for at_ms in range(start_ms, start_ms + seconds * 1000, 100):
        put_json(HOP, at_ms + 1, {"sent_ms": at_ms})
    return sorted(found, key=lambda due: due[0])


def alert(finding: Finding, event: Mapping[str, Any], emit_ms: int) -> dict[str, Any]:
    """A finding as an engine writes it."""
    return {
        **{"alert_id": finding.alert_id, "rule": finding.rule, "rule_version": finding.rule_version},
        **{"key": finding.key, "subject": finding.subject, "window_start_ms": finding.window_start_ms},
        **{"event_ids": list(finding.event_ids), "at_ms": finding.at_ms, "emit_ms": emit_ms},
        "operands": {name: None if value is None else str(value) for name, value in finding.operands.items()},
        **{"sent_ms": event.get("sent_ms"), "ingest_ms": event["ingest_ms"]},
    }


def _end_of(rule: WindowRule, finding: Finding) -> int:
    return rule.window.end_ms(finding.window_start_ms or 0, finding.at_ms)


class PlaybackReader(Reader):
    """Reads messages from memory instead of Kafka, each once its time has come."""

    def __init__(self, hub: Hub, tapes: Mapping[str, Iterable[Due]]) -> None:
        super().__init__(NOWHERE, hub.publish)
        self.hub = hub
        self._tapes = {name: list(tape) for name, tape in tapes.items()}
        self.taken: dict[str, Counter[str]] = defaultdict(Counter)

    def _read(self) -> None:
        time.sleep(0.05)
        now_ms = time.time_ns() // 1_000_000
        for name, tape in self._tapes.items():
            due = next((n for n, (at_ms, _) in enumerate(tape) if at_ms > now_ms), len(tape))
            for _, record in tape[:due]:
                self.taken[name][record.topic] += 1
                self.boards[name].take(record)
            del tape[:due]

    def play(self, name: str, tape: Iterable[Due]) -> None:
        """More messages, each once its time has come."""
        self.ask(lambda: self._tapes[name].extend(tape)).result(5)

    def put(self, name: str, *records: Record) -> None:
        """More messages, now."""
        self.ask(lambda: self._tapes[name].__setitem__(slice(0, 0), [(0, record) for record in records])).result(5)

    def leave(self, name: str, messages: int) -> None:
        """So many messages of a pattern are in Kafka, and are not read."""

        def leave() -> None:
            self._kinds["unread"], self._next["unread", 0], self._ends["unread", 0] = (name, "enriched"), 0, messages

        self.ask(leave).result(5)


class HeldTopic:
    """A topic of alerts with three partitions in memory, read as a `Tail` is."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._parts = {number: [each for each in records if each.partition == number] for number in range(3)}

    def spans(self) -> dict[str, dict[int, tuple[int, int]]]:
        return {"alerts": {n: (own[0].offset, own[-1].offset + 1) if own else (0, 0) for n, own in self._parts.items()}}

    def offsets_at(self, kind: str, at_ms: int) -> dict[int, int]:
        later = {n: [each.offset for each in own if each.ingest_ms >= at_ms] for n, own in self._parts.items()}
        return {number: found[0] for number, found in later.items() if found}

    def between(
        self, kind: str, since: Mapping[int, int], until: Mapping[int, int], spans: Mapping[int, tuple[int, int]]
    ) -> Iterator[Record]:
        for number, own in self._parts.items():
            yield from (each for each in own if since.get(number, 0) <= each.offset < until.get(number, 0))

    def close(self) -> None: ...


class HeldArchive(Archive):
    """Alerts in memory instead of Kafka."""

    def __init__(self) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self.records: list[Record] = []

    def _opened(self, variant: Variant) -> Any:
        return HeldTopic(self.records)


class Written:
    """Writes messages where the reader takes them from."""

    def __init__(self, reader: PlaybackReader) -> None:
        self._reader = reader

    def publish(self, messages: Iterable[tuple[str, bytes, bytes]]) -> None:
        for topic, key, value in messages:
            name, _, kind = topic.partition(".")
            self._reader.put(name, Record(kind, 0, time.time_ns(), time.time_ns() // 1_000_000, key, value))


class Still:
    """Surroundings that a test sets by hand."""

    def __init__(self, reader: Reader, variants: Iterable[Variant], around: Mapping[str, Any]) -> None:
        views = {each.name: view.of(each.use) for each in variants}
        self.facts = json.dumps([facts.facts(each, views[each.name]) for each in variants])
        reader.boards.update({each.name: Board(each, views[each.name]) for each in variants if is_there(each, around)})
        reader.around.update(around)

    def start(self) -> None: ...

    def end(self) -> None: ...


def is_there(variant: Variant, around: Mapping[str, Any]) -> bool:
    """Whether the pattern is provisioned."""
    return bool(around["patterns"][variant.name]["is_provisioned"])


def pattern_around(*engines: str, **changes: Any) -> dict[str, Any]:
    """A pattern whose jobs run."""
    job = {"state": "running", "is_up": True, "problem": "", "web": "http://127.0.0.1:9/", "restarts": 0}
    now_ms = time.time_ns() // 1_000_000
    job |= {"checkpoints": 12, "checkpointed_ms": now_ms - 3_000, "watermark_ms": now_ms - 7_000}
    return {
        **{
            "is_provisioned": True,
            "missing": [],
            "is_deployed": True,
            "lag": 0,
            "verdict": None,
            "judged_ms": None,
            "canaries": None,
            "view_problem": "",
        },
        "jobs": [{"engine": engine, **job} for engine in engines],
        **changes,
    }


UP = {"state": "up", "since_ms": 0, "problem": ""}


@contextmanager
def served(
    settings: Settings,
    variants: Iterable[Variant],
    tapes: Mapping[str, Iterable[Due]],
    around: Mapping[str, Any],
    port: int,
    archive: Archive | None = None,
) -> Iterator[PlaybackReader]:
    """The page, served on a port while the block runs."""
    hub = Hub()
    reader = PlaybackReader(hub, tapes)
    still = Still(reader, list(variants), around)
    app = application(
        hub,
        reader,
        still,  # type: ignore[arg-type]
        History(None),  # type: ignore[arg-type]
        archive or Archive(None),  # type: ignore[arg-type]
        Written(reader),  # type: ignore[arg-type]
        npm.ensure(settings, "dashboard") / "assets",
        Path(settings.state / "records"),
    )
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        assert wait_until(lambda: server.started, STARTS_WITHIN_S)
        yield reader
    finally:
        server.should_exit = True
        thread.join(15)


def without_tables(variant: Variant) -> Variant:
    """The pattern without its stores: there is no HBase here."""
    stages = variant.pattern.stages.model_copy(update={"persist": None})
    return replace(variant, pattern=variant.pattern.model_copy(update={"stages": stages}))
