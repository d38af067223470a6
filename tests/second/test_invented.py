"""Two readings of one declaration agree on invented uses and tapes."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings

from tests.second.both import differences
from tests.second.invented import CASES, Invented, Sent, tape_of

some = settings(max_examples=settings.default.max_examples // 5)


def seen(**fields: Any) -> Sent:
    return Sent("events", "a", 0, tuple({"at_ms": 0, "whole": 0, "latitude": 0.0, **fields}.items()))


UNEQUAL = "(before.m0 != 1)"
OTHERS = Invented(
    "wide", False, remembers=(("m0", "DistinctOthers('may_text', within_ms=100)"),), alert_when=(UNEQUAL,)
)


@some
@given(CASES)
# A number that leaves its kind.
@example((Invented("wide", False, alert_when=("((now.at_ms * now.whole) > 0)",)), (seen(whole=2**62),)))
@example((Invented("wide", False, alert_when=("((now.latitude * 1e300) > 0)",)), (seen(latitude=1e300),)))
@example((Invented("wide", False, adds=(("x0", "(now.at_ms + now.whole)"),)), (seen(whole=2**63 - 1),)))
# A whole number that is no double.
@example((Invented("wide", False, alert_when=("(now.whole > 9007199254740992.0)",)), (seen(whole=2**53 + 1),)))
@example((Invented("wide", False, adds=(("x0", "(now.whole * -0.0)"),)), (seen(),)))
# Null is no value of others, and yet its event moves time.
@example((OTHERS, (seen(may_text=None), seen(may_text="a"), seen(at_ms=101), seen(at_ms=200, may_text="b"))))
def test_both_oracles_make_the_same_of_any_rules_and_any_tape(case: tuple[Invented, tuple[Sent, ...]]) -> None:
    invented, sent = case
    assert differences(invented.use, invented.use.rules, tape_of(invented.use, sent)) == []
