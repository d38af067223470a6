"""The ledger: an entry for each segment, with the digest of the one before, so that none can be altered unnoticed."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, TypeAdapter

from millrace.verify import keys
from millrace.verify.checks import conservation
from millrace.verify.evidence import once_each
from millrace.verify.ledger.segments import Segment
from millrace.verify.verdict import OFFENDERS_MOST, Check, Status, Verdict, checked, together, unchecked

EntryStatus = Literal["ok", "assumed", "failed", "unknown"]
"""`assumed`: all checks are ok, but what the oracle remembers may lack messages."""
CAUSES_MOST = 10
ALWAYS = {"readable", "conservation", "refusals", "enrichment", "lateness", "alerts", "alert ids", "numbers", "order"}
"""The checks of every segment, without the names of rules and summaries."""
NOT_DUE = ("rows", "events in open windows")
"""What is pending as long as traffic continues."""
FURTHEST_MS = 2**45
"""The year 3084: what formats moments knows no year beyond 9999."""
Moment = Annotated[int, Field(ge=-FURTHEST_MS, le=FURTHEST_MS)]
Partition = Annotated[str, Field(pattern="^[0-9]{1,9}$")]
Offset = Annotated[int, Field(ge=0, lt=2**63)]
Offsets = Mapping[str, Mapping[Partition, tuple[Offset, Offset]]]
"""Kind -> partition -> the offsets from and to, without the last."""


@dataclass(frozen=True)
class Entry:
    """The verdict on one segment."""

    number: Annotated[int, Field(ge=1, lt=2**63)]
    since_ms: Moment
    cut_ms: Moment
    status: EntryStatus
    offsets: Offsets
    messages: int
    """The raw messages that arrived."""
    whole_until_ms: Moment
    """Every raw message that arrived before is judged, and all that was due because of it."""
    figures: Mapping[str, Mapping[str, int | FiniteFloat | str | None]]
    """What each check counted."""
    causes: tuple[str, ...]
    """Why the status is not ok: the first offenders, and what was missing."""
    pending: Mapping[str, int]
    versions: Mapping[str, str]
    """Of the rules and summaries that were in force."""
    state: str
    """The digest of the state from which the next segment is judged."""
    before: str = ""
    """The digest of the entry before; empty for the first."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @property
    def own(self) -> str:
        """The digest without that of the state, which has this one."""
        return replace(self, state="").digest

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: bytes | str) -> Entry:
        """The entry in a message; raises ValueError if it is none."""
        content = json.loads(text, object_pairs_hook=once_each)
        if not isinstance(content, dict) or content.keys() != {each.name for each in fields(Entry)}:
            raise ValueError("no entry of a ledger")
        _SHAPE.validate_json(text, strict=True)
        # Not what was validated: each digest is over the text.
        return Entry(**{**content, "causes": tuple(content["causes"])})


_SHAPE = TypeAdapter(Entry)


def entry_of(
    segment: Segment, offsets: Offsets, versions: Mapping[str, str], state: str, before: Entry | None, assumed: str
) -> Entry:
    """The entry of a segment that was judged."""
    status: EntryStatus = "assumed" if segment.status == "ok" and assumed else segment.status
    causes = tuple(_causes(segment.checks))[:CAUSES_MOST] or ((assumed,) if assumed else ())
    return _written(
        Entry(
            number=1 if before is None else before.number + 1,
            since_ms=segment.since_ms,
            cut_ms=segment.cut_ms,
            status=status,
            offsets=offsets,
            messages=segment.messages,
            whole_until_ms=segment.whole_until_ms,
            figures={each.name: _figures(each) for each in segment.checks},
            causes=causes,
            pending={name: count for name, count in segment.pending.items() if count},
            versions=versions,
            state=state,
            before="" if before is None else before.digest,
        )
    )


def unjudged(segment: Segment, offsets: Offsets, causes: Sequence[str], state: str, before: Entry | None) -> Entry:
    """The entry of a segment that could not be judged."""
    found = entry_of(replace(segment, checks=()), offsets, {}, state, before, "")
    return _written(replace(found, status="unknown", causes=tuple(causes)))


def _written(entry: Entry) -> Entry:
    """As it will be read: in JSON all keys are text."""
    return Entry.from_json(entry.to_json())


def _figures(check: Check) -> dict[str, Any]:
    shown = {name: value for name, value in check.figures.items() if value not in (0, None)}
    return shown if check.status == "ok" else {"status": check.status, **shown}


def _status_of(figures: Mapping[str, Any]) -> Status:
    """The status of a check, as an entry has it."""
    found: Status = figures.get("status", "ok")
    return found


def _causes(checks: Iterable[Check]) -> Iterator[str]:
    for check in checks:
        if check.status != "ok":
            yield from (f"{check.name}: {each}" for each in ((check.why,) if check.why else ()) + check.offenders)


@dataclass(frozen=True)
class Span:
    """Segments in a row with one status."""

    status: EntryStatus
    since_ms: int
    until_ms: int
    entries: int
    messages: int
    causes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chain:
    """The entries of a ledger, in their order, and where they do not follow from one another."""

    entries: tuple[Entry, ...]
    breaks: tuple[str, ...] = ()
    uncompared: str = ""
    """Why the last entry was not compared with its state: who writes a topic can write another chain."""

    @property
    def status(self) -> EntryStatus:
        """Of the whole chain: a break is never ok."""
        found = {entry.status for entry in self.entries}
        order: tuple[EntryStatus, ...] = ("failed", "unknown", "assumed")
        for status in order:
            if status in found or (status == "unknown" and (self.breaks or not self.entries)):
                return status
        return "ok"

    def spans(self) -> list[Span]:
        """The timeline: segments in a row with one status are one span."""
        found = []
        for status, group in groupby(self.entries, key=lambda entry: entry.status):
            own = list(group)
            causes = dict.fromkeys(cause for entry in own for cause in entry.causes)
            found.append(
                Span(
                    status,
                    own[0].since_ms,
                    own[-1].cut_ms,
                    len(own),
                    sum(entry.messages for entry in own),
                    tuple(causes)[:CAUSES_MOST],
                )
            )
        return found


def verdict_of(pattern: str, entries: Sequence[Entry], breaks: Sequence[str] = (), until_ms: int = 0) -> Verdict:
    """The verdict on these segments together; unknown while what arrived until then is not all judged, or assumed."""
    names = dict.fromkeys(name for entry in entries for name in entry.figures)
    unjudged = [cause for entry in entries if not entry.figures for cause in entry.causes]
    figures = {"segments": len(entries), "messages": sum(entry.messages for entry in entries)}
    asks = "Was every segment judged, and does each entry follow from the one before?"
    assumed = dict.fromkeys(cause for entry in entries if entry.status == "assumed" for cause in entry.causes)
    whys = [*breaks, *dict.fromkeys(unjudged), *_unfinished(entries, until_ms)]
    whys += [
        f"segments are assumed, as the oracle has not seen all that the pattern remembers: {why}" for why in assumed
    ]
    nothing = "there is no entry" if not entries else "" if figures["messages"] else "no message was judged"
    why = "; ".join(whys) or nothing
    checks = [
        *(_over(name, entries) for name in names),
        unchecked("ledger", asks, why, figures) if why else checked("ledger", asks, figures, ()),
    ]
    notes = tuple(keys.notes_of(entry.figures.get(conservation.CHECKER.name, {}) for entry in entries))
    return Verdict(pattern, tuple(checks), (), (), {}, {}, notes)


def _unfinished(entries: Sequence[Entry], until_ms: int) -> Iterator[str]:
    """Why not all that arrived until then is judged."""
    if entries and entries[-1].whole_until_ms < until_ms:
        last = entries[-1]
        waiting = ", ".join(f"{count} {what}" for what, count in last.pending.items() if what not in NOT_DUE)
        since = datetime.fromtimestamp(last.whole_until_ms / 1000, UTC).isoformat(" ", "seconds")
        yield f"what came since {since} is not all judged; pending: {waiting or 'nothing'}"


def _over(name: str, entries: Iterable[Entry]) -> Check:
    """A check over several segments."""
    own = [entry.figures[name] for entry in entries if name in entry.figures]
    status = together(_status_of(figures) for figures in own)
    figures: dict[str, int] = {}
    for each in own:
        for key, value in each.items():
            if isinstance(value, int):
                figures[key] = figures.get(key, 0) + value
    begins = f"{name}: "
    causes = [cause.removeprefix(begins) for entry in entries for cause in entry.causes if cause.startswith(begins)]
    shown = tuple(causes[:OFFENDERS_MOST])
    why = "; ".join(shown) if status == "unknown" else ""
    return Check(name, "", status, figures, () if why else shown, why)


@dataclass
class _Following:
    entries: list[Entry] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)


def read(
    messages: Iterable[bytes | None],
    *,
    before: Entry | None = None,
    is_part: bool = False,
    until_ms: float = math.inf,
) -> Chain:
    """The chain in the messages of a ledger's topic; whatever does not follow from the entry before is named.

    So is an entry that ends after `until_ms`, which nobody can have judged yet; it is no part of the chain.
    """
    found = _Following()
    for at, message in enumerate(messages):
        try:
            entry = Entry.from_json(message or b"")
            breaks = list(broken(entry, before, is_part=is_part))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            found.breaks.append(f"message {at} is no entry of a ledger: {(message or b'')[:60]!r}")
            continue
        if entry.cut_ms > until_ms:
            found.breaks.append(f"entry {entry.number} ends at {entry.cut_ms}, which is still to come")
            continue
        found.breaks += breaks
        found.entries.append(entry)
        before = entry
    return Chain(tuple(found.entries), tuple(found.breaks))


def broken(entry: Entry, before: Entry | None, *, is_part: bool = False) -> Iterator[str]:
    """Why an entry does not follow from the one before; the first of a part of a chain follows from one unread."""
    if entry.status not in (follows := _following(entry)):
        yield f"entry {entry.number} is {entry.status}, but by what its checks counted it is {follows[0]}"
    yield from (f"entry {entry.number} {each}" for each in _contradictions(entry))
    if before is None:
        if not is_part and (entry.before or entry.number != 1):
            yield f"the chain begins with entry {entry.number}, not with the first"
    elif entry.before != before.digest:
        yield f"entry {entry.number} does not carry the digest of entry {before.number}: one of them was altered"
    elif entry.number != before.number + 1:
        yield f"entry {entry.number} follows entry {before.number}"
    elif entry.since_ms != before.cut_ms:
        yield f"entry {entry.number} begins at {entry.since_ms}, entry {before.number} ended at {before.cut_ms}"
    elif entry.status != "unknown":
        # What follows a lost state may read again.
        yield from _uncontinued(entry, before)
        yield from _unchecked(entry, before)


def _contradictions(entry: Entry) -> Iterator[str]:
    """What of an entry contradicts the rest of it."""
    if bool(entry.causes) != (entry.status != "ok"):
        yield f"is {entry.status}, and its causes are {list(entry.causes)}"
    for name, figures in entry.figures.items():
        if _status_of(figures) == "ok" and figures.get("offenders"):
            yield f"has {figures['offenders']} offenders of the check '{name}', which is ok"
    if not entry.since_ms <= entry.cut_ms:
        yield f"ends at {entry.cut_ms}, before it begins"
    if entry.whole_until_ms > entry.cut_ms:
        yield f"judged what arrived until {entry.whole_until_ms}, and ends at {entry.cut_ms}"
    spans = [span for own in entry.offsets.values() for span in own.values()]
    if any(ended < begins for begins, ended in spans):
        yield "ends before an offset at which it begins"
    if not 0 <= entry.messages <= sum(max(0, ended - begins) for begins, ended in spans):
        yield f"counts {entry.messages} messages, which its offsets do not hold"


def _unchecked(entry: Entry, before: Entry) -> Iterator[str]:
    """The checks that an entry lacks, though the rules are as they were."""
    if before.figures and entry.figures and entry.versions == before.versions:
        lacks = [name for name in before.figures if name not in entry.figures and _is_of_every_segment(name)]
        if lacks:
            yield f"entry {entry.number} lacks the checks {', '.join(lacks)} of entry {before.number}"


def _is_of_every_segment(check: str) -> bool:
    """Whether a pattern with these rules is always checked so; runs, stores and guarantees come and go."""
    return check.partition(":")[0] in ALWAYS


def _following(entry: Entry) -> tuple[EntryStatus, ...]:
    """The statuses that an entry may have by its figures."""
    found = together(_status_of(figures) for figures in entry.figures.values())
    return ("ok", "assumed") if found == "ok" else (found,)


def _uncontinued(entry: Entry, before: Entry) -> Iterator[str]:
    """The partitions of which an entry does not begin where the one before ended."""
    for kind, own in before.offsets.items():
        for partition, (_, ended) in own.items():
            begins, _ = entry.offsets.get(kind, {}).get(partition, (None, None))
            if begins is None and entry.versions == before.versions:
                yield f"entry {entry.number} lacks the offsets of {kind}[{partition}]"
            elif begins not in (None, ended):
                yield (
                    f"entry {entry.number} begins at offset {begins} of {kind}[{partition}], "
                    f"entry {before.number} ended at {ended}"
                )
