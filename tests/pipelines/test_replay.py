"""A file of recorded events becomes traffic of today, without card numbers."""

from __future__ import annotations

import json
import os
from codecs import BOM_UTF8
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.oracle import Refusal, accept
from millrace.rules import Enrichment, EventType, Text, UseCase, Whole
from millrace.traffic.replay import Replay, ReplayError, moment_of
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
    assert [json.loads(each.value or b"") for each in replay.references()] == [{"room": "hall", "since_ms": 5_000}]
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
        ("a.jsonl", f'{{"at_ms": 1{"0" * 400}}}\n', "line 1: no time: '1000"),
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


READINGS = EventType(
    "readings",
    "A reading of a sensor.",
    (Text("sensor"), Text("note", r"[\s\S]*", max_length=30_000, required=False), Whole("at_ms")),
    key="sensor",
    time="at_ms",
    past_ms=60_000,
    max_bytes=50_000,
)
ENRICHMENT = Enrichment(READINGS)
SENSORS = UseCase("sensors", READINGS, ENRICHMENT, ENRICHMENT.enriched("enriched", "Readings."))


def lines_at(*moments_ms: float) -> str:
    return "".join(json.dumps({"sensor": "s1", "at_ms": at_ms}) + "\n" for at_ms in moments_ms)


@pytest.mark.parametrize(
    "moments_ms", [(0, 1_700_000_000_000), (1_700_000_000_000, 1_700_000_001_000, 10**14), (17 * 10**17, 18 * 10**17)]
)
def test_a_wrong_clock_that_would_make_a_replay_endless_is_refused_with_its_moments(
    tmp_path: Path, moments_ms: tuple[int, ...]
) -> None:
    replay = read(written(tmp_path, "old.jsonl", lines_at(*moments_ms)), SENSORS, {})
    with pytest.raises(
        ReplayError, match=r"from (\S+T\S+|\d+ ms), its first event, to (\S+T\S+|\d+ ms) it would take [\d,.]+ days, "
    ) as error:
        replay.require_replayable(1)
    assert "millrace backfill" in str(error.value)


@pytest.mark.parametrize(
    ("speed", "is_refused"), [(0.4, True), (0.5, False), (1, False), (2, False), (2.1, True), (400, True)]
)
def test_a_speed_at_which_events_would_be_too_old_is_refused_and_at_others_all_are_accepted(
    tmp_path: Path, speed: float, is_refused: bool
) -> None:
    moments = range(1_700_000_000_000, 1_700_000_060_001, 10_000)
    moments = range(moments[0], moments[0] + 120_001, 10_000) if speed > 1 else moments
    replay = read(written(tmp_path, "old.jsonl", lines_at(*moments)), SENSORS, {})
    if is_refused:
        with pytest.raises(
            ReplayError, match=r"s old when they are sent, and 'readings' accepts 60 s; give a speed nearer"
        ):
            replay.require_replayable(speed)
        return
    replay.require_replayable(speed)
    for each in replay.messages(NOW_MS, speed):
        assert not isinstance(accept(READINGS, each.value, NOW_MS + each.due_ms), Refusal)


@pytest.mark.parametrize("last", ['s3,"closed",5\n', "", 's3,a 5" nail,5\n', 's3,"Meyer, Jr",5\n'])
def test_a_quote_that_does_not_close_in_its_row_is_named_by_its_line(tmp_path: Path, last: str) -> None:
    rows = "".join(f"s1,fine,{number}\n" for number in range(5))
    text = f'sensor,note,at_ms\ns1,"two\nlines",1\n{rows}s2,"never closed,3\n{rows}{last}'
    with pytest.raises(ReplayError, match=r"old\.csv, line 9: a quote opens and does not close"):
        read(written(tmp_path, "old.csv", text), SENSORS, {})


def test_a_quoted_text_of_several_lines_is_one_event(tmp_path: Path) -> None:
    text = 'sensor,note,at_ms\ns1,"a ""quoted"" word,\nand a line",1\ns2,"last\n\n",2'
    first, second = read(written(tmp_path, "old.csv", text), SENSORS, {}).messages(NOW_MS)
    assert json.loads(first.value or b"")["note"] == 'a "quoted" word,\nand a line'
    assert json.loads(second.value or b"")["note"] == "last\n\n"


def test_an_empty_cell_is_the_empty_text_only_where_the_type_requires_one_that_may_be_empty(tmp_path: Path) -> None:
    texts = (Text("sensor"), Text("note", "[a-z]*"), Text("remark", "[a-z]*", required=False), Text("room"))
    readings = EventType("readings", "", (*texts, Whole("at_ms")), "sensor", time="at_ms", past_ms=1)
    enrichment = Enrichment(readings)
    use = UseCase("sensors", readings, enrichment, enrichment.enriched("enriched", ""))
    text = 'sensor,room,remark,at_ms,note\ns1,"","",5,""\ns1,,,5,\ns1,,,5\n'
    found = [json.loads(each.value or b"") for each in read(written(tmp_path, "old.csv", text), use, {}).recorded()]
    absent = {"sensor": "s1", "at_ms": 5}
    assert found == [{**absent, "note": ""}, {**absent, "note": ""}, absent]


@pytest.mark.parametrize("name", ["old.csv", "old.jsonl"])
def test_an_event_as_long_as_its_type_accepts_is_whole_and_accepted(tmp_path: Path, name: str) -> None:
    note = "\N{CYRILLIC CAPITAL LETTER ZHE}" * 20_000
    text = {
        "old.csv": f"sensor,at_ms,note\ns1,5,{note}\ns2,5,{'x' * 400_000}\ns3,5,short\n",
        "old.jsonl": json.dumps({"sensor": "s1", "note": note, "at_ms": 5})
        + "\n"
        + json.dumps({"sensor": "s2", "note": "x" * 400_000, "at_ms": 5})
        + "\n"
        + lines_at(5),
    }[name]
    replay = read(written(tmp_path, name, text), SENSORS, {})
    assert (replay.events, replay.unparsed) == (3, 1)
    first, second, third = replay.messages(NOW_MS)
    assert not isinstance(accept(READINGS, first.value, NOW_MS), Refusal)
    assert json.loads(first.value or b"")["note"] == note
    assert isinstance(accept(READINGS, second.value, NOW_MS), Refusal)
    assert not isinstance(accept(READINGS, third.value, NOW_MS), Refusal)


def test_a_time_that_no_calendar_has_is_shown_as_a_number(tmp_path: Path) -> None:
    replay = read(written(tmp_path, "old.jsonl", lines_at(17 * 10**17)), SENSORS, {})
    replay.require_replayable(1)
    assert moment_of(replay.first_ms) == "1700000000000000000 ms"
    assert moment_of(NOW_MS) == "2026-09-21T14:13:20+00:00"


def test_a_mark_at_the_beginning_of_a_file_belongs_to_no_event(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_bytes(BOM_UTF8 + lines_at(5, 6).encode())
    assert (read(path, SENSORS, {}).events, read(path, SENSORS, {}).unparsed) == (2, 0)


def test_half_a_pair_of_surrogates_is_sent_and_no_traceback(tmp_path: Path) -> None:
    (sent,) = read(written(tmp_path, "old.jsonl", '{"sensor": "\\ud800", "at_ms": 5}\n'), SENSORS, {}).messages(NOW_MS)
    assert sent.key == b"\xed\xa0\x80"
    assert b"ud800" in (sent.value or b"")


def test_canaries_of_a_recording_are_left_out_and_counted(tmp_path: Path) -> None:
    mark = FRAUD.canaries.marks["customer"] if FRAUD.canaries else ""
    rows = "".join(f"{name},{name},{NUMBER},m1,5,0,0,2020-01-01T00:00:00+00:00,\n" for name in ("anna", f"{mark}0"))
    replay = read_replay(written(tmp_path, "old.csv", HEADER + rows))
    assert (replay.events, replay.canaries) == (1, 1)
    assert [each.key for each in replay.messages(NOW_MS)] == [b"anna"]


def test_reference_data_with_a_time_is_accepted_again(tmp_path: Path) -> None:
    depots = EventType(
        "depots", "", (Text("depot"), Whole("since_ms")), "depot", time="since_ms", past_ms=60_000, compacted=True
    )
    use = replace(SENSORS, references=(depots,))
    lines = [{"topic": "depots", "depot": f"d{at_ms}", "since_ms": at_ms} for at_ms in (1, 150_000, 195_000, 250_000)]
    text = "\n".join(map(json.dumps, lines)) + "\n" + lines_at(100_000, 200_000)
    replay = read(written(tmp_path, "old.jsonl", text), use, {})
    for now_ms, moved in ((NOW_MS, (-30_000, -30_000, -5_000, 0)), (None, (-30_000, 0, 0, 0))):
        found = list(replay.references(now_ms))
        arrived_ms = now_ms or 100_000
        assert [json.loads(each.value or b"")["since_ms"] - arrived_ms for each in found] == [*moved]
        assert not any(isinstance(accept(depots, each.value, arrived_ms), Refusal) for each in found)


def test_what_can_be_read_once_only_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(ReplayError, match=r"pipe\.jsonl: it is read several times, and is no file; write its lines to"):
        read_replay(tmp_path / "pipe.jsonl")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"nowhere\.csv: cannot be read"):
        read_replay(tmp_path / "nowhere.csv")
