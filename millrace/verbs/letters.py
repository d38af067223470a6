"""Dead letters: the messages that a pattern rejected, and their replay once the cause is fixed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from millrace.deployments import deployed_file
from millrace.errors import InfraError
from millrace.oracle import Record, kept, without_tokens
from millrace.patterns import Variant
from millrace.patterns import topics as topics_of
from millrace.rules import DEAD_LETTERS, EventType
from millrace.rules.outputs import DUPLICATE, LATE, REPLAYED
from millrace.stores import topics
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.verbs.companions import only_one
from millrace.verify.marks import Mark, digest_of

# No correction can make these messages acceptable.
NEVER_REPLAYED = (DUPLICATE, LATE, REPLAYED)

SENT_AT_ONCE = 500
"""So many messages are sent, then marked: as many may be sent twice if the verb is killed in between."""

Place = tuple[str, int, int]


@dataclass(frozen=True)
class Letter:
    """One rejected message: the reason, its place, and its time of arrival."""

    reason: str
    topic: str
    partition: int
    offset: int
    ingest_ms: int
    stage: str
    value_base64: str | None

    @property
    def place(self) -> Place:
        return self.topic, self.partition, self.offset

    def excerpt(self, most: int = 60) -> str:
        """The beginning of the message, for people."""
        if self.value_base64 is None:
            return ""
        text = base64.b64decode(self.value_base64).decode("utf-8", errors="replace")
        return text if len(text) <= most else f"{text[: most - 1]}…"


@dataclass(frozen=True)
class Replayed:
    """How many messages were sent again, and how many without a correction were not: masked or lost ones."""

    sent: int
    masked: int
    lost: int = 0
    """No longer in their topic."""


def read(target: Target, variant: Variant, reason: str = "") -> list[Letter]:
    """The dead letters of a pattern, each once, oldest first; `reason` keeps those whose reason begins with it."""
    with closing(Tail(target.bootstrap, {DEAD_LETTERS.name: variant.topic(DEAD_LETTERS)})) as tail:
        letters = [_letter(record) for record in tail.new() if record.value]
    replayed = {letter.place for letter in letters if letter.reason == REPLAYED}
    distinct = {(letter.place, letter.reason): letter for letter in letters if letter.place not in replayed}
    chosen = [letter for letter in distinct.values() if letter.reason.startswith(reason)]
    return sorted(chosen, key=lambda letter: (letter.ingest_ms, letter.place))


def replay(target: Target, variant: Variant, letters: Sequence[Letter], corrected: Mapping[Place, bytes]) -> Replayed:
    """Send rejected messages again, each to its original topic, corrected where a correction is given.

    Reference data is sent only if corrected: the last message of a key counts, and a valid one may be there by now.
    Masked messages are sent only if corrected: the original would put a card number into the topic again.
    So are lost ones, which their topic has deleted: they hold back no other.
    Each that was sent is marked as replayed among the dead letters, with the place of the new message, so that it is
    not sent a third time and the verdict finds it.
    """
    referred = {variant.topic(event_type) for event_type in variant.use.references}
    # A message that was rejected by two declarations has a letter of each.
    once = {
        letter.place: letter
        for letter in letters
        if not letter.reason.startswith(NEVER_REPLAYED) and (letter.topic not in referred or letter.place in corrected)
    }
    chosen = [*once.values()]
    originals = _originals(target, variant, chosen)
    lost = {
        letter.place: letter for letter in chosen if letter.place not in originals and letter.place not in corrected
    }
    kinds = {variant.topic(each): each for each in (*variant.use.raw, *variant.use.references)}
    masked = {
        letter.place: letter
        for letter in chosen
        if letter.place not in corrected
        and letter.place in originals
        and _is_masked(kinds[letter.topic], letter, originals[letter.place])
    }
    complaints = []
    if lost:
        complaints.append(f"{len(lost)} of the messages are no longer in their topic (first: {_first(lost)})")
    if masked:
        complaints.append(
            f"{len(masked)} of the messages hold a card number or a forbidden field (first: {_first(masked)}), and "
            "cannot be sent again unchanged"
        )
    if complaints and len(lost) + len(masked) == len(chosen):
        raise InfraError(f"{'; '.join(complaints)}; give corrected values with --with FILE")
    chosen = [letter for letter in chosen if letter.place not in masked and letter.place not in lost]
    sent, publisher = 0, topics.Publisher(target.bootstrap)
    lock = deployed_file(target, variant.name).with_suffix(".replay-lock")
    with only_one(lock, f"{variant.name}: another replay of its dead letters is running; wait for its end"):
        present = {letter.place for letter in read(target, variant)}  # another replay may have ended meanwhile
        chosen = [letter for letter in chosen if letter.place in present]
        for at in range(0, len(chosen), SENT_AT_ONCE):
            sent += _send(publisher, variant, kinds, chosen[at : at + SENT_AT_ONCE], originals, corrected)
    return Replayed(sent, len(masked), len(lost))


def _first(letters: Mapping[Place, Letter]) -> str:
    topic, partition, offset = next(iter(letters))
    return f"{topic} partition {partition} offset {offset}"


def _send(
    publisher: topics.Publisher,
    variant: Variant,
    kinds: Mapping[str, EventType],
    letters: Sequence[Letter],
    originals: Mapping[Place, Record],
    corrected: Mapping[Place, bytes],
) -> int:
    """Send some messages again, and mark those that arrived, though others did not."""
    sent = [
        (letter.topic, *_again(originals.get(letter.place), corrected.get(letter.place), kinds[letter.topic].key))
        for letter in letters
    ]
    places: dict[int, tuple[int, int]] = {}
    try:
        publisher.publish(sent, places)
    finally:
        marked = [
            (
                variant.topic(DEAD_LETTERS),
                letter.topic.encode(),
                json.dumps(_marked(letter, places[n], key, value)).encode(),
            )
            for n, (letter, (_, key, value)) in enumerate(zip(letters, sent, strict=True))
            if n in places
        ]
        publisher.publish(marked)
    return len(sent)


def _marked(letter: Letter, place: tuple[int, int], key: bytes | None, value: bytes | None) -> dict[str, Any]:
    carried = Mark(*place, digest_of(key, value)).carried()
    return asdict(letter) | {"reason": REPLAYED, "stage": "replay", "value_base64": carried}


def read_corrected(path: Path) -> dict[Place, bytes]:
    """Corrected messages from a file of JSON lines: each {"topic", "partition", "offset", "value"}."""
    corrected = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(line)
            value = entry["value"]
            corrected[str(entry["topic"]), int(entry["partition"]), int(entry["offset"])] = (
                value if isinstance(value, str) else json.dumps(value)
            ).encode()
        except (ValueError, KeyError, TypeError) as error:
            raise InfraError(
                f"{path}, line {number}: {error!r}; each line is a JSON object of topic, partition, offset, value"
            ) from None
    return corrected


def _letter(record: Record) -> Letter:
    content = json.loads(record.value or b"{}")
    return Letter(**{name: content.get(name) for name in Letter.__dataclass_fields__})


def _originals(target: Target, variant: Variant, letters: Iterable[Letter]) -> dict[Place, Record]:
    kinds = {topic: kind for kind, topic in topics_of(variant).items()}
    wanted = {letter.place for letter in letters}
    if not wanted:
        return {}
    tops = {kinds[topic]: topic for topic, _, _ in wanted if topic in kinds}
    with closing(Tail(target.bootstrap, tops)) as tail:
        found = ((tops[record.topic], record.partition, record.offset, record) for record in tail.new())
        return {
            (topic, partition, offset): r
            for topic, partition, offset, r in found
            if (topic, partition, offset) in wanted
        }


def _is_masked(kind: EventType, letter: Letter, original: Record) -> bool:
    """Whether the dead letter holds less than the message, for another reason than its size or a token's digits."""
    if original.value is None or len(original.value) > kind.max_bytes:
        return False
    searched = without_tokens(kind, original.value)
    return kept(kind, searched, letter.reason) != (searched or None)


def _again(original: Record | None, corrected: bytes | None, key_field: str) -> tuple[bytes | None, bytes | None]:
    if corrected is None:
        assert original is not None
        return original.key, original.value
    try:
        return str(json.loads(corrected)[key_field]).encode(), corrected
    except (ValueError, KeyError, TypeError):
        return (original.key if original else None), corrected
