"""A file of recorded events becomes traffic of today, without card numbers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from millrace.rules import Enrichment, EventType, Text, UseCase, Whole
from millrace.traffic.replay import Replay, ReplayError
from millrace.traffic.replay import read_replay as read
from millrace.traffic.tokens import secrets_under
from pipelines.fraud import FRAUD
from pipelines.fraud.invented_cards import invented_card, invented_cards_in

SECRETS = secrets_under(FRAUD, b"k" * 32)
TOKENS = SECRETS["card"]
NOW_MS = 1_790_000_000_000
HEADER = "transaction_id,customer,card_number,merchant,amount_cents,latitude,longitude,at,cardholder\n"
NUMBER = invented_card(7)
GROUPED = f"{NUMBER[:4]} {NUMBER[4:8]} {NUMBER[8:12]} {NUMBER[12:]}"


def read_replay(path: Path) -> Replay:
    return read(path, FRAUD, SECRETS)


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_csv_is_rebased_tokenised_and_stripped_of_undeclared_columns(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "old.csv",
        HEADER
        + f'a,c1,{GROUPED},"m1",1250,52.5,13.4,2020-01-01T00:00:00+00:00,Anna {NUMBER}\n'
        + f"b,c1,{NUMBER},m1,99,52.5,13.4,2020-01-01T00:00:02.500+00:00,Anna\n",
    )
    first, second = read_replay(path).messages(NOW_MS)
    event = json.loads(first.value or b"")
    assert event == {
        "transaction_id": "a",
        "customer": "c1",
        "card": TOKENS.token(NUMBER),
        "merchant": "m1",
        "amount_cents": 1250,
        "latitude": 52.5,
        "longitude": 13.4,
        "at_ms": NOW_MS,
        "sent_ms": NOW_MS,
    }
    assert (second.due_ms, json.loads(second.value or b"")["at_ms"]) == (2_500, NOW_MS + 2_500)
    assert json.loads(second.value or b"")["card"] == event["card"]
    assert not invented_cards_in((first.value or b"") + (second.value or b""))


def test_json_lines_may_mix_kinds_and_carry_tokens(tmp_path: Path) -> None:
    token = TOKENS.token(NUMBER)
    lines = [
        {"topic": "merchants", "merchant": "m1", "category": "books", "place": "Wien"},
        {"topic": "device-locations", "customer": "c1", "latitude": 1, "longitude": 2, "at_ms": 5_000},
        {"transaction_id": "a", "customer": "c1", "card": token, "merchant": "m1", "amount_cents": 5, "at_ms": 4_000},
    ]
    replay = read_replay(written(tmp_path, "old.jsonl", "\n".join(map(json.dumps, lines)) + "\n\n"))
    assert [message.topic for message in replay.references()] == ["merchants"]
    sent = list(replay.messages(NOW_MS))
    assert [(message.topic, message.due_ms) for message in sent] == [("device-locations", 0), ("transactions", 0)]
    assert json.loads(sent[1].value or b"")["card"] == token


TOPICS = EventType(
    "readings",
    "A reading of a sensor, with the topic of its MQTT broker.",
    (Text("sensor"), Text("topic", "[a-z/]+"), Whole("at_ms")),
    key="sensor",
    time="at_ms",
    past_ms=1,
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("old.jsonl", '{"sensor": "s1", "topic": "hall/door", "at_ms": 5000}\n'),
        ("old.csv", "sensor,topic,at_ms\ns1,hall/door,5000\n"),
    ],
)
def test_a_field_of_the_event_that_is_called_topic_is_not_its_kind(tmp_path: Path, name: str, text: str) -> None:
    enrichment = Enrichment(TOPICS)
    use = UseCase("sensors", TOPICS, enrichment, enrichment.enriched("enriched", "Readings."))
    (sent,) = read(written(tmp_path, name, text), use, {}).messages(NOW_MS)
    assert sent.topic == "readings"
    assert json.loads(sent.value or b"")["topic"] == "hall/door"


def test_another_stream_without_a_time_is_sent_between_the_events_and_reference_data_before_them(
    tmp_path: Path,
) -> None:
    rooms = EventType("rooms", "Reference data.", (Text("room"), Whole("since_ms")), "room", time="since_ms", past_ms=1)
    doors = EventType("doors", "The door of a sensor.", (Text("sensor"), Text("door")), "sensor")
    readings = EventType("readings", "", (Text("sensor"), Whole("at_ms")), "sensor", time="at_ms", past_ms=1)
    enrichment = Enrichment(readings)
    use = UseCase("rooms", readings, enrichment, enrichment.enriched("enriched", ""), (doors,), (rooms,))
    lines = [
        {"sensor": "s1", "at_ms": 5_000},
        {"topic": "rooms", "room": "hall", "since_ms": 9_000},
        {"topic": "doors", "sensor": "s1", "door": "north"},
        {"sensor": "s1", "at_ms": 6_000},
        {"topic": "doors", "sensor": "s1", "door": "south"},
    ]
    replay = read(written(tmp_path, "old.jsonl", "\n".join(map(json.dumps, lines))), use, {})
    assert [json.loads(each.value or b"") for each in replay.references()] == [{"room": "hall", "since_ms": 9_000}]
    assert (replay.events, replay.first_ms, replay.newest_ms) == (4, 5_000, 6_000)
    found = [(each.topic, each.due_ms, json.loads(each.value or b"").get("door")) for each in replay.messages(NOW_MS)]
    assert found == [
        ("readings", 0, None),
        ("doors", 0, "north"),
        ("readings", 1_000, None),
        ("doors", 1_000, "south"),
    ]
    assert [(each.topic, each.due_ms) for each in replay.recorded()] == [
        ("readings", 5_000),
        ("doors", 5_000),
        ("readings", 6_000),
        ("doors", 6_000),
    ]


def test_faster_than_life_it_ends_now_and_begins_earlier(tmp_path: Path) -> None:
    rows = "".join(f"t{n},c1,{NUMBER},m1,5,0,0,2020-01-01T00:{n:02d}:00+00:00,\n" for n in range(11))
    sent = list(read_replay(written(tmp_path, "old.csv", HEADER + rows)).messages(NOW_MS, speed=10))
    times = [json.loads(message.value or b"")["at_ms"] - NOW_MS for message in sent]
    assert sent[-1].due_ms == 60_000
    assert (times[0], times[-1]) == (-540_000, 60_000)
    assert all(at_ms <= message.due_ms for at_ms, message in zip(times, sent, strict=True))


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (
            "a.csv",
            HEADER + f"a,c1,{NUMBER},m1,many,0,0,2020-01-01T00:00:00+00:00,\n",
            "line 2: amount_cents is not a whole",
        ),
        ("a.csv", HEADER + f"a,c1,{NUMBER},m1,5,0,0,yesterday,\n", "line 2: no time: 'yesterday'"),
        ("a.csv", HEADER + f"a,c1,{NUMBER},m1,5,0,0,2020-01-01T00:00:00,\n", "line 2: no time: '2020-01-01T00:00:00'"),
        ("a.csv", HEADER + f"a,c1,{NUMBER}77777,m1,5,0,0,2020-01-01T00:00:00+00:00,\n", "line 2: no usable card"),
        ("a.csv", HEADER + "a,c1,,m1,5,0,0,2020-01-01T00:00:00+00:00,\n", "line 2: no usable card"),
        ("a.csv", HEADER, "the file has no events"),
        ("a.jsonl", '{"at_ms": 5\n', "line 1: not a JSON object"),
        ("a.jsonl", '\n{"topic": "trees", "at_ms": 5}\n', "line 2: 'trees' is not a kind of event"),
        ("a.jsonl", '{"topic": "device-locations", "at_ms": 5}\n', "line 1: no customer"),
    ],
)
def test_a_line_that_cannot_be_replayed_is_named_and_no_card_number_repeated(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(ReplayError) as error:
        read_replay(path)
    assert str(error.value).startswith(str(path))
    assert complaint in str(error.value)
    assert "999999" not in str(error.value)


def test_what_can_be_read_once_only_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(ReplayError, match=r"pipe\.jsonl: it is read several times, and is no file; write its lines to"):
        read_replay(tmp_path / "pipe.jsonl")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"nowhere\.csv: cannot be read"):
        read_replay(tmp_path / "nowhere.csv")
