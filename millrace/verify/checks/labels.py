"""Labels: generated traffic raised the alerts that it is labelled with, independent of the oracle."""

from __future__ import annotations

from collections import Counter

from millrace.rules import ALERTS
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found


def labels(case: Case) -> Found:
    """The labelled events without their alerts; a rule that was changed is left out, because labels have no version."""
    names = {rule.name for rule in case.question.rules} - case.question.in_force.keys()
    alerted = {(alert["rule"], identity) for _, alert in case.alerts for identity in alert["event_ids"]}
    made = case.evidence.labels or {}
    meant = [(rule, identity) for identity, wanted in made.items() for rule in wanted if rule in names]
    offenders = [
        f"{identity} was made to set off {rule}" for rule, identity in meant if (rule, identity) not in alerted
    ]
    return Found(dict(Counter(rule for rule, _ in meant)), offenders)


CHECKER = Checker("labels", "Did all labelled traffic raise its alerts?", labels, needs=(ALERTS.name,))
