"""Labels: generated traffic raised the alerts that it is labelled with, independent of the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from millrace.rules import ALERTS
from millrace.traffic.labels import Labels, Meant, alert_places
from millrace.traffic.runs import is_within
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.evidence import Event
from millrace.verify.verdict import Figure


def labels(case: Case) -> Found:
    """The labels without their alerts, and each rule's precision, and its recall for each kind of label.

    A rule that was changed is left out, because labels have no version.
    """
    made = case.evidence.labels or Labels()
    rules = {rule.name: rule for rule in case.question.rules if rule.name not in case.question.in_force}
    alerted: set[Meant] = set()
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for alert in _distinct(case):
        if alert["rule"] not in rules:
            continue
        places = {(alert["rule"], each) for each in alert_places(case.question.use, rules[alert["rule"]], alert)}
        alerted |= places
        if places & made.meant.keys():
            right[alert["rule"]] += 1
        elif not places & made.ambiguous and is_within(made.spans_ms, alert["at_ms"]):
            wrong[alert["rule"]] += 1
    figures: dict[str, Figure] = {}
    for rule in rules:
        kinds = Counter(kind for (name, _), kind in made.meant.items() if name == rule)
        met = Counter(kind for meant, kind in made.meant.items() if meant[0] == rule and meant in alerted)
        if kinds:
            figures[rule] = kinds.total()
        if right[rule] + wrong[rule]:
            figures[f"{rule}: precision"] = round(right[rule] / (right[rule] + wrong[rule]), 4)
        figures |= {f"{rule}: recall, {kind}": round(met[kind] / count, 4) for kind, count in sorted(kinds.items())}
    offenders = [
        f"{key} {fact} ({kind}) was made to set off {rule}"
        for (rule, (key, fact)), kind in made.meant.items()
        if rule in rules and (rule, (key, fact)) not in alerted
    ]
    return Found(figures, offenders)


def _distinct(case: Case) -> Iterator[Event]:
    yield from {alert["alert_id"]: alert for _, alert in case.alerts}.values()


CHECKER = Checker("labels", "Did all labelled traffic raise its alerts?", labels, needs=(ALERTS.name,))
