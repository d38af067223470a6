"""Refusals: every dead letter has the right reason and carries the message; no valid message is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from millrace.oracle import Origin, Record, value_base64
from millrace.rules import EventType
from millrace.rules.outputs import DEAD_LETTERS, LATE, REPLAYED
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.evidence import place_of

STAGES = {LATE: "windows", REPLAYED: "replay"}
"""The stages of dead letters that are not of the first one, by their reason."""


def refusals(case: Case) -> Found:
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
    return Found(dict(Counter(reason.split(":")[0] for reason in expected.refused.values())), offenders)


def _wrong_contents(case: Case) -> Iterator[str]:
    use = case.question.use
    kinds = {each.name: each for each in (*use.raw, *use.references)}
    for _, letter in case.outputs[DEAD_LETTERS.name].events:
        origin, reason = case.letter_origin(letter), letter["reason"]
        if origin[0] not in kinds:
            yield f"{place_of(origin)} is a dead letter of a topic without refusals"
            continue
        if letter.get("stage") != (stage := STAGES.get(reason, "events")):
            yield f"{place_of(origin)}: the dead letter is of the stage {letter.get('stage')!r}, not {stage!r}"
        record, carried = case.records.get(origin), letter.get("value_base64")
        if reason == REPLAYED:
            yield from _wrong_mark(case, origin, carried)
        elif record is None:
            yield from _wrong_place(case, origin)
        elif not _is_carried_rightly(kinds[origin[0]], record, reason, carried):
            yield f"{place_of(origin)}: the dead letter ({reason}) carries other bytes than it must keep of the message"
        if record is not None and letter.get("ingest_ms") != record.ingest_ms:
            yield f"{place_of(origin)}: ingest_ms is {letter.get('ingest_ms')}, not {record.ingest_ms}"


def _is_carried_rightly(kind: EventType, record: Record, reason: str, carried: str | None) -> bool:
    # What is late was accepted: behind the intermediate topic there may be no raw message to carry.
    return (carried is None and reason == LATE) or carried == value_base64(kind, record.value, reason)


def _wrong_mark(case: Case, origin: Origin, carried: str | None) -> Iterator[str]:
    """The complaints about the mark of a message that was sent again: it needs its dead letter, and no content."""
    if not case.has_letter(origin):
        yield f"{place_of(origin)} is marked as replayed, and has no dead letter that can be replayed"
    if carried is not None:
        yield f"{place_of(origin)}: the mark of a replay carries a message"


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
