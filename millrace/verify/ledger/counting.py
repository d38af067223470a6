"""From when on windows are judged whose rule or summary counts events otherwise than with the segment before."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from millrace.rules import Session, WindowRule, WindowSummary, read_by_windows
from millrace.verify.ledger.step import Step

Counting = WindowRule | WindowSummary


def begin(step: Step) -> None:
    """Judge no window that may hold an event which was counted otherwise, or was not.

    Of an earlier event only the fields are known that windows read then, and of one whose windows were judged none.
    """
    state = step.state
    every: list[Counting] = [*step.window_rules, *step.question.summaries]
    present = {each.name: each for each in every}
    before, state.counting = state.counting, {name: _how(each) for name, each in present.items()}
    if before is None:  # an earlier version did not take it down
        before = {name: state.counting[name] for name, each in present.items() if _has_fields(step, each)}
    changed = {name for name, how in state.counting.items() if before.get(name) != how}
    if before == state.counting or not state.number:
        return
    times_ms = [each.event[step.time] for each in state.counted.values()]
    known_ms = max([state.cut_ms, *times_ms] if times_ms else [state.cut_ms + step.use.judged.future_ms]) + 1
    for name in changed:
        window = present[name].window
        since_ms = known_ms + (window.gap_ms if isinstance(window, Session) else 0)
        state.whole_since[name] = since_ms
        since = datetime.fromtimestamp(since_ms / 1000, UTC).isoformat(" ", "seconds")
        check = "alerts" if name in step.rules else "numbers"
        step.unknown[f"{check}: {name}"] = (
            f"no window that begins before {since} is judged: its events are not all known"
        )
    same = present.keys() - changed
    for each in state.counted.values():
        each.event = {**dict.fromkeys(step.kept), **each.event}
        each.windows = [name for name in each.windows if name in same]
        each.left = [name for name in each.left if name in same]
        each.raced = [name for name in each.raced if name in same]
    for waiting in (state.due_since, state.rows):
        for window_name in [each for each in waiting if json.loads(each)[0] not in same]:
            del waiting[window_name]


def is_judged(step: Step, name: str, start_ms: int) -> bool:
    """Whether all events of a window are known that begins then; before 1970 none does."""
    return not 0 <= start_ms < step.state.whole_since.get(name, 0)


def _how(each: Counting) -> str:
    """How a rule or a summary counts events, but for what it makes of them."""
    keys = (each.key,) if isinstance(each, WindowRule) else each.keys
    return repr([keys, each.window, _fields(each)])


def _fields(each: Counting) -> list[str]:
    return read_by_windows([each], []) if isinstance(each, WindowRule) else read_by_windows([], [each])


def _has_fields(step: Step, each: Counting) -> bool:
    """Whether the events that are counted have all that a rule or a summary reads."""
    fields = set(_fields(each))
    return all(fields <= known.event.keys() for known in step.state.counted.values())
