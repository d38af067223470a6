"""`validate --continuous` judges a pattern segment by segment, and `verdicts` reads what it found: the ledger."""

from __future__ import annotations

import gc
import gzip
import math
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar

from millrace import deployments
from millrace.deployments import Earlier
from millrace.errors import InfraError, UsageError
from millrace.oracle import Record
from millrace.patterns import Variant, load
from millrace.patterns import topics as topics_of
from millrace.patterns.model import AT_MOST_ONCE
from millrace.patterns.plan import HOP, table_of
from millrace.rules import ALERTS, DEAD_LETTERS
from millrace.rules.layout import Forgotten
from millrace.rules.outputs import VERDICTS_TOPIC, WINDOWS_TOPIC
from millrace.settings import EVERY_S, SETTLE_S
from millrace.stores.files import Hdfs, NoFileError
from millrace.stores.tables import HBase
from millrace.stores.topics import Offsets, Publisher, Tail, ends, lengths, topic_ids
from millrace.target import ROOT, Target
from millrace.traffic.labels import Labels
from millrace.verbs import companions, lineage, traffic
from millrace.verbs.companions import BusyError
from millrace.verbs.segment_files import SegmentFiles
from millrace.verbs.undeployed import unrecorded
from millrace.verbs.validation import CLOCKS_DIFFER_MS, bounds_of, question_about
from millrace.verify import Bounds, Question, Versions
from millrace.verify.evidence import ENRICHED, FILES, table_key
from millrace.verify.ledger import chain, spoiling
from millrace.verify.ledger import state as states
from millrace.verify.ledger.chain import Chain, Entry, entry_of, unjudged
from millrace.verify.ledger.ids import Ids, IdsError
from millrace.verify.ledger.memory import IDS_LONGER_MS
from millrace.verify.ledger.segments import Segment, advance, anchored
from millrace.verify.ledger.state import State, StateError, entry_in
from millrace.verify.ledger.step import Cells, Inputs, Labelled, Limits, UnreadError
from millrace.verify.recorded import contradictions, span_ms
from millrace.verify.spoiling import Outcome
from millrace.verify.verdict import Check, unchecked

STATES_KEPT = 3
REACHED_BY = {"hdfs": "WEBHDFS_URL", "hbase": "HBASE_THRIFT_HOST"}
"""The address that a target must have for each store."""
FIRST_READ = 1_000
"""So many messages of each raw topic show when it begins."""
ENTRIES_READ = 100
"""So many of the last entries are read to continue."""
RETRIED_AFTER_S = 5.0


class UnfinishedError(InfraError):
    """No entry was what was waited for, though all servers answer."""


class Folder(Protocol):
    """Where the states of a ledger are."""

    @property
    def may_be_elsewhere(self) -> bool:
        """Whether they may be on another machine instead."""

    def read(self, name: str) -> bytes | None: ...
    def write(self, name: str, content: bytes) -> None: ...
    def remove(self, name: str) -> None: ...
    def names(self) -> Iterable[str]: ...


@dataclass(frozen=True)
class LocalFolder:
    """In the state folder of the stack."""

    path: Path
    may_be_elsewhere: bool = False

    def read(self, name: str) -> bytes | None:
        file = self.path / name
        return file.read_bytes() if file.exists() else None

    def write(self, name: str, content: bytes) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        unfinished = self.path / f"{name}.unfinished"
        unfinished.write_bytes(content)
        unfinished.replace(self.path / name)

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def names(self) -> Iterable[str]:
        return [file.name for file in self.path.glob("*")]


@dataclass(frozen=True)
class HdfsFolder:
    """On HDFS."""

    hdfs: Hdfs
    path: str
    may_be_elsewhere: bool = False

    def read(self, name: str) -> bytes | None:
        try:
            return self.hdfs.read(f"{self.path}/{name}")
        except NoFileError:
            return None

    def write(self, name: str, content: bytes) -> None:
        self.hdfs.write(f"{self.path}/{name}", content)

    def remove(self, name: str) -> None:
        self.hdfs.remove(f"{self.path}/{name}")

    def names(self) -> Iterable[str]:
        return [PurePosixPath(file.path).name for file in self.hdfs.files(self.path)]


@dataclass(frozen=True)
class StoredTables:
    """The tables of a pattern in HBase."""

    hbase: HBase
    bootstrap: str
    pattern: str
    topics: Mapping[str, str]
    """The intermediate topic and the alerts, by kind."""

    def forgotten(self) -> Forgotten:
        return _whole(lambda: self.hbase.forgotten(self.pattern))

    def rows(self, table: str, rows: Sequence[bytes]) -> Mapping[bytes, Cells]:
        return _whole(lambda: self.hbase.rows(table_of(self.pattern, table), rows)) if rows else {}

    def scan(self, table: str, start: bytes, stop: bytes, limit: int | None) -> Sequence[tuple[bytes, Cells]]:
        bounds = {"row_start": start or None, "row_stop": stop or None, "limit": limit}
        return _whole(lambda: list(self.hbase.scan(table_of(self.pattern, table), **bounds)))

    def now(self) -> tuple[int, Offsets]:
        return _whole(lambda: (int(time.time() * 1000), ends(self.bootstrap, self.topics)))


Answer = TypeVar("Answer")


def _whole(read: Callable[[], Answer]) -> Answer:
    """What a server answers, if it can be read."""
    try:
        return read()
    except InfraError as error:
        raise UnreadError(str(error)) from None
    except (KeyError, ValueError) as error:
        raise UnreadError(f"an answer of HBase is damaged: {error!r}") from None


def folder_of(target: Target, variant: Variant) -> Folder:
    """Where a pattern's states are: on HDFS, if the target has one, or else where it was deployed from."""
    if "WEBHDFS_URL" in target.addresses:
        return HdfsFolder(target.hdfs, f"{ROOT}/ledger/{variant.name}")
    is_deployed = deployments.deployed_file(target, variant.name).exists()
    return LocalFolder(target.settings.state / "ledger" / variant.name, may_be_elsewhere=not is_deployed)


def require_endless(variant: Variant) -> None:
    """Refuse a pattern that can be judged in a whole run only."""
    if variant.is_finite:
        raise UsageError(f"{variant.name} is a backfill, which ends; `millrace validate` judges it")
    if variant.pattern.promises.delivery == AT_MOST_ONCE:
        raise UsageError(
            f"{variant.name} promises at-most-once, and what a restart lost is found in a whole run only; "
            "`millrace validate` judges it"
        )


def follow(
    target: Target,
    name: str,
    *,
    every_s: float = EVERY_S,
    settle_s: float = SETTLE_S,
    limits: Limits | None = None,
    until: Callable[[Entry], bool] = lambda entry: False,
    within_s: float = math.inf,
    report: Callable[[str], None] = lambda line: None,
) -> Entry:
    """Judge a pattern's segments as they end, until an entry satisfies `until`; a server that is away is awaited."""
    limits, variant = limits or Limits(), deployments.as_deployed(target, name)
    with (
        alone(target, name),
        closing(Ledger(target, variant, every_s, settle_s, limits)) as ledger,
        lineage.segments(target, variant, report) as send,
    ):
        problem, deadline = "", time.monotonic() + within_s
        while time.monotonic() < deadline:
            try:
                entry = ledger.judge_next()
                problem = ""
            except InfraError as error:
                if str(error) != problem:
                    report(str(error))
                problem = str(error)
                ledger.close()
                time.sleep(RETRIED_AFTER_S)
                continue
            if entry is None:
                time.sleep(min(1.0, every_s / 10))
                continue
            report(line_of(entry))
            send(entry)
            if until(entry):
                return entry
        why = f"{name} was not judged far enough within {within_s:.0f} s{': ' if problem else ''}{problem}"
        raise InfraError(why) if problem else UnfinishedError(why)


def update(target: Target, name: str, *, report: Callable[[str], None] = lambda line: None) -> tuple[Entry, ...]:
    """Judge the segments that have ended since the last entry. None are judged while another process does it."""
    entries: list[Entry] = []
    try:
        variant = deployments.as_deployed(target, name)
        with (
            alone(target, name),
            closing(Ledger(target, variant, EVERY_S, SETTLE_S, Limits())) as ledger,
            lineage.segments(target, variant, report) as send,
        ):
            while (entry := ledger.judge_next()) is not None:
                report(f"{name} {line_of(entry)}")
                send(entry)
                entries.append(entry)
    except BusyError:
        pass
    return tuple(entries)


def written_since(target: Target, name: str, at_ms: float) -> tuple[Entry, ...]:
    """The entries that were written since then, by any validator, or else the last one."""
    with closing(Tail(target.bootstrap, _topic(name))) as tail:
        tail.skip_to(int(at_ms))
        values = [record.value for record in tail.new()]
    return chain.read(values, is_part=True, until_ms=_present_ms()).entries or latest(target, name).entries[-1:]


def until(
    target: Target, name: str, at_ms: int, *, within_s: float, report: Callable[[str], None] = lambda line: None
) -> Chain:
    """The chain from the last entry on, until all that arrived before that moment, and was due, is judged.

    It ends earlier at the deadline, if by then all messages from before that moment were read.
    """
    since = max(0, lengths(target.bootstrap, _topic(name))[VERDICTS_TOPIC] - 1)
    first = next((entry.number for entry in reversed(latest(target, name).entries)), 0) + 1
    deadline = time.monotonic() + within_s

    def is_whole(entry: Entry) -> bool:
        return entry.whole_until_ms >= at_ms

    try:
        follow(target, name, until=is_whole, within_s=within_s, report=report)
    except BusyError:
        while not any(map(is_whole, latest(target, name).entries[-1:])) and time.monotonic() < deadline:
            time.sleep(1)
    except UnfinishedError:
        pass
    found = verdicts(target, name, since)
    entries = tuple(entry for entry in found.entries if entry.number >= first)
    if not entries or entries[-1].cut_ms < at_ms:
        shown = f"`millrace verdicts {name}` shows how far its ledger is"
        raise InfraError(f"{name} was not judged far enough within {within_s:.0f} s; {shown}")
    if not any(entry.messages for entry in entries):
        # What was judged last stands.
        before = latest(target, name).entries
        newest = max((entry.number for entry in before if entry.messages), default=first)
        entries = tuple(entry for entry in before if entry.number >= newest) or entries
    return Chain(entries, found.breaks)


def verdicts(target: Target, name: str, since: int = 0) -> Chain:
    """The chain of a pattern's ledger, from an offset on, its last entry compared with its state."""
    topic, folder = _topic(name), folder_of(target, load(name))
    for _ in range(STATES_KEPT):
        written = lengths(target.bootstrap, topic)
        found = _compared(folder, _chain(target, name, since))
        # A validator may have gone on between the two.
        if not found.breaks or lengths(target.bootstrap, topic) == written:
            break
    return found


def _compared(folder: Folder, found: Chain) -> Chain:
    """The chain, broken also where its last entry is not the one with which its last state was written."""
    last = found.entries[-1] if found.entries else None
    try:
        if not any(name.startswith("state-") for name in folder.names()):
            if last is None or folder.may_be_elsewhere:
                return replace(found, uncompared="no state is there")
            return replace(found, breaks=(*found.breaks, "no state is there, and each entry is written after its own"))
        breaks = _missing(_ahead(folder, last))
        if last is not None:
            lines, why = _lines_of(folder, last)
            breaks += [why] if why else _foreign(last, entry_in(lines))
    except InfraError as error:
        return replace(found, uncompared=str(error))
    return replace(found, breaks=(*found.breaks, *breaks))


def _ahead(folder: Folder, last: Entry | None) -> list[str]:
    """The states of entries that are not there; a validator that was killed left that of the next one at most."""
    following = _name(1 if last is None else last.number + 1)
    return [name for name in folder.names() if name.startswith("state-") and name[: len(following)] > following]


def _missing(ahead: Sequence[str]) -> list[str]:
    return [f"the last entries are missing: their states are there, as far as {max(ahead)}"] if ahead else []


def _foreign(entry: Entry, written_with: str) -> list[str]:
    is_own = written_with in ("", entry.own)
    return [] if is_own else [f"entry {entry.number} is not the one that its state was written with"]


def _lines_of(folder: Folder, entry: Entry) -> tuple[list[bytes], str]:
    """The lines of the state behind an entry, or why they are none of it."""
    name = _name(entry.number)
    if (content := folder.read(name)) is None:
        return [], f"the state {name} is missing"
    try:
        lines = _unpacked(content)
    except (OSError, EOFError, zlib.error) as error:
        return [], f"the state {name} cannot be read: {error}"
    is_own = states.digest_of(lines) == entry.state
    return lines, "" if is_own else f"the state {name} is not the one that entry {entry.number} was written with"


def _chain(target: Target, name: str, since: int) -> Chain:
    """The chain in the topic alone."""
    with closing(Tail(target.bootstrap, _topic(name), {VERDICTS_TOPIC: {0: since}})) as tail:
        records = list(tail.new())
    found = chain.read((record.value for record in records), is_part=since > 0, until_ms=_present_ms())
    keys = [
        f"message {at} has the key {record.key!r}, not that of {name}"
        for at, record in enumerate(records)
        if record.key != name.encode()
    ]
    return replace(found, breaks=(*found.breaks, *keys))


def latest(target: Target, name: str) -> Chain:
    """Its last entries, by the topic alone."""
    return _chain(target, name, max(0, lengths(target.bootstrap, _topic(name))[VERDICTS_TOPIC] - ENTRIES_READ))


def self_test(target: Target, name: str) -> tuple[Outcome, ...]:
    """Spoil the last entries of a ledger and its last state in memory; nothing that is stored changes."""
    found = latest(target, name)
    if found.breaks:
        raise InfraError(f"{name}: only an unbroken ledger can be spoilt: {found.breaks[0]}")
    if not found.entries:
        return ()
    state = _name(found.entries[-1].number)
    if (content := folder_of(target, load(name)).read(state)) is None:
        raise InfraError(f"{name}: only a whole ledger can be spoilt: the state {state} is missing")
    return tuple(spoiling.outcomes(found.entries, _unpacked(content)))


def _present_ms() -> float:
    """The last moment at which a segment can have ended, by any clock."""
    return time.time() * 1000 + CLOCKS_DIFFER_MS


def _topic(name: str) -> dict[str, str]:
    return {VERDICTS_TOPIC: load(name).topic(VERDICTS_TOPIC)}


def forget(target: Target, variant: Variant) -> None:
    """Remove the states of a pattern whose data was removed."""
    folder = folder_of(target, variant)
    if isinstance(folder, HdfsFolder):
        folder.hdfs.remove(folder.path)
    elif isinstance(folder, LocalFolder):
        for file in folder.path.glob("*"):
            file.unlink()
    for file in _ids_file(target, variant).parent.glob(f"{variant.name}.ids*"):
        file.unlink()


@contextmanager
def alone(target: Target, name: str) -> Iterator[None]:
    """Hold the lock of a pattern's ledger: two validators would write two chains into one topic."""
    why = f"{name}: another validator is running; `millrace verdicts {name}` shows its ledger"
    with companions.only_one(companions.lock_of(target, name, deployments.VALIDATOR), why):
        yield


def line_of(entry: Entry) -> str:
    """An entry in a line."""
    until = time.strftime("%H:%M:%S", time.gmtime(entry.cut_ms / 1000))
    causes = f": {entry.causes[0]}" if entry.causes else ""
    waiting = sum(count for what, count in entry.pending.items() if what not in chain.NOT_DUE)
    return f"{entry.number} until {until} {entry.status}, {entry.messages} messages, {waiting} pending{causes}"


@dataclass
class Ledger:
    """A pattern's ledger while it is continued."""

    target: Target
    variant: Variant
    every_s: float
    settle_s: float
    limits: Limits
    state: State | None = None
    last: Entry | None = None
    causes: list[str] = field(default_factory=list)
    """Why the next segment cannot be judged, though the state is whole."""
    lacking: list[str] = field(default_factory=list)
    """Why the oracle has not seen all messages."""
    ahead: list[str] = field(default_factory=list)
    """The states of entries that are not there."""
    tail: Tail | None = None
    labels: dict[str, Labels | str] = field(default_factory=dict)
    """Of the run that was looked at last: its traffic is generated again for them."""
    earlier: Earlier | None = None
    """What was in force at the cut, where that was replaced since then."""

    def __post_init__(self) -> None:
        require_endless(self.variant)
        self.present = self.variant
        self.take(self.variant)
        # Only where ids are remembered; they are too many for memory.
        file = _ids_file(self.target, self.variant)
        self.ids = Ids(file) if self.variant.use.judged.id else None

    def take(self, variant: Variant) -> None:
        """Judge by these declarations."""
        self.variant, self.labels = variant, {}
        topics = topics_of(self.variant)
        self.topics = {kind: topic for kind, topic in topics.items() if kind != HOP}
        self.folder = folder_of(self.target, self.variant)
        wanted = [store for store in REACHED_BY if store in self.variant.stores]
        self.stores = tuple(store for store in wanted if REACHED_BY[store] in self.target.addresses)
        self.unreached = [store for store in wanted if store not in self.stores]
        folder, use, most = self.target.folder(self.variant), self.variant.use, self.limits.audited_file_rows
        self.files = SegmentFiles(self.target.hdfs, folder, use, most) if "hdfs" in self.stores else None

    def unmade(self) -> Iterator[Check]:
        """The checks of stores that the target has no address of."""
        names = {"hdfs": [FILES], "hbase": [table_key(table.name) for table in self.variant.use.tables]}
        for store in self.unreached:
            why = f"the target has no {REACHED_BY[store]}"
            yield from (unchecked(name, f"Does {store} hold what was accepted?", why) for name in names[store])

    def turn_to(self, cut_ms: int) -> None:
        """Judge by what was in force at a cut, as a validator has done that is not behind."""
        assert self.state is not None
        assert self.tail is not None
        try:
            self.earlier = deployments.earlier(self.target, self.variant.name, cut_ms)
        except InfraError as error:
            self.earlier = None
            self.lacking = list(dict.fromkeys((*self.lacking, str(error))))
        variant = self.earlier.variant if self.earlier else self.present
        if variant != self.variant:
            self.tail.close()
            self.take(variant)
            self.tail = Tail(self.target.bootstrap, self.topics, self.state.read)

    def close(self) -> None:
        """Forget what was read: the next segment begins with what is written down."""
        if self.tail is not None:
            self.tail.close()
        self.tail = self.state = None

    def judge_next(self) -> Entry | None:
        """Judge the next segment, if it has ended and settled."""
        if self.state is None and not self.resume():
            return None
        assert self.state is not None
        assert self.tail is not None
        cut_ms = self.cut_after(self.state.cut_ms)
        if cut_ms + self.settle_s * 1000 > time.time() * 1000:
            return None
        self.turn_to(cut_ms)
        self.begin_anew()
        state, before = self.state, self.tail.positions
        question, gone = self.question(cut_ms), self.gone(self.state)
        lacking, causes = self.lacking + gone, self.causes + self.lacking + gone
        if lost := [f"{each.offsets} of {each}, which was accepted as lost" for each in question.lost]:
            lacking = [*lacking, *lost]
        if lacking:
            state.assumed, state.assumed_since_ms = lacking[0], cut_ms
        self.causes, self.lacking = [], []
        with _uncollected():
            segment = advance(state, question, self.inputs(cut_ms), cut_ms, self.limits)
            segment = replace(segment, checks=(*segment.checks, *self.unmade()))
            state.read = self.tail.positions
            entry = self.entry(segment, before, causes)
            state.entry = entry.own
            written, digest = states.packed(states.lines(state))
        entry = replace(entry, state=digest)
        number = 1 if self.last is None else self.last.number + 1
        if self.ids is not None:
            self.folder.write(_ids_name(number), states.packed(self.ids.added())[0])
        self.folder.write(_name(number), written)
        topic, key = self.variant.topic(VERDICTS_TOPIC), self.variant.name.encode()
        self.publisher.publish([(topic, key, entry.to_json().encode())])
        self.last = entry
        self.forget(number, cut_ms)
        return entry

    def forget(self, number: int, cut_ms: int) -> None:
        """Remove what the next segments do not need; what a server that is away keeps does no harm."""
        with suppress(InfraError):
            for name in (_name(number - STATES_KEPT), *self.ahead):
                self.folder.remove(name)
            self.ahead = []
        if self.ids is not None:
            self.ids.keep(number)
            for old in self.ids.forget(cut_ms - self.variant.use.judged.remembered_ms - IDS_LONGER_MS):
                with suppress(InfraError):
                    self.folder.remove(_ids_name(old))

    def entry(self, segment: Segment, before: Offsets, causes: Sequence[str]) -> Entry:
        """The entry of a segment that was judged, or that could not be judged for these causes; without the state."""
        assert self.state is not None
        offsets = {
            kind: {str(number): (before.get(kind, {}).get(number, 0), to) for number, to in own.items()}
            for kind, own in self.state.read.items()
        }
        if causes:
            return unjudged(segment, offsets, causes, "", self.last)
        return entry_of(segment, offsets, self.versions(), "", self.last, self.state.assumed)

    def resume(self) -> bool:
        """Continue from the last entry and its state; without one from the first message, if there is any."""
        self.publisher = Publisher(self.target.bootstrap)
        self.last, self.causes = self.last_entry()
        self.ahead = _ahead(self.folder, self.last)
        self.causes += _missing(self.ahead)
        state, self.lacking = None, []
        if self.last is not None:
            state, why = self.state_of(self.last)
            self.lacking += [why] if why else []
            self.causes += _foreign(self.last, state.entry) if state is not None else []
        if state is None:
            state = self.anchor()
        if state is None:
            return False
        self.state = state
        self.tail = Tail(self.target.bootstrap, self.topics, state.read)
        return True

    def last_entry(self) -> tuple[Entry | None, list[str]]:
        """The last entry of the ledger, and why it cannot be continued."""
        topic = {VERDICTS_TOPIC: self.variant.topic(VERDICTS_TOPIC)}
        since = max(0, lengths(self.target.bootstrap, topic)[VERDICTS_TOPIC] - ENTRIES_READ)
        with closing(Tail(self.target.bootstrap, topic, {VERDICTS_TOPIC: {0: since}})) as tail:
            records = list(tail.new())
        messages = [record.value for record in records]
        entries = chain.read(messages, until_ms=_present_ms()).entries
        last, before = [None, None, *entries][-1], [None, None, *entries][-2]
        # An older break is known: it made an entry unknown when it was new.
        own = [] if last is None else list(chain.broken(last, before, is_part=since > 0))
        if messages and (last is None or messages[-1] != last.to_json().encode()):
            own = ["its last message is no entry of a segment that has ended"]
        elif records and records[-1].key != self.variant.name.encode():
            own = [f"its last message has the key {records[-1].key!r}"]
        return last, [f"the chain is broken: {each}" for each in own]

    def state_of(self, entry: Entry) -> tuple[State | None, str]:
        """The state behind an entry, or why it cannot be used."""
        lines, why = _lines_of(self.folder, entry)
        if why:
            return None, why
        try:
            self.take_ids(entry.number)
            return states.read(lines, self.ids), ""
        except (OSError, EOFError, zlib.error, StateError, IdsError) as error:
            return None, f"the state {_name(entry.number)} cannot be read: {error}"

    def take_ids(self, number: int) -> None:
        """Take in the ids up to a segment that the database lacks."""
        if self.ids is None:
            return
        self.ids.back_to(number)
        lacking: list[tuple[int, bytes]] = []
        for each in range(number, self.ids.kept[0], -1):
            piece = self.folder.read(_ids_name(each))
            if piece is None:
                break
            lacking.append((each, piece))
        for each, piece in reversed(lacking):
            self.ids.take(each, _unpacked(piece))

    def begin_anew(self) -> None:
        """Begin again without memory if a topic was created anew: its offsets mean other messages."""
        assert self.state is not None
        assert self.tail is not None
        ids, was = topic_ids(self.target.bootstrap, self.topics), self.state.topic_ids
        if anew := {kind for kind, identity in ids.items() if was.get(kind, identity) != identity}:
            state = self.anchor(anew)
            if state is None:
                raise InfraError(f"{self.variant.name}: its topics were created anew, and have no message yet")
            self.lacking += [f"{self.topics[kind]} was deleted and created anew" for kind in sorted(anew)]
            self.tail.close()
            self.state, self.tail = state, Tail(self.target.bootstrap, self.topics, state.read)
        self.state.topic_ids = ids

    def anchor(self, anew: Collection[str] = ()) -> State | None:
        """A state without memory: from the last entry's messages on, or from the first that the topics have.

        The topics of the kinds in `anew` were created anew since then.
        """
        with closing(Tail(self.target.bootstrap, self.topics)) as tail:
            firsts = {kind: {at: first for at, (first, _) in own.items()} for kind, own in tail.spans().items()}
        question = self.question(0)
        if self.ids is not None:
            self.ids.clear()
        if self.last is not None:
            reached = {
                kind: {int(number): to for number, (_, to) in own.items()} for kind, own in self.last.offsets.items()
            }
            again = {kind: firsts[kind] for kind in (*anew, *(each.name for each in self.variant.use.references))}
            return anchored(question, self.last.cut_ms, {**reached, **again}, self.ids)
        first_ms = self.first_ms(firsts)
        if first_ms is None:
            return None
        state = anchored(question, self.cut_after(first_ms) - round(self.every_s * 1000), firsts, self.ids)
        if any(at for each in self.variant.use.raw for at in firsts[each.name].values()):
            self.lacking.append("the first messages were deleted before the ledger began")
        return state

    def first_ms(self, firsts: Offsets) -> int | None:
        """When the first messages arrived that the raw topics have; an older one is judged with the first segment."""
        found = []
        for each in self.variant.use.raw:
            topic = {each.name: self.topics[each.name]}
            with closing(Tail(self.target.bootstrap, topic, {each.name: firsts[each.name]})) as tail:
                found += [record.ingest_ms for record in islice(tail.new(), FIRST_READ)]
        return min(found, default=None)

    def cut_after(self, at_ms: int) -> int:
        """The end of the segment that begins then: whichever validator judges it, it ends there."""
        every_ms = round(self.every_s * 1000)
        return (at_ms // every_ms + 1) * every_ms

    def gone(self, state: State) -> list[str]:
        """What was deleted before it was read, and what was read that is there no longer at the end of its topic."""
        assert self.tail is not None
        references = {each.name for each in self.variant.use.references}
        found = []
        for kind, own in self.tail.spans().items():
            read, topic = state.read.get(kind, {}), self.topics[kind]
            lost = sum(max(0, first - read.get(number, 0)) for number, (first, _) in own.items())
            if lost and kind not in references:
                found.append(f"{lost} messages of {topic} were deleted before they were judged")
            if cut := sum(max(0, read.get(number, 0) - end) for number, (_, end) in own.items()):
                found.append(f"{topic} ends {cut} messages before those that were judged: what comes there is not read")
        return found

    def inputs(self, cut_ms: int) -> Inputs:
        """The messages of the next segment."""
        assert self.tail is not None
        assert self.state is not None
        use = self.variant.use
        parts: dict[str, list[Record]] = {kind: [] for kind in self.topics}
        for record in self.tail.new(cut_ms):
            parts[record.topic].append(record)
        outputs = {ENRICHED: parts[use.enriched.name]}
        outputs |= {kind: parts[kind] for kind in (ALERTS.name, DEAD_LETTERS.name, WINDOWS_TOPIC)}
        kinds = {topic: kind for kind, topic in self.topics.items()}
        files, wrong = self.files.new(self.state, cut_ms) if self.files else ([], [])
        raw = {each.name: parts[each.name] for each in (*use.raw, *use.references)}
        rows = [row for file in files if not file.is_rewritten for row in file.rows]
        rewritten = [row for file in files if file.is_rewritten for row in file.rows]
        wrong += [each for file in files for each in file.wrong]
        again, unread = self.files.again(self.state, cut_ms) if self.files else (None, [])
        own = self.tail.positions
        partitions = {kind: len(own[kind]) for kind in raw if kind in own}
        # How many there are now need not be what older messages were written to.
        if time.time() * 1000 < cut_ms + Bounds.held_ms:
            partitions |= {kind: len(own[use.enriched.name if kind == ENRICHED else kind]) for kind in outputs}
        labelled, tables, hiding = self.labelled(cut_ms), self.tables(), self.hiding()
        return Inputs(raw, outputs, kinds, rows, rewritten, wrong, again, unread, labelled, tables, partitions, hiding)

    def hiding(self) -> list[str]:
        """The messages dated ahead that end what was read of their partitions: those behind them are not judged yet."""
        assert self.tail is not None
        now_ms, reached = round(time.time() * 1000), self.tail.positions
        return [
            f"{self.topics[kind]}-{number}@{at} is dated more than {CLOCKS_DIFFER_MS // 1000} s ahead, and what "
            "follows it is not judged until then"
            for kind, own in self.tail.after(now_ms + CLOCKS_DIFFER_MS).items()
            for number, at in own.items()
            if at == reached.get(kind, {}).get(number)
        ]

    def tables(self) -> StoredTables | None:
        """The tables of the pattern, if it has any."""
        if "hbase" not in self.stores:
            return None
        topics = {ENRICHED: self.topics[self.variant.use.enriched.name], ALERTS.name: self.topics[ALERTS.name]}
        return StoredTables(self.target.hbase, self.target.bootstrap, self.variant.name, topics)

    def labelled(self, cut_ms: int) -> list[Labelled] | str:
        """The labelled runs that ended before the cut and are not judged, with the alerts since each began.

        A run is recorded when it has ended, so a segment that was judged before holds none of it. One whose first
        alerts the topic may have deleted is not left out in silence. Where the record is damaged, or lacks a line, the
        result is the complaint: its runs are judged after it is mended.
        """
        assert self.state is not None
        name, topic = self.variant.name, {ALERTS.name: self.topics[ALERTS.name]}
        since_ms = cut_ms - self.variant.pattern.retention_hours * 3_600_000
        try:
            in_force, runs = self.in_force(), traffic.runs(self.target.settings, name)
        except InfraError as error:
            return str(error)
        if gaps := traffic.gaps(self.target.settings, name):
            return "; ".join(gaps)
        found = []
        for run in runs:
            identity, (start_ms, until_ms) = f"{run.name}@{run.start_ms}", span_ms(run)
            if "plan" not in run.about or identity in self.state.labelled:
                continue
            if run.is_complete and until_ms > time.time() * 1000 + CLOCKS_DIFFER_MS:
                found.append(Labelled(identity, cut_ms, f"it is recorded as complete, and ends at {until_ms}"))
                continue
            if not since_ms <= until_ms <= cut_ms:
                continue
            if start_ms < since_ms:
                found.append(Labelled(identity, until_ms, "it began before the oldest alert that the topic still has"))
                continue
            labels: Labels | str = next(contradictions(run), "")
            if not labels:
                if identity not in self.labels:
                    self.labels = {identity: traffic.labels(self.variant.use, run)}
                labels = traffic.labels_in_force(self.labels[identity], run, in_force)
            with closing(Tail(self.target.bootstrap, topic)) as tail:
                tail.skip_to(start_ms - CLOCKS_DIFFER_MS)
                alerts = [record for record in tail.new(cut_ms) if record.value]
            found.append(Labelled(identity, until_ms, labels, alerts, start_ms, run.by_topic))
        return found

    def question(self, cut_ms: int) -> Question:
        """The pattern as it was deployed at the cut."""
        name = self.variant.name
        in_force = self.recorded(self.in_force)
        away_ms = self.recorded(lambda: deployments.away_ms(self.target, name))
        question = question_about(self.variant, bounds_of(self.variant), in_force)
        # By the time of the topics, so that a segment is the same whenever it is judged.
        kept_since_ms = cut_ms - self.variant.pattern.retention_hours * 3_600_000
        # With the first segment all losses from before it count, later each once.
        since_ms = self.state.cut_ms if self.state is not None and self.state.number else -math.inf
        lost = self.recorded(lambda: deployments.losses(self.target, name, since_ms, cut_ms))
        return replace(
            question,
            stores=self.stores,
            kept_since_ms=kept_since_ms,
            earlier=deployments.earlier_windows(self.target, name) if in_force else {},
            away_ms=away_ms,
            undeployed=[*unrecorded(self.target, self.variant, in_force, away_ms)],
            lost=[each for own in lost.values() for each in own],
        )

    def in_force(self) -> Mapping[str, Versions]:
        """The rules and summaries that had other versions before those by which the segment is judged."""
        before_ms = self.earlier.until_ms if self.earlier else math.inf
        return deployments.in_force(self.target, self.variant.name, before_ms)

    def recorded(self, read: Callable[[], Mapping[str, Answer]]) -> Mapping[str, Answer]:
        """What is recorded of the deployments; where that is damaged nothing, and the segment is unknown."""
        try:
            return read()
        except InfraError as error:
            self.lacking = list(dict.fromkeys((*self.lacking, str(error))))
            return {}

    def versions(self) -> Mapping[str, str]:
        if self.earlier:
            return self.earlier.versions
        found: dict[str, str] = {}
        for plan in deployments.deployed(self.target, self.variant.name).values():
            found |= plan.versions
        return found


@contextmanager
def _uncollected() -> Iterator[None]:
    """Look for no cycles meanwhile: a segment makes millions of objects and none, and the search takes a third more."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _name(number: int) -> str:
    return f"state-{number:08d}.jsonl.gz"


def _ids_name(number: int) -> str:
    return f"ids-{number:08d}.jsonl.gz"


def _ids_file(target: Target, variant: Variant) -> Path:
    return target.settings.state / "ledger" / f"{variant.name}.ids"


def _unpacked(content: bytes) -> list[bytes]:
    return gzip.decompress(content).split(b"\n")
