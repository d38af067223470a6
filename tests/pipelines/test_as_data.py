"""Conditions and stages as plain data: the same tree comes back, and an unknown node is refused by its name."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from millrace import project
from millrace.rules import EventRule, RuleError, UseCase, WindowRule
from millrace.rules.expressions import Expression, Field, from_data
from millrace.rules.stage import stage_data, windows_data
from tests.second.invented import CASES, Invented, Sent

USES = project.uses()


def expressions(use: UseCase) -> Iterator[Expression]:
    """Every condition and computed value of a use."""
    for rule in use.rules:
        if isinstance(rule, EventRule | WindowRule):
            yield rule.condition
        if isinstance(rule, WindowRule):
            yield from rule.where.values()
    for summary in use.summaries:
        yield from summary.where.values()
    yield from use.enrichment.built.values()


def returned(expression: Expression) -> Expression:
    return from_data(json.loads(json.dumps(expression.as_data())))


@pytest.mark.parametrize("name", USES)
def test_every_expression_of_every_use_comes_back_from_json(name: str) -> None:
    found = list(expressions(USES[name]))
    assert found
    for each in found:
        assert repr(returned(each)) == repr(each)


@settings(max_examples=settings.default.max_examples // 4)
@given(CASES)
def test_every_invented_expression_comes_back_from_json(case: tuple[Invented, tuple[Sent, ...]]) -> None:
    for each in expressions(case[0].use):
        assert repr(returned(each)) == repr(each)


@pytest.mark.parametrize("name", USES)
def test_the_stages_of_every_use_are_plain_data(name: str) -> None:
    use = USES[name]
    rules = tuple(rule for rule in use.rules if isinstance(rule, EventRule))
    windows = [rule for rule in use.rules if isinstance(rule, WindowRule)]
    for data in (stage_data(use, rules), windows_data(use, windows, use.summaries)):
        assert json.loads(json.dumps(data)) == data


def test_an_unknown_node_is_refused_by_name() -> None:
    with pytest.raises(RuleError, match="no expression has a node 'power' of base; there are field, literal"):
        from_data({"node": "power", "base": 2})


def test_a_node_without_a_form_as_data_is_refused_by_name() -> None:
    class Power(Expression):
        kind = "whole"

    with pytest.raises(RuleError, match="a node of the kind Power has no form as data"):
        (Field("now", "amount", "whole") > Power()).as_data()
