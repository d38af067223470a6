"""Alerts that are read back from their topic: none is left out, however they lie, and no request holds many."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.parquet as pq
import pytest

from millrace.dashboard import archive as archives
from millrace.dashboard.archive import Archive, Filter, asked
from millrace.errors import InfraError, UsageError
from millrace.oracle import Record
from millrace.patterns import load
from millrace.verbs.dispositions import Disposition
from tests.dashboard.playback import HeldTopic

VARIANT = load("flink")
TOKEN = "452cdf00." + "24eb" * 8


def alert(number: int, partition: int, offset: int, arrived_ms: int, **changes: Any) -> Record:
    content = {
        **{"alert_id": f"{number:032x}", "rule": "spree", "rule_version": "1", "key": "anna", "subject": "anna"},
        **{"window_start_ms": None, "event_ids": ["t1"], "operands": {"other_merchants": "4"}, "at_ms": arrived_ms},
        **{"sent_ms": arrived_ms - 40, "ingest_ms": arrived_ms - 30, "emit_ms": arrived_ms - 10},
    }
    return Record("alerts", partition, offset, arrived_ms, None, json.dumps(content | changes).encode())


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """The messages of the topic."""
    found: list[Record] = []
    monkeypatch.setattr(Archive, "_opened", lambda self, variant: HeldTopic(found))
    monkeypatch.setattr(archives, "dispositions", lambda target, variant: {})
    return found


@pytest.fixture
def archive() -> Archive:
    return Archive(None)  # type: ignore[arg-type]


def pages(archive: Archive, only: Filter, marks: Mapping[str, Any] | None = None) -> Iterator[list[dict[str, Any]]]:
    before = None
    while True:
        found = archive.older(VARIANT, only, marks or {}, before)
        yield found["alerts"]
        if found["before"] is None:
            return
        assert len(found["before"].split(",")) == 3
        _, before = asked({"before": found["before"]})


@pytest.mark.parametrize("seed", range(40))
def test_pages_together_are_all_that_fits_newest_first(
    held: list[Record], archive: Archive, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Partitions are uneven, begin behind offset 0 and have gaps, many alerts come in one millisecond."""
    chance = random.Random(seed)
    monkeypatch.setattr(archives, "SHOWN_MOST", chance.choice((1, 3, 7)))
    monkeypatch.setattr(archives, "READ_MOST", chance.choice((3, 9, 30)))
    number = 0
    for partition, share in enumerate((1, chance.choice((1, 5)), chance.choice((0, 2)))):
        at_ms, offset = 1_000, chance.randrange(5)
        for _ in range(share * chance.randrange(20)):
            at_ms, offset, number = at_ms + chance.choice((0, 0, 1, 40)), offset + chance.choice((1, 1, 3)), number + 1
            held.append(alert(number, partition, offset, at_ms, rule=chance.choice(("spree", "burst-at-once"))))
    since_ms, until_ms = chance.choice(((0, None), (1_020, None), (1_020, 1_080), (0, 1_050)))
    only = Filter(rule=chance.choice(("", "spree")), since_ms=since_ms, until_ms=until_ms)

    def is_wanted(record: Record) -> bool:
        rule = json.loads(record.value or b"")["rule"]
        return only.rule in ("", rule) and since_ms <= record.ingest_ms < (until_ms or 10**9)

    found = [each for page in pages(archive, only) for each in page]
    wanted = {f"{each.partition}-{each.offset}": each.ingest_ms for each in held if is_wanted(each)}
    assert sorted(each["place"] for each in found) == sorted(wanted)
    times = [each["arrived_ms"] for each in found]
    assert times == sorted(wanted.values(), reverse=True)
    assert all(len(page) <= archives.SHOWN_MOST for page in pages(archive, only))


def test_a_broker_whose_clock_was_set_back_hides_no_alert(
    held: list[Record], archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "SHOWN_MOST", 2)
    monkeypatch.setattr(archives, "READ_MOST", 9)
    held += [alert(n, n % 3, n // 3, 1_000 + n * (-1) ** n) for n in range(60)]
    found = [each["id"] for page in pages(archive, Filter()) for each in page]
    assert sorted(found) == [f"{n:032x}" for n in range(60)]


def test_a_request_ends_in_time_and_the_next_one_continues(
    held: list[Record], archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "READ_MOST", 9)
    monkeypatch.setattr(archives, "WITHIN_S", -1)
    held += [alert(n, n % 3, n // 3, 1_000 + n) for n in range(60)]
    held.append(alert(60, 0, 20, 2_000, key="bert"))
    found = list(pages(archive, Filter(wanted="BERT")))
    assert [len(page) for page in found] == [1, *[0] * (len(found) - 1)]
    assert len(found) > 5


def test_what_is_not_on_the_page_is_in_no_page_of_older_ones(held: list[Record], archive: Archive) -> None:
    held += [
        alert(0, 0, 0, 1_000),
        alert(1, 1, 0, 1_001, subject="canary:0", key="canary:0"),
        alert(2, 2, 0, 1_002, subject=TOKEN, key=TOKEN, operands={"other_merchants": TOKEN}),
        Record("alerts", 2, 1, 1_003, None, b"no alert"),
        Record("alerts", 2, 2, 1_004, None, None),
    ]
    found, _ = archive.older(VARIANT, Filter(), {}), None
    assert [each["place"] for each in found["alerts"]] == ["2-0", "0-0"]
    assert found["alerts"][0]["subject"] == "452cdf00.24eb…"
    for suffix in ("csv", "parquet"):
        assert TOKEN.encode() not in archive.export(VARIANT, Filter(), f".{suffix}")


def test_a_key_is_the_whole_key_or_the_whole_subject_also_of_tokens_that_look_alike(
    held: list[Record], archive: Archive
) -> None:
    keys = ("7", "77", TOKEN, f"{TOKEN[:-1]}0")
    held += [alert(n, n % 3, n, 1_000 + n, key=key, subject="bert") for n, key in enumerate(keys)]
    ((*every,),) = pages(archive, Filter())
    assert every[0]["key"] == every[1]["key"]
    for each in every:
        only, _ = asked({"key": each["key_id"]})
        assert [found["id"] for page in pages(archive, only) for found in page] == [each["id"]]
    assert [len(page) for page in pages(archive, Filter(key="bert"))] == [4]
    assert archive.export(VARIANT, Filter(key="7"), ".csv").count(b"bert") == 1


def test_a_mark_chooses_and_is_shown(held: list[Record], archive: Archive) -> None:
    held += [alert(n, n % 3, n, 1_000 + n) for n in range(3)]
    made = {"mark": "confirmed", "by": "anna", "note": "", "at_ms": 1}
    marks = {f"{1:032x}": made}
    (found,) = pages(archive, Filter(marked="confirmed"), marks)
    assert [(each["place"], each["mark"]) for each in found] == [("1-1", made)]
    (others,) = pages(archive, Filter(marked="none"), marks)
    assert [each["place"] for each in others] == ["2-2", "0-0"]


def test_a_file_has_all_that_fits_in_the_order_of_arrival(
    held: list[Record], archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "READ_MOST", 9)
    held += [alert(n, n % 3, n // 3, 1_000 + n, key="bert" if n % 2 else "=anna") for n in range(60)]
    held.append(alert(7, 0, 20, 1_200, key="bert"))
    made = Disposition(f"{3:032x}", "dismissed", "a note", "anna", 5, "spree", "1", 1_003)
    monkeypatch.setattr(archives, "dispositions", lambda target, variant: {made.alert_id: made})
    only = Filter(wanted="bert", since_ms=1_010)
    lines = list(csv.DictReader(io.StringIO(archive.export(VARIANT, only, ".csv").decode())))
    assert [int(line["arrived_ms"]) for line in lines] == [*range(1_011, 1_060, 2), 1_200]
    rows = pq.read_table(io.BytesIO(archive.export(VARIANT, only, ".parquet"))).to_pylist()
    assert [row["alert_id"] for row in rows] == [line["alert_id"] for line in lines]
    marked = pq.read_table(io.BytesIO(archive.export(VARIANT, Filter(marked="dismissed"), ".parquet"))).to_pylist()
    assert [(row["alert_id"], row["note"], row["marked_by"]) for row in marked] == [(made.alert_id, "a note", "anna")]
    every = archive.export(VARIANT, Filter(), ".csv").decode()
    assert "'=anna" in every


@pytest.mark.parametrize("suffix", ["", ".csv"])
def test_a_request_reads_the_ends_of_the_partitions_once(
    held: list[Record], archive: Archive, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    spans, read = HeldTopic.spans, []

    def counted(topic: HeldTopic) -> dict[str, dict[int, tuple[int, int]]]:
        read.append(topic)
        return spans(topic)

    monkeypatch.setattr(HeldTopic, "spans", counted)
    monkeypatch.setattr(archives, "READ_MOST", 9)
    held += [alert(n, n % 3, n // 3, 1_000 + n) for n in range(60)]
    if suffix:
        assert len(archive.export(VARIANT, Filter(), suffix).splitlines()) == 61
    else:
        assert len(archive.older(VARIANT, Filter(), {})["alerts"]) == 60
    assert len(read) == 1


def test_a_file_is_whole_or_refused(held: list[Record], archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "READ_MOST", 9)
    held += [alert(n, n % 3, n // 3, 1_000 + n) for n in range(60)]
    monkeypatch.setattr(archives, "EXPORTED_MOST", 59)
    with pytest.raises(UsageError, match="more than 59 alerts fit; choose a later start, or run `millrace alerts"):
        archive.export(VARIANT, Filter(), ".csv")
    monkeypatch.setattr(archives, "EXPORTED_WITHIN_S", -1)
    with pytest.raises(InfraError, match="were not read within"):
        archive.export(VARIANT, Filter(), ".csv")


def test_an_older_alert_is_found_by_its_place(held: list[Record], archive: Archive) -> None:
    held += [alert(n, n % 3, n // 3, 1_000 + n) for n in range(9)]
    found = archive.at(VARIANT, f"{4:032x}", {1: 1})
    assert found is not None
    assert (found["operands"], found["latency_ms"]) == ({"other_merchants": "4"}, 40)
    assert found["place"] == {"topic": "flink.alerts", "partition": 1, "offset": 1}
    assert archive.at(VARIANT, f"{4:032x}", {1: 2}) is None, "another alert is there"
    assert archive.at(VARIANT, f"{4:032x}", {1: 99}) is None
    assert archive.at(VARIANT, f"{4:032x}", {7: 1}) is None


@pytest.mark.parametrize("words", ["", "x", "0", "0-", "-1-5", "0-1,", "0-1;1-2", "0-" + "9" * 30, "0-1\n"])
def test_what_is_no_list_of_offsets_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="no list of partitions and offsets"):
        asked({"before": words})
