"""Labels: generated traffic raised the alerts that it is labelled with, independent of the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain

from millrace.rules import ALERTS, Rule, UseCase
from millrace.traffic.labels import Labels, Meant, alert_places, places_left_out
from millrace.traffic.planned import RULES
from millrace.traffic.runs import is_within
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.checks.acknowledged import unrecorded
from millrace.verify.checks.alerts import alternatives
from millrace.verify.evidence import Event
from millrace.verify.verdict import Figure


def are_expected(case: Case) -> bool:
    """Whether traffic was generated, so that there must be labels."""
    is_labelled = case.evidence.labels is not None or bool(case.evidence.unlabelled)
    return is_labelled or _is_generated(case) or bool(unrecorded(case))


def notes(case: Case) -> Iterator[str]:
    """A line for each rule whose labels were made for another version of it."""
    if case.evidence.labels is not None:
        for name in others(case.question.rules, case.evidence.labels):
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
        # An alert without its window's start names no more than the events in its list.
        is_placed = alert["window_start_ms"] is not None
        left_out = places_left_out(use, rule, alert, lambda: labelled(rule.name)) if is_placed else ()
        yield from ((rule.name, place) for place in chain(alert_places(use, rule, alert), left_out))

    figures, missing = compared(case.question.use, case.question.rules, made, _distinct(case), places)
    lost = {
        place
        for finding in case.absent_alerts.values()
        if finding.rule in rules
        for place in places(rules[finding.rule], vars(finding))
    }
    if declared := lost & missing.keys():
        figures["lost at restarts"] = len(declared)
        missing = {meant: kind for meant, kind in missing.items() if meant not in declared}
    if not missing and (why := _unused(case)):
        return Undecided(why, figures, is_settled=True)
    due = set(_due(case, [rules[name] for name in dict.fromkeys(rule for rule, _ in missing)], places))
    return Found(figures, offenders_of(missing), is_settled=due.isdisjoint(missing))


def compared(
    use: UseCase,
    rules: Sequence[Rule],
    made: Labels,
    alerts: Iterable[Event],
    places: Callable[[Rule, Event], Iterable[Meant]],
) -> tuple[dict[str, Figure], dict[Meant, str]]:
    """Each rule's precision and its recall for each kind of label, and the labels without an alert, with their kinds.

    Each alert comes once.
    """
    by_name = {rule.name: rule for rule in rules if rule.name in made.spans_ms}
    alerted: set[Meant] = set()
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for alert in alerts:
        rule = by_name.get(alert["rule"])
        # No label is of a canary, and its alert is not wrong.
        if rule is None or alert["rule_version"] != rule.version or use.is_of_canary(alert):
            continue
        found = set(places(rule, alert))
        alerted |= found
        if found & made.meant.keys():
            right[rule.name] += 1
        elif not found & made.ambiguous and is_within(made.spans_ms[rule.name], alert["at_ms"]):
            wrong[rule.name] += 1
    figures: dict[str, Figure] = {f"{name}: runs": "labelled for another version" for name in others(rules, made)}
    for name in by_name:
        kinds = Counter(kind for (rule_name, _), kind in made.meant.items() if rule_name == name)
        met = Counter(kind for meant, kind in made.meant.items() if meant[0] == name and meant in alerted)
        if kinds:
            figures[name] = kinds.total()
        if right[name] + wrong[name]:
            figures[f"{name}: precision"] = round(right[name] / (right[name] + wrong[name]), 4)
        figures |= {f"{name}: recall, {kind}": round(met[kind] / count, 4) for kind, count in sorted(kinds.items())}
    return figures, {meant: kind for meant, kind in made.meant.items() if meant[0] in by_name and meant not in alerted}


def offenders_of(missing: Mapping[Meant, str]) -> list[str]:
    """The labels without their alerts, in words."""
    return [f"{key} {fact} ({kind}) raised no alert of {rule}" for (rule, (key, fact)), kind in missing.items()]


def _due(case: Case, rules: Iterable[Rule], places: Callable[[Rule, Event], Iterator[Meant]]) -> Iterator[Meant]:
    """Where the oracle expects alerts, in windows that may still be open too: only such a label comes true."""
    for rule in rules:
        found = alternatives(rule, case)
        for finding in (*found.must.values(), *found.may.values()):
            yield from places(rule, vars(finding))


def _unused(case: Case) -> str:
    """Why some traffic could not be held against its labels; empty if all was."""
    if whys := [*case.evidence.unlabelled, *unrecorded(case), *_of_no_version(case)]:
        return "; ".join(whys)
    if case.evidence.labels is None:
        return "the labels of the generated traffic were not read"
    return lacking(case.question.rules, case.evidence.labels) if _is_generated(case) else ""


def lacking(rules: Iterable[Rule], made: Labels) -> str:
    """Why labels of generated traffic are not whole: each run has them for all rules, or for other versions of them."""
    names = [rule.name for rule in rules if rule.name not in {*made.spans_ms, *made.of_other_versions}]
    return f"the labels of the generated traffic lack the rules {', '.join(names)}" if names else ""


def _of_no_version(case: Case) -> Iterator[str]:
    """The runs with labels for a version of a rule that the pattern did not have then, and has not had since."""
    for run in case.question.runs:
        pinned = run.about.get(RULES, {})
        for rule in case.question.rules if "plan" in run.about and RULES in run.about else ():
            version, past = pinned.get(rule.name), case.versions(rule.name).past
            had = (each for each, until_ms in past if until_ms >= run.start_ms - case.question.bounds.clocks_ms)
            if version not in (rule.version, *had):
                yield f"the run '{run.name}' has labels of '{rule.name}' {version}, which the pattern did not run"


def _is_generated(case: Case) -> bool:
    return any("plan" in run.about for run in case.question.runs)


def others(rules: Iterable[Rule], made: Labels) -> list[str]:
    """The rules with labels that were made for another version."""
    return [rule.name for rule in rules if rule.name in made.of_other_versions]


def _distinct(case: Case) -> Iterator[Event]:
    yield from {alert["alert_id"]: alert for _, alert in case.alerts}.values()


CHECKER = Checker("labels", "Did all labelled traffic raise its alerts?", labels, needs=(ALERTS.name,))
