"""Judges the windows that are over and have their results, and those that have waited too long."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from millrace import oracle
from millrace.oracle import Finding, Origin
from millrace.rules import Rule, Session, Sliding, WindowRule, WindowSummary, alert_id
from millrace.rules.outputs import ALERTS, WINDOWS_TOPIC
from millrace.verify.case import RowKey, Rows, findings_with, resting_on
from millrace.verify.checks import earlier_alerts, numbers
from millrace.verify.checks.alerts import RESTING_ON_RACES
from millrace.verify.evidence import Event, place_of
from millrace.verify.ledger.counting import is_judged
from millrace.verify.ledger.state import Counted, Output
from millrace.verify.ledger.step import Step, alert_digest

JUDGED = -1
"""In place of a cut: the window is judged."""


def judge(step: Step) -> None:
    """Judge the windows that are over and have their results, and those that have waited too long."""
    state, before_ms = step.state, _behind_ms(step)
    for (_, partition, _), each in state.counted.items():
        event = each.event
        if event["ingest_ms"] <= step.horizon_ms:
            at_ms = min(event[step.time], event["ingest_ms"])
            state.newest[partition] = max(at_ms, state.newest.get(partition, 0))
            state.arrived_ms[partition] = max(event["ingest_ms"], state.arrived_ms.get(partition, 0))
    state.passed_ms = max(_slowest_ms(step) - step.case.settled_after_ms, state.passed_ms)
    if _behind_ms(step) >= before_ms:  # else it catches up, as behind a backlog of one partition
        step.overdue_before_ms = step.case.overdue_before_ms
    for origin in step.case.doubtfully_late:
        state.counted[origin].raced = list(state.counted[origin].left)
    for rule in step.window_rules:
        step.case.found[rule.name] = _windows_of(step, rule)
        _judge_again(step, rule)
        _judge_races(step, rule)
    for summary in step.question.summaries:
        step.case.rows[summary.name] = _rows_of(step, summary)
    _judge_behind(step)
    _forget_counted(step)


def _slowest_ms(step: Step) -> int:
    """The newest moment of the partition that is furthest behind, of those that are not idle."""
    arrived_ms = step.state.arrived_ms
    active_since_ms = max(arrived_ms.values(), default=0) - step.bounds.idle_ms
    active = (number for number, at_ms in arrived_ms.items() if at_ms >= active_since_ms)
    return min(map(step.state.newest.__getitem__, active), default=0)


def _behind_ms(step: Step) -> int:
    """How far event time is behind the newest arrival."""
    return max(step.state.arrived_ms.values(), default=0) - _slowest_ms(step)


def _is_overdue(step: Step, end_ms: int, among: Iterable[Event]) -> bool:
    """Whether a window that is not over should be, though its events come as late as the earliest of them."""
    before_ms = step.overdue_before_ms
    return end_ms < before_ms and end_ms + min(each["ingest_ms"] - each[step.time] for each in among) < before_ms


def _name_overdue(step: Step, check: str, ends_ms: Sequence[int]) -> None:
    """Leave a check undecided of which windows with these ends should have results."""
    if why := step.case.overdue(ends_ms):
        step.unknown.setdefault(check, why)


def join(step: Step) -> None:
    """Let windows that wait for their results count the events that came behind judged ones, as they may.

    An alert shows that its window is closed; rows may come while theirs grow.
    """
    state = step.state
    behind = [state.counted[origin] for origin, since_ms in state.behind.items() if since_ms == step.cut_ms]
    for rule in step.window_rules if behind else ():
        by_key: dict[str, list[Event]] = {each.event[rule.key]: [] for each in behind}
        for each in state.counted.values():
            if rule.name in each.windows and (of_key := by_key.get(each.event[rule.key])) is not None:
                of_key.append(each.event)
        for each in behind:
            key = each.event[rule.key]
            found = oracle.windows(rule.window, step.time, [*by_key[key], each.event])
            own = {start_ms: len(among) for start_ms, among in found if each.event in among}
            is_alerted = any(alert_id(rule.name, rule.version, key, str(start)) in state.alerts for start in own)
            waiting = [] if is_alerted else [json.dumps([rule.name, key, start]) for start in own if own[start] > 1]
            _join(step, rule, each, waiting, [json.dumps([rule.name, key, start]) for start in own])
    # Without a rule no late dead letter shows which events rows leave out.
    since_ms = step.cut_ms - step.limits.copies_ms
    for summary in step.question.summaries if step.window_rules else ():
        for each in behind:
            names = rows_with(summary, each.event)
            _join(step, summary, each, [name for name in names if _is_unjudged(step, summary, name, since_ms)], names)


def _join(
    step: Step, of: WindowRule | WindowSummary, each: Counted, waiting: Sequence[str], own: Sequence[str]
) -> None:
    """Count an event in those of its windows that wait."""
    if waiting:
        each.windows.append(of.name)
        for window in own if isinstance(of.window, Sliding) else ():
            if window not in waiting:
                step.state.due_since[window] = JUDGED


def _is_unjudged(step: Step, summary: WindowSummary, name: str, since_ms: int) -> bool:
    """Whether a row is not judged yet; of windows that ended long ago it is not remembered."""
    start_ms = json.loads(name)[1]
    is_judged = name in step.state.done_rows or step.state.due_since.get(name) == JUDGED
    return not is_judged and summary.window.end_ms(start_ms, start_ms) >= since_ms


def _judge_behind(step: Step) -> None:
    """Judge what came behind judged windows: it is late if outputs show that the windows were that far."""
    state = step.state
    for origin, since_ms in list(state.behind.items()):
        counted = state.counted[origin]
        event, out_ms = counted.event, counted.out_ms
        for rule in step.window_rules:
            for name in _alerts_with(step, rule, origin):
                # Of the other events of its window some may be gone.
                state.done_alerts[name] = alert_digest(state.alerts.pop(name)[-1][1][1]), step.cut_ms
                step.unknown[f"alerts: {rule.name}"] = (
                    f"one counts {place_of(origin)}, which came behind judged windows"
                )
        if step.is_over(since_ms):
            del state.behind[origin]
            shown_ms = max((ms for at_ms, ms in state.shown if at_ms <= out_ms - step.bounds.clocks_ms), default=0)
            if event[step.time] < shown_ms - step.case.settled_after_ms or _is_far_behind(step, counted):
                step.unknown["lateness"] = (
                    f"{place_of(origin)} came behind windows that were judged, and is no late dead letter"
                )


def _is_far_behind(step: Step, each: Counted) -> bool:
    """Whether an event is so far behind all others that no window can rightly count it, however far the windows are.

    Soon after a backlog, or a change of a rule, windows may begin with it.
    """
    bounds, out_ms = step.bounds, each.out_ms
    is_prompt = 0 < out_ms <= each.event["ingest_ms"] + bounds.idle_ms
    is_prompt &= out_ms > step.case.windows_changed_ms + 2 * bounds.overdue_ms
    return is_prompt and max(each.surely_behind_ms, each.out_behind_ms) > bounds.held_ms + step.case.settled_after_ms


def _alerts_with(step: Step, rule: WindowRule, origin: Origin) -> list[str]:
    """The waiting alerts of a rule that name an event which it does not count here."""
    counted = step.state.counted[origin]
    if rule.on.id is None or rule.name in counted.windows:
        return []
    own = [(name, found[-1][1][1]) for name, found in step.state.alerts.items()]
    mine = [
        (name, alert) for name, alert in own if alert["rule"] == rule.name and alert["key"] == counted.event[rule.key]
    ]
    return [name for name, alert in mine if counted.event[rule.on.id] in alert["event_ids"]]


def _judge_again(step: Step, rule: WindowRule) -> None:
    """Judge the alerts on windows that counted an event before a restart, and after it called it late."""
    state, case = step.state, step.case
    late: dict[str, list[Event]] = defaultdict(list)
    for each in state.counted.values():
        if rule.name in each.left and each.copies > 1:
            late[each.event[rule.key]].append(each.event)
    in_time: dict[str, list[Event]] = defaultdict(list)
    for each in state.counted.values() if late else ():
        if each.event[rule.key] in late and not each.is_late:
            in_time[each.event[rule.key]].append(each.event)
    for key, again in late.items():
        found = list(findings_with(rule, in_time[key], again))
        case.again[rule.name, key] = found
        for finding in found:
            events = {origin: state.counted[origin] for origin in finding.origins}
            case.events |= {origin: each.event for origin, each in events.items()}
            case.out_ms |= {origin: each.out_ms for origin, each in events.items()}
            end_ms = rule.window.end_ms(finding.window_start_ms or 0, finding.at_ms)
            if _is_window_over(step, end_ms, [each.event for each in events.values()]):
                step.judge_alerts([finding.alert_id])


def _judge_races(step: Step, rule: WindowRule) -> None:
    """Leave undecided the alerts that rest on whether events are late, once the windows of these are over."""
    raced: dict[str, list[Counted]] = defaultdict(list)
    for each in step.state.counted.values():
        if rule.name in each.raced:
            raced[each.event[rule.key]].append(each)
    in_time: dict[str, list[Event]] = defaultdict(list)
    for each in step.state.counted.values() if raced else ():
        if each.event[rule.key] in raced and not each.is_late:
            in_time[each.event[rule.key]].append(each.event)
    for key, own in raced.items():
        late = [each.event for each in own]
        found = oracle.windows(rule.window, step.time, [*in_time[key], *late])
        among = [(start, events) for start, events in found if any(each in events for each in late)]
        ends = [(rule.window.end_ms(start, events[-1][step.time]), events) for start, events in among]
        if all(_is_window_over(step, *each) for each in ends):
            _name_races(step, rule, resting_on(rule, in_time[key], late))
            for each in own:
                each.raced.remove(rule.name)


def _name_races(step: Step, rule: WindowRule, found: Iterable[Finding]) -> None:
    since_ms, counted = step.case.versions(rule.name).since_ms, step.state.counted
    for each in found:
        events = [counted[origin] for origin in each.origins]
        is_from_before = any(0 < event.out_ms < since_ms for event in events)
        is_known = step.is_alerted(each) and any(event.is_late for event in events)
        if is_judged(step, rule.name, each.window_start_ms or 0) and not is_from_before and not is_known:
            step.unknown[f"alerts: {rule.name}"] = f"{RESTING_ON_RACES}: {each.key} {each.fact}"


def _forget_counted(step: Step) -> None:
    """Forget the events whose windows are judged, unless an alert may count a late one with them."""
    state = step.state
    for origin, each in state.counted.items():
        if each.left and step.is_over(state.done_late.get(origin, [0])[0]):
            each.left = []
    keys = {rule.name: rule.key for rule in step.window_rules}
    held = {
        (name, each.event[keys[name]])
        for each in state.counted.values()
        for name in (*each.left, *each.raced)
        if name in keys
    }
    for origin, each in list(state.counted.items()):
        is_held = held and any((name, each.event[key]) in held for name, key in keys.items())
        if not (each.windows or is_held or origin in state.behind or origin in state.units):
            del state.counted[origin]


def _windows_of(step: Step, rule: WindowRule) -> tuple[dict[str, Finding], dict[str, Finding]]:
    """The findings that are judged: those in windows that are over, and in others those that were alerted."""
    must: dict[str, Finding] = {}
    may: dict[str, Finding] = {}
    awaited: list[int] = []
    own = [each for each in step.state.counted.items() if rule.name in each[1].windows and not each[1].is_late]
    places = {_place(each.event): origin for origin, each in own}
    by_key: dict[str, list[Event]] = defaultdict(list)
    for _, each in own:
        by_key[each.event[rule.key]].append(each.event)
    is_waiting_long = _has_long_waiting(step, rule)
    may_be_due_ms = max(step.state.passed_ms, step.overdue_before_ms)
    for key, events in by_key.items():
        for start_ms, among in oracle.windows(rule.window, step.time, events):
            end_ms = rule.window.end_ms(start_ms, among[-1][step.time])
            if end_ms >= may_be_due_ms and not is_waiting_long:
                continue
            is_over = _is_window_over(step, end_ms, among)
            is_overdue = not is_over and _is_overdue(step, end_ms, among)
            if not (is_over or is_overdue or is_waiting_long):
                continue
            window = json.dumps([rule.name, key, start_ms])
            if step.state.due_since.get(window) == JUDGED:
                continue
            is_from_before = _is_from_before(step, rule, among, places)
            if is_over and is_from_before:
                if _is_owed(step, rule, key, start_ms) and not step.is_over(_since(step, window)):
                    continue
                _leave_out(step, rule, key, start_ms, among)
                _close(step, rule, window, start_ms, [places[_place(event)] for event in among])
            elif not is_judged(step, rule.name, start_ms):
                if is_over:
                    _close(step, rule, window, start_ms, [places[_place(event)] for event in among])
            elif is_over:
                finding = oracle.window_finding(rule, key, start_ms, among)
                if finding is None or step.is_alerted(finding) or step.is_over(_since(step, window)):
                    _close(step, rule, window, start_ms, [places[_place(event)] for event in among])
                    if finding is not None and finding.alert_id not in step.state.done_alerts:
                        must[finding.alert_id] = finding
            else:
                finding = oracle.window_finding(rule, key, start_ms, among)
                if finding is not None and is_waiting_long and finding.alert_id in step.state.alerts:
                    may[finding.alert_id] = finding
                elif finding is not None and is_overdue and not (is_from_before or step.is_alerted(finding)):
                    awaited.append(end_ms)
    _name_overdue(step, f"alerts: {rule.name}", awaited)
    for finding in (*must.values(), *may.values()):
        step.judge_alerts([finding.alert_id])
        for origin in finding.origins:
            step.state.behind.pop(origin, None)
            step.case.events[origin] = step.state.counted[origin].event
            step.case.out_ms[origin] = step.state.counted[origin].out_ms
    return must, may


def _is_from_before(
    step: Step, rule: WindowRule, among: Sequence[Event], places: Mapping[tuple[Any, ...], Origin]
) -> bool:
    """Whether a window holds an event that came out before its rule changed: an engine may have begun it anew."""
    since_ms = step.case.versions(rule.name).since_ms
    return since_ms > 0 and any(0 < step.state.counted[places[_place(event)]].out_ms < since_ms for event in among)


def _leave_out(step: Step, rule: WindowRule, key: str, start_ms: int, among: Sequence[Event]) -> None:
    """Hold a window and its alerts, those that wait and those that come, neither missing nor extra."""
    if _is_owed(step, rule, key, start_ms):  # its job may have been down
        why = f"a window was over, and lacked its alert when the rule changed: {rule.name} {key} {start_ms}"
        step.unknown.setdefault(earlier_alerts.CHECKER.name, why)
    span = [start_ms, start_ms if not isinstance(rule.window, Session) else among[-1][step.time], step.cut_ms]
    step.state.open_then.setdefault((rule.name, key), []).append(span)
    step.case.unjudged_windows[rule.name] += oracle.window_finding(rule, key, start_ms, among) is not None
    for identity, own in list(step.state.alerts.items()):
        if is_left_out(step, rule, own[-1][1][1]):
            del step.state.alerts[identity]


def _is_owed(step: Step, rule: WindowRule, key: str, start_ms: int) -> bool:
    """Whether a window lacked its alert when its rule changed, and lacks it still, of either version."""
    if json.dumps([rule.name, key, start_ms]) not in step.state.due_since:
        return False
    waiting = (own[-1][1] for own in step.state.alerts.values())
    return not any(
        (alert["rule"], alert["key"], alert["window_start_ms"]) == (rule.name, key, start_ms)
        for _, alert in (*step.due[ALERTS.name], *waiting)
    )


def is_left_out(step: Step, rule: WindowRule, alert: Event) -> bool:
    """Whether an alert of the present version is on a window that held an event from before the change."""
    spans = step.state.open_then.get((rule.name, alert["key"]), ()) if alert["rule"] == rule.name else ()
    start_ms = alert["window_start_ms"]
    return start_ms is not None and any(first_ms <= start_ms <= last_ms for first_ms, last_ms, _ in spans)


def is_told_again(step: Step, rule: WindowRule, output: Output) -> bool:
    """Whether an alert is on a window that was over before a rule on windows changed, and whose events are gone here.

    An engine with one query for all such rules reads its topic anew when one of them changes.
    """
    (record, alert), changed_ms = output, step.case.windows_changed_ms
    return record.ingest_ms >= changed_ms and is_gone(step, rule, alert, changed_ms)


def is_gone(step: Step, rule: WindowRule, alert: Event, before_ms: int) -> bool:
    """Whether an alert is on a window that was over before a moment, and whose events are gone here."""
    start_ms, last_ms, key = alert["window_start_ms"], alert["at_ms"], alert["key"]
    if start_ms is None or rule.window.end_ms(start_ms, last_ms) >= min(before_ms, step.state.passed_ms):
        return False
    return not any(
        rule.name in each.windows and each.event[rule.key] == key and start_ms <= each.event[step.time] <= last_ms
        for each in step.state.counted.values()
    )


def note_texts(step: Step, alerts: Iterable[Event]) -> None:
    """Note the events that windows count by the keys and subjects of the alerts on windows of earlier versions."""
    earlier = [each for each in alerts if each["window_start_ms"] is not None and step.case.is_earlier(each)]
    texts = {each[name] for each in earlier for name in ("key", "subject")}
    for counted in step.state.counted.values() if texts else ():
        for text in {value for value in counted.event.values() if isinstance(value, str)} & texts:
            step.by_text[text].append(counted)


NONE: Sequence[Counted] = ()
"""In place of the events of a window: those that an alert names are none of it."""


def of_earlier_window(step: Step, alert: Event) -> Sequence[Counted] | None:
    """The events of an alert of an earlier version on a window; None if one of its window, or its key, may be gone.

    All are there while the window is open for the present version, or where a list that is not full names them all.
    """
    name, start_ms, ids = alert["rule"], alert["window_start_ms"], set(alert["event_ids"])
    judged, of_key = step.use.judged, step.by_text[alert["key"]]
    of_subject = [each for each in step.by_text[alert["subject"]] if each.event.get(judged.key) == alert["subject"]]
    earlier, own = step.question.earlier.get((name, alert["rule_version"])), _counting_alike(step, alert)
    if (rule := earlier or own) is None:
        return None
    fields = [name for name in (rule.key, judged.key, judged.id) if name is not None]
    if any(each.event.get(name) is None for each in (*of_key, *of_subject) for name in fields):
        return None
    if earlier is not None:
        of_key = [each for each in of_key if each.event[earlier.key] == alert["key"]]
    among = [each for each in of_key if start_ms <= each.event[step.time] <= alert["at_ms"]]
    ids_most = earlier.ids_most if earlier else min((each.ids_most for each in step.window_rules), default=1)
    is_full, are_among = len(ids) >= ids_most, bool(ids) and ids_of(step, among) >= ids
    # Events of other subjects may have the same ids.
    named = [each for each in of_subject if each.event.get(judged.id or "") in ids]
    is_of_subject = rule.key == judged.key and alert["key"] == alert["subject"]
    if alert["at_ms"] < start_ms or (is_of_subject and ids and not are_among and ids_of(step, named) >= ids):
        return NONE
    had = {each for each in ids if step.state.oracle.seen_ms.get((alert["subject"], each), 0)}
    if named and not is_full and ids_of(step, named) >= had and not any(each in among for each in named):
        return NONE
    is_open = own is not None and _is_open(step, own, start_ms, among)
    return among if is_open or (are_among and not is_full) else None


def _counting_alike(step: Step, alert: Event) -> WindowRule | None:
    """The present version of the rule of an alert of an earlier one, if its windows hold the same events."""
    name, present = alert["rule"], step.rules.get(alert["rule"])
    if not isinstance(present, WindowRule) or not is_judged(step, name, alert["window_start_ms"]):
        return None
    earlier = step.question.earlier.get((name, alert["rule_version"]), present)
    return present if (earlier.key, earlier.window) == (present.key, present.window) else None


def _is_open(step: Step, rule: WindowRule, start_ms: int, among: Sequence[Counted]) -> bool:
    """Whether all events of a window of the rule that have come are among these: it is not judged yet."""
    if start_ms >= step.state.passed_ms:
        return True
    is_open = bool(among) and not isinstance(rule.window, Sliding)
    return is_open and all(rule.name in each.windows or each.is_late for each in among)


def is_closed(step: Step, alert: Event) -> bool:
    """Whether the window of an alert of an earlier version is judged now, while that waited for events of it."""
    own, among = _counting_alike(step, alert), step.case.of_windows.get(alert["alert_id"])
    return own is not None and among is not None and not _is_open(step, own, alert["window_start_ms"], among)


def ids_of(step: Step, events: Iterable[Counted]) -> set[Any]:
    """The ids of events that windows count."""
    return {each.event.get(step.use.judged.id or "") for each in events}


def _has_long_waiting(step: Step, rule: Rule) -> bool:
    """Whether an alert of the rule has waited for its window too long."""
    return any(
        step.is_over(since_ms) and alert["rule"] == rule.name
        for own in step.state.alerts.values()
        for since_ms, (_, alert) in own
    )


def _is_window_over(step: Step, end_ms: int, among: Sequence[Event]) -> bool:
    return end_ms < step.state.passed_ms and max(event["ingest_ms"] for event in among) <= step.horizon_ms


def _since(step: Step, window: str) -> int:
    """The first cut at which a window was over."""
    return step.state.due_since.setdefault(window, step.cut_ms)


def _close(step: Step, rule: WindowRule, window: str, start_ms: int, origins: Iterable[Origin]) -> None:
    """A window is judged: its events no longer count for the rule, unless they are in other windows of it."""
    step.state.due_since.pop(window, None)
    if isinstance(rule.window, Sliding):
        step.state.due_since[window] = JUDGED
    for origin in origins:
        counted = step.state.counted[origin]
        if not _is_in_other(step, rule, counted.event):
            counted.windows.remove(rule.name)


def _is_in_other(step: Step, rule: WindowRule, event: Event) -> bool:
    """Whether an event is in a window of the rule that is not judged yet."""
    if not isinstance(rule.window, Sliding):
        return False
    key = event[rule.key]
    windows = (json.dumps([rule.name, key, start]) for start in oracle.starts(rule.window, event[step.time]))
    return any(step.state.due_since.get(window) != JUDGED for window in windows)


def _rows_of(step: Step, summary: WindowSummary) -> Rows:
    """The rows that are judged."""
    state, time = step.state, summary.on.time or ""
    groups: dict[RowKey, list[Counted]] = defaultdict(list)
    for each in state.counted.values():
        if summary.name in each.windows:
            for start_ms in oracle.starts(summary.window, each.event[time]):
                groups[start_ms, *(each.event[name] for name in summary.keys)].append(each)
    step.open_rows |= {(summary.name, *key) for key in groups}
    over: dict[RowKey, dict[str, Any]] = {}
    with_late: dict[RowKey, dict[str, Any]] = {}
    counted: dict[RowKey, Sequence[Counted]] = {}
    from_before: set[RowKey] = set()
    since_ms = step.case.versions(summary.name).since_ms
    awaited: list[int] = []
    for key, own in groups.items():
        end_ms, among = summary.window.end_ms(key[0], key[0]), [c.event for c in own]
        is_over = _is_window_over(step, end_ms, among)
        if not (is_over or _is_overdue(step, end_ms, among)):
            continue
        name = row_name(summary, key)
        if state.due_since.get(name) == JUDGED:
            continue
        if not is_judged(step, summary.name, key[0]):
            if is_over:
                _close_row(step, summary, name, own)
            continue
        counting = [each for each in own if _may_count(step, each)]
        of_all = oracle.measured(summary, [each.event for each in counting])
        in_time = [each.event for each in counting if not each.is_late]
        late = [each.event for each in counting if each.is_late]
        values = oracle.measured(summary, in_time) if in_time else None
        rows = state.rows.get(name, ())
        last = numbers.last_of(output for _, output in rows)
        if any(0 < each.out_ms < since_ms for each in own):
            from_before.add(key)
            state.open_then[summary.name, name] = [[key[0], key[0], step.cut_ms]]
        is_right = values is None or key[0] < since_ms or key in from_before
        is_right = is_right or (
            last is not None and numbers.counts_all(summary, last[1], values or {}, of_all, late, in_time)
        )
        if not is_over:
            awaited += [] if is_right else [end_ms]
            continue
        if not is_right and not step.is_over(_since(step, name)):
            continue
        if counting:
            with_late[key], counted[key] = of_all, counting
        if values is not None:
            over[key] = values
        step.due[WINDOWS_TOPIC] += [output for _, output in state.rows.pop(name, ())]
        none = oracle.measured(summary, ()) if values is None else values
        state.done_rows[name] = none, of_all, _began_ms(own), late[: numbers.LATE_MOST + 1], step.cut_ms
        _close_row(step, summary, name, own)
    _name_overdue(step, f"numbers: {summary.name}", awaited)
    for name, rows in list(state.rows.items()):
        if json.loads(name)[0] == summary.name and any(step.is_over(since) for since, _ in rows):
            key = tuple(json.loads(name)[1:])
            if key in groups and not step.is_last:
                continue
            if key in groups:
                counted[key] = [each for each in groups[key] if _may_count(step, each)]
                with_late[key] = oracle.measured(summary, [each.event for each in counted[key]])
            step.due[WINDOWS_TOPIC] += [output for _, output in state.rows.pop(name)]
    step.case.parts[summary.name] = {key: _parts(own) for key, own in counted.items()}
    began_ms = {key: _began_ms(own) for key, own in counted.items()}
    events = {key: [each.event for each in own] for key, own in counted.items()}
    late_of = {key: [each.event for each in own if each.is_late] for key, own in counted.items()}
    return Rows(over, with_late, began_ms, events, from_before=from_before, late=late_of)


def _may_count(step: Step, each: Counted) -> bool:
    """Whether a row may count an event, as a whole verdict has it."""
    return not each.is_late or step.question.counts_late or each.copies > 1


def _began_ms(own: Iterable[Counted]) -> int:
    """When the first of these events arrived."""
    return min(int(each.event["ingest_ms"]) for each in own)


def _parts(own: Iterable[Counted]) -> list[list[Event]]:
    """The events in time of a row by partition of the intermediate topic, in its order; none if one came out twice."""
    found: dict[int, list[tuple[int, Event]]] = defaultdict(list)
    for each in own:
        if each.is_late:
            continue
        if each.place is None or each.copies != 1:
            return []
        partition, offset = each.place
        found[partition].append((offset, each.event))
    return [[event for _, event in sorted(part, key=itemgetter(0))] for part in found.values()]


def _close_row(step: Step, summary: WindowSummary, name: str, own: Iterable[Counted]) -> None:
    """A window of a summary is judged."""
    step.state.due_since.pop(name, None)
    if isinstance(summary.window, Sliding):
        step.state.due_since[name] = JUDGED
    for each in own:
        keys = [each.event[column] for column in summary.keys]
        starts = oracle.starts(summary.window, each.event[summary.on.time or ""])
        others = (row_name(summary, (start, *keys)) for start in starts)
        if not isinstance(summary.window, Sliding) or all(
            step.state.due_since.get(other) == JUDGED for other in others
        ):
            each.windows.remove(summary.name)


def row_name(summary: WindowSummary, key: RowKey) -> str:
    """A row among the waiting ones."""
    return json.dumps([summary.name, *key])


def rows_with(summary: WindowSummary, event: Event) -> list[str]:
    """The rows that count an event."""
    keys = [event[name] for name in summary.keys]
    return [
        row_name(summary, (start_ms, *keys)) for start_ms in oracle.starts(summary.window, event[summary.on.time or ""])
    ]


def _place(event: Event) -> tuple[Any, ...]:
    return event["source_topic"], event["source_partition"], event["source_offset"]
