"""What must hold of the oracle whatever arrives, and the same answers from a second, naive reading of the rules."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from millrace import oracle
from millrace.oracle import Judged, Record, Refusal
from millrace.rules.expressions import EARTH_RADIUS_KM, haversine_km
from pipelines.fraud import FRAUD
from pipelines.fraud.rules import burst
from pipelines.fraud.traffic.poison import POISON

START_MS = 1_790_000_000_000
ARRIVES_MS = START_MS + 12 * 3_600_000  # after the last of forty steps: what comes before it happens is refused
REFERENCES = {
    "merchants": {name: {"merchant": name, "category": "c", "place": "p"} for name in "mnopqrs"},
    "customers": {name: {"customer": name, "segment": "s"} for name in "abc"},
}
POISONS = {poison.name: poison for poison in POISON}
CARDS = {name: f"00000000.{name * 32}" for name in "abcdef"}
# About a kilometre apart, and clear of it: 0, 0.98 km, 1.02 km, far.
NORTH = (0.0, 0.0088133, 0.0091730, 30.0)


@dataclass(frozen=True)
class Buys:
    customer: str
    card: str
    merchant: str
    cents: int
    after_ms: int
    north: float


@dataclass(frozen=True)
class Reports:
    customer: str
    after_ms: int
    north: float


Step = Buys | Reports

CUSTOMERS = st.sampled_from("abc")
# Gaps gather around what decides: the burst's ten seconds, the spree's two minutes, the phone's quarter of an hour.
GAPS = st.one_of(
    st.integers(-3_000, 12_000),
    st.sampled_from([0, 9_999, 10_000, 10_001, 29_999, 30_000, 30_001, 899_999, 900_000, 900_001]),
)
BUYS = st.builds(
    Buys,
    CUSTOMERS,
    st.sampled_from("ab"),
    st.sampled_from("mnopqrs"),
    st.integers(1, 6).map(lambda n: n * 100),
    GAPS,
    st.sampled_from(NORTH),
)
STEPS = st.lists(st.one_of(BUYS, st.builds(Reports, CUSTOMERS, GAPS, st.sampled_from(NORTH))), max_size=40)
ORDERS = st.permutations(range(40))


def tape_of(steps: Sequence[Step]) -> list[Record]:
    """The steps as raw messages, arriving in this order; each customer's cards are its own."""
    at_ms, tape = START_MS, []
    for offset, step in enumerate(steps):
        at_ms += step.after_ms
        event: dict[str, Any] = {"customer": step.customer, "latitude": step.north, "longitude": 7.0, "at_ms": at_ms}
        topic = "device-locations"
        if isinstance(step, Buys):
            topic = "transactions"
            card = CARDS["abcdef"["abc".index(step.customer) * 2 + "ab".index(step.card)]]
            event |= {"transaction_id": f"t{offset}", "card": card, "merchant": step.merchant}
            event |= {"amount_cents": step.cents}
        value = json.dumps(event).encode()
        tape.append(Record(topic, 0, offset, ARRIVES_MS, step.customer.encode(), value))
    return tape


def judged(tape: Sequence[Record]) -> list[Judged]:
    return list(oracle.judge(FRAUD, FRAUD.rules, tape, REFERENCES))


def findings(results: Sequence[Judged]) -> set[tuple[Any, ...]]:
    """Everything found, as values that can be compared."""
    accepted = [each.event for each in results if each.event and each.record.topic == "transactions"]
    found = [finding for each in results for finding in each.findings] + oracle.window_findings(burst, accepted)
    return {(f.alert_id, f.rule, f.key, f.event_ids, f.at_ms, tuple(f.operands.items())) for f in found}


def purchases(results: Sequence[Judged]) -> list[Mapping[str, Any]]:
    return [each.event for each in results if each.event and each.record.topic == "transactions"]


@given(STEPS)
def test_bursts_part_all_purchases_of_a_card_into_maximal_chains(steps: list[Step]) -> None:
    accepted = purchases(judged(tape_of(steps)))
    by_card = {card: [e for e in accepted if e["card"] == card] for card in {e["card"] for e in accepted}}
    chains = [chain for own in by_card.values() for _, chain in oracle.windows(burst.window, "at_ms", own)]
    assert sorted(e["transaction_id"] for chain in chains for e in chain) == sorted(
        e["transaction_id"] for e in accepted
    )
    for chain in chains:
        times = [e["at_ms"] for e in chain]
        assert all(later - earlier <= 10_000 for earlier, later in pairwise(times))
        others = [e["at_ms"] for e in accepted if e["card"] == chain[0]["card"] and e not in chain]
        assert all(at_ms < times[0] - 10_000 or at_ms > times[-1] + 10_000 for at_ms in others)


@given(STEPS)
def test_a_naive_reading_of_the_rules_finds_the_same(steps: list[Step]) -> None:
    results = judged(tape_of(steps))
    found = {(rule, ids) for _, rule, _, ids, _, _ in findings(results)}
    assert found == naively_found(tape_of(steps))


@given(STEPS, ORDERS)
def test_how_customers_interleave_changes_nothing(steps: list[Step], order: list[int]) -> None:
    tape = tape_of(steps)
    queues = {name: [record for record in tape if record.key == name.encode()] for name in "abc"}
    turns = [steps[number].customer for number in order if number < len(steps)]
    assert findings(judged([queues[name].pop(0) for name in turns])) == findings(judged(tape))


def test_an_id_is_remembered_as_long_as_its_event_would_be_accepted() -> None:
    (first,) = tape_of([Buys("a", "a", "m", 100, 0, 0.0)])
    kept_ms, event = FRAUD.judged.remembered_ms, json.loads(first.value or b"")

    def again(offset: int, after_ms: int) -> Record:
        value = json.dumps(event | {"at_ms": first.ingest_ms + after_ms}).encode()
        return replace(first, offset=offset, ingest_ms=first.ingest_ms + after_ms, value=value)

    tape = [first, again(1, kept_ms), again(2, kept_ms + 1), again(3, 2 * kept_ms), again(4, 2 * kept_ms + 2)]
    assert [each.reason for each in judged(tape)] == [None, "duplicate", None, "duplicate", None]
    longer = oracle.judge(FRAUD, FRAUD.rules, tape, REFERENCES, lambda origin: origin[2] == 2)
    assert [each.reason for each in longer] == [None, "duplicate", "duplicate", None, "duplicate"]


@given(STEPS, st.lists(st.tuples(st.integers(0, 39), st.integers(0, 40)), max_size=8))
def test_copies_of_purchases_change_nothing_and_are_called_duplicates(
    steps: list[Step], again: list[tuple[int, int]]
) -> None:
    tape = tape_of(steps)
    more = list(tape)
    copies = 0
    for which, later in again:
        if which < len(tape) and tape[which].topic == "transactions":
            copy = replace(tape[which], offset=1_000 + copies)
            more.insert(min(len(more), more.index(tape[which]) + 1 + later), copy)
            copies += 1
    results = judged(more)
    assert findings(results) == findings(judged(tape))
    assert sum(each.reason == "duplicate" for each in results) == copies


@given(STEPS, st.lists(st.tuples(st.sampled_from(sorted(POISONS)), st.integers(0, 40), CUSTOMERS), max_size=8))
def test_what_is_refused_leaves_no_trace(steps: list[Step], spoilt: list[tuple[str, int, str]]) -> None:
    tape = tape_of(steps)
    more = list(tape)
    for number, (name, where, customer) in enumerate(spoilt):
        poison = POISONS[name]
        good = {"transaction_id": f"x{number}", "customer": customer, "card": CARDS["a"], "merchant": "m"}
        good |= {"amount_cents": 10**7, "latitude": 45.0, "longitude": 45.0, "at_ms": ARRIVES_MS}
        if poison.topic == "device-locations":
            good = {field: good[field] for field in ("customer", "latitude", "longitude", "at_ms")}
        record = Record(poison.topic, 1, number, ARRIVES_MS, customer.encode(), poison.spoil(good))
        more.insert(min(where, len(more)), record)
    results = judged(more)
    assert findings(results) == findings(judged(tape))
    reasons = [each.reason for each in results if each.record.partition == 1]
    assert sorted(map(str, reasons)) == sorted(POISONS[name].reason for name, _, _ in spoilt)


@given(STEPS, ORDERS)
def test_the_order_of_arrival_is_no_matter_to_windows(steps: list[Step], order: list[int]) -> None:
    accepted = purchases(judged(tape_of(steps)))
    shuffled = [accepted[number] for number in order if number < len(accepted)]

    def found(events: list[Mapping[str, Any]]) -> set[tuple[str, tuple[tuple[str, Any], ...]]]:
        return {(f.alert_id, tuple(f.operands.items())) for f in oracle.window_findings(burst, events)}

    assert found(shuffled) == found(accepted)


@given(st.one_of(st.none(), st.binary(max_size=300), st.text(max_size=200).map(str.encode)))
def test_no_bytes_whatever_stop_the_reader(value: bytes | None) -> None:
    for kind in (*FRAUD.raw, *FRAUD.references):
        read = oracle.accept(kind, value, START_MS)
        assert isinstance(read, Refusal)
        assert read.reason


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([f.name for f in FRAUD.judged.readable]), JSON_VALUES))
@example({"transaction_id": {"CVC": None}})
def test_whatever_a_field_holds_it_is_accepted_within_limits_or_refused_by_name(changes: dict[str, Any]) -> None:
    good = {"transaction_id": "t", "customer": "a", "card": CARDS["a"], "merchant": "m", "amount_cents": 5}
    good |= {"latitude": 1.0, "longitude": 2.0, "at_ms": START_MS, "sent_ms": None}
    read = oracle.accept(FRAUD.judged, json.dumps(good | changes).encode(), START_MS)
    if isinstance(read, Refusal):
        # A float that JSON has no word for makes the whole message unreadable; a name may be forbidden however deep.
        assert read.reason == "json" or read.reason.startswith("forbidden:") or read.reason.split(":")[1] in changes
    else:
        assert 1 <= read["amount_cents"] <= 100_000_000
        assert -90 <= read["latitude"] <= 90
        assert type(read["amount_cents"]) is int
        assert type(read["latitude"]) is float


@given(st.floats(-90, 90), st.floats(-180, 180), st.floats(-90, 90), st.floats(-180, 180))
def test_distance_is_that_of_the_chord_through_the_earth(lat: float, lon: float, lat2: float, lon2: float) -> None:
    def point(latitude: float, longitude: float) -> tuple[float, float, float]:
        a, b = math.radians(latitude), math.radians(longitude)
        return math.cos(a) * math.cos(b), math.cos(a) * math.sin(b), math.sin(a)

    chord = math.dist(point(lat, lon), point(lat2, lon2))
    wanted = 2 * EARTH_RADIUS_KM * math.asin(min(1.0, chord / 2))
    assert math.isclose(haversine_km(lat, lon, lat2, lon2), wanted, rel_tol=1e-6, abs_tol=1e-3)


def naively_found(tape: Sequence[Record]) -> set[tuple[str, tuple[str, ...]]]:
    """The rules read a second time: no state, every condition evaluated on all earlier events."""
    events = [(record.topic, json.loads(record.value or b"")) for record in tape]
    found = set()
    for number, (topic, now) in enumerate(events):
        if topic != "transactions":
            continue
        before = [(t, e) for t, e in events[:number] if e["customer"] == now["customer"]]
        bought = [e for t, e in before if t == "transactions"]
        phones = [e for t, e in before if t == "device-locations"]
        identity = (now["transaction_id"],)
        if bought and all(e["amount_cents"] < now["amount_cents"] for e in bought):
            found.add(("above-previous-max", identity))
        is_fresh = phones and now["at_ms"] - phones[-1]["at_ms"] <= 15 * 60_000
        # All places lie on one meridian, where a degree is 111.195 km.
        if is_fresh and abs(phones[-1]["latitude"] - now["latitude"]) * 111.195 > 1:
            found.add(("away-from-phone", identity))
        newest_ms = max(e["at_ms"] for e in [*bought, now])
        lately = {e["merchant"] for e in bought if newest_ms - e["at_ms"] <= 120_000}
        if len(lately - {now["merchant"]}) >= 4:
            found.add(("spree", identity))
        if bought and abs(now["at_ms"] - max(e["at_ms"] for e in bought)) <= 10_000:
            found.add(("burst-at-once", identity))
    bought = [e for t, e in events if t == "transactions"]
    for card in {e["card"] for e in bought}:
        own = sorted((e["at_ms"], e["transaction_id"]) for e in bought if e["card"] == card)
        groups = [[own[0]]]
        for each in own[1:]:
            if each[0] - groups[-1][-1][0] <= 10_000:
                groups[-1].append(each)
            else:
                groups.append([each])
        found |= {("burst", tuple(sorted(i for _, i in group))) for group in groups if len(group) > 1}
    return found
