"""What waits after a segment though it was due, and until when all that arrived is judged."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping

from millrace import oracle
from millrace.rules import Session, WindowRule
from millrace.verify.evidence import Event
from millrace.verify.ledger.step import Step
from millrace.verify.ledger.windows import JUDGED


def pending(step: Step) -> dict[str, int]:
    """How much is not judged yet."""
    state = step.state
    of_tables = (each for own in state.tables.values() for each in (*own.waiting.values(), *own.unsure.values()))
    return {
        "events": len(state.units),
        "outputs": len(state.outputs),
        "alerts": sum(map(len, state.alerts.values())),
        "rows": len(state.rows),
        "windows overdue": sum(1 for since_ms in state.due_since.values() if since_ms != JUDGED),
        "events in open windows": len(state.counted),
        "events not in files": sum(1 for _ in _unstored(step)),
        "rows of tables": sum(not each.is_reported for each in of_tables),
    }


def whole_until_ms(step: Step) -> int:
    """What arrived before is judged, and so is all that was due because of it.

    Windows that no event has closed are not due, and neither are their alerts and rows.
    """
    state = step.state
    horizon_ms = step.cut_ms - step.limits.grace_ms if step.windows and not step.is_last else step.cut_ms
    found = [horizon_ms, *(each.judged.record.ingest_ms for each in state.units.values())]
    found += [step.cut_before(since_ms) for since_ms in _since_ms(step)]
    # A window is looked at so long after its last event.
    overdue = [since_ms for since_ms in state.due_since.values() if since_ms != JUDGED]
    found += [step.cut_before(since_ms) - step.limits.grace_ms for since_ms in overdue]
    found += [_arrived_ms(step, partition, offset) for partition, offset in _first_unstored(step).items()]
    return min(found)


def _since_ms(step: Step) -> Iterator[int]:
    """The cuts since which outputs wait for their cause, or a store for what it must show."""
    state = step.state
    yield from (since_ms for _, since_ms, _ in state.outputs)
    yield from state.behind.values()
    yield from step.unlabelled_ms
    open_starts = _open_starts(step)
    for own in state.alerts.values():
        for since_ms, (_, alert) in own:
            if (alert["rule"], alert["key"], alert["window_start_ms"]) not in open_starts:
                yield since_ms
    for name, rows in state.rows.items():
        if tuple(json.loads(name)) not in step.open_rows:
            yield from (since_ms for since_ms, _ in rows)
    for table in state.tables.values():
        for each in (*table.waiting.values(), *table.unsure.values()):
            if not each.is_reported:
                yield each.due_ms - step.limits.outstanding_ms


def _open_starts(step: Step) -> set[tuple[str, str, int | None]]:
    """Rule, key and start of the windows that are not judged yet, as far as alerts wait for them."""
    awaited: dict[str, set[str]] = defaultdict(set)
    for own in step.state.alerts.values():
        for _, (_, alert) in own:
            if isinstance(step.rules.get(alert["rule"]), WindowRule):
                awaited[alert["rule"]].add(alert["key"])
    return {
        (name, each.event[rule.key], start_ms)
        for name, keys in awaited.items()
        if isinstance(rule := step.rules[name], WindowRule)
        for each in step.state.counted.values()
        if (name in each.windows or name in each.left) and each.event[rule.key] in keys
        for start_ms in _starts(step, rule, each.event)
    }


def _starts(step: Step, rule: WindowRule, event: Event) -> Iterator[int]:
    """Where a window that counts this event may begin."""
    if isinstance(rule.window, Session):
        yield event[step.time]
    else:
        yield from oracle.starts(rule.window, event[step.time])


def _unstored(step: Step) -> Iterator[tuple[int, int]]:
    """Partition and offset of the judged events that no file holds so far."""
    for place, done in step.state.done.items() if "hdfs" in step.question.stores else ():
        yield from ((place[1], offset) for offset in step.unstored(place, done.end))


def _first_unstored(step: Step) -> Mapping[int, int]:
    """By partition the first event that no file holds so far."""
    found: dict[int, int] = {}
    for partition, offset in _unstored(step):
        found.setdefault(partition, offset)
    return found


def _arrived_ms(step: Step, partition: int, offset: int) -> int:
    """The last cut before a judged message arrived, as far as it is remembered."""
    kind, found = step.use.judged.name, step.cut_ms - step.limits.copies_ms
    for cut_ms, offsets in step.state.cuts:
        if offsets.get(kind, {}).get(partition, 0) <= offset:
            found = cut_ms
    return found
