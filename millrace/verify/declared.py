"""What of an output message is not as declared: its fields, its key, or its time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from millrace.oracle import Record
from millrace.rules import ALERTS, DEAD_LETTERS, ENRICHMENT, LIMITS, EventType, UseCase, WindowSummary, card_numbers
from millrace.rules.outputs import INGEST_MS
from millrace.rules.outputs import WINDOWS_TOPIC as WINDOWS
from millrace.verify.evidence import ENRICHED, Event, Versions

Faults = Callable[[Record, Event], Iterator[str]]
CHANGES_OF_EVENTS = (ENRICHMENT, LIMITS)
"""A change of either may change the fields of the intermediate topic."""


def faults_of(
    use: UseCase,
    summaries: Sequence[WindowSummary],
    in_force: Mapping[str, Versions],
    clocks_ms: int,
    differ_ms: int,
) -> Mapping[str, Faults]:
    """For each output the function that finds what of a message is not as declared.

    What came out before its declaration changed has the fields and the key of then; rows of a summary that is declared
    no more came while it was. An output reaches its topic after its cause did, by clocks that differ by at most
    `differ_ms`.
    """
    since_ms, of_event = events_since_ms(in_force, clocks_ms), frozenset(use.enriched.names)
    by_name = {each.name: each for each in summaries}

    def of_events(record: Record, event: Event) -> Iterator[str]:
        yield from _before_its_cause(record, event, differ_ms)
        if record.ingest_ms >= since_ms:
            yield from undeclared(event, of_event)
            yield from _with_key(record, event.get(use.enriched.key))

    def of_summary(record: Record, row: Event) -> Iterator[str]:
        name = row["summary"]
        summary, versions = by_name.get(name), in_force.get(name, Versions())
        if summary is None and not versions.may_write(record.ingest_ms, clocks_ms):
            yield f"there was no summary '{name}' in this pattern then"
        if summary is not None and row["window_start_ms"] >= versions.since_ms:
            yield from undeclared(row, summary.columns)
            keys = [row.get(name) for name in summary.keys] or [summary.name]
            # Flink has one column as the key, the other engines the whole window.
            window = "|".join(map(str, (row["window_start_ms"], *keys[: len(summary.keys)])))
            if all(isinstance(each, str) for each in keys):
                yield from _with_key(record, keys[0], window)

    return {
        ENRICHED: of_events,
        ALERTS.name: partial(_of_type, ALERTS, differ_ms),
        DEAD_LETTERS.name: partial(_of_type, DEAD_LETTERS, differ_ms),
        WINDOWS: of_summary,
    }


def events_since_ms(in_force: Mapping[str, Versions], clocks_ms: int) -> int:
    """Since when all that comes out has the fields of the present declaration."""
    changes_ms = [in_force[name].since_ms for name in CHANGES_OF_EVENTS if name in in_force]
    return max(changes_ms) + clocks_ms if changes_ms else 0


def undeclared(event: Event, declared: Collection[str]) -> list[str]:
    """The complaints about fields that are not declared; a name may hold what no reader can write again."""
    return [f"{name!r} is not declared{_and_holds(value)}" for name, value in event.items() if name not in declared]


def _of_type(declared: EventType, differ_ms: int, record: Record, event: Event) -> Iterator[str]:
    yield from _before_its_cause(record, event, differ_ms)
    yield from undeclared(event, declared.names)
    yield from _with_key(record, event.get(declared.key))


def _before_its_cause(record: Record, event: Event, differ_ms: int) -> Iterator[str]:
    """The complaint about a message that its topic had before the raw message.

    When it came out decides which version of a rule judged it.
    """
    caused_ms = event.get(INGEST_MS.name)
    if caused_ms is not None and record.ingest_ms < caused_ms - differ_ms:
        yield f"its topic had it at {record.ingest_ms}, before its cause, which arrived at {caused_ms}"


def _with_key(record: Record, *keys: Any) -> Iterator[str]:
    """The complaint about a message with none of these keys."""
    if isinstance(keys[0], str) and record.key not in [key.encode(errors="replace") for key in keys]:
        yield f"its key is {record.key!r}, not {keys[0]!r}"


def _and_holds(value: Any) -> str:
    """A card number is the worst that may leave by a field that nobody reads: it is named, never shown."""
    return ", and holds a card number" if card_numbers.are_in(str(value)) else ""
