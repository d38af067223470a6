"""The shares and sizes that uses declare are options of `millrace traffic` and fields of a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from typer import BadParameter
from typer.main import get_command

from millrace import project
from millrace.cli import mixture
from millrace.cli.app import app
from millrace.errors import InfraError
from millrace.rules import RuleError, Text
from millrace.traffic import Share, Size, plan_for
from pipelines.fraud.events import CARD_NUMBER, transactions
from tests.traffic.visits import TRAFFIC, VISITS, Visits


@pytest.fixture
def two_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    uses = project.uses()
    monkeypatch.setattr(project, "uses", lambda: {**uses, "visits": VISITS})


def parsed(*words: str) -> dict[str, Any]:
    command = get_command(app).commands["traffic"]  # type: ignore[attr-defined] # it is a group
    return dict(command.make_context("traffic", ["flink", *words]).params)


def test_each_share_and_size_of_every_use_is_an_option(two_uses: None) -> None:
    given = parsed("--crowds", "0.9", "--pages=7", "--poison", "0.2")
    assert (given["crowds"], given["pages"], given["poison"]) == (0.9, 7, 0.2)
    assert given["duplicates"] is None
    assert isinstance(given["pages"], int)


def test_an_option_beyond_its_limits_or_without_its_value_is_a_usage_error(two_uses: None) -> None:
    for words in (
        ["--crowds", "1.1"],
        ["--poison", "-0.1"],
        ["--pages", "1.5"],
        ["--pages", "0"],
        ["--pages", "--json"],
    ):
        with pytest.raises(BadParameter):
            parsed(*words)


def test_an_option_that_the_verb_has_itself_is_refused_with_the_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Visits, "shares", {"rate": Share(0.1, "Taken.")})
    monkeypatch.setattr(project, "uses", lambda: {"visits": VISITS})
    with pytest.raises(InfraError, match=r"use 'visits': its traffic cannot have 'rate'.* another name"):
        parsed("--seed", "1")


def test_uses_with_an_option_in_common_share_it() -> None:
    both = {
        "some": {"a": Share(0.1, "Of a.", most=0.2), "b": Share(0.3, "Of b.", most=0.4)},
        "many": {"b": Size(3, "M.")},
    }
    some, many = mixture.options(both)
    assert (some.name, some.max, some.help) == ("some", 0.4, "a [0.1]: Of a. b [0.3]: Of b.")
    assert (many.name, many.max) == ("many", 1_000_000)


def test_a_plan_has_what_was_given_and_the_defaults_of_all_else() -> None:
    plan = plan_for(TRAFFIC, 10, 10, pages=9)
    assert (plan.shares, plan.sizes) == ({"crowds": 0.1}, {"pages": 9})


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"crowds": 1.5}, r"crowds must be from 0 to 1\.0, not 1\.5"),
        ({"pages": 101}, "pages must be from 1 to 100, not 101"),
        ({"pages": 0}, "pages must be from 1 to 100, not 0"),
        ({"name": "a b|c"}, r"'a b\|c' would be in each id; name the traffic in letters, digits and dashes"),
        ({"crowd": 0.5}, "this use's traffic has no 'crowd'; did you mean 'crowds'"),
    ],
)
def test_what_a_use_does_not_declare_is_refused(wrong: dict[str, float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        plan_for(TRAFFIC, 10, 10, **wrong)


def test_a_field_that_carries_a_token_accepts_nothing_else() -> None:
    loose = replace(transactions.fields[2], pattern=r"[0-9]+")
    assert isinstance(loose, Text)
    assert loose.token_of is CARD_NUMBER
    with pytest.raises(RuleError, match="'card' is a token; give it pattern=TOKEN_PATTERN"):
        replace(transactions, fields=(*transactions.fields[:2], loose, *transactions.fields[3:]))


def test_a_backfill_takes_the_sizes_alone_since_nothing_is_generated(two_uses: None) -> None:
    command = get_command(app).commands["backfill"]  # type: ignore[attr-defined] # it is a group
    words = ["flink", "--from", "log.csv", "--into", "june", "--pages", "7"]
    given = command.make_context("backfill", words).params
    assert (given["pages"], "crowds" in given, "poison" in given) == (7, False, False)
