"""Refusals: every dead letter has the right reason and carries the message; no valid message is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from millrace.oracle import Origin, value_base64
from millrace.rules.outputs import DEAD_LETTERS, LATE, REPLAYED
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.evidence import place_of


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
    kept = {each.name for each in use.raw}
    for _, letter in case.outputs[DEAD_LETTERS.name].events:
        origin, reason = case.evidence.origin(letter["topic"], letter["partition"], letter["offset"]), letter["reason"]
        if reason == REPLAYED:
            continue
        if origin[0] not in kinds:
            yield f"{place_of(origin)} is a dead letter of a topic without refusals"
            continue
        if letter.get("stage") != (stage := "windows" if reason == LATE else "events"):
            yield f"{place_of(origin)}: the dead letter is of the stage {letter.get('stage')!r}, not {stage!r}"
        record = case.records.get(origin)
        if record is None:
            if origin[0] in kept:
                yield f"{place_of(origin)} is a dead letter without a raw message"
            continue
        wanted, carried = value_base64(kinds[origin[0]], record.value, reason), letter.get("value_base64")
        # What is late was accepted: behind the intermediate topic there may be no raw message to carry.
        if carried != wanted and (carried or reason != LATE):
            yield f"{place_of(origin)}: the dead letter ({reason}) carries other bytes than it must keep of the message"
        if letter.get("ingest_ms") != record.ingest_ms:
            yield f"{place_of(origin)}: ingest_ms is {letter.get('ingest_ms')}, not {record.ingest_ms}"


CHECKER = Checker(
    "refusals",
    "Is every invalid message refused with the right reason, and no valid one?",
    refusals,
    needs=(DEAD_LETTERS.name,),
)
