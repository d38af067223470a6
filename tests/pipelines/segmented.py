"""A ledger over a pretended run, cut where a test wants it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from millrace.oracle import Record
from millrace.verify import Evidence, Question
from millrace.verify.evidence import FILES
from millrace.verify.ledger import state as states
from millrace.verify.ledger.segments import Segment, advance, anchored
from millrace.verify.ledger.state import State
from millrace.verify.ledger.step import Inputs, Labelled, Limits, Tables

NEVER_MS = 4_000_000_000_000
RUN = "the run"


def cut(records: Iterable[Record], since: Mapping[int, int], cut_ms: float) -> tuple[list[Record], dict[int, int]]:
    """The records of a topic that follow, up to the first of each partition that arrived after the cut."""
    found, reached, ended = [], dict(since), set()
    for record in records:
        if record.offset < since.get(record.partition, 0) or record.partition in ended:
            continue
        if record.ingest_ms > cut_ms:
            ended.add(record.partition)
            continue
        found.append(record)
        reached[record.partition] = record.offset + 1
    return found, reached


class Ledger:
    """A ledger over a pretended run."""

    def __init__(self, question: Question, evidence: Evidence, limits: Limits) -> None:
        self.question, self.evidence, self.limits = question, evidence, limits
        self.state = anchored(question, 0, {})
        self.read: dict[str, dict[int, int]] = {}
        self.segments: list[Segment] = []
        self.stored = 0
        self.tables: Tables | None = None

    def to(self, cut_ms: int, *, is_last: bool = False) -> Segment:
        parts: dict[str, list[Record]] = {}
        for kind, records in (*self.evidence.raw.items(), *self.evidence.outputs.items()):
            until_ms = float("inf") if is_last else cut_ms
            parts[kind], self.read[kind] = cut(records or (), self.read.get(kind, {}), until_ms)
        raw = {kind: parts[kind] for kind in self.evidence.raw}
        outputs = {kind: parts[kind] for kind in self.evidence.outputs}
        rows = self.rows(cut_ms, is_last=is_last)
        partitions = {kind: len({each.partition for each in own or ()}) for kind, own in self.evidence.raw.items()}
        inputs = Inputs(
            raw,
            outputs,
            self.evidence.kinds,
            rows,
            labelled=self.labelled(cut_ms),
            tables=self.tables,
            partitions=partitions,
        )
        found = advance(self.state, self.question, inputs, cut_ms, self.limits, is_last=is_last)
        self.segments.append(found)
        return found

    def rows(self, cut_ms: int, *, is_last: bool) -> list[Mapping[str, Any]]:
        """The rows of the files that were written meanwhile, ten seconds after their events arrived."""
        rows = self.evidence.stores.get(FILES) or []
        found = [row for row in rows[self.stored :] if is_last or row.get("ingest_ms", 0) + 10_000 <= cut_ms]
        found = rows[self.stored : self.stored + len(found)]
        self.stored += len(found)
        return found

    def labelled(self, cut_ms: int) -> list[Labelled]:
        """The one run, once it has ended and until it is judged."""
        labels = self.evidence.unlabelled[0] if self.evidence.unlabelled else self.evidence.labels
        until_ms = max(
            (record.ingest_ms for records in self.evidence.raw.values() for record in records or ()), default=0
        )
        if labels is None or until_ms > cut_ms or RUN in self.state.labelled:
            return []
        alerts, _ = cut(self.evidence.outputs["alerts"] or (), {}, cut_ms)
        return [Labelled(RUN, until_ms, labels, alerts)]

    def through(self, cuts_ms: Iterable[int]) -> list[Segment]:
        for cut_ms in sorted(cuts_ms):
            self.to(cut_ms)
        self.to(NEVER_MS, is_last=True)
        return self.segments

    def again(self) -> Ledger:
        """Another one that continues from what the first has written down."""
        other = Ledger(self.question, self.evidence, self.limits)
        other.state, other.read = again(self.state), {kind: dict(own) for kind, own in self.read.items()}
        other.stored, other.tables = self.stored, self.tables
        return other


def again(state: State) -> State:
    """The state as it is read back."""
    return states.read(list(states.lines(state)))


def figures(segments: Iterable[Segment]) -> dict[str, dict[str, int]]:
    """What was counted, over all segments."""
    found: dict[str, dict[str, int]] = {}
    for segment in segments:
        for check in segment.checks:
            own = found.setdefault(check.name, {})
            for name, value in check.figures.items():
                if not isinstance(value, str):
                    own[name] = own.get(name, 0) + int(value or 0)
    return found


def wrong(segments: Iterable[Segment]) -> dict[str, list[str]]:
    return {
        f"{segment.number} {check.name}": [check.why, *check.offenders]
        for segment in segments
        for check in segment.checks
        if check.status != "ok"
    }
