"""A query's checkpoint, as Spark lays it out; no other module reads or changes its files.

metadata         the query's id
sources/0/0      where the first batch begins:  \0v1 / {"TOPIC":{"0":0}}
state/...        of the query's operators
offsets/12       of batch 12, planned:    v1 / settings / a line for each source:
                                          {"TOPIC":{"0":41}} of Kafka, 1763800000000 of ticks
commits/12       of batch 12, completed:  v1 / {"nextBatchWatermarkMs":1763799995000, ...}
topic-ids.json   written by the driver:   the ids of the topics that the query has read
layout.json      written by the driver:   what the state looks like
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from millrace.engines.spark.tuning import DISORDER_MARGIN_MS
from millrace.patterns.loss import Loss

if TYPE_CHECKING:
    from millrace.engines.spark.folders import Folder

Offsets = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> the offset after the last message."""
TOPIC_IDS = "topic-ids.json"
LAYOUT = "layout.json"
OF_SPARK = ("metadata", "offsets", "commits", "sources", "state")
FIRST_HEADER = "\0v1"
HEADER_LINES = 2


@dataclass(frozen=True)
class Committed:
    """The last completed batch of a query."""

    offsets: Offsets
    watermark_ms: int

    def clock_ms(self, disorder_ms: int) -> int:
        """The newest moment that moved the watermark; 0 before the first event."""
        return self.watermark_ms + disorder_ms + DISORDER_MARGIN_MS if self.watermark_ms else 0


class Checkpoint:
    """The checkpoint of one query; the files of a batch are read once."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._offsets, self._commits = folder.inner("offsets"), folder.inner("commits")
        self._source = folder.inner("sources").inner("0")
        self._last: int | None = None
        self.latest: Committed | None = None
        """The last completed batch at the last look."""

    def committed(self) -> Committed | None:
        """The last completed batch; None before the first."""
        last = self._last
        # Spark deletes old batches: if the last one is gone, so may be those after it. A list of all files is for that
        # case alone, since each name in it is a call into the JVM.
        if last is None or not self._commits.has(str(last)):
            last = max((int(name) for name in self._commits.names() if name.isdecimal()), default=None)
        while last is not None and self._commits.has(str(last + 1)):
            last += 1
        if last != self._last:
            self.latest = None if last is None else self._read(str(last))
            self._last = last
        return self.latest

    def take_up(self, layout: str, topics: Collection[str], *, goes_on: bool) -> None:
        """Make it one that a query of this layout can continue, which reads these topics. The query must not run.

        Spark fails at state of another layout. Then the query begins anew: at the offsets that it has reached, if it
        `goes_on`, or else with what the topics hold. Spark also fails at offsets of a topic that is read no more.
        """
        # An earlier build noted no layout: what it left is taken for this one.
        noted = self._noted()
        begins = noted.get("begins")
        if begins is None and noted.get("layout", layout) != layout:
            begins = self.reached() if goes_on else {}
        if begins is not None:
            # Noted first: after a crash the offsets are no longer where they were.
            self._folder.replace(LAYOUT, json.dumps({"layout": layout, "begins": begins}))
            for name in OF_SPARK:
                self._folder.delete(name)
            if begins:
                self._source.replace("0", _first(begins))
        if noted != {"layout": layout}:
            self._folder.replace(LAYOUT, json.dumps({"layout": layout}))
        self._last, self.latest = None, None
        self._keep(topics)

    def reached(self) -> Offsets:
        """The offsets to be read next; none if the query has not begun."""
        # After a crash in `take_up` the files of Spark are those of before, or some of them.
        if (begins := self._noted().get("begins")) is not None:
            return offsets_of(_first(begins))
        if committed := self.committed():
            return committed.offsets
        return offsets_of(self._source.read("0")) if self._source.has("0") else {}

    def _noted(self) -> Mapping[str, Any]:
        noted: Mapping[str, Any] = json.loads(self._folder.read(LAYOUT)) if self._folder.has(LAYOUT) else {}
        return noted

    def _keep(self, topics: Collection[str]) -> None:
        """Forget where the query has read other topics."""
        for folder, name in self._where():
            if folder.has(name) and (kept := only(text := folder.read(name), topics)) != text:
                folder.replace(name, kept)
                self._last, self.latest = None, None

    def skip(self, gaps: Sequence[Loss]) -> None:
        """Continue behind the gaps. The query must not run."""
        # The planned one first: after a crash, what is found in the other is found again.
        for (folder, name), is_planned in zip(reversed(self._where()), (True, False), strict=True):
            if folder.has(name):
                folder.replace(name, moved_behind(folder.read(name), gaps, is_planned=is_planned))
        self._last, self.latest = None, None

    def _where(self) -> Sequence[tuple[Folder, str]]:
        """Where the query has come to, and the batch behind it: that may be planned, and is then run as planned."""
        self.committed()
        if self._last is None:
            return (self._source, "0"), (self._offsets, "0")
        return (self._offsets, str(self._last)), (self._offsets, str(self._last + 1))

    def read_metadata(self) -> None:
        """Fail, with the error of the store, if the checkpoint cannot be read."""
        if self._folder.has("metadata"):
            self._folder.read("metadata")

    def topic_ids(self) -> Mapping[str, str]:
        """The ids of the topics that the query has read, as far as they were noted."""
        ids: Mapping[str, str] = json.loads(self._folder.read(TOPIC_IDS)) if self._folder.has(TOPIC_IDS) else {}
        return ids

    def note_topic_ids(self, ids: Mapping[str, str]) -> None:
        """Note the ids of the topics that the query reads."""
        self._folder.replace(TOPIC_IDS, json.dumps(ids))

    def _read(self, batch: str) -> Committed:
        watermark_ms = json.loads(self._commits.read(batch).splitlines()[1])["nextBatchWatermarkMs"]
        return Committed(offsets_of(self._offsets.read(batch)), watermark_ms)


def offsets_of(text: str) -> Offsets:
    """The offsets of a batch in all of its topics, from its file."""
    return {
        topic: {int(partition): offset for partition, offset in ends.items()}
        for _, topics in _topics(text.splitlines())
        for topic, ends in topics.items()
    }


def _first(begins: Mapping[str, Any]) -> str:
    """The file of where the first batch begins."""
    return f"{FIRST_HEADER}\n{json.dumps(begins, separators=(',', ':'))}"


def moved_behind(text: str, gaps: Sequence[Loss], *, is_planned: bool) -> str:
    """The file of a batch with its offsets moved behind the gaps, where they are not behind them already."""
    lines = text.splitlines()
    for i, topics in _topics(lines):
        for gap in gaps:
            reached, partition = topics.setdefault(gap.topic, {}), str(gap.partition)
            offset = reached.get(partition, gap.first)
            is_behind = is_planned and not gap.is_new_topic and gap.first <= offset <= gap.end
            reached[partition] = offset if is_behind else gap.first
        lines[i] = json.dumps(topics, separators=(",", ":"))
    return "\n".join(lines)


def only(text: str, kept: Collection[str]) -> str:
    """The file of a batch without the offsets of other topics."""
    lines = text.splitlines()
    for i, topics in _topics(lines):
        if not topics.keys() <= {*kept}:
            lines[i] = json.dumps({topic: topics[topic] for topic in topics if topic in kept}, separators=(",", ":"))
    return "\n".join(lines)


def _topics(lines: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The offsets of each Kafka source, with the number of its line."""
    header = 1 if lines[:1] == [FIRST_HEADER] else HEADER_LINES
    for i, line in enumerate(lines):
        if i >= header and line.startswith("{"):
            yield i, json.loads(line)
