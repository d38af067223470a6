import json
import re
from collections import Counter
from types import SimpleNamespace

import pytest

from millrace.engines.flink.folds import fold_of, steps_of
from millrace.oracle import Record, judge
from millrace.rules import EventRule, FoldRule, Max, RuleError
from millrace.rules.expressions import Field, value_of
from millrace.rules.memory import StageMemory
from millrace.rules.sentences import phrased, values_shown
from millrace.testing import token
from pipelines.fraud import FRAUD
from pipelines.fraud.events import transactions


def rule(alert_when, **remembers):
    return EventRule("r", "A rule.", transactions, alert_when, remembers or {"highest": Max("amount_cents")})


@pytest.mark.parametrize(
    ("alert_when", "complaint"),
    [
        (lambda now, before: now.amount_cents > 1 and before.highest > 1, "write & | ~"),
        (lambda now, before: now.amount_cents > 1 or before.highest > 1, "write & | ~"),
        (lambda now, before: not now.amount_cents > 1, "write & | ~"),
        (lambda now, before: 1 < now.amount_cents < 5, "split a chained comparison"),
        (lambda now, before: now.amount_cents > 1 & before.highest, "put each comparison in parentheses"),
        (lambda now, before: now.amount_cent > 1, "did you mean 'amount_cents'"),
        (lambda now, before: now.amount_cents > before.hihgest, "did you mean 'highest'"),
        (lambda now, before: now.merchant > 5, "needs numbers"),
        (lambda now, before: now.merchant == 5, "never be equal"),
        (lambda now, before: now.amount_cents + 1, "must give a comparison"),
        (lambda now, before: True, "must give a comparison"),
        (lambda now, before: now.amount_cents > float("nan"), "compares fields with"),
        (lambda now, before: now.amount_cents == None, "a comparison with null is null, and never alerts"),  # noqa: E711
        (lambda now, before: now.amount_cents > 2**63, "whole numbers of 64 bits, not with 9223372036854775808"),
    ],
)
def test_an_ambiguous_condition_is_refused_at_definition(alert_when, complaint):
    with pytest.raises(RuleError, match=complaint):
        rule(alert_when)


OPERATORS = (
    "a condition has fields, constants, + - *, km(), comparisons and & | ~; send what else it needs as a field of the "
    "event"
)


@pytest.mark.parametrize(
    ("alert_when", "complaint"),
    [
        (
            lambda now, before: (now.amount_cents - before.highest) / now.at_ms > 2,
            "a condition has no division; write (now.amount_cents - before.highest) > 5 * now.at_ms in place of "
            "(now.amount_cents - before.highest) / now.at_ms > 5",
        ),
        (
            lambda now, before: 100 // before.highest > 2,
            "a condition has no division; write 100 > 5 * before.highest in place of 100 / before.highest > 5",
        ),
        (
            lambda now, before: now.amount_cents % 100 == 0,
            "a condition has no remainder; send now.amount_cents % 100 as a field of the event",
        ),
        (
            lambda now, before: 7 % now.amount_cents == 0,
            "a condition has no remainder; send 7 % now.amount_cents as a field of the event",
        ),
        (
            lambda now, before: -now.amount_cents > 5,
            "a condition has no minus sign before a field; write 0 - now.amount_cents",
        ),
        (
            lambda now, before: abs(now.amount_cents - before.highest) > 5,
            "a condition has no abs(); write (now.amount_cents - before.highest > 5) | "
            "(now.amount_cents - before.highest < -5) in place of abs(now.amount_cents - before.highest) > 5",
        ),
        (
            lambda now, before: now.merchant in ("m1", "m2"),
            "(now.merchant == 'm1') was used as true or false while the rule was being declared: write & | ~ in place "
            'of and / or / not / if, write (x == "a") | (x == "b") in place of x in ("a", "b"), split a chained '
            "comparison such as a < b < c into (a < b) & (b < c), and put each comparison in parentheses",
        ),
        (
            lambda now, before: (now.merchant in {"m1", "m2"}) & (now.amount_cents > 5),
            "now.merchant was looked up in a set or a dictionary while the rule was being declared: "
            'write (x == "a") | (x == "b") in place of x in ("a", "b")',
        ),
        (
            lambda now, before: now.merchant.startswith("x"),
            f"'Field' object has no attribute 'startswith'; {OPERATORS}",
        ),
        (lambda now, before: len(now.merchant) > 3, f"object of type 'Field' has no len(); {OPERATORS}"),
        (lambda now: now.amount_cents > 3, "<lambda>() takes 1 positional argument but 2 were given"),
    ],
)
def test_what_a_condition_does_not_have_is_refused_with_its_place_and_a_remedy(alert_when, complaint):
    with pytest.raises(RuleError) as error:
        rule(alert_when)
    line = alert_when.__code__.co_firstlineno
    assert str(error.value) == f"rule 'r' (pipelines/test_rules.py, line {line}): {complaint}"


def test_a_measure_over_a_field_that_does_not_exist_is_refused_at_definition():
    with pytest.raises(RuleError, match="did you mean 'amount_cents'"):
        rule(lambda now, before: now.amount_cents > before.x, x=Max("amount_cent"))


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (True, None, None, True),
        (False, None, False, None),
        (None, None, None, None),
        (True, False, False, True),
    ],
)
def test_null_follows_the_three_valued_logic_of_sql(left, right, both, either):
    a, b = Field("now", "a", "flag"), Field("now", "b", "flag")
    values = {"now": {"a": left, "b": right}}
    assert (value_of(a & b, values), value_of(a | b, values)) == (both, either)
    assert (value_of(b & a, values), value_of(b | a, values)) == (both, either)


@pytest.mark.parametrize(
    ("compute", "wanted"),
    [
        (lambda now: now.whole * 1, 2**63 - 1),
        (lambda now: now.whole + 1, None),
        (lambda now: -2 - now.whole, None),
        (lambda now: now.whole * now.whole, None),
        (lambda now: now.whole * now.whole > 0, None),
        (lambda now: now.real * 10.0, None),
        (lambda now: now.real * 10.0 - now.real * 10.0 == 0.0, None),
        (lambda now: now.real * 0.0 * -1, 0.0),
        # The whole number is the double 2^63 here, and it is not less than that one.
        (lambda now: now.whole < 2.0**63, False),
        (lambda now: now.whole - 2.0**63, 0.0),
    ],
)
def test_a_number_that_leaves_its_kind_is_null_and_beside_a_real_one_it_is_a_double(compute, wanted):
    names = SimpleNamespace(whole=Field("now", "whole", "whole"), real=Field("now", "real", "real"))
    found = value_of(compute(names), {"now": {"whole": 2**63 - 1, "real": 1e308}})
    assert repr(found) == repr(wanted)


def test_a_rule_prints_itself_as_an_expression_and_as_a_sentence():
    highest = FRAUD.rule("above-previous-max")
    assert highest.expression() == "now.amount_cents > before.highest_cents"
    assert highest.sentence() == (
        "Alert when the amount is greater than the largest amount of the customer's earlier events."
    )


def test_the_version_of_a_rule_changes_with_its_threshold_and_not_with_its_wording():
    one = rule(lambda now, before: now.amount_cents > 100)
    same = EventRule("r", "Other words.", transactions, lambda now, before: now.amount_cents > 100, one.remembers)
    other = rule(lambda now, before: now.amount_cents > 101)
    assert one.version == same.version != other.version


def test_rules_of_one_stage_share_a_measure_they_have_in_common():
    rules = tuple(r for r in FRAUD.rules if isinstance(r, EventRule))
    stage = StageMemory(FRAUD, rules)
    signatures = [measure["signature"] for measure in stage.measures]
    assert len(signatures) == len(set(signatures)) == 5
    away = FRAUD.rule("away-from-phone")
    assert stage.column(away.remembers, "phone_latitude") == stage.column(FRAUD.enrichment.remembers, "phone_latitude")
    assert set(stage.columns) == {"_m0", "_m1_latitude", "_m1_longitude", "_m1_at_ms", "_m2", "_m3", "_m4"}


def test_an_unknown_rule_is_named_with_the_nearest_one():
    with pytest.raises(RuleError, match="did you mean 'burst'"):
        FRAUD.rule("bursts")


def test_an_alert_is_explained_by_the_values_that_its_condition_compared():
    highest, away, burst = (FRAUD.rule(name) for name in ("above-previous-max", "away-from-phone", "burst"))
    at_once = FRAUD.rule("burst-at-once")
    assert highest.explained({"amount_cents": "91200", "before_highest_cents": "5000"}) == (
        "the amount (912.00) is greater than the largest amount of the customer's earlier events (50.00)"
    )
    place = {"latitude": "52.5", "longitude": "13.4", "at_ms": "60000"}
    phone = {"before_phone_latitude": "41.0", "before_phone_longitude": "29.0", "before_phone_at_ms": "15000"}
    said = away.explained(place | phone)
    assert re.search(
        r"the distance between .* \(1,7\d\d km\) is greater than 1 km and the time is at most 15 minutes "
        r"after the time of the customer's last event on device-locations \(45 s\)$",
        said,
    )
    assert burst.explained({"n": "3", "total_cents": "900", "first_ms": "1", "last_ms": "2"}) == (
        "the number of events (3) is at least 2"
    )
    assert at_once.explained({"before_purchases": "1", "at_ms": "9000", "before_newest_ms": "5000"}) == (
        "the number of the customer's earlier events in the last 10 seconds (1) is at least 1 and the time is at most "
        "10 seconds before the largest time of the customer's earlier events (4 s after)"
    )


@pytest.mark.parametrize(
    ("when", "values", "wanted"),
    [
        (
            lambda now: now.spent_cents > 100_000,
            {"spent_cents": "123456"},
            "the spent (1,234.56) is greater than 1,000.00",
        ),
        (
            lambda now: now.spent_cents - 5_000 > 0,
            {"spent_cents": "6000"},
            "the spent minus 50.00 (10.00) is greater than 0.00",
        ),
        (lambda now: now.way_km > 5.0, {"way_km": "7.25"}, "the way km (7.2 km) is greater than 5 km"),
        (lambda now: now.way_km > 1.0, {"way_km": "1.004"}, "the way km (1.004 km) is greater than 1 km"),
        (lambda now: now.way_km >= 1_200.5, {"way_km": "2389.17"}, "the way km (2,389 km) is at least 1,200.5 km"),
        (lambda now: now.size > 1_500_000, {"size": "2345678"}, "the size (2.3 MB) is greater than 1.5 MB"),
        (lambda now: now.held_ms < 60_000, {"held_ms": "59990"}, "the held (59.99 s) is less than 1 minute"),
        (lambda now: now.number >= 1_000, {"number": "12345"}, "the number (12,345) is at least 1,000"),
        (lambda now: now.number == 8080, {"number": "8080"}, "the number (8080) is 8080"),
        (lambda now: now.share > 0.25, {"share": "0.26789"}, "the share (0.2679) is greater than 0.25"),
        (lambda now: now.share > 1.0, {"share": "1.00000001"}, "the share (1.00000001) is greater than 1"),
        (lambda now: now.share > 0.0, {"share": "1e-9"}, "the share (1e-09) is greater than 0"),
        (
            lambda now: now.number * now.share > 10.0,
            {"number": "3", "share": "4.0"},
            "the number times the share (12) is greater than 10",
        ),
    ],
)
def test_values_and_thresholds_have_their_unit_thousands_and_few_digits(when, values, wanted):
    kinds = {"spent_cents": "whole", "way_km": "real", "size": "whole", "held_ms": "whole"}
    kinds |= {"number": "whole", "share": "real"}
    condition = when(SimpleNamespace(**{name: Field("now", name, kind) for name, kind in kinds.items()}))
    assert phrased(condition, {}, values_shown(values)) == wanted


def step(state, event, stream):
    return state, None


def test_the_values_of_a_step_have_their_unit():
    rule = FoldRule("r", "", transactions, step, "1")
    assert rule.explained({"spent_cents": "123456", "way_km": "0.04", "note": "12", "left": None}) == (
        "spent 1,234.56, way km 0 km, note 12, left None"
    )


def keep(state, event, stream):
    """Returns the state that the module has."""
    return KEPT[event["customer"]], {"n": 1}


AT_MS = 1_790_000_000_000
KEPT = {
    "plain": {"seen": [["a", 1], {}, None, 1.5, True]},
    "number": {0: "a"},
    "pair": {"seen": [["a", 1], ["b", (2, 3)]]},
    "set": {"a"},
    "counter": {"of": {"counts": Counter("a")}},
}


@pytest.mark.parametrize(
    ("customer", "what"),
    [
        ("plain", None),
        ("number", "state has the key 0, which is not text"),
        ("pair", "state['seen'][1][1] is of the type tuple"),
        ("set", "state is of the type set"),
        ("counter", "state['of']['counts'] is of the type Counter"),
    ],
)
def test_a_state_that_would_be_read_otherwise_is_refused_by_the_oracle_and_on_flink(customer, what):
    rule = FoldRule("kept", "", FRAUD.judged, keep, "1")
    place = {"latitude": 0, "longitude": 0}
    event = {"transaction_id": "t", "customer": customer, "card": token("1"), "merchant": "m", "amount_cents": 1}
    value = json.dumps(event | place | {"at_ms": AT_MS}).encode()
    record = Record("transactions", 0, 0, AT_MS, customer.encode(), value)
    known = {"customers": {customer: {"segment": ""}}, "merchants": {"m": {"category": "", "place": ""}}}
    fold = fold_of(steps_of([rule], ""))
    for judged in (
        lambda: list(judge(FRAUD, [rule], [record], known)),
        lambda: fold(None, value.decode(), "transactions"),
    ):
        if what is None:
            assert judged()
            continue
        with pytest.raises(RuleError, match=r"^rule 'kept.*': the state that its step returned") as refused:
            judged()
        assert f": {what}; an engine" in str(refused.value)


def test_a_value_that_an_alert_lacks_is_left_out():
    highest = FRAUD.rule("above-previous-max")
    assert "the amount is greater than" in highest.explained({"before_highest_cents": None})
