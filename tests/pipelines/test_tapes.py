"""The same plan gives the same bytes as ever: labels, comparisons and benchmarks of different days rest on it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from millrace.traffic import Message, TrafficPlan, plan_for
from millrace.traffic.replay import read_replay
from millrace.traffic.tokens import secrets_under
from pipelines.fraud import FRAUD
from pipelines.fraud.invented_cards import invented_card
from pipelines.fraud.traffic import TRAFFIC

START_MS = 1_790_000_000_000
SECRETS = secrets_under(FRAUD, b"k" * 32)
MIXED = {"frauds": 0.1, "edges": 0.1, "late": 0.01, "races": 0.01, "poison": 0.05, "duplicates": 0.2}
NUMBER = invented_card(7)
HEADER = "transaction_id,customer,card_number,merchant,amount_cents,latitude,longitude,at,cardholder\n"
ROWS = (
    f'a{n},c{n % 7},{NUMBER},"m,{n}",{1250 + n},52.5,13.4,2020-01-01T00:{n // 60:02d}:{n % 60:02d}.{n % 10}00+00:00,A\n'
    for n in range(300)
)
CSV = HEADER + "".join(ROWS)
LINES = (
    {"topic": "merchants", "merchant": "m1", "category": "books", "place": "Wien"},
    {"topic": "customers", "customer": "c1", "segment": "s", "age": 5},
    {"topic": "device-locations", "customer": "c1", "latitude": 1, "longitude": 2, "at_ms": 5000},
    {
        "transaction_id": "a",
        "customer": "c1",
        "card": SECRETS["card"].token(NUMBER),
        "merchant": "m1",
        "amount_cents": 5,
        "at_ms": 4000,
        "note": "x",
    },
    {"transaction_id": "b", "customer": "c1", "card": NUMBER, "merchant": "m1", "amount_cents": 5, "at_ms": 9000.7},
)


@pytest.mark.parametrize(
    ("plan", "pinned"),
    [
        (plan_for(TRAFFIC, 3_000, 100), "84ade53bf792534c1e906fe7c66440c6ce2fc1b567673d715551c9b12658ba7a"),
        (
            plan_for(TRAFFIC, 3_000, 20, seed=11, name="busy", **MIXED),
            "0b160493d267c4309bb0003a09bed299452de40e7e5bf06777ae1d27a8a02263",
        ),
        (
            plan_for(TRAFFIC, 400, 33.3, seed=5, name="few", customers=30, poison=0),
            "66aa7b65adfc16e529099cf24168d42c913bfd8e4b1c30409b17a3f70ae941ac",
        ),
    ],
    ids=lambda given: given.name if isinstance(given, TrafficPlan) else "",
)
def test_a_plan_gives_the_same_messages_on_every_day(plan: TrafficPlan, pinned: str) -> None:
    keys = ["a", "b"]
    sent = [
        *TRAFFIC.references(plan, keys),
        *TRAFFIC.messages(plan, SECRETS, START_MS),
        *TRAFFIC.closing(plan, SECRETS, START_MS, keys, 18_000),
    ]
    assert digest(sent) == pinned


@pytest.mark.parametrize(
    ("name", "speed", "pinned"),
    [
        ("old.csv", 1.0, "2337e0abe986d1129e2ec976a6181e2e09a96f51ca237b11f143d2b41c42128e"),
        ("old.csv", 10.0, "5b80418a667965b04f3ce4a15fd0ca5fa89cf0259f351a62f28b4b2ece606dd1"),
        ("old.jsonl", 1.0, "9d408c3e014762c181f711c45c2b42d2715e630214d2161a4b0aaf67ab9f599b"),
        ("old.jsonl", 10.0, "dda4ba4da06971d12477526597120d418ae1041865fb784e9918a6b91b1b72c1"),
    ],
)
def test_a_file_gives_the_messages_that_it_gave_before_replays_were_of_any_use(
    tmp_path: Path, name: str, speed: float, pinned: str
) -> None:
    path = tmp_path / name
    path.write_text(CSV if name == "old.csv" else "\n".join(map(json.dumps, LINES)) + "\n\n")
    replay = read_replay(path, FRAUD, SECRETS)
    assert digest([*replay.references(), *replay.messages(START_MS, speed)]) == pinned


def digest(messages: Iterable[Message]) -> str:
    """Of all that a message is, its label too."""
    found = hashlib.sha256()
    for m in messages:
        label = m.label
        parts = (m.due_ms, m.topic, m.key, m.value, label.kind, label.episode, label.alerts, label.refusal)
        found.update(repr(parts).encode() + b"\n")
    return found.hexdigest()
