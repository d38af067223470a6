"""Puts each output beside the raw message that it comes from, and compares later copies with what was judged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from millrace.oracle import Origin, Record
from millrace.rules import LIMITS, Rule, WindowRule, alert_id
from millrace.rules.outputs import ALERTS, DEAD_LETTERS, LATE, REPLAYED, SOURCE, WINDOWS_TOPIC, names
from millrace.verify.checks import numbers
from millrace.verify.checks.alert_ids import of_no_event
from millrace.verify.checks.enrichment import READ_APART
from millrace.verify.checks.files import out_of_place
from millrace.verify.checks.refusals import STAGES
from millrace.verify.checks.repetitions import named_alert, named_event, named_letter, named_row
from millrace.verify.evidence import EARLIER_MOST_MS, ENRICHED, FILES, Event, Read, is_same, kinds_of, misfit, place_of
from millrace.verify.ledger.counting import is_judged
from millrace.verify.ledger.files import note
from millrace.verify.ledger.state import Output
from millrace.verify.ledger.step import (
    ENRICHED_TAG,
    EVENT_BITS,
    LETTER_TAG,
    LOST,
    NOTHING,
    Step,
    alert_digest,
    late_digests,
    letter_digest,
)
from millrace.verify.ledger.windows import (
    NONE,
    ids_of,
    is_closed,
    is_gone,
    is_left_out,
    is_told_again,
    note_texts,
    of_earlier_window,
    row_name,
    rows_with,
)

NOWHERE = Record(FILES, 0, 0, 0, None, None)
"""In place of the message, of a row in a file."""


def attribute(step: Step, parsed: Mapping[str, Read]) -> None:
    """Put each output beside its raw message; what has none yet waits."""
    state = step.state
    waiting, state.outputs = state.outputs, []
    own = (output for each in state.alerts.values() for _, output in each)
    note_texts(step, (alert for _, alert in (*parsed[ALERTS.name].events, *own, *_alerts_in(waiting))))
    for kind, since_ms, output in waiting:
        if kind == FILES:
            state.outputs.append((kind, since_ms, output))
        elif kind == ALERTS.name:
            _put_earlier(step, since_ms, output)
        else:
            _put(step, kind, since_ms, output)
    for identity, alerts in list(state.alerts.items()):
        if _is_of_earlier_window(step, alerts[-1][1]):
            del state.alerts[identity]
            for since_ms, output in alerts:
                _put_earlier(step, since_ms, output)
    for kind in (ENRICHED, DEAD_LETTERS.name):
        for output in parsed[kind].events:
            _put(step, kind, step.cut_ms, output)
    for output in parsed[ALERTS.name].events:
        _put_alert(step, output)
    for output in parsed[WINDOWS_TOPIC].events:
        _put_row(step, output)


def _alerts_in(outputs: Iterable[tuple[str, int, Output]]) -> Iterator[Output]:
    return (output for kind, _, output in outputs if kind == ALERTS.name)


def take_rows(step: Step) -> None:
    """Compare the rows of files with the events that are judged; the others wait for theirs."""
    waiting, step.state.outputs = step.state.outputs, []
    for kind, since_ms, output in waiting:
        if kind == FILES:
            _put(step, kind, since_ms, output)
        else:
            step.state.outputs.append((kind, since_ms, output))
    step.offenders[FILES] += step.inputs.wrong_files
    for row in step.inputs.rows:
        note(step, row)
        if _is_at_home(step, row):
            _put(step, FILES, step.cut_ms, (NOWHERE, row))
    _take_rewritten(step)


def _is_at_home(step: Step, row: Event) -> bool:
    """Whether a row names its raw message; a fault if not, if it is in the folder of another hour, or has more."""
    if wrong := step.undeclared(row):
        step.offenders[FILES].append(f"wrong: {', '.join(wrong)}")
    if misfit(kinds_of(SOURCE), names(SOURCE), row) is not None:
        step.offenders[FILES].append("a row does not name the raw message that it comes from")
        return False
    step.offenders[FILES] += [f"{each}: {place_of(step.source(row))}" for each in out_of_place(row, step.time)]
    return True


def _take_rewritten(step: Step) -> None:
    """Compare what a compaction wrote with what was there before; what was not read before is as any other row."""
    waiting = {step.source(event): event for kind, _, (_, event) in step.state.outputs if kind == FILES}
    met: set[tuple[str, Origin]] = set()
    for row in step.inputs.rewritten:
        if not _is_at_home(step, row):
            continue
        origin, path = step.source(row), getattr(row, "path", "")
        done, before = step.state.done.get(origin[:2]), waiting.get(origin)
        digest = None if done is None else done.get(origin[2])
        if (path, origin) in met:
            step.offenders[FILES].append(f"twice in a file: {place_of(origin)}")
        elif before is not None:
            if step.digest_of(row) != step.digest_of(before):
                step.offenders[FILES].append(f"rewritten otherwise: {place_of(origin)}")
        elif done is not None and digest is not None and done.stored[origin[2] - done.base]:
            if digest != LOST and not _is_stored_form(step, origin, step.digest_of(row), digest):
                step.offenders[FILES].append(f"rewritten otherwise: {place_of(origin)}")
        elif done is None or origin[2] >= done.base or origin in step.state.missing:
            note(step, row)
            _put(step, FILES, step.cut_ms, (NOWHERE, row))
            waiting |= {origin: row} if digest is None else {}
        met.add((path, origin))


def _put(step: Step, kind: str, since_ms: int, output: Output) -> None:
    """Put one enriched event or dead letter beside its raw message."""
    record, event = output
    is_letter = kind == DEAD_LETTERS.name
    origin = step.letter_origin(event) if is_letter else step.source(event)
    if is_letter and (event["reason"] in (LATE, REPLAYED) or origin[0] not in step.raw):
        # A late one is judged by the windows, whether its message is judged or not; a mark by the other dead letters.
        step.state.outputs.append((kind, since_ms, output))
        return
    unit, counted = step.state.units.get(origin), step.state.counted.get(origin)
    if counted is not None and kind == ENRICHED:
        counted.copies += 1
        counted.place = [record.partition, record.offset]
    if unit is not None and kind == FILES:
        step.state.outputs.append((kind, since_ms, output))
        return
    if unit is not None:
        (unit.letters if is_letter else unit.copies).append(output)
        return
    done = step.state.done.get(origin[:2])
    digest = None if done is None else done.get(origin[2])
    if digest is not None:
        if kind == FILES:
            _compare_row(step, origin, digest, event)
        else:
            _compare(step, kind, origin, digest, event)
    elif kind == FILES and done is not None and origin[2] < done.base:
        _put_old_row(step, origin)
    elif done is not None and origin[2] < done.base and origin[0] in {each.name for each in step.use.raw}:
        _forgotten(step, kind, origin)
    elif not (is_letter and done is not None and origin[2] < done.base and _put_old_letter(step, origin, event)):
        step.state.outputs.append((kind, since_ms, output))


def _put_old_letter(step: Step, origin: Origin, letter: Event) -> bool:
    """Compare a dead letter of reference data that was judged long ago, if it is remembered what was refused then."""
    (digest,) = step.state.refused.get(origin, [NOTHING])
    if digest != NOTHING:
        _compare(step, DEAD_LETTERS.name, origin, digest, letter)
    elif origin in step.state.refused or origin[2] < step.state.began.get(origin[:2], 0):
        return False
    elif letter["ingest_ms"] < step.case.versions(LIMITS).since_ms:
        step.unknown["refusals"] = f"{place_of(origin)} was refused after a change of the limits, long after it came"
    else:
        step.offenders["refusals"].append(f"{place_of(origin)} was refused as '{letter['reason']}' and is valid")
    return True


def _compare(step: Step, kind: str, origin: Origin, digest: int, event: Event) -> None:
    """Compare a later copy with what came out before."""
    if digest == LOST:
        return
    was_enriched = digest & NOTHING == ENRICHED_TAG
    if kind == ENRICHED:
        if was_enriched:
            step.repeat(named_event(origin))
        if digest == step.digest_of(event):
            step.copies += 1
        elif not was_enriched:
            step.offenders["conservation"].append(f"{place_of(origin)} is both enriched and a dead letter")
        else:
            _compare_other(step, origin, digest, event)
        return
    if was_enriched:
        step.offenders["conservation"].append(f"{place_of(origin)} is both enriched and a dead letter")
    if digest != letter_digest(event):
        step.offenders["refusals"].append(
            f"{place_of(origin)} was refused as '{event['reason']}' after it had been judged otherwise"
        )
    else:
        step.repeat(named_letter(event))


def _compare_other(step: Step, origin: Origin, digest: int, event: Event) -> None:
    """Compare a later copy of an event that differs from what came out before."""
    now, apart = step.digest_of(event), step.state.apart.get(event.get(step.use.judged.key, ""), ())
    is_by_others = step.is_by_other_rules(origin, event, digest)
    is_of_change, is_same = step.is_of_change(event, digest), now >> 31 == digest >> 31
    is_shown = is_same and (not is_of_change or origin in step.state.forms) and step.may_show(origin, event)
    if is_by_others or is_shown:
        # Only what it shows of other streams differs: it was read in another order once more.
        step.copies += 1
        step.raced += not is_by_others
        known = step.state.varied.get(origin, [0, digest])[1:]
        step.state.varied[origin] = [step.cut_ms, *dict.fromkeys((*known, now))]
    elif is_of_change and step.may_be_of_change(origin, event, digest, apart):
        step.copies += 1
        step.uncompared += 1
        step.unknown["enrichment"] = (
            f"{place_of(origin)} came again with other fields, which were declared otherwise before"
        )
    elif _is_read_apart(step, origin, digest, event, apart):
        step.copies += 1
        step.unknown["enrichment"] = f"{place_of(origin)} came again: {READ_APART}"
    else:
        step.offenders["enrichment"].append(f"{place_of(origin)}: a later copy differs from the first")


def _is_read_apart(step: Step, origin: Origin, digest: int, event: Event, apart: Collection[str]) -> bool:
    """Whether a later copy differs in what rests on the order of two streams in a step, and in no more than may be."""
    is_same = step.digest_of(event) >> 31 == digest >> 31
    return bool(apart) and (
        step.is_by_other_rules(origin, event, digest, apart) or (is_same and step.may_show(origin, event, apart))
    )


def _compare_row(step: Step, origin: Origin, digest: int, row: Event) -> None:
    """Compare a stored row with the enriched event that the topic had."""
    count = step.state.done[origin[:2]].store(origin[2])
    if digest == LOST:
        return
    step.rows += 1
    if digest & NOTHING != ENRICHED_TAG:
        step.offenders[FILES].append(f"extra: {place_of(origin)}")
    elif not _is_stored_form(step, origin, step.digest_of(row), digest):
        step.offenders[FILES].append(f"wrong: {place_of(origin)}")
    if count > 1:
        step.offenders[FILES].append(f"{count} times: {place_of(origin)}")


def _put_old_row(step: Step, origin: Origin) -> None:
    """A row of an event that was judged too long ago to compare it: it had its row, unless it was missing."""
    if origin[2] < step.state.began.get(origin[:2], 0):
        step.old_rows += 1
    elif step.state.missing.pop(origin, None) is not None:
        step.unknown[FILES] = f"the row of {place_of(origin)} came so late that it is not compared"
    else:
        step.offenders[FILES].append(f"again, or of no event: {place_of(origin)}")


def _is_stored_form(step: Step, origin: Origin, now: int, digest: int) -> bool:
    """Whether a row is one of the forms that an event had; one that was read in several orders had several."""
    return digest in (now, now & EVENT_BITS, ENRICHED_TAG) or now in step.state.varied.get(origin, [0])[1:]


def _forgotten(step: Step, kind: str, origin: Origin) -> None:
    """An output of a message that was judged too long ago to compare it."""
    check = "refusals" if kind == DEAD_LETTERS.name else "enrichment"
    minutes = step.limits.copies_ms // 60_000
    step.unknown[check] = f"{place_of(origin)} came out again more than {minutes} minutes after it was judged"


def _put_alert(step: Step, output: Output) -> None:
    """Let an alert wait for its event or window, unless no present rule explains it."""
    _, alert = output
    rule = step.rules.get(alert["rule"])
    if isinstance(rule, WindowRule) and alert["rule_version"] == rule.version:
        step.shown_ms = max(step.shown_ms, rule.window.end_ms(alert["window_start_ms"] or 0, alert["at_ms"]))
    if rule is None or alert["rule_version"] != rule.version:
        _put_earlier(step, step.cut_ms, output)
    elif _is_undecided(step, alert):
        return
    elif isinstance(rule, WindowRule) and is_left_out(step, rule, alert):
        step.case.unjudged_windows[rule.name] += 1
    elif (known := step.state.done_alerts.get(alert["alert_id"])) is not None and known[0] == alert_digest(alert):
        step.copies += 1
        step.repeat(named_alert(alert))
        for each in step.case.implausible(output[0], alert, alert.get("ingest_ms") or 0):
            step.offenders[f"alerts: {rule.name}"].append(f"wrong: {rule.name} {alert['key']}: a later copy: {each}")
    elif isinstance(rule, WindowRule) and is_told_again(step, rule, output) and step.case.has_events(alert):
        step.case.unjudged_windows[rule.name] += 1
    elif known is not None and _rests_on_order(step, output):
        step.copies += 1
        step.repeat(named_alert(alert))
        step.unknown[f"alerts: {rule.name}"] = f"{rule.name} {alert['key']} came again: {READ_APART}"
    elif known is not None:
        step.repeat(named_alert(alert))
        step.offenders[f"alerts: {rule.name}"].append(
            f"wrong: {rule.name} {alert['key']}: a later copy differs from the first"
        )
    elif _is_of_long_ago(step, rule, alert):
        step.unknown[f"alerts: {rule.name}"] = (
            f"{rule.name} {alert['key']} was alerted again more than {step.limits.copies_ms // 60_000} minutes after "
            "it was judged"
        )
    else:
        step.state.alerts.setdefault(alert["alert_id"], []).append((step.cut_ms, output))


def _rests_on_order(step: Step, output: Output) -> bool:
    """Whether the order of two streams in a step may explain an alert on an event that was judged before.

    Its id follows from that event, and its facts are those of the event, as far as this is remembered.
    """
    record, alert = output
    name, key, ids, judged = alert["rule"], alert["key"], alert["event_ids"], step.use.judged
    if name not in step.state.apart.get(key, ()) or len(ids) != 1:
        return False
    identity = alert_id(name, step.rules[name].version, key, ids[0])
    if (alert["alert_id"], alert["subject"], alert["window_start_ms"]) != (identity, key, None):
        return False
    if not step.case.has_events(alert) or of_no_event(step.case, record, alert):
        return False
    own = (each.event for each in step.state.counted.values())
    times_ms = [each[step.time] for each in own if (each.get(judged.key), each.get(judged.id or "")) == (key, ids[0])]
    return not times_ms or alert["at_ms"] in times_ms


def _is_of_long_ago(step: Step, rule: Rule, alert: Event) -> bool:
    """Whether the events of an alert were judged too long ago to compare it, and so was its window."""
    since_ms, named = step.cut_ms - step.limits.copies_ms, alert["event_ids"]
    if (alert.get("ingest_ms") or 0) >= since_ms:
        return False
    if isinstance(rule, WindowRule) and alert["window_start_ms"] is not None:
        is_old = not named or _are_of_long_ago(step, alert["subject"], named, since_ms)
        return is_old and is_gone(step, rule, alert, since_ms)
    return _are_of_long_ago(step, alert["subject"], named, since_ms)


def _are_of_long_ago(step: Step, key: str, identities: Sequence[str], since_ms: int) -> bool:
    """Whether events with these ids, or places, arrived that long ago, and none of them waits; some may be others'."""
    judged, done = step.use.judged, step.state.done
    if judged.id is None:
        places = [each.split("-") for each in identities]
        ends = {str(partition): own.base for (kind, partition), own in done.items() if kind == judged.name}
        return bool(places) and all(at[-1].isdecimal() and int(at[-1]) < ends.get(at[0], 0) for at in places)
    arrived_ms = [step.state.oracle.seen_ms.get((key, each), 0) for each in identities]
    is_waiting = any((key, each) in step.waiting for each in identities)
    return any(arrived_ms) and max(arrived_ms) < since_ms and not is_waiting


def _is_undecided(step: Step, alert: Event) -> bool:
    """Whether its rule changed while the events of its window, or its event, were not judged."""
    if (start_ms := alert["window_start_ms"]) is not None:
        return not is_judged(step, alert["rule"], start_ms)
    return any((alert["rule"], alert["key"], identity) in step.state.undecided for identity in alert["event_ids"][:1])


def _is_of_earlier_window(step: Step, output: Output) -> bool:
    """Whether an alert on a window waited for it while its rule changed, or went."""
    (_, alert), rule = output, step.rules.get(output[1]["rule"])
    return alert["window_start_ms"] is not None and (rule is None or alert["rule_version"] != rule.version)


def _put_earlier(step: Step, since_ms: int, output: Output) -> None:
    """An alert of an earlier version is judged with its events, and needs them; one of no version is wrong at once."""
    _, alert = output
    identity, digest, known = alert["alert_id"], alert_digest(alert), step.state.done_alerts.get(alert["alert_id"])
    if known is not None:
        step.repeat(named_alert(alert))
        if known[0] != digest:
            step.offenders["alert ids"].append(f"wrong: {alert['rule']} {alert['key']}: a later copy differs")
        return
    is_earlier, is_of_window = step.case.is_earlier(alert), alert["window_start_ms"] is not None
    if is_earlier and not is_of_window and any((alert["key"], each) in step.waiting for each in alert["event_ids"]):
        step.state.alerts.setdefault(identity, []).append((since_ms, output))
        return
    events = of_earlier_window(step, alert) if is_earlier and is_of_window else None
    if events is not None:
        step.case.of_windows[identity] = events
        lacks_events = events is not NONE and not ids_of(step, events) >= set(alert["event_ids"])
    else:
        lacks_events = is_earlier and not step.case.has_events(alert)
    if lacks_events:
        step.state.outputs.append((ALERTS.name, since_ms, output))
        return
    step.due[ALERTS.name].append(output)
    if is_earlier:
        step.state.done_alerts[identity] = digest, step.cut_ms


def _put_row(step: Step, output: Output) -> None:
    """Let a row of a summary wait for its window."""
    _, row = output
    summary = next((each for each in step.question.summaries if each.name == row["summary"]), None)
    if summary is None:
        step.due[WINDOWS_TOPIC].append(output)
        return
    if not is_judged(step, summary.name, row["window_start_ms"]):
        return
    key = row_name(summary, (row["window_start_ms"], *(row.get(name) for name in summary.keys)))
    if (done := step.state.done_rows.get(key)) is None:
        step.state.rows.setdefault(key, []).append((step.cut_ms, output))
    elif (
        row["window_start_ms"] < step.case.versions(summary.name).since_ms
        or (summary.name, key) in step.state.open_then
    ):
        step.copies += 1
    elif numbers.counts_all(summary, row, done[0], done[1], done[3], None):
        step.copies += 1
        if all(is_same(value, row.get(name)) for name, value in done[0].items()):
            step.repeat(named_row(row))
        wrong = numbers.implausible(step.case, summary, output[0], row, done[2])
        step.offenders[f"numbers: {summary.name}"] += [f"wrong: {key}: a later row: {each}" for each in wrong]
    elif any(key in rows_with(summary, step.state.counted[origin].event) for origin in step.state.behind):
        step.unknown[f"numbers: {summary.name}"] = f"{key}: a later row may count an event that came behind it"
    else:
        step.offenders[f"numbers: {summary.name}"].append(f"wrong: {key}: a later row is {row}, not {done[0]}")


def judge_late_letters(step: Step) -> None:
    """Judge the late dead letters of events that are accepted, and can be compared with those around them."""
    state = step.state
    waiting, state.outputs = state.outputs, []
    for kind, since_ms, output in waiting:
        _, event = output
        if kind != DEAD_LETTERS.name or event["reason"] != LATE:
            state.outputs.append((kind, since_ms, output))
            continue
        origin = step.letter_origin(event)
        counted, unit = state.counted.get(origin), state.units.get(origin)
        done = state.done.get(origin[:2])
        if counted is not None and unit is None and not counted.windows and origin not in state.behind:
            counted = None  # it is only kept beside a late one
        if (known := state.done_late.get(origin)) is not None:
            step.copies += 1
            step.repeat(named_letter(event))
            # Behind the intermediate topic there may be no raw message to carry.
            if any(one != other for one, other in zip(known[1:], late_digests(event), strict=False) if one and other):
                step.offenders["refusals"].append(f"{place_of(origin)}: a later copy of its late letter differs")
        elif counted is None and _was_read(step, origin, event) and _is_told_anew(step, *output):
            step.copies += 1
            state.done_late[origin] = [step.cut_ms, *late_digests(event)]
        elif counted is None and _was_read(step, origin, event) and done is not None and origin[2] < done.base:
            _forgotten(step, kind, origin)
        elif counted is not None and counted.behind_ms is not None:
            counted.is_late = True
            step.shown_ms = max(step.shown_ms, counted.event[step.time])
            counted.left = [name for name in counted.windows if name in step.rules]
            counted.windows = [name for name in counted.windows if name not in step.rules]
            state.behind.pop(origin, None)
            state.done_late[origin] = [step.cut_ms, *late_digests(event)]
            step.case.of_late[origin] = counted
            step.due[kind].append(output)
        elif unit is not None and unit.judged.reason is not None:
            step.due[kind].append(output)
        elif done is not None and done.get(origin[2]) is not None and counted is None:
            step.offenders["lateness"].append(
                f"{place_of(origin)} is a late dead letter, but windows that count it were judged"
            )
        else:
            state.outputs.append((kind, since_ms, output))


def _is_told_anew(step: Step, record: Record, letter: Event) -> bool:
    """Whether a late dead letter may come from a topic that was read anew because a rule on windows has changed."""
    changed_ms = step.case.windows_changed_ms
    return changed_ms <= record.ingest_ms <= changed_ms + EARLIER_MOST_MS and letter["ingest_ms"] < changed_ms


def _was_read(step: Step, origin: Origin, letter: Event) -> bool:
    """Whether the ledger has read the message of a late dead letter, as far as its place, stage and time show."""
    kind, partition, offset = origin
    if kind != step.use.judged.name or not 0 <= offset < step.state.read_to.get((kind, partition), 0):
        return False
    # Before a cut a topic has no message that arrived behind it.
    arrived_ms = (at_ms for at_ms, reached in step.state.cuts if offset < reached.get(kind, {}).get(partition, 0))
    return letter.get("stage") == STAGES[LATE] and letter["ingest_ms"] <= next(arrived_ms, step.cut_ms)


def judge_marks(step: Step) -> None:
    """Judge the marks of messages that were sent again, once it is certain that they have a dead letter."""
    state = step.state
    waiting, state.outputs = state.outputs, []
    for kind, since_ms, output in waiting:
        if kind != DEAD_LETTERS.name or output[1]["reason"] != REPLAYED:
            state.outputs.append((kind, since_ms, output))
        elif _has_letter(step, origin := step.letter_origin(output[1])):
            step.case.replayable.add(origin)
            step.due[kind].append(output)
        else:
            state.outputs.append((kind, since_ms, output))


def _has_letter(step: Step, origin: Origin) -> bool:
    """Whether a message has a dead letter, or was judged too long ago to know."""
    done = step.state.done.get(origin[:2])
    if done is None or origin in step.state.units:
        return False
    digest = done.get(origin[2])
    return origin[2] < done.base if digest is None else digest == LOST or digest & NOTHING == LETTER_TAG


def judge_foreign(step: Step) -> None:
    """Judge the outputs whose cause did not come."""
    state = step.state
    waiting, state.outputs = state.outputs, []
    for kind, since_ms, output in waiting:
        if step.is_over(since_ms) and kind == FILES:
            step.offenders[FILES].append(f"extra: {place_of(step.source(output[1]))}")
        elif step.is_over(since_ms) or (kind == ALERTS.name and is_closed(step, output[1])):
            step.due[kind].append(output)
        else:
            state.outputs.append((kind, since_ms, output))
    for identity, own in list(state.alerts.items()):
        if not any(step.is_over(since_ms) for since_ms, _ in own):
            continue
        if all(_rests_on_order(step, output) for _, output in own):
            _, (_, alert) = own[-1]
            del state.alerts[identity]
            state.done_alerts[identity] = alert_digest(alert), step.cut_ms
            step.unknown[f"alerts: {alert['rule']}"] = f"{alert['rule']} {alert['key']} came later: {READ_APART}"
        else:
            step.judge_alerts([identity])
