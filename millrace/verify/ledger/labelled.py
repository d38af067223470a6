"""Judges the runs of labelled traffic that have all their messages and alerts, and those that have waited too long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from millrace.rules import Rule
from millrace.rules.outputs import ALERTS
from millrace.traffic.labels import Labels, Meant, alert_places, key_of_full, together
from millrace.verify.case import Case, problems
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.checks import acknowledged, labels
from millrace.verify.evidence import Event, read
from millrace.verify.ledger.step import Labelled, Step


def count(step: Step) -> None:
    """Note how many raw messages came, as long as a run that sent some of them may still be judged."""
    arrived = step.state.arrived
    if not arrived:
        arrived.append((step.since_ms, {}))
    own = {kind: acknowledged.without_canaries(step.use, kind, records) for kind, records in step.inputs.raw.items()}
    arrived.append((step.cut_ms, {kind: sum(1 for _ in records) for kind, records in own.items()}))
    while arrived[1][0] < step.question.kept_since_ms:
        del arrived[0]


def checkers(step: Step) -> Iterator[Checker]:
    """The checks of the runs that are judged in this segment; none where there are none."""
    judged: list[Labelled] = []
    fewer: list[str] = []
    made: list[Labels] = []
    alerts: dict[str, Event] = {}
    runs = step.inputs.labelled
    unused: list[str] = [f"no run is judged: {runs}"] if isinstance(runs, str) else []
    for run in () if isinstance(runs, str) else runs:
        own = _alerts(step, run)
        missing = _missing(step, run, own.values())
        fewer_of_run = list(_fewer(step, run))
        if (missing or fewer_of_run) and not step.is_over(run.until_ms):
            step.unlabelled_ms.append(run.until_ms)
            continue  # with a later segment
        judged.append(run)
        fewer += fewer_of_run
        _leave_out(step, run)
        if isinstance(run.labels, str):
            unused.append(f"the labels of the run '{run.name}' are unused: {run.labels}")
        else:
            made.append(run.labels)
            if why := labels.lacking(step.question.rules, run.labels):
                unused.append(f"the run '{run.name}': {why}")
            alerts |= own
        step.state.labelled.append(run.name)

    def check(_: Case) -> Found | Undecided:
        figures, missing = labels.compared(
            step.use, step.question.rules, together(made), alerts.values(), _places(step)
        )
        full = _full(step, alerts.values())
        lacking = {meant: kind for meant, kind in missing.items() if (meant[0], meant[1][0]) not in full}
        hidden = [f"{len(missing)} labels may be among the events that full alerts leave out; `validate` judges them"]
        whys = [*unused, *(hidden if missing else [])]
        if whys and not lacking:
            return Undecided("; ".join(whys), figures)
        return Found(figures, labels.offenders_of(lacking))

    if made or unused:
        yield Checker(labels.CHECKER.name, labels.CHECKER.asks, check, needs_inputs=False)
    if any(run.acknowledged for run in judged):
        yield _acknowledged(step, judged, fewer)


def _acknowledged(step: Step, judged: Iterable[Labelled], fewer: Collection[str]) -> Checker:
    """The check of the raw topics beside what was acknowledged to the senders of these runs."""
    counted = [run for run in judged if _is_counted(step, run)]
    uncounted = [
        f"the run '{run.name}' began before the first message that was counted"
        for run in judged
        if run.acknowledged and run not in counted
    ]
    figures: Counter[str] = Counter()
    for run in counted:
        figures.update({kind: sent for kind, sent in run.acknowledged.items() if kind in step.raw})

    def check(_: Case) -> Found | Undecided:
        own = {"runs": len(counted), **figures}
        return Undecided("; ".join(uncounted), own) if uncounted and not fewer else Found(own, fewer)

    return replace(acknowledged.CHECKER, find=check, needs_inputs=False)


def _is_counted(step: Step, run: Labelled) -> bool:
    """Whether the ledger has counted all messages that came since a run began."""
    state = step.state
    return bool(run.acknowledged) and max(state.arrived[0][0], state.assumed_since_ms) <= run.since_ms


def _arrived(step: Step, run: Labelled) -> Iterator[dict[str, int]]:
    """How many messages came until each cut since a run began."""
    since_ms = run.since_ms - step.bounds.clocks_ms
    return (counts for cut_ms, counts in step.state.arrived if cut_ms >= since_ms)


def _fewer(step: Step, run: Labelled) -> Iterator[str]:
    """The raw topics that had fewer messages since a run began than were acknowledged to its sender."""
    for kind, sent in run.acknowledged.items() if _is_counted(step, run) else ():
        there = sum(counts.get(kind, 0) for counts in _arrived(step, run))
        if kind in step.raw and there < sent:
            yield f"{kind}: {sent} messages of the run '{run.name}' were acknowledged, {there} came since it began"


def _leave_out(step: Step, run: Labelled) -> None:
    """Leave out the messages of a judged run: they are not those of another one."""
    for kind, sent in run.acknowledged.items():
        left = sent
        for counts in _arrived(step, run):
            own = min(left, counts.get(kind, 0))
            if own:
                counts[kind] -= own
                left -= own


def _missing(step: Step, run: Labelled, alerts: Iterable[Event]) -> bool:
    """Whether a label of a run has no alert."""
    if isinstance(run.labels, str):
        return False
    _, missing = labels.compared(step.use, step.question.rules, run.labels, alerts, _places(step))
    return bool(missing)


def _alerts(step: Step, run: Labelled) -> dict[str, Event]:
    """The alerts since the run began, by their ids."""
    events = read(run.alerts, problems(step.question)[ALERTS.name]).events
    return {alert["alert_id"]: alert for _, alert in events}


def _full(step: Step, alerts: Iterable[Event]) -> set[tuple[str, str]]:
    """Rules and keys of the alerts that may leave out events of their windows: a segment does not know these events."""
    found = set()
    for alert in alerts:
        rule = step.rules.get(alert["rule"])
        if rule is None or alert["rule_version"] != rule.version or step.use.is_of_canary(alert):
            continue
        if (key := key_of_full(step.use, rule, alert)) is not None:
            found.add((rule.name, key))
    return found


def _places(step: Step) -> Callable[[Rule, Event], Iterator[Meant]]:
    """Where an alert is, by the events that it lists."""

    def places(rule: Rule, alert: Event) -> Iterator[Meant]:
        yield from ((rule.name, place) for place in alert_places(step.use, rule, alert))

    return places
