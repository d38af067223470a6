"""Judges the runs of labelled traffic whose labels all have their alerts, and those that have waited too long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from millrace.rules import Rule
from millrace.rules.outputs import ALERTS
from millrace.traffic.labels import Labels, Meant, alert_places, key_of_full, together
from millrace.verify.case import Case, problems
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.checks import labels
from millrace.verify.evidence import Event, read
from millrace.verify.ledger.step import Labelled, Step


def checkers(step: Step) -> Iterator[Checker]:
    """The check of the runs that are judged in this segment; none where there are none."""
    made: list[Labels] = []
    alerts: dict[str, Event] = {}
    runs = step.inputs.labelled
    unused: list[str] = [f"no run is judged: {runs}"] if isinstance(runs, str) else []
    for run in () if isinstance(runs, str) else runs:
        if isinstance(run.labels, str):
            unused.append(f"the labels of the run '{run.name}' are unused: {run.labels}")
        else:
            own = _alerts(step, run)
            _, missing = labels.compared(step.use, step.question.rules, run.labels, own.values(), _places(step))
            if missing and not step.is_over(run.until_ms):
                step.unlabelled_ms.append(run.until_ms)
                continue  # with a later segment
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
