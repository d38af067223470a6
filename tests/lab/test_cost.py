"""Each program that is measured does what the rules declare, and the comparison with the oracle sees a difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from lab.choices import flink_on_stage, spark_in_python
from lab.cost import (
    BURST,
    DECLARED,
    RULES,
    SIDES,
    STARTS,
    Expected,
    Found,
    Starts,
    arguments,
    expected_of,
    judged,
    kind_of,
    only,
    run,
    send_backlog,
    sides_of,
    with_burst,
)
from lab.documents import costs
from lab.measurements import MEASUREMENTS
from millrace.oracle import Finding
from millrace.patterns import load
from millrace.settings import Settings
from millrace.stores import topics
from millrace.target import Target

EVENTS = 20_000
ENGINES = sorted({engine for engine, _ in STARTS})
CHOICES = (flink_on_stage.STARTS, spark_in_python.BY_KEY, spark_in_python.BY_BUCKET)


@pytest.mark.parametrize("name", [name for name, each in MEASUREMENTS.items() if " -m lab.cost" in each.command])
def test_a_measurement_of_the_cost_is_a_record_of_its_own_kind(name: str) -> None:
    _, _, given = MEASUREMENTS[name].command.partition(" -m lab.cost")
    assert kind_of(arguments(given.split())) == MEASUREMENTS[name].kind == name


ALL: Starts = {**STARTS} | {each: start for starts in CHOICES for each, start in starts.items()}

FINDING = Finding(RULES[0], "v1", "anna", "anna", ("t1",), {"amount_cents": 9, "before_highest_cents": 5}, 1_000)
ENRICHED = {"transaction_id": "t1", "km_from_phone": 1.5, "source_topic": "transactions", "source_offset": 7}
EXPECTED = Expected([], {7: ENRICHED}, {FINDING.alert_id: FINDING}, Counter({("transactions", 8, "json"): 1}))


def found() -> Found:
    operands = {name: str(value) for name, value in FINDING.operands.items()}
    facts = {"rule": RULES[0], "subject": "anna", "window_start_ms": None, "event_ids": ["t1"], "at_ms": 1_000}
    alert = {"alert_id": FINDING.alert_id, **facts, "operands": operands}
    letter = {"topic": "cost.transactions", "offset": 8, "reason": "json"}
    return Found([{**ENRICHED, "source_topic": "cost.transactions"}], [alert], [letter])


def test_what_the_oracle_expects_is_right() -> None:
    assert judged(found(), EXPECTED) == ""


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda it: it.enriched.clear(), "of 1 enriched events 1 are lost"),
        (lambda it: it.enriched.append(it.enriched[0]), "of 1 enriched events 0 are lost"),
        (lambda it: it.enriched[0].update(transaction_id="t2"), "1 wrong"),
        (lambda it: it.enriched[0].update(km_from_phone=1.51), "1 wrong"),
        (lambda it: it.alerts.clear(), "of 1 alerts 1 are lost"),
        (lambda it: it.alerts.append(it.alerts[0]), "1 are too many"),
        (lambda it: it.alerts[0]["operands"].update(amount_cents="8"), "1 alerts are wrong"),
        (lambda it: it.alerts[0].update(event_ids=["t1", "t2"]), "1 alerts are wrong"),
        (lambda it: it.alerts[0].update(window_start_ms=1_000), "1 alerts are wrong"),
        (lambda it: it.letters.clear(), "of 1 refusals 1 differ"),
        (lambda it: it.letters[0].update(reason="shape"), "of 1 refusals 2 differ"),
    ],
)
def test_each_difference_is_a_problem(damage: Callable[[Any], Any], problem: str) -> None:
    spoilt = deepcopy(found())
    damage(spoilt)
    assert problem in judged(spoilt, EXPECTED)


def bought(*at_ms: int) -> Expected:
    """The purchases of one card, which arrive as they happen; one of the past arrives with the one before it."""
    enriched: dict[int, dict[str, Any]] = {}
    newest_ms = 0
    for offset, each_ms in enumerate(at_ms):
        newest_ms = max(newest_ms, each_ms)
        event = {"transaction_id": f"t{offset}", "customer": "anna", "card": "blue", "amount_cents": 100}
        place = {"source_topic": "transactions", "source_partition": 0, "source_offset": offset}
        enriched[offset] = {**event, **place, "at_ms": each_ms, "ingest_ms": newest_ms}
    return Expected([], enriched, {}, Counter())


def test_the_rule_on_windows_adds_its_alerts() -> None:
    expected = with_burst(bought(50_000, 60_000, 70_001, 90_000), load("flink").use)
    (found,) = expected.alerts.values()
    assert (found.rule, found.event_ids, found.window_start_ms) == (BURST, ("t0", "t1"), 50_000)
    assert (expected.refused, expected.either) == (Counter(), frozenset())


def test_what_is_late_is_refused_and_in_no_burst() -> None:
    # The first events of a run may come before its first step of time: of the four, two.
    expected = with_burst(bought(50_000, 44_999, 45_000, 44_998), load("flink").use)
    (found,) = expected.alerts.values()
    assert found.event_ids == ("t0", "t2")
    assert expected.either == {("transactions", 1, "late")}
    assert expected.refused == Counter({("transactions", 3, "late"): 1})


@pytest.mark.parametrize(("reasons", "is_right"), [(1, True), (0, True), (2, False)])
def test_a_late_event_at_the_beginning_may_be_counted(reasons: int, is_right: bool) -> None:
    it = found()
    it.letters += [{"topic": "cost.transactions", "offset": 1, "reason": "late"}] * reasons
    problems = judged(it, replace(EXPECTED, either=frozenset({("transactions", 1, "late")})))
    assert (problems == "") is is_right


def test_an_engine_that_makes_batches_may_count_any_late_event() -> None:
    it, late = found(), ("transactions", 1, "late")
    expected = replace(EXPECTED, refused=EXPECTED.refused + Counter({late: 1}))
    assert judged(it, expected) != ""
    assert judged(it, expected.in_batches()) == ""
    it.letters.append({"topic": "cost.transactions", "offset": 1, "reason": "late"})
    assert judged(it, expected) == judged(it, expected.in_batches()) == ""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_plan_has_the_rules_that_are_measured_and_nothing_else(engine: str) -> None:
    stages = only(load(engine), (*RULES, BURST)).pattern.stages
    assert stages.windows is not None
    assert (stages.windows.engine, stages.windows.rules, stages.windows.summaries) == (engine, (BURST,), ())
    assert (stages.events.rules, stages.persist) == (RULES, None)
    assert only(load(engine), RULES).pattern.stages.windows is None


def test_what_is_not_measured_has_a_row_that_shows_so() -> None:
    side = {"median": 20.4}
    figures = {"cpu_us_per_message": dict.fromkeys(SIDES, side), "ratio": {"median": 1.0, "least": 0.9, "most": 1.1}}
    of_two = "| [Flink, two rules](records/cost.json) | 20 µs | 20 µs | 1.00 (0.90 to 1.10) |"
    of_three = "| [three rules: not measured](records/cost-burst.json) |  |  |  |"
    of = {"records/cost": "two rules", "records/cost-burst": "three rules"}
    assert costs(of, "by hand", {"cost": {"figures": {"flink": figures}}}).splitlines()[2:] == [of_two, of_three]
    both = {name: {"figures": {"flink": figures}} for name in ("cost", "cost-burst")}
    assert costs(of, "by hand", both).splitlines()[2:] == [
        of_two,
        of_two.replace("two", "three").replace("cost", "cost-burst"),
    ]


@pytest.mark.parametrize("starts", [STARTS, *CHOICES])
def test_each_engine_has_the_declared_rules_and_one_other_side(starts: Starts) -> None:
    for engine, _ in starts:
        declared, other = sides_of(engine, starts)
        assert declared == DECLARED != other


@pytest.fixture(scope="module")
def target(stack: Settings) -> Iterator[Target]:
    target = Target.read(stack, {})
    send_backlog(target.bootstrap, EVENTS, seed=3)
    yield target
    with topics.admin(target.bootstrap) as admin:
        admin.delete_topics([name for name in admin.list_topics() if name.startswith("cost")])


@pytest.mark.drill
@pytest.mark.stack
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("engine", "side", "rules"),
    [(*each, RULES) for each in ALL] + [(*each, (*RULES, BURST)) for each in STARTS],
)
def test_each_side_judges_a_small_backlog_as_the_oracle_does(
    target: Target, engine: str, side: str, rules: Sequence[str]
) -> None:
    expected = expected_of(target.bootstrap, rules)
    assert {finding.rule for finding in expected.alerts.values()} == set(rules)

    assert len({reason for _, _, reason in expected.refused}) > 8
    _, problems = run(target, engine, side, expected, start=ALL[engine, side])
    assert problems == ""
