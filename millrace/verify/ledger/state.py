"""What a verdict in segments has to remember between two of them, as data: JSON lines with a digest."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import islice
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from millrace import oracle
from millrace.oracle import Finding, Judged, Origin, Record
from millrace.rules.layout import Mark
from millrace.verify.evidence import Event
from millrace.verify.expected import Arrival
from millrace.verify.ledger.ids import Ids

VERSION = 1
"""Of the lines; a state of another version is not read."""
PACKED_AT_ONCE = 1000
"""So many lines are in memory while a state is written."""
Output = tuple[Record, Event]
"""A message of an output, and the object that it holds."""


class StateError(Exception):
    """A state that cannot be read, or is another than its digest names."""


@dataclass(slots=True)
class Unit:
    """A raw message that is not judged yet: some of its outputs may still come."""

    since_ms: int
    """The cut of the segment in which it arrived."""
    judged: Judged
    arrived_ms: int
    """When it arrived; where a clock was set back, when those before it did."""
    copies: list[Output] = field(default_factory=list)
    letters: list[Output] = field(default_factory=list)
    behind_ms: int | None = None
    """How far it is behind the newest event that may have been read before it, once that is certain."""
    surely_behind_ms: int | None = None
    """The same by the order of arrival."""
    out_behind_ms: int = 0
    """The same by the order in which the events came out."""
    apart: Sequence[str] | None = None
    """The rules with a step that may have read it, or an earlier event of its key, apart from another stream; None
    until all that may have been read before it has come."""


@dataclass(slots=True)
class Counted:
    """An accepted event, as long as a window that counts it is not judged."""

    event: Event
    """The fields that windows read."""
    out_ms: int = 0
    """When its last copy reached the intermediate topic."""
    behind_ms: int | None = None
    surely_behind_ms: int = 0
    out_behind_ms: int = 0
    is_late: bool = False
    record: Record | None = None
    """Kept of an event that may rightly be called late: its dead letter carries it."""
    windows: list[str] = field(default_factory=list)
    """The rules and summaries with a window of it that is not judged yet."""
    copies: int = 0
    """How often it came out."""
    place: list[int] | None = None
    """Partition and offset of its last copy; None also if an earlier version did not take it down."""
    left: list[str] = field(default_factory=list)
    """The rules that no longer count it, because it is late: their alerts from before a restart may count it."""
    raced: list[str] = field(default_factory=list)
    """Those of them whose windows with it are not over, if no order of arrival shows that it is late."""


@dataclass
class Done:
    """What came out of the judged messages of one partition: a digest each, to compare later copies with."""

    base: int
    """The offset of the first."""
    digests: array[int] = field(default_factory=lambda: array("Q"))
    stored: bytearray = field(default_factory=bytearray)
    """How many rows of the files each has."""

    def get(self, offset: int) -> int | None:
        """The digest of what came out of a message; None if it is older than the first, or not judged."""
        at = offset - self.base
        return self.digests[at] or None if 0 <= at < len(self.digests) else None

    @property
    def end(self) -> int:
        """The offset behind the last."""
        return self.base + len(self.digests)

    def put(self, offset: int, digest: int) -> None:
        at = offset - self.base
        if at >= len(self.digests):
            more = at - len(self.digests) + 1
            self.digests.extend([0] * more)
            self.stored.extend(bytes(more))
        if at >= 0:
            self.digests[at] = digest

    def store(self, offset: int) -> int:
        """Count a row of a message; returns how many there are."""
        at = offset - self.base
        self.stored[at] = min(255, self.stored[at] + 1)
        return self.stored[at]

    def unstored(self, before: int) -> Iterator[tuple[int, int]]:
        """The messages before an offset that have no row, and their digests."""
        for at in range(min(before - self.base, len(self.digests))):
            if not self.stored[at]:
                yield self.base + at, self.digests[at]

    def forget(self, before: int) -> None:
        """Remove what came out of messages before an offset."""
        gone = max(0, min(before - self.base, len(self.digests)))
        del self.digests[:gone]
        del self.stored[:gone]
        self.base = max(self.base, before)


@dataclass
class Reading:
    """What a table showed of a row, or of a group of rows, that was not what the messages up to the cut left."""

    at_ms: int
    ends: dict[str, dict[str, int]]
    """Kind -> partition -> the end of the topic then: only a message before it may explain what was shown."""
    expected: list[int]
    """The number and sum of digests of the rows of a group, or of the alerts of a key, that should have been there."""
    rows: dict[str, int] = field(default_factory=dict)
    """Of a group: the digests of its rows that no later event explains so far."""
    cells: dict[str, str] = field(default_factory=dict)
    """Of the row of a key."""
    open: list[str] = field(default_factory=list)
    """Its columns that no later message explains so far."""


@dataclass
class Waiting:
    """A row, or a group of rows, that a table has not yet shown right."""

    due_ms: int
    """The cut from which on it is wrong."""
    is_taken_over: bool = False
    """Whether it is taken as it is, because the ledger has not seen all that it holds."""
    is_reported: bool = False
    """Whether it was red."""
    forms: list[int] = field(default_factory=list)
    """The digests that the row of an event may have."""
    origin: Origin | None = None
    """The raw message of this event."""
    passed: dict[str, list[Any]] = field(default_factory=dict)
    """What the columns of a key may show: what they were when it began to wait, and since then."""
    reading: Reading | None = None


@dataclass
class Held:
    """What the messages have left in the row of a key."""

    values: dict[str, list[Any]] = field(default_factory=dict)
    """By state; more than one of an event that came out in several forms."""
    orders: dict[str, list[int]] = field(default_factory=dict)
    """When the last values arrived."""
    alerts: list[int] = field(default_factory=lambda: [0, 0])
    """How many, and the sum of their digests."""
    excused: dict[str, str | None] = field(default_factory=dict)
    """Cells that were red, or that are older than the ledger: as long as they show this, they are not red again."""


@dataclass
class TableState:
    """What must be in a table of HBase, and how far it was compared."""

    version: str
    """Of its declaration."""
    is_known: bool
    """Whether the ledger has seen all that it holds; else the next round of the audit takes over what is there."""
    cursor: str = ""
    """The row at which the next slice of the audit begins."""
    rounds: int = 0
    """How often the audit has read the whole table."""
    waiting: dict[str, Waiting] = field(default_factory=dict)
    """By row."""
    unsure: dict[str, Waiting] = field(default_factory=dict)
    """By group."""
    groups: dict[str, list[int]] = field(default_factory=dict)
    """The rows of events that were right, by the first part of the row key: their number and the sum of digests."""
    held: dict[str, Held] = field(default_factory=dict)
    """The rows of keys."""
    seen: dict[int, Done] = field(default_factory=dict)
    """By partition the digests of the rows of events, to recognise later copies."""
    alerts: dict[str, int] = field(default_factory=dict)
    """The last alerts by id, with the cut at which they came."""


@dataclass
class Folder:
    """The rows of the files of an hour."""

    rows: int = 0
    total: int = 0
    """The sum of their digests."""
    is_known: bool = False
    """Whether the ledger has seen all of them; else the audit takes over what is there."""

    def add(self, digest: int) -> None:
        self.rows += 1
        self.total = (self.total + digest) % (1 << 64)


@dataclass
class Audit:
    """How far the files of an hour were read again."""

    folder: str = ""
    listing: str = ""
    """A digest of the names, sizes and times of its files; empty before the first and behind the last of them."""
    path: str = ""
    """The file that is read next."""
    row: int = 0
    """The row of it at which the next slice begins."""
    found: Folder = field(default_factory=Folder)
    again: list[str] = field(default_factory=list)
    """The folders that come first, because files of them have changed."""


@dataclass
class State:
    """All that judging the next segment needs besides its messages."""

    oracle: oracle.State
    number: int = 0
    """Of the segments that were judged."""
    cut_ms: int = 0
    """Until when messages were judged, by the time at which their topics had them."""
    entry: str = ""
    """The digest of the entry with which it was written, but for that of the state; empty if not taken down."""
    read: dict[str, dict[int, int]] = field(default_factory=dict)
    """Kind -> partition -> the next offset to read."""
    topic_ids: dict[str, str] = field(default_factory=dict)
    """By kind, of the topics that were read; empty if an earlier version did not take them down."""
    partitions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """How many each topic of outputs has, by kind, and the first cut at which it had them; 0 if that was always so."""
    read_to: dict[tuple[str, int], int] = field(default_factory=dict)
    """The offset behind the last raw message by kind and partition."""
    arrival: Arrival = field(default_factory=Arrival)
    views: dict[tuple[str, str], list[tuple[int, Event]]] = field(default_factory=lambda: defaultdict(list))
    """The last events of the other streams by topic and key, with their time of arrival."""
    apart: dict[str, list[str]] = field(default_factory=dict)
    """By key the rules with a step that may have read an event of it apart from another stream."""
    moved_ms: dict[int, int] = field(default_factory=dict)
    """The newest moment of the raw messages by partition."""
    moved_out_ms: dict[int, int] = field(default_factory=dict)
    """The newest moment of the enriched events by partition of their topic."""
    newest: dict[int, int] = field(default_factory=dict)
    """The newest moment by partition, of all that windows have counted."""
    arrived_ms: dict[int, int] = field(default_factory=dict)
    """The newest time of arrival by partition, of the same."""
    passed_ms: int = 0
    """The event time that every partition has passed: windows before it are judged."""
    units: dict[Origin, Unit] = field(default_factory=dict)
    counted: dict[Origin, Counted] = field(default_factory=dict)
    behind: dict[Origin, int] = field(default_factory=dict)
    """Events that came behind judged windows, with the cut of their arrival: each is late, or windows stood still."""
    shown: list[list[int]] = field(default_factory=list)
    """How far the windows' outputs had shown that they were, by the cut until which they were there."""
    outputs: list[tuple[str, int, Output]] = field(default_factory=list)
    """Outputs whose raw message is not known yet: kind, the cut at which they came, the message."""
    alerts: dict[str, list[tuple[int, Output]]] = field(default_factory=dict)
    """Alerts by id whose event or window is not judged yet, with the cut at which they came."""
    rows: dict[str, list[tuple[int, Output]]] = field(default_factory=dict)
    """Rows of summaries by the JSON of their key, the same."""
    due_since: dict[str, int] = field(default_factory=dict)
    """Windows that are over but lack a right output, with the first cut at which they were."""
    counting: dict[str, str] | None = field(default_factory=dict)
    """How each rule and summary counted events; None if that is not known."""
    whole_since: dict[str, int] = field(default_factory=dict)
    """By rule or summary that counted otherwise before: windows that begin earlier are not judged."""
    versions: dict[str, str] | None = field(default_factory=dict)
    """Of the rules on single events; None if they are not known."""
    edges: dict[str, list[int]] = field(default_factory=dict)
    """Of memories that began under way: which messages of other streams they lack."""
    came_out_ms: int = 0
    """The newest time of arrival of what has come out."""
    back: dict[str, int] = field(default_factory=dict)
    """Memories that the job has again, and since when: what is left of the earlier ones is not known."""
    open_then: dict[tuple[str, str], list[list[int]]] = field(default_factory=dict)
    """Windows that held an event from before a change, by rule and key, or summary and row: the span, and the cut."""
    undecided: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """Rule, key and id, or place, of the events that waited for their outputs when the rule changed, and the cut."""
    done: dict[tuple[str, int], Done] = field(default_factory=dict)
    """By kind and partition."""
    done_alerts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Judged alerts by id: digest and cut."""
    done_late: dict[Origin, list[int]] = field(default_factory=dict)
    """Judged late dead letters: their cut, and digests of their facts and of what they carry."""
    refused: dict[Origin, list[int]] = field(default_factory=dict)
    """The reference data that was refused, for good: the digest of its dead letter."""
    varied: dict[Origin, list[int]] = field(default_factory=dict)
    """Events that came out in several forms: another order of arrival across topics. The cut, and their digests."""
    forms: dict[Origin, list[int]] = field(default_factory=dict)
    """Events that may be seen in several ways beside the other streams: the cut, and digests of what each shows."""
    flags: dict[Origin, list[Any]] = field(default_factory=dict)
    """Events that show rules, in one form at least: the cut, and the rules that each form shows."""
    sampled_ms: int = 0
    """The last cut at which these digests were not kept of all such events: the others may show anything."""
    done_rows: dict[str, tuple[Any, Any, int, list[Event], int]] = field(default_factory=dict)
    """Judged rows by the JSON of their key: the numbers of the events in time, those of all events, when the first
    event arrived, the late events, the cut."""
    cuts: list[tuple[int, dict[str, dict[int, int]]]] = field(default_factory=list)
    """The last cuts, and the next offset of each raw partition at each."""
    races: list[dict[str, int]] = field(default_factory=list)
    """Of the last segments: how many events were judged, and how many raced in each check."""
    began: dict[tuple[str, int], int] = field(default_factory=dict)
    """By kind and partition the first offset since which it is known which rows the files have had."""
    missing: dict[Origin, int] = field(default_factory=dict)
    """The accepted events that no file held in time, and the cut at which that was red."""
    files: dict[str, int] = field(default_factory=dict)
    """The files that were read lately, and when they were written; negative for one that is gone."""
    folders: dict[str, Folder] = field(default_factory=dict)
    """What the files of each hour hold."""
    folders_version: str = ""
    """Of what a row's digest depends on."""
    stored_since: dict[tuple[str, int], int] | None = field(default_factory=dict)
    """By kind and partition the first offset whose row must be in the files; None while files are not judged."""
    has_all_files: bool = True
    """Whether the ledger has seen each file since the first."""
    audit: Audit = field(default_factory=Audit)
    assumed: str = ""
    """Why what the oracle remembers may lack messages; empty if it lacks none."""
    assumed_since_ms: int = 0
    """The first cut for which that holds."""
    labelled: list[str] = field(default_factory=list)
    """The runs of labelled traffic that are judged."""
    arrived: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    """How many raw messages came until each cut, by kind, without canaries and those of judged runs."""
    tables: dict[str, TableState] = field(default_factory=dict)
    """By table."""
    marks: dict[str, Mark] = field(default_factory=dict)
    """The keys that were forgotten, by the rows of their marks."""
    marks_ms: int = 0
    """The last cut after which the marks were read; 0 before the first."""


def lines(state: State) -> Iterator[bytes]:
    """The state as JSON lines, in an order that depends on the judged messages alone."""
    head = {
        "version": VERSION,
        "number": state.number,
        "cut_ms": state.cut_ms,
        "entry": state.entry,
        "read": state.read,
        "topic_ids": state.topic_ids,
        "partitions": state.partitions,
        "read_to": _pairs(state.read_to),
        "latest_ms": _pairs(state.arrival.latest_ms),
        "following": _pairs(state.arrival.following),
        "moved_ms": _pairs(state.moved_ms),
        "moved_out_ms": _pairs(state.moved_out_ms),
        "newest": _pairs(state.newest),
        "arrived_ms": _pairs(state.arrived_ms),
        "passed_ms": state.passed_ms,
        "sampled_ms": state.sampled_ms,
        "behind": _pairs(state.behind),
        "shown": state.shown,
        "due_since": state.due_since,
        "counting": state.counting,
        "whole_since": state.whole_since,
        "versions": state.versions,
        "open_then": _pairs(state.open_then),
        "edges": state.edges,
        "came_out_ms": state.came_out_ms,
        "back": state.back,
        "undecided": [[*event, cut_ms] for event, cut_ms in state.undecided.items()],
        "cuts": state.cuts,
        "races": state.races,
        "began": _pairs(state.began),
        "missing": _pairs(state.missing),
        "has_refused": True,
        "files": state.files,
        "folders": {name: list(vars(each).values()) for name, each in state.folders.items()},
        "folders_version": state.folders_version,
        "stored_since": None if state.stored_since is None else _pairs(state.stored_since),
        "has_all_files": state.has_all_files,
        "audit": asdict(state.audit),
        "assumed": state.assumed,
        "assumed_since_ms": state.assumed_since_ms,
        "labelled": state.labelled,
        "arrived": state.arrived,
        "marks_ms": state.marks_ms,
        "references": list(state.oracle.references),
        "ids": ids.digest if isinstance(ids := state.oracle.seen_ms, Ids) else None,
    }
    yield _line(head)
    for kind, known in state.oracle.references.items():
        yield from (_plain(["reference", kind, key, event]) for key, event in known.items())
    yield from (_plain(["memory", key, held]) for key, held in state.oracle.memories.items())
    yield from (_line(["folded", *key, held]) for key, held in state.oracle.folded.items())
    if isinstance(ids, dict):
        yield from (_plain(["id", *key, at_ms]) for key, at_ms in ids.items())
    yield from (_plain(["view", *key, seen]) for key, seen in state.views.items())
    yield from (_plain(["apart", key, rules]) for key, rules in state.apart.items())
    yield from (_plain(["unit", _unit(unit)]) for unit in state.units.values())
    yield from (_plain(["counted", origin, _counted(each)]) for origin, each in state.counted.items())
    yield from (_line(["output", kind, cut_ms, _output(found)]) for kind, cut_ms, found in state.outputs)
    for name, waiting in (("alert", state.alerts), ("row", state.rows)):
        yield from (_line([name, key, [[cut, _output(o)] for cut, o in found]]) for key, found in waiting.items())
    for (kind, partition), done in state.done.items():
        packed = base64.b64encode(done.digests.tobytes()).decode()
        yield _line(["done", kind, partition, done.base, packed, base64.b64encode(done.stored).decode()])
    yield from (_plain(["done alert", key, *found]) for key, found in state.done_alerts.items())
    for part in ("done late", "varied", "forms", "flags", "refused"):
        yield from (_plain([part, *origin, *each]) for origin, each in _of_events(state)[part].items())
    yield from (_plain(["done row", key, *found]) for key, found in state.done_rows.items())
    yield from (_line(["mark", row, mark.until_ms, mark.times]) for row, mark in state.marks.items())
    for name, table in state.tables.items():
        yield _line(["table", name, table.version, table.is_known, table.cursor, table.rounds])
        for part in ("waiting", "unsure", "held"):
            yield from (_line([part, name, key, asdict(each)]) for key, each in getattr(table, part).items())
        yield from (_line(["group", name, key, *found]) for key, found in table.groups.items())
        yield from (_line(["alert of table", name, key, cut_ms]) for key, cut_ms in table.alerts.items())
        for partition, done in table.seen.items():
            yield _line(["seen", name, partition, done.base, base64.b64encode(done.digests.tobytes()).decode()])


def packed(written: Iterable[bytes]) -> tuple[bytes, str]:
    """The lines in a file, and their digest."""
    lines, file, found = iter(written), io.BytesIO(), hashlib.sha256()
    with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1, mtime=0) as content:
        before = b""
        while some := list(islice(lines, PACKED_AT_ONCE)):
            text = b"\n".join(some)
            content.write(before + text)
            found.update(text + b"\n")
            before = b"\n"
    return file.getvalue(), found.hexdigest()


def digest_of(written: Iterable[bytes]) -> str:
    """The identity of a state."""
    found = hashlib.sha256()
    for line in written:
        found.update(line)
        found.update(b"\n")
    return found.hexdigest()


def entry_in(written: Sequence[bytes]) -> str:
    """The entry with which these lines were written, as `State.entry` has it."""
    try:
        return str(json.loads(written[0])["entry"])
    except (ValueError, KeyError, TypeError, IndexError):
        return ""


def read(written: Iterable[bytes], ids: Ids | None = None) -> State:
    """The state in JSON lines; it remembers ids in `ids`, if it was written so."""
    try:
        return _read(iter(written), ids)
    except (ValueError, KeyError, TypeError, IndexError, StopIteration) as error:
        raise StateError(f"the state is damaged: {error!r}") from None


def _read(written: Iterator[bytes], ids: Ids | None) -> State:
    head = json.loads(next(written))
    if head["version"] != VERSION:
        raise StateError(f"the state has version {head['version']}, not {VERSION}")
    if head["ids"] is not None and (ids is None or ids.kept[1] != head["ids"]):
        raise StateError("the ids that belong to the state are not there")
    state = State(
        oracle.State({kind: {} for kind in head["references"]}, seen_ms={} if head["ids"] is None else ids or {}),
        number=head["number"],
        cut_ms=head["cut_ms"],
        entry=head.get("entry", ""),
        read={kind: {int(number): at for number, at in own.items()} for kind, own in head["read"].items()},
        topic_ids=head.get("topic_ids", {}),
        partitions={kind: (count, cut_ms) for kind, (count, cut_ms) in head.get("partitions", {}).items()},
        read_to=dict(_keyed(head["read_to"])),
        arrival=Arrival(dict(_keyed(head["latest_ms"])), dict(_keyed(head["following"]))),
        # An earlier version wrote one moment for all partitions.
        moved_ms=dict(_keyed(head["moved_ms"] if "moved_ms" in head else [[-1, head["newest_ms"]]])),
        moved_out_ms=dict(_keyed(head.get("moved_out_ms", []))),
        newest=dict(_keyed(head["newest"])),
        arrived_ms=dict(_keyed(head["arrived_ms"])),
        passed_ms=head["passed_ms"],
        # An earlier version kept no digests.
        sampled_ms=head.get("sampled_ms", head["cut_ms"]),
        behind=dict(_keyed(head["behind"])),
        shown=head.get("shown", []),
        due_since=head["due_since"],
        counting=head.get("counting"),
        whole_since=head.get("whole_since", {}),
        versions=head.get("versions"),
        open_then=dict(_keyed(head.get("open_then", ()))),
        edges=head.get("edges", {}),
        came_out_ms=head.get("came_out_ms", 0),
        back=head.get("back", {}),
        undecided={(rule, key, identity): cut_ms for rule, key, identity, cut_ms in head.get("undecided", ())},
        cuts=[
            (cut, {kind: {int(number): at for number, at in own.items()} for kind, own in found.items()})
            for cut, found in head["cuts"]
        ],
        races=head["races"],
        began=dict(_keyed(head.get("began", ()))),
        missing=dict(_keyed(head.get("missing", ()))),
        files=head["files"],
        folders={name: Folder(*each) for name, each in head.get("folders", {}).items()},
        folders_version=head.get("folders_version", ""),
        stored_since=_read_stored_since(head),
        has_all_files=head.get("has_all_files", False),
        audit=_read_audit(head.get("audit", {})),
        assumed=head["assumed"],
        assumed_since_ms=head["assumed_since_ms"],
        labelled=head.get("labelled", []),
        arrived=[(cut_ms, counts) for cut_ms, counts in head.get("arrived", [])],
        marks_ms=head.get("marks_ms", 0),
    )
    for line in written:
        kind, *rest = json.loads(line)
        _take(state, kind, rest)
    if "began" not in head:
        state.began = {place: done.base for place, done in state.done.items()}
    if "has_refused" not in head:  # an earlier version did not take down what was refused
        state.began |= {place: done.end for place, done in state.done.items() if place[0] in head["references"]}
    return state


def _take(state: State, kind: str, rest: list[Any]) -> None:
    """Take in one line."""
    match kind, rest:
        case "reference", [name, key, event]:
            state.oracle.references[name][key] = event
        case "memory", [key, held]:
            state.oracle.memories[key] = held
        case "folded", [name, key, held]:
            # An earlier version wrote the rule without its version.
            version = (state.versions or {}).get(name)
            state.oracle.folded[name if version is None else f"{name} {version}", key] = held
        case "id", [key, identity, at_ms]:
            state.oracle.seen_ms[key, identity] = at_ms
        case "view", [topic, key, seen]:
            state.views[topic, key] = [(at_ms, event) for at_ms, event in seen]
        case "apart", [key, rules]:
            state.apart[key] = rules
        case "unit", [unit]:
            read_unit = _read_unit(unit)
            state.units[read_unit.judged.record.origin] = read_unit
        case "counted", [[topic, partition, offset], each]:
            record = each.pop("record")
            state.counted[topic, partition, offset] = Counted(**each, record=record and _read_record(record))
        case "output", [name, cut_ms, found]:
            state.outputs.append((name, cut_ms, _read_output(found)))
        case "alert", [key, found]:
            state.alerts[key] = [(cut_ms, _read_output(each)) for cut_ms, each in found]
        case "row", [key, found]:
            state.rows[key] = [(cut_ms, _read_output(each)) for cut_ms, each in found]
        case "done", [name, partition, base, packed, stored]:
            digests = array("Q")
            digests.frombytes(base64.b64decode(packed))
            state.done[name, partition] = Done(base, digests, bytearray(base64.b64decode(stored)))
        case "done alert", [key, digest, cut_ms]:
            state.done_alerts[key] = digest, cut_ms
        case "done late" | "varied" | "forms" | "flags" | "refused" as part, [topic, partition, offset, *each]:
            _of_events(state)[part][topic, partition, offset] = each
        case "done row", [key, values, with_late, *more, cut_ms]:
            # Earlier versions wrote no late events, nor when the first one arrived.
            late = more[1] if len(more) > 1 else []
            state.done_rows[key] = values, with_late, more[0] if more else 0, late, cut_ms
        case "mark", [row, until_ms, times]:
            state.marks[row] = Mark(until_ms, times)
        case "table", [name, version, is_known, cursor, rounds]:
            state.tables[name] = TableState(version, is_known, cursor, rounds)
        case "waiting" | "unsure" as part, [name, key, each]:
            getattr(state.tables[name], part)[key] = _read_waiting(each)
        case "held", [name, key, each]:
            state.tables[name].held[key] = Held(**each)
        case "group", [name, key, *found]:
            state.tables[name].groups[key] = found
        case "alert of table", [name, key, cut_ms]:
            state.tables[name].alerts[key] = cut_ms
        case "seen", [name, partition, base, packed]:
            digests = array("Q")
            digests.frombytes(base64.b64decode(packed))
            state.tables[name].seen[partition] = Done(base, digests, bytearray(len(digests)))
        case _:
            raise StateError(f"the state has a line of an unknown kind: {kind!r}")


def _of_events(state: State) -> dict[str, dict[Origin, list[Any]]]:
    """What is remembered of single events, by the kind of its lines."""
    of_copies = {"varied": state.varied, "forms": state.forms, "flags": state.flags}
    return {"done late": state.done_late, **of_copies, "refused": state.refused}


# A row of a file that waits may have foreign columns of kinds that JSON lacks: their text has the same digest.
_AS_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=str)


def _line(content: Any) -> bytes:
    return _AS_JSON.encode(content).encode("utf-8", "surrogatepass")


def _plain(content: Any) -> bytes:
    """The line of what came of JSON, by the quicker encoder."""
    try:
        return to_json(content)
    except PydanticSerializationError:  # half a pair of surrogates, which a foreign message may hold
        return _line(content)


def _pairs(of: Mapping[Any, Any]) -> list[list[Any]]:
    return [[key, value] for key, value in of.items()]


def _keyed(pairs: Iterable[list[Any]]) -> Iterator[tuple[Any, Any]]:
    for key, value in pairs:
        yield tuple(key) if isinstance(key, list) else key, value


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _bytes(content: str | None) -> bytes | None:
    return None if content is None else base64.b64decode(content)


def _record(record: Record) -> list[Any]:
    place = [record.topic, record.partition, record.offset, record.ingest_ms]
    return [*place, _text(record.key), _text(record.value)]


def _read_record(found: list[Any]) -> Record:
    topic, partition, offset, ingest_ms, key, value = found
    return Record(topic, partition, offset, ingest_ms, _bytes(key), _bytes(value))


def _output(found: Output) -> list[Any]:
    record, event = found
    return [[record.topic, record.partition, record.offset, record.ingest_ms], event]


def _read_output(found: list[Any]) -> Output:
    (topic, partition, offset, ingest_ms), event = found
    return Record(topic, partition, offset, ingest_ms, None, None), event


def _unit(unit: Unit) -> dict[str, Any]:
    judged = unit.judged
    return {
        "since_ms": unit.since_ms,
        "arrived_ms": unit.arrived_ms,
        "behind_ms": unit.behind_ms,
        "surely_behind_ms": unit.surely_behind_ms,
        "out_behind_ms": unit.out_behind_ms,
        "apart": unit.apart,
        "record": _record(judged.record),
        "reason": judged.reason,
        "event": judged.event,
        "before": judged.before,
        "findings": [asdict(finding) for finding in judged.findings],
        "copies": list(map(_output, unit.copies)),
        "letters": list(map(_output, unit.letters)),
    }


def _read_unit(found: dict[str, Any]) -> Unit:
    findings = tuple(map(_read_finding, found["findings"]))
    judged = Judged(_read_record(found["record"]), found["reason"], found["event"], found["before"], findings)
    copies, letters = (list(map(_read_output, found[name])) for name in ("copies", "letters"))
    # An earlier version did not take it down.
    arrived_ms = found.get("arrived_ms", judged.record.ingest_ms)
    behind_ms, surely_behind_ms = found["behind_ms"], found.get("surely_behind_ms")
    behind = behind_ms, surely_behind_ms, found.get("out_behind_ms", 0)
    return Unit(found["since_ms"], judged, arrived_ms, copies, letters, *behind, found.get("apart"))


def _read_stored_since(head: dict[str, Any]) -> dict[tuple[str, int], int] | None:
    if "stored_since" not in head:
        return {} if head["files"] else None  # as an earlier version shows it
    return None if head["stored_since"] is None else dict(_keyed(head["stored_since"]))


def _read_audit(found: dict[str, Any]) -> Audit:
    return Audit(**{**found, "found": Folder(**found.get("found", {}))})


def _read_waiting(found: dict[str, Any]) -> Waiting:
    origin, reading = found["origin"], found["reading"]
    return Waiting(**{**found, "origin": origin and tuple(origin), "reading": reading and Reading(**reading)})


def _read_finding(found: dict[str, Any]) -> Finding:
    origins = tuple((topic, partition, offset) for topic, partition, offset in found["origins"])
    return Finding(**{**found, "event_ids": tuple(found["event_ids"]), "origins": origins})


def _counted(each: Counted) -> dict[str, Any]:
    return {name: getattr(each, name) for name in _OF_COUNTED} | {"record": each.record and _record(each.record)}


_OF_COUNTED = [each.name for each in fields(Counted)]
