"""Read back inputs and outputs of a pattern until they have settled, and judge them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from millrace import deployments, registry
from millrace.errors import InfraError
from millrace.oracle import Record
from millrace.patterns import Variant
from millrace.patterns import topics as topics_of
from millrace.patterns.loss import InFlight, Loss
from millrace.patterns.model import AT_LEAST_ONCE, AT_MOST_ONCE
from millrace.patterns.plan import HOP, table_of
from millrace.rules import ALERTS, DEAD_LETTERS
from millrace.rules.outputs import WINDOWS_TOPIC
from millrace.settings import SETTLED_AFTER_S
from millrace.stores.tables import HBase
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.traffic.runs import Run, Span, is_within
from millrace.verbs.listening import recorded
from millrace.verbs.parquet import Files, files_of
from millrace.verbs.traffic import Counted, arrivals, known_secrets
from millrace.verbs.undeployed import undeployed
from millrace.verify import Bounds, Evidence, Question, Verdict, Versions, judge
from millrace.verify.evidence import ENRICHED, FILES, FORGOTTEN, RUNS, misfit, read, table_key

Place = tuple[str | None, int | None, int | None]

SENT = {"sent_ms": "whole"}
"""The field of a bare hop."""
_HOPS = partial(misfit, SENT, SENT)
SCANNED_EVERY_S = 2.0
"""How often a table that lacks rows is scanned again."""
LISTED_EVERY_S = 2.0
"""How often the files are listed: it takes a request for each folder."""
QUIET_S = 1.0
"""A verdict that may be the last begins once nothing has come for so long, and"""
QUIET_OF_JUDGING = 4.0
"""for so many times what the verdict before took: outputs that trickle in are not judged one by one."""
CLOCKS_DIFFER_MS = 60_000  # Kafka's and this machine's, at most


def verdict(
    target: Target,
    variant: Variant,
    *,
    within_s: float,
    settled_after_s: float = SETTLED_AFTER_S,
    bounds: Bounds | None = None,
    in_force: Mapping[str, Versions] | None = None,
    away_ms: Mapping[str, Sequence[Span]] | None = None,
    lost: Sequence[Loss] = (),
    in_flight: Callable[[], Sequence[InFlight]] = tuple,
    counted: Counted | None = None,
    tapes: Sequence[Run] = (),
    report: Callable[[str], None] = lambda line: None,
) -> Verdict:
    """Judge the pattern as soon as all inputs have come out, or at the deadline.

    A verdict that is not ok is returned when nothing has arrived for `settled_after_s`, or at once if no output that
    may still come changes it. `in_flight` gives what restarts until now had in flight; what is deployed is looked up
    anew each time, as a verb may be changing it.
    """
    deadline = time.monotonic() + within_s
    runs = counted or Counted()
    question = replace(
        question_about(variant, bounds or bounds_of(variant), in_force or {}),
        earlier=deployments.earlier_windows(target, variant.name) if in_force else {},
        away_ms=away_ms or {},
        began_ms=runs.began_ms,
        lost=lost,
        uncounted_ms=runs.uncounted_ms,
        notes=runs.notes,
        unrecorded=runs.unrecorded,
        runs=tapes,
        secrets=known_secrets(target.settings, variant.use),
    )

    def judged(reading: _Reading) -> Verdict:
        found = undeployed(target, variant, in_force or {}, away_ms or {})
        now = replace(question, in_flight=in_flight(), undeployed=found)
        return judge(now, reading.evidence(runs))

    quiet_s = QUIET_S
    with closing(_Reading(target, variant)) as reading:
        while True:
            changed_at, seen = time.monotonic(), None
            while not (is_over := time.monotonic() > deadline):
                reading.read()
                if reading.size() != seen:
                    changed_at, seen = time.monotonic(), reading.size()
                    report(reading.counts())
                if reading.is_whole() and time.monotonic() > changed_at + quiet_s:
                    break
                if time.monotonic() > changed_at + settled_after_s:
                    break
                time.sleep(0.5)
            began = time.monotonic()
            found = judged(reading)
            quiet_s = max(QUIET_S, QUIET_OF_JUDGING * (time.monotonic() - began))
            is_quiet = time.monotonic() > changed_at + settled_after_s
            is_fixed = found.is_final or (found.is_settled and not deployments.is_busy(target, variant.name))
            if found.status == "ok" or is_over or is_quiet or (is_fixed and reading.is_whole()):
                return found
            report(f"not yet ok: {', '.join(check.name for check in found.checks if check.status != 'ok')}")
            lags = any(check.status != "ok" and check.name in reading.tables for check in found.checks)
            if not reading.wait_for_more(min(settled_after_s, max(0.0, deadline - time.monotonic())), in_tables=lags):
                # Tables that were ok are not polled, so judge once more.
                return judged(reading)


def finished(
    target: Target,
    variant: Variant,
    *,
    in_force: Mapping[str, Versions],
    away_ms: Mapping[str, Sequence[Span]],
    lost: Sequence[Loss] = (),
    in_flight: Sequence[InFlight] = (),
    counted: Counted,
    tapes: Sequence[Run],
    report: Callable[[str], None] = lambda line: None,
) -> tuple[Question, Evidence]:
    """The question and the evidence of a run that has come out: all that topics and stores hold now."""
    question = replace(
        question_about(variant, bounds_of(variant), in_force),
        earlier=deployments.earlier_windows(target, variant.name) if in_force else {},
        away_ms=away_ms,
        undeployed=undeployed(target, variant, in_force, away_ms),
        began_ms=counted.began_ms,
        lost=lost,
        uncounted_ms=counted.uncounted_ms,
        notes=counted.notes,
        unrecorded=counted.unrecorded,
        runs=tapes,
        secrets=known_secrets(target.settings, variant.use),
        in_flight=in_flight,
    )
    with closing(_Reading(target, variant)) as reading:
        reading.read()
        report(reading.counts())
        return question, reading.evidence(counted)


def bounds_of(variant: Variant) -> Bounds:
    """The tolerances of a verdict on the pattern, as the engine of its per-event stage declares them."""
    return Bounds(skew_ms=registry.manifest(variant.pattern.stages.events.engine).skew_ms)


def question_about(variant: Variant, bounds: Bounds, in_force: Mapping[str, Versions]) -> Question:
    """What a verdict on the pattern needs: its rules, summaries, stores and promises."""
    pattern = variant.pattern
    windows = registry.manifest(pattern.stages.windowing.engine)
    promises = {"alert_latency_ms_p99": float(pattern.promises.alert_latency_ms_p99)}
    kept_since_ms = int(time.time() * 1000) - pattern.retention_hours * 3_600_000 + CLOCKS_DIFFER_MS
    return Question(
        pattern=variant.name,
        use=variant.use,
        rules=(*variant.event_rules, *variant.window_rules),
        summaries=tuple(variant.use.summary(name) for name in pattern.stages.windowing.summaries),
        stores=variant.stores,
        promises={} if variant.is_finite else promises,
        warm_after_ms=pattern.promises.warm_after_s * 1000,
        kept_since_ms=0 if variant.is_finite else kept_since_ms,
        bounds=bounds,
        in_force=in_force,
        is_once=pattern.promises.delivery != AT_LEAST_ONCE,
        is_at_most_once=pattern.promises.delivery == AT_MOST_ONCE,
        is_finite=variant.is_finite,
        counts_late=windows.counts_late,
        follows_enriched="events-elsewhere" in windows.can,
    )


@dataclass
class _Reading:
    """All inputs and outputs of a pattern; each `read` continues where the last one ended."""

    target: Target
    variant: Variant
    records: dict[str, list[Record]] = field(init=False)
    files: Files = field(default_factory=Files)
    tables: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topics = topics_of(self.variant)
        self.records = {kind: [] for kind in self.topics}
        self.accepted: set[Place] = set()
        self.refused: set[Place] = set()
        self.unread: dict[str, str] = {}
        self.tail = Tail(self.target.bootstrap, self.topics)
        self.list_at = self.since_ms = 0.0
        self.stores = self.variant.stores

    def close(self) -> None:
        self.tail.close()

    def read(self) -> None:
        """Take in what is new in topics and files."""
        self.since_ms = time.time() * 1000
        for record in self.tail.new():
            self.records[record.topic].append(record)
            if record.topic == self.variant.use.enriched.name:
                self.accepted.add(_place(record, "source_"))
            elif record.topic == DEAD_LETTERS.name:
                self.refused.add(_place(record))
        if "hdfs" in self.stores and time.monotonic() >= self.list_at:
            self.list_at = time.monotonic() + LISTED_EVERY_S
            self.unread.pop(FILES, None)
            try:
                folder, of = self.target.folder(self.variant), self.variant.use.enriched
                self.files = files_of(self.target.hdfs, folder, of, self.files)
            except InfraError as error:
                self.unread[FILES] = str(error)

    def size(self) -> tuple[int, ...]:
        """The number of messages and rows; it grows while a job writes."""
        return (*(len(records) for kind, records in self.records.items() if kind != HOP), self._rows())

    def is_whole(self) -> bool:
        """Whether every judged message has come out, and every accepted one has reached the files."""
        judged = self.variant.use.judged.name
        refused = {place for place in self.refused if place[0] == self.topics[judged]}
        is_out = len(self.accepted | refused) >= len(self.records[judged])
        return is_out and ("hdfs" not in self.stores or self._rows() >= len(self.accepted))

    def wait_for_more(self, within_s: float, *, in_tables: bool) -> bool:
        """Whether anything more arrives: in topics and files, and in tables if they are waited for."""
        before, deadline = self.size(), time.monotonic() + within_s
        scan_at, tables = time.monotonic() + SCANNED_EVERY_S, self.tables
        while time.monotonic() < deadline:
            self.read()
            if self.size() != before:
                return True
            if in_tables and (began := time.monotonic()) > scan_at:
                if stored_tables(self.target.hbase, self.variant)[0] != tables:
                    return True
                # A large table is scanned less often.
                scan_at = time.monotonic() + max(SCANNED_EVERY_S, 5 * (time.monotonic() - began))
            time.sleep(0.5)
        return False

    def counts(self) -> str:
        """How much was read, as a line of progress."""
        names = (self.variant.use.judged.name, self.variant.use.enriched.name, ALERTS.name, DEAD_LETTERS.name)
        counts = [f"{len(self.records[name])} {name}" for name in names]
        return ", ".join([*counts, f"{self._rows()} rows in files"] if "hdfs" in self.stores else counts)

    def evidence(self, runs: Counted) -> Evidence:
        """All that was read, for the judge."""
        use, name = self.variant.use, self.variant.name
        raw = {each.name for each in use.raw}
        stored, unread = self._stored()
        hops = [(hop.ingest_ms, each["sent_ms"]) for hop, each in read(self.records[HOP], _HOPS).events]
        received_ms, hop_received_ms = recorded(arrivals(self.target.settings, name), runs.uncounted_ms)
        # What was heard since may not have been read.
        received_ms = {identity: ms for identity, ms in received_ms.items() if ms < self.since_ms}
        return Evidence(
            raw={each.name: self.records[each.name] for each in (*use.raw, *use.references)},
            outputs={ENRICHED: self.records[use.enriched.name]}
            | {kind: self.records[kind] for kind in (ALERTS.name, DEAD_LETTERS.name, WINDOWS_TOPIC)},
            stores=stored,
            unread=unread | ({RUNS: runs.unread} if runs.unread else {}),
            hop_ms=[at_ms - sent_ms for at_ms, sent_ms in hops if not is_within(runs.uncounted_ms, sent_ms)],
            hop_sent_ms=[sent_ms for _, sent_ms in hops],
            received_ms=received_ms,
            hop_received_ms=hop_received_ms,
            deleted=sorted(self.tail.deleted() - {each.name for each in use.references} - {HOP}),
            labels=runs.labels,
            unlabelled=runs.unlabelled,
            wrong_files=self.files.wrong,
            replaced=list(self.files.replaced),
            read_ms=int(time.time() * 1000),
            kinds={topic: kind for kind, topic in self.topics.items()},
            partitions={
                ENRICHED if kind == use.enriched.name else kind: len(own)
                for kind, own in self.tail.positions.items()
                if kind in raw or kind in (use.enriched.name, ALERTS.name, DEAD_LETTERS.name, WINDOWS_TOPIC)
            },
        )

    def _stored(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The content of the stores, and why one could not be read."""
        stored: dict[str, Any] = {}
        unread = dict(self.unread)
        if "hdfs" in self.stores:
            stored[FILES] = list(self.files.rows)
        if "hbase" in self.stores:
            self.tables, lacking = stored_tables(self.target.hbase, self.variant)
            stored, unread = stored | self.tables, unread | lacking
        return stored, unread

    def _rows(self) -> int:
        return sum(len(self.files.read[path].rows) for path in self.files.counted)


def stored_tables(hbase: HBase, variant: Variant) -> tuple[dict[str, Any], dict[str, str]]:
    """The rows of a pattern's tables and its forgotten keys, and why one of them could not be read.

    A scan that fails on its way has read some rows: they are not the table.
    """
    found: dict[str, Any] = {}
    unread: dict[str, str] = {}
    names = {table_key(table.name): table_of(variant.name, table.name) for table in variant.use.tables}
    for key in (*names, FORGOTTEN):
        try:
            found[key] = dict(hbase.scan(names[key])) if key in names else hbase.forgotten(variant.name)
        except InfraError as error:
            unread[key] = str(error)
        except (KeyError, ValueError) as error:
            unread[key] = f"a row of it is damaged: {error!r}"
    return found, unread


def _place(record: Record, prefix: str = "") -> Place:
    """The raw message that an output names as its origin."""
    try:
        content = json.loads(record.value or b"{}")
        topic, partition, offset = (content[f"{prefix}{name}"] for name in ("topic", "partition", "offset"))
        return str(topic), int(partition), int(offset)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return (None, None, None)
