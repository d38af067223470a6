"""Invented uses and messages by a seed, for engines that run: times are near the moment of sending."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, TypeVar

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.strategies import SearchStrategy

from millrace.oracle import Record
from tests.second.both import first
from tests.second.invented import LABEL, START_MS, Invented, as_sent, contents, declared, source_of, uses
from tests.uses.tape import CLOSERS, PER_S, Due, closing

KEYS = [*(f"k{number}" for number in range(10)), "7", "a|i1", "a%7Ci1"]
LABELS_EARLIER_S = 3.0
"""The judge allows any order of messages that come to two topics within less."""
CANDIDATES, IMAGINED_S = 8, 3.0
# A sum of real numbers depends on their order, which is another in each engine's windows.
MANY = uses(measures=(4, 7), on_events=(6, 10), on_windows=(4, 6), charts=(2, 4), summed=("whole",))
Drawn = TypeVar("Drawn")


def drawn(strategy: SearchStrategy[Drawn], seed: int, number: int) -> list[Drawn]:
    """What a strategy gives for a seed; the first is the simplest."""
    found: list[Drawn] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=number, phases=[Phase.generate], database=None, suppress_health_check=[*HealthCheck]
    )
    @hypothesis.given(strategy)
    def keep(each: Drawn) -> None:
        found.append(each)

    keep()
    return found


def invent(seed: int) -> Invented:
    """A use with many rules, all of which alert."""
    found = [(invented, alerting(invented, seed)) for invented in drawn(MANY, seed, CANDIDATES)]
    invented, names = max(found, key=lambda each: len(each[1]))
    return only(invented, names | {summary.name for summary in invented.use.summaries})


def source(invented: Invented) -> str:
    """The use as a module of Python, for messages that arrive now."""
    return source_of(invented, past_ms=86_400_000, future_ms=60_000, disorder_ms=1_000)


def alerting(invented: Invented, seed: int) -> set[str]:
    """The names of the rules that alert, by the oracle."""
    tape, ms = [], START_MS
    for offset, (after_s, topic, key, make) in enumerate(plan("", invented, seed, IMAGINED_S)):
        ms = START_MS + int(after_s * 1000)
        tape.append(Record(topic.removeprefix("."), 0, offset, ms, key, make(ms)))
    use = declared(source(invented))
    return {alert["rule"] for alert in first(use, use.rules, tape).alerts.values()}


def only(invented: Invented, names: Collection[str]) -> Invented:
    """The use with only these rules and summaries, and what they read."""
    kept = replace(
        invented,
        alert_when=tuple(each for n, each in enumerate(invented.alert_when) if f"event-{n}" in names),
        windows=tuple(each for n, each in enumerate(invented.windows) if f"window-{n}" in names),
        summaries=tuple(each for n, each in enumerate(invented.summaries) if f"summary-{n}" in names),
    )
    on_windows = repr((kept.windows, kept.summaries))
    kept = replace(kept, adds=tuple(each for each in kept.adds if each[0] in on_windows))
    on_events = repr((kept.alert_when, kept.adds))
    return replace(kept, remembers=tuple(each for each in kept.remembers if f"before.{each[0]}" in on_events))


def plan(pattern: str, invented: Invented, seed: int, seconds: float) -> Iterator[Due]:
    """Labels, then events and what comes beside them, then what lets the last windows close."""
    random_, closers = Random(seed), [f"closer-{number}" for number in range(CLOSERS)]
    events, labels = drawn(contents(invented.limits), seed, 200), drawn(LABEL, seed, 10)
    for key in (*KEYS, *closers):
        yield 0, f"{pattern}.labels", key.encode(), partial(value, {"name": key, **dict(random_.choice(labels))}, None)
    if invented.looks_up:
        yield 0, f"{pattern}.labels", KEYS[0].encode(), lambda now_ms: None
    for number in range(int(seconds * PER_S)):
        if number % (PER_S // 2) == 0:
            busy = random_.sample(KEYS, 3)
        key = random_.choice(busy if random_.random() < 0.7 else KEYS)
        content: dict[str, Any] = dict(random_.choice(events))
        if str(content["id"]).startswith("i") and random_.random() < 0.97:
            content["id"] = f"i{number // 2}"  # two messages have it; if their keys differ, both are accepted
        stream = "others" if random_.random() < 0.05 else "events"
        content = {"key": as_sent(stream, key), **content}
        back_ms = random_.choice((0, 0, 0, 1, -1)) + 50 * random_.choice((0, 0, 0, 1, 2, 4, 8, 16))
        back_ms = random_.choice((20_000, -600)) if random_.random() < 0.01 else back_ms
        yield LABELS_EARLIER_S + number / PER_S, f"{pattern}.{stream}", key.encode(), partial(value, content, back_ms)
    for after_s, number in closing(LABELS_EARLIER_S + seconds):
        event = {"key": closers[number], "id": f"at-{after_s}", "whole": 0, "latitude": 0.0}
        yield after_s, f"{pattern}.events", closers[number].encode(), partial(value, event, 0)


def value(content: dict[str, Any], back_ms: int | None, now_ms: int) -> bytes:
    """A message, of a moment just before now where windows may begin and end."""
    times = {} if back_ms is None else {"at_ms": now_ms // 50 * 50 - back_ms}
    return json.dumps(content | times).encode()
