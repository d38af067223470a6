"""Refusals: every dead letter has the right reason and carries the message; no valid message is refused."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator

from millrace.oracle import UNREAD, Origin, Record, Refusal, accept, value_base64
from millrace.rules import LIMITS, EventType
from millrace.rules.outputs import DEAD_LETTERS, LATE, REPLAYED
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.evidence import Event, place_of
from millrace.verify.marks import Mark, digest_of, mark
from millrace.verify.planned import identified

STAGES = {LATE: "windows", REPLAYED: "replay"}
"""The stages of dead letters that are not of the first one, by their reason."""


def refusals(case: Case) -> Found | Undecided:
    """The refused messages held against the oracle's reasons.

    Reference data outlives its dead letters, those from before `kept_since_ms`; and compaction deletes reference data,
    refused or not. The other topics keep everything.
    """
    use, expected = case.question.use, case.expected
    reasons: dict[Origin, list[str]] = {}
    for (origin, reason), _ in case.letters.items():
        if reason != LATE:
            reasons.setdefault(origin, []).append(reason)
    kept = {each.name for each in use.raw}
    came_ms = {(r.topic, r.partition, r.offset): r.ingest_ms for each in use.references for r in case.raw[each.name]}
    since_ms = case.question.kept_since_ms
    offenders = [
        f"{place_of(origin)} must be refused as '{reason}'; dead letters: {', '.join(reasons.get(origin, ['none']))}"
        for origin, reason in expected.refused.items()
        if reasons.get(origin) != [reason] and (origin in reasons or came_ms.get(origin, since_ms) >= since_ms)
    ]
    offenders += [
        f"{place_of(origin)} was refused as {sorted(found)} but is valid"
        for origin, found in reasons.items()
        if origin not in expected.refused and (origin[0] in kept or origin in came_ms)
    ]
    offenders += _wrong_contents(case)
    figures = dict(Counter(reason.split(":")[0] for reason in expected.refused.values()))
    if not offenders and (unnamed := sum(letter.get("value_base64") is None for _, letter in _marks(case))):
        why = f"{unnamed} marks of replays, of an earlier version, name no new message: nothing shows that one was sent"
        return Undecided(why, figures, is_settled=True)
    return Found(figures, offenders)


def _marks(case: Case) -> list[tuple[Record, Event]]:
    return [each for each in case.outputs[DEAD_LETTERS.name].events if each[1]["reason"] == REPLAYED]


def _wrong_contents(case: Case) -> Iterator[str]:
    use = case.question.use
    references = {each.name: each for each in use.references}
    kinds = {each.name: each for each in use.raw} | references
    named: dict[Origin, Origin] = {}
    for arrived, letter in case.outputs[DEAD_LETTERS.name].events:
        origin, reason = case.letter_origin(letter), letter["reason"]
        if origin[0] not in kinds:
            yield f"{place_of(origin)} is a dead letter of a topic without refusals"
            continue
        if letter.get("stage") != (stage := STAGES.get(reason, "events")):
            yield f"{place_of(origin)}: the dead letter is of the stage {letter.get('stage')!r}, not {stage!r}"
        record, carried = case.records.get(origin), letter.get("value_base64")
        if reason == REPLAYED:
            yield from _wrong_mark(case, arrived, letter, named)
        elif record is None:
            yield from _wrong_place(case, origin)
            if origin[0] in references and not _may_be_refused(case, references[origin[0]], letter):
                yield f"{place_of(origin)}: what the dead letter carries is not refused as '{reason}'"
        elif not _is_carried_rightly(kinds[origin[0]], record, reason, carried):
            yield f"{place_of(origin)}: the dead letter ({reason}) carries other bytes than it must keep of the message"
        if record is not None and letter.get("ingest_ms") != record.ingest_ms:
            yield f"{place_of(origin)}: ingest_ms is {letter.get('ingest_ms')}, not {record.ingest_ms}"


def _is_carried_rightly(kind: EventType, record: Record, reason: str, carried: str | None) -> bool:
    # What is late was accepted: behind the intermediate topic there may be no raw message to carry.
    return (carried is None and reason == LATE) or carried == value_base64(kind, record.value, reason)


def _may_be_refused(case: Case, kind: EventType, letter: Event) -> bool:
    """Whether a message that carries this may have been refused so, as far as its dead letter shows it."""
    reason, arrived_ms, carried = letter["reason"], letter.get("ingest_ms") or 0, letter.get("value_base64")
    if arrived_ms < case.versions(LIMITS).since_ms:
        return True
    try:
        value = None if carried is None else base64.b64decode(carried, validate=True)
    except ValueError:
        return False
    if value is None:
        unread = UNREAD if kind.forbidden else ()
        return reason in ("empty", "oversized", *unread, *(f"forbidden:{name}" for name in kind.forbidden))
    found = accept(kind, value, arrived_ms)
    if b"*" in value:  # what is masked was another value
        return isinstance(found, Refusal) or reason.startswith("card-number:")
    return isinstance(found, Refusal) and found.reason == reason


def _wrong_mark(case: Case, arrived: Record, letter: Event, named: dict[Origin, Origin]) -> Iterator[str]:
    """The complaints about the mark of a message that was sent again: it needs its dead letter, and its new message."""
    origin, carried = case.letter_origin(letter), letter.get("value_base64")
    if not case.has_letter(origin):
        yield f"{place_of(origin)} is marked as replayed, and has no dead letter that can be replayed"
    if carried is None:
        return  # of an earlier version, which named none
    if (made := mark(carried)) is None:
        yield f"{place_of(origin)}: the mark of a replay carries a message"
        return
    again = origin[0], made.partition, made.offset
    if why := _not_sent(case, arrived, letter, again, made):
        yield f"{place_of(origin)} is marked as sent again as {place_of(again)}, which {why}"
    if named.setdefault(again, origin) != origin:
        yield f"{place_of(origin)} and {place_of(named[again])} are marked as sent again as one message"


def _not_sent(case: Case, arrived: Record, letter: Event, again: Origin, made: Mark) -> str:
    """Why the message that a mark names is not the one that was sent again just before the mark; empty if it may be.

    Compaction may have deleted reference data; a segment has the messages of some time only.
    """
    bounds, record, origin = case.question.bounds, case.records.get(again), case.letter_origin(letter)
    if record is None:
        may_be_gone = not case.is_whole or again[0] not in {each.name for each in case.question.use.raw}
        return "" if may_be_gone and 0 <= again[2] < case.ends.get(again[:2], 0) else "is not there"
    if digest_of(record.key, record.value) != made.digest:
        return "is another message"
    passed_ms = arrived.ingest_ms - record.ingest_ms
    if (
        again == origin
        or record.ingest_ms < letter["ingest_ms"]
        or not -bounds.clocks_ms <= passed_ms <= bounds.held_ms
    ):
        return "came at another time"
    others = case.planned.others if case.is_whole else None
    if others is not None and not others.get(identified(record.topic, record.key, record.value)):
        return "a run of traffic sent"
    return ""


def _wrong_place(case: Case, origin: Origin) -> Iterator[str]:
    """The complaint about a dead letter whose message is not there, unless compaction may have deleted it."""
    kind, partition, offset = origin
    if kind in {each.name for each in case.question.use.raw}:
        yield f"{place_of(origin)} is a dead letter without a raw message"
    elif min(partition, offset) < 0 or offset >= case.ends.get((kind, partition), offset + 1):
        yield f"{place_of(origin)} is a dead letter of a message that its topic never had"


CHECKER = Checker(
    "refusals",
    "Is every invalid message refused with the right reason, and no valid one?",
    refusals,
    needs=(DEAD_LETTERS.name,),
)
