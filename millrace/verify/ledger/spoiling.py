"""Every way to spoil a ledger in memory: `verdicts`, or the validator that continues it, must notice each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from millrace.verify.ledger.chain import Entry, read
from millrace.verify.ledger.state import digest_of, entry_in
from millrace.verify.spoiling import Outcome

LEDGER = ("ledger",)
"""The check that must notice each."""
Spoilt = tuple[str, list[bytes], list[bytes]]
"""What was done, the messages of the ledger, and the lines of its last state."""


def outcomes(entries: Sequence[Entry], state: Sequence[bytes]) -> Iterator[Outcome]:
    """Spoil these entries, the last of a ledger, and the state that was written with the last one."""
    for name, messages, lines in spoilings(entries, state):
        yield Outcome(name, LEDGER, LEDGER if is_noticed(messages, lines, is_part=entries[0].number > 1) else ())


def is_noticed(messages: Sequence[bytes], state: Sequence[bytes], *, is_part: bool) -> bool:
    """Whether the chain is broken, or the last entry and the last state do not belong together."""
    found = read(messages, is_part=is_part)
    last = found.entries[-1] if found.entries else None
    return bool(found.breaks) or last is None or last.state != digest_of(state) or last.own != entry_in(state)


def spoilings(entries: Sequence[Entry], state: Sequence[bytes]) -> Iterator[Spoilt]:
    """The same messages and lines, spoilt in each way that they allow."""
    whole, lines = [entry.to_json().encode() for entry in entries], list(state)
    for name, messages in _chains(whole, len(whole) // 2, "an entry"):
        yield f"ledger: {name}", messages, lines
    for name, messages in _chains(whole, len(whole) - 1, "the last entry"):
        yield f"ledger: {name}", messages, lines
    for at in range(1, len(whole) - 1):
        yield f"ledger: the last {len(whole) - at} entries are cut off", whole[:at], lines
    middle = len(lines) // 2
    yield "state: a line is lost", whole, [*lines[:middle], *lines[middle + 1 :]]
    yield "state: it is cut off", whole, [*lines[:-1], lines[-1][:-1]]
    yield "state: its head is altered", whole, [lines[0].replace(b'"number":', b'"Number":', 1), *lines[1:]]
    yield "state: it is absent", whole, []


def _chains(whole: list[bytes], at: int, which: str) -> Iterator[tuple[str, list[bytes]]]:
    """A chain in which one entry is spoilt."""
    before, own, after = whole[:at], whole[at], whole[at + 1 :]
    if after:  # else it is judged again, to the same entry
        yield f"{which} is dropped", [*before, *after]
    yield f"{which} is there twice", [*before, own, own, *after]
    yield f"{which} is no JSON", [*before, own[:-1], *after]
    yield f"{which} is followed by another message", [*before, own, b"{}", *after]
    if before:
        yield f"{which} is swapped with the one before", [*before[:-1], own, before[-1], *after]
    for each in fields(Entry):
        content = json.loads(own)
        content[each.name] = _other(each.name, content[each.name])
        altered = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        yield f"{which}: {each.name} is altered", [*before, altered, *after]


def _other(name: str, value: Any) -> Any:
    """Another value of the same shape."""
    match value:
        case _ if name == "status":
            return "failed" if value == "ok" else "ok"
        case int():
            return value + 1
        case str():
            return f"{value}x"
        case list():
            return [*value, "x"]
        case _:
            return {**value, "x": {"pending": 1, "versions": "x"}.get(name, {})}
