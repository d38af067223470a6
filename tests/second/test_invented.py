"""Two readings of one declaration agree on invented uses and tapes."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace.rules import memories
from tests.second.both import differences
from tests.second.invented import CASES, Invented, Sent, tape_of

some = settings(max_examples=settings.default.max_examples // 5)


def seen(after_ms: int = 0, **fields: Any) -> Sent:
    return Sent("events", "a", after_ms, tuple({"at_ms": 0, "whole": 0, "latitude": 0.0, **fields}.items()))


UNEQUAL = "(before.m0 != 1)"
OTHERS = Invented(
    "wide", False, remembers=(("m0", "DistinctOthers('may_text', within_ms=100)"),), alert_when=(UNEQUAL,)
)


EVERY = Invented(
    "wide",
    has_ids=False,
    remembers=(
        ("m0", "Max('may_whole')"),
        ("m1", "Min('longitude')"),
        ("m2", "Sum('may_whole')"),
        ("m3", "Sum('longitude')"),
        ("m4", "Count()"),
        ("m5", "Count(within_ms=100)"),
        ("m6", "DistinctOthers('may_text', within_ms=100)"),
        ("m7", "Last(others, 'latitude')"),
    ),
    adds=(*((f"x{n}", f"before.m{n}") for n in range(7)), ("x7", "before.m7.latitude")),
    summaries=(
        (
            ("key",),
            "Sliding(200, 100)",
            (
                ("m0", "Max('may_whole')"),
                ("m1", "Min('longitude')"),
                ("m2", "Sum('may_whole')"),
                ("m3", "Sum('longitude')"),
                ("m4", "Count(where=lambda now: now.may_whole > 0)"),
                ("m5", "CountDistinct('may_text')"),
                ("m6", "Last('may_text')"),
            ),
        ),
    ),
)
MIXED = (
    seen(at_ms=0, may_whole=2**62, longitude=-0.0, may_text="a"),
    Sent("others", "a", 10, (("at_ms", 0), ("whole", 0), ("latitude", 0.5))),
    seen(at_ms=100, may_whole=None, longitude=0.5, may_text="b"),
    seen(at_ms=50, may_whole=2**62, longitude=None, may_text=None),
    seen(at_ms=201, may_whole=2**62, may_text="a"),
    seen(-100, at_ms=200, may_whole=-5, longitude=1e300, may_text="b"),
    seen(at_ms=150, may_whole=7, longitude=1.0, may_text="c"),
)
AN_ID_IS_FORGOTTEN = (
    seen(id="i0", at_ms=1_000),
    seen(2_000, id="i0", at_ms=2_000),
    seen(1, id="i0", at_ms=2_000),
    seen(100, id="i0", at_ms=2_000),
    seen(1_901, id="i0", at_ms=4_000),
)
PIPED = Invented(alert_when=("(now.whole == 0)",))
PIPES = tuple(
    Sent("events", key, content=(("id", id_), ("at_ms", 0), ("whole", 0), ("latitude", 0.0)))
    for key, id_ in (("a", "i1|i2"), ("a|i1", "i2"), ("a|i1", "|"), ("a%7Ci1", "i2"))
)
EDGES_OF_TIME = (seen(at_ms=1_000), seen(at_ms=1_001), seen(1_000), seen(1))


@some
@given(CASES)
@example((Invented(has_ids=False), EDGES_OF_TIME))
@example((Invented(has_ids=True), AN_ID_IS_FORGOTTEN))
@example((EVERY, MIXED))
# Together, key and id of the first are those of the second.
@example((PIPED, PIPES))
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


@some
@given(CASES, st.integers(0, 6))
@example((EVERY, MIXED), 3)
@example((OTHERS, (seen(at_ms=300, may_text="a"), seen(at_ms=0, may_text="b"), seen(at_ms=1, may_text="c"))), 1)
def test_both_oracles_make_the_same_of_memories_that_begin_under_way(
    case: tuple[Invented, tuple[Sent, ...]], since: int
) -> None:
    invented, sent = case
    use = invented.use
    tape = tape_of(use, sent)
    begun = dict.fromkeys(memories(use.rules, use.enrichment), since)
    assert differences(use, use.rules, tape, begun) == []
