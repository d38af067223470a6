"""The programs by hand do what the declared rules do, and the comparison with the oracle sees each difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from lab.cost import RULES, SIDES, STARTS, Expected, Found, expected_of, judged, run, send_backlog
from millrace.oracle import Finding
from millrace.settings import Settings
from millrace.stores import topics
from millrace.target import Target

EVENTS = 20_000
ENGINES = sorted({engine for engine, _ in STARTS})

FINDING = Finding(RULES[0], "v1", "anna", "anna", ("t1",), {"amount_cents": 9, "before_highest_cents": 5}, 1_000)
ENRICHED = {"transaction_id": "t1", "km_from_phone": 1.5, "source_topic": "transactions", "source_offset": 7}
EXPECTED = Expected([], {7: ENRICHED}, {FINDING.alert_id: FINDING}, Counter({("transactions", 8, "json"): 1}))


def found() -> Found:
    operands = {name: str(value) for name, value in FINDING.operands.items()}
    alert = {"alert_id": FINDING.alert_id, "rule": RULES[0], "at_ms": 1_000, "operands": operands}
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
        (lambda it: it.letters.clear(), "of 1 refusals 1 differ"),
        (lambda it: it.letters[0].update(reason="shape"), "of 1 refusals 2 differ"),
    ],
)
def test_each_difference_is_a_problem(damage: Callable[[Any], Any], problem: str) -> None:
    spoilt = deepcopy(found())
    damage(spoilt)
    assert problem in judged(spoilt, EXPECTED)


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
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("engine", ENGINES)
def test_each_side_judges_a_small_backlog_as_the_oracle_does(target: Target, engine: str, side: str) -> None:
    expected = expected_of(target.bootstrap)
    assert {finding.rule for finding in expected.alerts.values()} == set(RULES)
    assert len({reason for _, _, reason in expected.refused}) > 8
    _, problems = run(target, engine, side, expected)
    assert problems == ""
