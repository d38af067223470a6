"""What the page shows that no topic holds: whether Kafka answers, which patterns run, lag, jobs and verdicts."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kafka import IsolationLevel, KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec

from millrace import deployments, project
from millrace.dashboard import facts, verdicts, view
from millrace.dashboard.board import Board
from millrace.dashboard.reader import Place, Reader, Span
from millrace.dashboard.shown import text
from millrace.dashboard.verdicts import Finding
from millrace.errors import InfraError
from millrace.job import DOWN, Job, State
from millrace.patterns import EnginePlan, PatternError, Variant, load, model
from millrace.patterns import topics as topics_of
from millrace.rules.expressions import DeclarationError
from millrace.rules.outputs import DISPOSITIONS, VERDICTS_TOPIC
from millrace.stores import topics
from millrace.target import Target
from millrace.verbs import canaries, comparison

Files = Mapping[Path, int]
LOOK_EVERY_S = 2.0
JOBS_EVERY_S = 8.0
COMPARED_MOST = 3
"""Tapes."""
ANSWERS_WITHIN_S = 3.0
IMPORTS_WITHIN_S = 30
READER_ANSWERS_WITHIN_S = 30


@dataclass(frozen=True)
class Judged:
    """A record of a verdict."""

    path: Path
    finding: Finding
    latencies: list[dict[str, Any]]


class Surroundings(threading.Thread):
    """Looks every two seconds, and hands what it finds to the reader."""

    def __init__(
        self, target: Target, reader: Reader, publish: Callable[[str, str], None], renew: Callable[[], None]
    ) -> None:
        """`renew` starts the process again: what it has imported of a use stays as it was."""
        super().__init__(name="surroundings", daemon=True)
        self._renew = renew
        self._file_problem = ""
        self._target, self._reader, self._publish = target, reader, publish
        self._ended = threading.Event()
        # Not librdkafka's: it ends the process when its broker is killed during a request for offsets.
        self._opened: KafkaAdminClient | None = None
        self._provisioned: dict[str, Variant] = {}
        self._missing: dict[str, list[str]] = {}
        """By pattern, its topics that Kafka does not have."""
        self._lags: dict[str, int | None] = {}
        self._kafka: dict[str, Any] = {"state": "starting", "since_ms": _now_ms(), "problem": ""}
        self._jobs: dict[str, list[dict[str, Any]]] = {}
        self._jobs_at = -JOBS_EVERY_S
        self._comparisons: list[dict[str, Any]] = []
        self._down: dict[tuple[str, str], int] = {}
        self._checkpointed: dict[tuple[str, str], tuple[int, int | None]] = {}
        self._records: dict[str, Judged] = {}
        self._ledgers: Mapping[str, tuple[tuple[Finding, ...], int]] = {}
        self._facts = "[]"
        self._files: Files = {}
        self._variants: list[Variant] = []
        self._views: dict[str, tuple[view.View, str]] = {}

    @property
    def facts(self) -> str:
        """Every pattern, as JSON for the page."""
        return self._facts

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                self.look()
                self._report_problem(self._file_problem)
            except (InfraError, DeclarationError, OSError) as error:
                self._report_problem(str(error))
            except Exception as error:
                traceback.print_exc()  # into the page's log; what it could see is shown
                self._report_problem(repr(error))
            self._ended.wait(LOOK_EVERY_S)

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self.join(15)
        if self._opened is not None:
            self._opened.close()

    def look(self) -> None:
        """Look once."""
        self._look_at_files()
        variants, views = self._variants, self._views
        self._look_at_kafka(variants, views)
        if self._kafka["state"] == "up" and time.monotonic() > self._jobs_at + JOBS_EVERY_S:
            self._jobs = {name: self._jobs_of(name) for name in self._provisioned}
            self._comparisons = list(self._compared(self._provisioned))
            self._jobs_at = time.monotonic()
        found = {
            "looked_ms": _now_ms(),
            "kafka": self._kafka,
            "comparisons": self._comparisons,
            "patterns": {
                each.name: {
                    "is_provisioned": each.name in self._provisioned,
                    "missing": self._missing.get(each.name, []),
                    "is_deployed": deployments.is_wanted(self._target, each.name),
                    "jobs": self._jobs.get(each.name, []),
                    "lag": self._lags.get(each.name),
                    "verdict": self._verdict_of(each.name),
                    "judged_ms": self._judged_ms(each.name),
                    "canaries": self._canaries_of(each),
                    "view_problem": views[each.name][1],
                }
                for each in variants
            },
        }
        self._publish_around(found)

    def _look_at_files(self) -> None:
        """Begin anew when files have changed and all patterns that are shown can be read from them."""
        files = _files()
        if not self._files:
            self._variants, problems = model.read_all()
            self._views = {each.name: _view_of(each) for each in self._variants}
            self._publish_facts(self._variants, self._views)
            self._files = files
            self._file_problem = "\n".join(problems)
        elif files != self._files:
            self._files = files
            problem = _problem_of([each.name for each in self._variants if each.name in model.files()])
            self._file_problem = f"The page shows rules and patterns as they were: {problem}" if problem else ""
            if not problem:
                self._renew()

    def _report_problem(self, problem: str) -> None:
        self._publish_around({"problem": problem})

    def _publish_around(self, found: Mapping[str, Any]) -> None:
        shortened = text(dict(found))
        self._reader.ask(lambda: self._reader.around.update(shortened))

    def _publish_facts(self, variants: list[Variant], views: Mapping[str, tuple[view.View, str]]) -> None:
        found = json.dumps([facts.facts(each, views[each.name][0]) for each in variants], separators=(",", ":"))
        self._facts = found
        self._publish("patterns", found)

    def _look_at_kafka(self, variants: list[Variant], views: Mapping[str, tuple[view.View, str]]) -> None:
        """Let the reader follow the topics of patterns that are provisioned or deployed.

        What was found stays while Kafka is away.
        """
        try:
            with topics.named(self._target.bootstrap):
                partitions, ids = self._partitions()
                lacking = {each.name: sorted(set(topics_of(each).values()) - partitions.keys()) for each in variants}
                provisioned = {
                    each.name: each
                    for each in variants
                    if not lacking[each.name] or deployments.is_wanted(self._target, each.name)
                }
                kinds = {
                    topic: (each.name, kind)
                    for each in provisioned.values()
                    for kind, topic in topics_of(each).items()
                    if topic in partitions
                }
                for kind in (DISPOSITIONS.name, VERDICTS_TOPIC):  # an earlier version provisioned patterns without them
                    own = {each.topic(kind): (each.name, kind) for each in provisioned.values()}
                    kinds |= {topic: of for topic, of in own.items() if topic in partitions}
                spans = self._spans([(topic, number) for topic in kinds for number in partitions[topic]], ids)
                self._lags = self._lags_of(provisioned.values(), spans)
        except topics.TopicError as error:
            self._now("down", str(error))
            return
        self._now("up", "")
        self._provisioned, self._missing = provisioned, lacking
        boards = {name: Board(variant, views[name][0]) for name, variant in provisioned.items()}
        self._reader.ask(lambda: self._reader.follow(boards, kinds, spans)).result(READER_ANSWERS_WITHIN_S)
        self._ledgers = self._reader.ask(self._read_ledgers).result(READER_ANSWERS_WITHIN_S)

    def _read_ledgers(self) -> dict[str, tuple[tuple[Finding, ...], int]]:
        """What the ledgers hold as far as they are read, and when their newest entries came; in the reader's thread."""
        return {name: (tuple(board.ledger.findings), board.judged_ms) for name, board in self._reader.boards.items()}

    @property
    def _client(self) -> KafkaAdminClient:
        if self._opened is None:
            self._opened = topics.opened_admin(self._target.bootstrap, ANSWERS_WITHIN_S)
        return self._opened

    def _partitions(self) -> tuple[dict[str, list[int]], dict[str, str]]:
        """The partitions of each topic, and its id: a topic that is deleted and created anew has another."""
        topics.require_connection(self._target.bootstrap)
        described = self._client.describe_topics()
        partitions = {topic["name"]: [each["partition_index"] for each in topic["partitions"]] for topic in described}
        return partitions, {topic["name"]: str(topic["topic_id"]) for topic in described}

    def _spans(self, places: list[Place], ids: Mapping[str, str]) -> dict[Place, Span]:
        """The first offset and the end of what is committed, of each partition, by one request of each kind."""
        first, end = (
            {
                (place.topic, place.partition): found.offset
                for place, found in self._client.list_partition_offsets(
                    {TopicPartition(*place): spec for place in places}, IsolationLevel.READ_COMMITTED
                ).items()
            }
            for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        )
        return {place: Span(ids[place[0]], first[place], end[place]) for place in places}

    def _lags_of(self, variants: Iterable[Variant], spans: Mapping[Place, Span]) -> dict[str, int | None]:
        """How many messages each per-event stage has not judged; None where it has committed nothing yet."""
        judged = {each.name: each.topic(each.use.judged) for each in variants}
        ends = {
            name: own
            for name, topic in judged.items()
            if (own := {TopicPartition(*place): span.end for place, span in spans.items() if place[0] == topic})
        }
        reached = self._client.list_group_offsets({name: list(own) for name, own in ends.items()}) if ends else {}
        return {
            name: _lag(own, {place: each.offset for place, each in reached[name].items()}) for name, own in ends.items()
        }

    def _now(self, state: str, problem: str) -> None:
        if state != self._kafka["state"]:
            self._kafka = {"state": state, "since_ms": _now_ms(), "problem": problem}

    def _jobs_of(self, name: str) -> list[dict[str, Any]]:
        try:
            jobs = deployments.jobs(self._target, name)
        except InfraError as error:
            return [
                {"engine": "", "state": "unknown", "is_up": False, "problem": str(error), "web": "", "checkpoints": 0}
            ]
        return [
            {
                "engine": engine,
                "state": job.state,
                "is_up": job.is_up,
                "down_since_ms": self._down_since_ms(name, engine, job.state),
                "problem": job.problem,
                "web": job.web,
                "metrics": job.metrics,
                "restarts": job.restarts,
                "checkpoints": job.checkpoints,
                "checkpointed_ms": self._checkpointed_ms(name, engine, job),
                "watermark_ms": self._watermark_ms(plan) if job.is_up and (plan.windows or plan.summaries) else None,
            }
            for engine, (plan, job) in jobs.items()
        ]

    def _down_since_ms(self, name: str, engine: str, state: State) -> int | None:
        """Since when the job of a deployed pattern is down, as seen from here; None while it is not."""
        if state not in DOWN or not deployments.is_wanted(self._target, name):
            self._down.pop((name, engine), None)
            return None
        return self._down.setdefault((name, engine), _now_ms())

    def _watermark_ms(self, plan: EnginePlan) -> int | None:
        with suppress(InfraError):  # it has just ended
            return self._target.engine(plan.engine).watermark_ms(plan)
        return None

    def _checkpointed_ms(self, name: str, engine: str, job: Job) -> int | None:
        """When the job completed its last checkpoint; from an engine without the time, when their number moved.

        How old the last one is when the number is seen for the first time, nothing shows.
        """
        if job.checkpointed_ms is not None:
            return job.checkpointed_ms
        seen = self._checkpointed.get((name, engine))
        if seen is None or seen[0] != job.checkpoints:
            self._checkpointed[name, engine] = (job.checkpoints, None if seen is None else _now_ms())
        return self._checkpointed[name, engine][1] if job.checkpoints else None

    def _compared(self, names: Iterable[str]) -> Iterator[dict[str, Any]]:
        """The patterns that were sent the same tape, side by side."""
        for tape, runs in comparison.shared(self._target.settings, names)[:COMPARED_MOST]:
            patterns = [
                {
                    "name": name,
                    "events": run.sent,
                    "cpu_s": run.about.get("cpu_s", {}),
                    "verdict": self._verdict_of(name),
                }
                for name, run in runs.items()
            ]
            yield {"tape": tape, "patterns": patterns}

    def _canaries_of(self, variant: Variant) -> dict[str, Any] | None:
        """What canaries show of a pattern, if any were sent."""
        if canaries.read(self._target.settings, variant.name) is None or variant.use.canaries is None:
            return None
        return asdict(canaries.status(self._target.settings, variant))

    def _verdict_of(self, name: str) -> dict[str, Any] | None:
        """The verdict on a pattern, with the report of its newest record once there is one."""
        record = self._record_of(name)
        entries, _ = self._ledgers.get(name, ((), 0))
        findings = [*entries, *([record.finding] if record else [])]
        found = verdicts.worst(findings, _now_ms())
        if found is None:
            return None
        page = record.path.with_suffix(".html") if record else None  # written after its record
        return {
            **verdicts.shown(found),
            "findings": verdicts.latest(findings),
            "latencies": record.latencies if record else [],
            "page": page.name if page and page.exists() else "",
        }

    def _judged_ms(self, name: str) -> int | None:
        """Since when a ledger that is continued has no newer entry; None of another, and before the first event."""
        since_ms = deployments.judged_since_ms(self._target, name)
        _, judged_ms = self._ledgers.get(name, ((), 0))
        return max(since_ms, judged_ms) if since_ms and judged_ms else None

    def _record_of(self, name: str) -> Judged | None:
        """The newest record of a verdict on the present data; each is read once."""
        latest = deployments.verdict_record(self._target, name)
        if latest is None:
            return None
        if name not in self._records or self._records[name].path != latest:
            with suppress(OSError, ValueError, LookupError):
                self._records[name] = _judged(latest)
        return self._records.get(name)


def _judged(path: Path) -> Judged:
    record = json.loads(path.read_text(encoding="utf-8"))
    figures = record["figures"]
    checks = {check["name"]: check["status"] for check in figures.get("checks", ()) if "name" in check}
    at_ms = round(datetime.fromisoformat(record["at"]).timestamp() * 1000)
    return Judged(path, Finding(figures["status"], at_ms, checks), figures.get("latencies", []))


def _lag(ends: Mapping[Any, int], reached: Mapping[Any, int]) -> int | None:
    if all(offset < 0 for offset in reached.values()):
        return None
    return sum(max(0, end - max(reached.get(place, 0), 0)) for place, end in ends.items())


def unreadable(names: Iterable[str]) -> str | None:
    """Why this process cannot read the uses or these patterns; None if it can."""
    project.make_importable()
    project.uses()
    try:
        for name in names:
            load(name)
    except PatternError as error:
        return str(error)
    return None


def _problem_of(names: Iterable[str]) -> str:
    """Why a new process cannot read the uses or these patterns; empty if it can."""
    words = "import sys; from millrace.dashboard import surroundings; sys.exit(surroundings.unreadable(sys.argv[1:]))"
    command = [sys.executable, "-c", words, *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=IMPORTS_WITHIN_S)
    if not done.returncode:
        return ""
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return lines[-1] if lines[0].startswith("Traceback") else "\n".join(lines)


def _files() -> Files:
    """The modules of the uses, and the files of patterns and views, with the times of their last changes."""
    folders = [project.use_folder(name) for name in project.uses()]
    views = [folder / view.FILE for folder in folders]
    modules = (path for folder in folders for path in folder.rglob("*.py"))
    paths = [*modules, *model.files().values(), *(path for path in views if path.exists())]
    return {path: path.stat().st_mtime_ns for path in paths}


def _view_of(variant: Variant) -> tuple[view.View, str]:
    """The view of a pattern's use, and what is wrong with its file."""
    try:
        return view.of(variant.use), ""
    except view.ViewError as error:
        return view.completed(view.View(), variant.use), str(error)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
