"""The engines' memory holds what the oracle's does, and survives a change of the rules."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.oracle import Memory
from millrace.rules import Count, DistinctOthers, Last, Max, Min, Sum
from millrace.rules.expressions import haversine_km
from millrace.rules.measures import Measure, as_data
from pipelines.fraud.events import device_locations, transactions
from tests.kernel.conftest import Partner

EVERY: dict[str, Measure] = {
    "highest": Max("amount_cents"),
    "lowest": Min("amount_cents"),
    "farthest_north": Max("latitude"),
    "first_name": Min("merchant"),
    "total": Sum("amount_cents"),
    "n": Count(),
    "phone": Last(device_locations, "latitude", "longitude", "at_ms"),
    "previous": Last(transactions, "merchant", "sent_ms"),
    "merchants": DistinctOthers("merchant", within_ms=100),
    "longer": DistinctOthers("merchant", within_ms=300),
    "amounts": DistinctOthers("amount_cents", within_ms=50),
    "lately": Count(within_ms=100),
    "last_sent": Max("sent_ms"),
    "sent_in_all": Sum("sent_ms"),
    "sent_otherwise": DistinctOthers("sent_ms", within_ms=100),
    "last_name": Max("merchant"),
}
Step = tuple[str, Mapping[str, Any]]

purchases = st.fixed_dictionaries(
    {
        "amount_cents": st.integers(1, 5) | st.sampled_from([2**62, -(2**62)]),
        "merchant": st.sampled_from(["M1", "M2", "😀", "\uff5e"]),
        "latitude": st.sampled_from([-0.5, 0.0, 89.9]),
        "at_ms": st.builds(lambda n, aside: 50 * n + aside, st.integers(0, 8), st.sampled_from([0, 0, 0, 1, -1])),
        "sent_ms": st.none() | st.integers(0, 9),
    }
).map(lambda event: (transactions.name, event))
places = st.fixed_dictionaries(
    {"latitude": st.floats(-90, 90), "longitude": st.floats(-180, 180), "at_ms": st.integers(0, 1000)}
).map(lambda event: (device_locations.name, event))
tapes = st.lists(purchases | places, max_size=25)
some_measures = st.lists(st.sampled_from(sorted(EVERY)), unique=True)


def data(remembers: Mapping[str, Measure]) -> list[dict[str, Any]]:
    return [as_data(name, measure, transactions) for name, measure in remembers.items()]


def remembered(
    partner: Partner, remembers: Mapping[str, Measure], tape: Sequence[Step], state: str | None = None
) -> tuple[list[dict[str, Any]], str | None]:
    """What the kernel remembered before each purchase of a tape."""
    found = []
    for stream, event in tape:
        is_judged = stream == transactions.name
        before, state = partner.fold(data(remembers), state, stream, dict(event), is_judged)
        if is_judged:
            found.append(before)
    return found, state


def meant(remembers: Mapping[str, Measure], tape: Sequence[Step]) -> list[dict[str, Any]]:
    memory, found = Memory(remembers, transactions), []
    for stream, event in tape:
        if stream == transactions.name:
            found.append(memory.before(event))
        memory.learn(stream, event)
    return found


@given(tapes)
def test_every_measure_remembers_what_the_oracle_remembers(partner: Partner, tape: list[Step]) -> None:
    found, _ = remembered(partner, EVERY, tape)
    assert found == meant(EVERY, tape)


@given(tapes, tapes, some_measures, some_measures)
def test_measures_added_removed_or_moved_leave_the_others_as_they_were(
    partner: Partner, before: list[Step], after: list[Step], old: list[str], new: list[str]
) -> None:
    _, state = remembered(partner, {name: EVERY[name] for name in old}, before)
    found, _ = remembered(partner, {name: EVERY[name] for name in new}, after, state)
    kept = {name: EVERY[name] for name in new if name in old}
    added = {name: EVERY[name] for name in new if name not in old}
    purchases_before = sum(stream == transactions.name for stream, _ in before)
    of_kept = meant(kept, [*before, *after])[purchases_before:]
    of_added = meant(added, after)
    assert found == [{**k, **a} for k, a in zip(of_kept, of_added, strict=True)]


def test_memory_is_kept_under_the_names_of_every_build_before() -> None:
    assert {name: (each["signature"], each["kinds"]) for name, each in zip(EVERY, data(EVERY), strict=True)} == {
        "highest": ("max(transactions.amount_cents)", ["whole"]),
        "lowest": ("min(transactions.amount_cents)", ["whole"]),
        "farthest_north": ("max(transactions.latitude)", ["real"]),
        "first_name": ("min(transactions.merchant)", ["text"]),
        "total": ("sum(transactions.amount_cents)", ["whole"]),
        "n": ("count(transactions)", []),
        "phone": ("last(device-locations.latitude,longitude,at_ms)", ["real", "real", "whole"]),
        "previous": ("last(transactions.merchant,sent_ms)", ["text", "whole"]),
        "merchants": ("others(transactions.merchant,100)", ["text"]),
        "longer": ("others(transactions.merchant,300)", ["text"]),
        "amounts": ("others(transactions.amount_cents,50)", ["whole"]),
        "lately": ("recent(transactions,100)", []),
        "last_sent": ("max(transactions.sent_ms)", ["whole"]),
        "sent_in_all": ("sum(transactions.sent_ms)", ["whole"]),
        "sent_otherwise": ("others(transactions.sent_ms,100)", ["whole"]),
        "last_name": ("max(transactions.merchant)", ["text"]),
    }


def test_a_measure_under_another_name_keeps_its_memory(partner: Partner) -> None:
    _, state = remembered(partner, {"highest": Max("amount_cents")}, [(transactions.name, {"amount_cents": 7})])
    found, _ = remembered(partner, {"top": Max("amount_cents")}, [(transactions.name, {"amount_cents": 1})], state)
    assert found == [{"top": 7}]


def test_texts_are_in_the_order_of_their_code_points(partner: Partner) -> None:
    tape = [(transactions.name, {"merchant": name}) for name in ("\uff5e", "😀", "")]
    found, _ = remembered(partner, {"last": Max("merchant")}, tape)
    assert found == [{"last": None}, {"last": "\uff5e"}, {"last": "😀"}]


def test_null_is_no_other_value_and_its_event_moves_time(partner: Partner) -> None:
    sent = [(0, None), (10, 1), (20, 2), (115, None), (111, 2)]
    tape = [(transactions.name, {"sent_ms": sent_ms, "at_ms": at_ms}) for at_ms, sent_ms in sent]
    found, _ = remembered(partner, {"others": DistinctOthers("sent_ms", within_ms=100)}, tape)
    assert [each["others"] for each in found] == [0, 0, 1, 1, 0]


def test_values_too_old_to_count_again_are_forgotten(partner: Partner) -> None:
    tape = [(transactions.name, {"merchant": f"M{i}", "at_ms": 1000 * i}) for i in range(200)]
    _, state = remembered(partner, {"merchants": DistinctOthers("merchant", within_ms=5000)}, tape)
    assert state is not None
    assert len(state) < 300


@pytest.mark.parametrize(
    "places",
    [
        (0, 0, 0, 0),
        (48.4, 9.99, 48.41, 9.99),
        (90, 0, -90, 0),
        (0, -180, 0, 180),
        (0, 0, 0, 180),
        (51.5, -0.1, 40.7, -74),
    ],
)
def test_the_distance_is_the_oracles(partner: Partner, places: tuple[float, ...]) -> None:
    assert partner.km(*places) == pytest.approx(haversine_km(*places), rel=1e-12, abs=1e-9)
