"""Nothing lost, nothing made up: every raw message is accounted for once, among the accepted or the dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from millrace.oracle import Record, value_base64
from millrace.rules import UseCase
from millrace.verify.evidence import Bounds, Event, Origin, said
from millrace.verify.expected import Expected
from millrace.verify.verdict import Check, checked

LATE = "late"
Letters = Mapping[tuple[Origin, str], Event]
"""Dead letters by origin and reason: each once."""


def conservation(
    raw: Sequence[Record], enriched: Mapping[Origin, Sequence[Event]], letters: Letters, copies: int
) -> Check:
    """Raw messages = accepted + refused, each in exactly one place."""
    there = {(record.topic, record.partition, record.offset) for record in raw}
    kinds = {record.topic for record in raw}
    refused = {origin for origin, reason in letters if reason != LATE and origin[0] in kinds}
    accepted = set(enriched)
    offenders = [f"{said(origin)} is neither enriched nor a dead letter" for origin in there - accepted - refused]
    offenders += [f"{said(origin)} is both enriched and a dead letter" for origin in accepted & refused]
    offenders += [f"{said(origin)} came out but never went in" for origin in (accepted | refused) - there]
    figures = {"raw": len(there), "accepted": len(accepted), "refused": len(refused), "copies": copies - len(accepted)}
    return checked(
        "conservation", "Is every raw message either accepted or refused, and only once?", figures, sorted(offenders)
    )


def refusals(
    use: UseCase, raw: Mapping[str, Sequence[Record]], expected: Expected, letters: Letters, since_ms: int
) -> Check:
    """Every dead letter has the right reason and carries the message; nothing good was refused.

    Reference data outlives its dead letters, those from before `since_ms`; and compaction takes away reference data,
    refused or not. From the other topics nothing is taken.
    """
    reasons: dict[Origin, list[str]] = {}
    for (origin, reason), _ in letters.items():
        if reason != LATE:
            reasons.setdefault(origin, []).append(reason)
    kept = {each.name for each in use.raw}
    came_ms = {(r.topic, r.partition, r.offset): r.ingest_ms for each in use.references for r in raw[each.name]}
    figures = dict(Counter(reason.split(":")[0] for reason in expected.refused.values()))
    offenders = [
        f"{said(origin)} must be refused as '{reason}'; dead letters say {sorted(reasons.get(origin, ['nothing']))}"
        for origin, reason in expected.refused.items()
        if reasons.get(origin) != [reason] and (origin in reasons or came_ms.get(origin, since_ms) >= since_ms)
    ]
    offenders += [
        f"{said(origin)} was refused as {sorted(found)} but is good"
        for origin, found in reasons.items()
        if origin not in expected.refused and (origin[0] in kept or origin in came_ms)
    ]
    offenders += _wrong_contents(use, raw, letters)
    return checked("refusals", "Is everything bad refused, for the right reason, and nothing good?", figures, offenders)


def lateness(use: UseCase, raw: Sequence[Record], expected: Expected, letters: Letters, bounds: Bounds) -> Check:
    """Only what arrived well behind the newest event of its time may be kept out of the windows as late."""
    late = {origin for origin, reason in letters if reason == LATE}
    offenders = [f"{said(origin)} is called late but is not good" for origin in late if origin not in expected.accepted]
    time = use.judged.time or ""
    arrived_ms = {(record.topic, record.partition, record.offset): record.ingest_ms for record in raw}
    # As the engines have it, a clock that is ahead moves nobody's time.
    ahead = sorted(
        (arrived_ms[origin], min(event[time], arrived_ms[origin])) for origin, event in expected.accepted.items()
    )
    newest_ms, position = 0, 0
    for origin in sorted(late & expected.accepted.keys(), key=lambda origin: arrived_ms[origin]):
        while position < len(ahead) and ahead[position][0] <= arrived_ms[origin] + bounds.skew_ms:
            newest_ms = max(newest_ms, ahead[position][1])
            position += 1
        behind_ms = newest_ms - expected.accepted[origin][time]
        if behind_ms <= bounds.out_of_order_ms:
            offenders.append(f"{said(origin)} is called late, only {behind_ms} ms behind the newest event")
    return checked("lateness", "Was only what came too late kept out of the windows?", {"late": len(late)}, offenders)


def contents(expected: Expected, enriched: Mapping[Origin, Sequence[Event]]) -> Check:
    """Accepted events carry the right enrichment, every copy of them."""
    figures = {"compared": len(expected.accepted.keys() & enriched.keys()), "races": expected.raced}
    return checked("enrichment", "Does every enriched event say what the oracle says?", figures, expected.wrong)


def _wrong_contents(use: UseCase, raw: Mapping[str, Sequence[Record]], letters: Letters) -> Iterator[str]:
    kinds = {each.name: each for each in (*use.raw, *use.references)}
    kept = {each.name for each in use.raw}
    records = {(r.topic, r.partition, r.offset): r for kind in kinds for r in raw[kind]}
    for (origin, reason), letter in letters.items():
        record = records.get(origin)
        if record is None:
            if origin[0] in kept:
                yield f"{said(origin)} is a dead letter but never went in"
            continue
        wanted, carried = value_base64(kinds[origin[0]], record.value, reason), letter.get("value_base64")
        # What is late was accepted: behind the intermediate topic there may be no raw message to carry.
        if carried != wanted and (carried or reason != LATE):
            yield f"{said(origin)}: the dead letter ({reason}) does not carry the message as it is to be kept"
        if letter.get("ingest_ms") != record.ingest_ms:
            yield f"{said(origin)}: ingest_ms is {letter.get('ingest_ms')}, not {record.ingest_ms}"
