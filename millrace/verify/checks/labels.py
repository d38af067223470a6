"""Labels: generated traffic raised the alerts that it is labelled with, independent of the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain

from millrace.rules import ALERTS, Rule
from millrace.traffic.labels import Labels, Meant, alert_places, places_left_out
from millrace.traffic.runs import is_within
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.checks.alerts import alternatives
from millrace.verify.evidence import Event
from millrace.verify.verdict import Figure


def are_expected(case: Case) -> bool:
    """Whether traffic was generated, so that there must be labels."""
    generated = any("plan" in run.about for run in case.question.runs)
    return generated or case.evidence.labels is not None or bool(case.evidence.unlabelled)


def notes(case: Case) -> Iterator[str]:
    """A line for each rule whose labels were made for another version of it."""
    if case.evidence.labels is not None:
        for name in _of_other_versions(case, case.evidence.labels):
            yield f"labels of '{name}' are not used: the rule was changed since they were made; send traffic again"


def labels(case: Case) -> Found | Undecided:
    """The labels without their alerts, and each rule's precision, and its recall for each kind of label.

    A label holds for the version of its rule for which it was made: those for other versions are not used, and named.
    """
    made = case.evidence.labels or Labels()
    rules = {rule.name: rule for rule in case.question.rules if rule.name in made.spans_ms}

    @cache
    def labelled(rule: str) -> list[Event]:
        facts = {fact for name, (_, fact) in (*made.meant, *made.ambiguous) if name == rule}
        identity = case.question.use.judged.id or ""
        return [event for event in case.expected.accepted.values() if str(event.get(identity)) in facts]

    def places(rule: Rule, alert: Event) -> Iterator[Meant]:
        use = case.question.use
        left_out = places_left_out(use, rule, alert, lambda: labelled(rule.name))
        yield from ((rule.name, place) for place in chain(alert_places(use, rule, alert), left_out))

    alerted: set[Meant] = set()
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for alert in _distinct(case):
        if alert["rule"] not in rules or alert["rule_version"] != rules[alert["rule"]].version:
            continue
        found = set(places(rules[alert["rule"]], alert))
        alerted |= found
        if found & made.meant.keys():
            right[alert["rule"]] += 1
        elif not found & made.ambiguous and is_within(made.spans_ms[alert["rule"]], alert["at_ms"]):
            wrong[alert["rule"]] += 1
    figures: dict[str, Figure] = {
        f"{rule}: runs": "labelled for another version" for rule in _of_other_versions(case, made)
    }
    for rule in rules:
        kinds = Counter(kind for (name, _), kind in made.meant.items() if name == rule)
        met = Counter(kind for meant, kind in made.meant.items() if meant[0] == rule and meant in alerted)
        if kinds:
            figures[rule] = kinds.total()
        if right[rule] + wrong[rule]:
            figures[f"{rule}: precision"] = round(right[rule] / (right[rule] + wrong[rule]), 4)
        figures |= {f"{rule}: recall, {kind}": round(met[kind] / count, 4) for kind, count in sorted(kinds.items())}
    missing = {meant: kind for meant, kind in made.meant.items() if meant[0] in rules and meant not in alerted}
    if not missing and (why := _unused(case)):
        return Undecided(why, figures, is_settled=True)
    offenders = [f"{key} {fact} ({kind}) raised no alert of {rule}" for (rule, (key, fact)), kind in missing.items()]
    due = set(_due(case, [rules[name] for name in dict.fromkeys(rule for rule, _ in missing)], places))
    return Found(figures, offenders, is_settled=due.isdisjoint(missing))


def _due(case: Case, rules: Iterable[Rule], places: Callable[[Rule, Event], Iterator[Meant]]) -> Iterator[Meant]:
    """Where the oracle expects alerts, in windows that may still be open too: only such a label comes true."""
    for rule in rules:
        found = alternatives(rule, case)
        for finding in (*found.must.values(), *found.may.values()):
            yield from places(rule, vars(finding))


def _unused(case: Case) -> str:
    """Why some traffic could not be held against its labels; empty if all was."""
    if case.evidence.unlabelled:
        return "; ".join(case.evidence.unlabelled)
    return "the labels of the generated traffic were not read" if case.evidence.labels is None else ""


def _of_other_versions(case: Case, made: Labels) -> list[str]:
    """The rules with labels that were made for another version."""
    return [rule.name for rule in case.question.rules if rule.name in made.of_other_versions]


def _distinct(case: Case) -> Iterator[Event]:
    yield from {alert["alert_id"]: alert for _, alert in case.alerts}.values()


CHECKER = Checker("labels", "Did all labelled traffic raise its alerts?", labels, needs=(ALERTS.name,))
