"""EDGAR logs, read and made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from json import dumps
from pathlib import Path
from typing import Any

import pytest

from millrace import oracle
from millrace.traffic.replay import Replay, ReplayError, Unparsed, read_replay
from pipelines.flood import FLOOD
from pipelines.flood.edgar import HEADER, columns
from pipelines.flood.events import HOUR_MS, requests
from pipelines.flood.groups import group_of
from pipelines.flood.made_log import log_lines, main
from pipelines.flood.traffic.pace import by_the_curve
from pipelines.flood.traffic.poison import LINES
from tests.flood import by_hand

DAY = date(2016, 6, 30)
IP = "107.23.85.jfd"
LINE = f"{IP},2016-06-30,23:59:58,0.0,1439124.0,0001193125-16-635197,-index.htm,401.0,2553.0,1.0,0.0,0.0,10.0,0.0,"
AT_MS = 1_467_331_198_000


def written(folder: Path, *lines: bytes, header: bytes = HEADER.encode()) -> Path:
    path = folder / "log20160630.csv"
    path.write_bytes(b"".join(line + b"\n" for line in (header, *lines)))
    return path


def read(path: Path, groups: int = 6) -> Iterator[dict[str, Any] | bytes]:
    for found in Replay(path, FLOOD, {}, columns(groups))._read():
        yield found.written if isinstance(found, Unparsed) else {**found[2], "at_ms": found[1]}


def test_a_line_becomes_a_request_with_whole_numbers(tmp_path: Path) -> None:
    (event,) = read(written(tmp_path, LINE.encode()), groups=6)
    assert event == {
        **{"ip": IP, "group_id": str(group_of(IP, 6)), "at_ms": AT_MS, "zone": 0, "cik": 1_439_124},
        **{"accession": "0001193125-16-635197", "extention": "-index.htm", "code": 401, "size": 2_553, "idx": 1},
        **{"norefer": 0, "noagent": 0, "find": 10, "crawler": 0},
    }
    assert {*event, "browser", "sent_ms"} == set(requests.names)


def test_a_browser_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, LINE.encode() + b"win\r", header=HEADER.encode() + b"\r")
    assert [event["browser"] for event in read(path) if isinstance(event, dict)] == ["win"]


def test_identical_neighbours_are_separate_requests_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, LINE.encode(), LINE.encode(), LINE.replace("401", "200").encode(), LINE.encode())
    assert [event["code"] for event in read(path) if isinstance(event, dict)] == [401, 401, 200, 401]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        LINE[:40].encode(),
        LINE.encode() + b",1",
        LINE.replace("jfd", "j\xfcd").encode("latin-1"),
        LINE.replace("401.0", "401.5").encode(),
        LINE.replace("401.0", "4e2").encode(),
        LINE.replace("401.0", "").encode(),
        LINE.replace("401.0", "\u0664\u0660\u0661").encode(),
        LINE.replace("2016-06-30", "2016-13-45").encode(),
        LINE.replace("23:59:58", "24:00:00").encode(),
        LINE.replace("23:59:58", "noon").encode(),
        LINE.replace("-index.htm", '"a,b.htm"').encode(),
        LINE.replace("2553", "9" * 30).encode(),
    ],
)
def test_a_line_that_cannot_be_parsed_is_passed_on_as_it_is(tmp_path: Path, line: bytes) -> None:
    first, second = read(written(tmp_path, line, LINE.encode()))
    assert first == line
    assert isinstance(second, dict)


def test_of_a_line_without_end_the_beginning_is_one_message(tmp_path: Path) -> None:
    first, second = read(written(tmp_path, b"x" * 1_000_000, LINE.encode()))
    assert first == b"x" * (requests.max_bytes + 1)
    assert isinstance(second, dict)


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        (HEADER.replace("zone", "tz"), "column 4 of its header is 'tz', not 'zone'"),
        (HEADER.replace("extention", "extension"), "column 7 of its header is 'extension', not 'extention'"),
        (HEADER.removesuffix(",browser"), "its header has 14 columns, not 15"),
        (HEADER + ",referer", "its header has 16 columns, not 15"),
        ("", "its header has 0 columns, not 15"),
        (LINE, f"column 1 of its header is '{IP}', not 'ip'"),
    ],
)
def test_a_file_with_another_header_is_refused_before_anything_is_read(
    tmp_path: Path, header: str, complaint: str
) -> None:
    path = written(tmp_path, LINE.encode(), header=header.encode())
    with pytest.raises(ReplayError) as error:
        read_replay(path, FLOOD, {}, columns())
    assert str(error.value) == f"{path}: {complaint}; the first line must be '{HEADER}'"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"gone\.csv: cannot be read .*No such file or directory.*; give a readable"):
        read_replay(tmp_path / "gone.csv", FLOOD, {}, columns())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any] | bytes]:
    path = tmp_path_factory.mktemp("made") / "made.csv"
    path.write_bytes(b"".join(log_lines(40_000, DAY, first_hour=9, hours=1, seed=2)))
    return list(read(path))


def parsed(made: list[dict[str, Any] | bytes]) -> list[dict[str, Any]]:
    return [line for line in made if isinstance(line, dict)]


def test_a_made_log_has_its_lines_in_order_within_its_hour(made: list[dict[str, Any] | bytes]) -> None:
    assert len(made) == 40_000
    assert 0 < len(made) - len(parsed(made)) < 30
    times_ms = [event["at_ms"] for event in parsed(made)]
    assert all(before <= after for before, after in pairwise(times_ms))
    assert times_ms[0] // 3_600_000 == times_ms[-1] // 3_600_000
    assert any(before == after for before, after in pairwise(parsed(made)))


def test_a_made_log_holds_floods_and_no_other_ip_sets_off_a_rule(made: list[dict[str, Any] | bytes]) -> None:
    found = by_hand.alerts(parsed(made))
    assert Counter(alert.rule for alert in found).keys() == {"flood-ip", "flood-group"}
    assert all(seen.last_ip.startswith("198.18.") for seen in found.values())


def test_requests_of_a_made_log_are_accepted(made: list[dict[str, Any] | bytes]) -> None:
    for event in parsed(made)[:1_000]:
        accepted = oracle.accept(requests, dumps(event).encode(), event["at_ms"])
        assert accepted == {"browser": None, **event, "sent_ms": None} or event["code"] == 9_999 or event["find"] == 11


def test_spoilt_lines_are_refused_for_their_reasons(tmp_path: Path) -> None:
    for poison in LINES:
        (line,) = read(written(tmp_path, poison.spoil(LINE.encode()) or b""))
        value = dumps(line).encode() if isinstance(line, dict) else line
        assert getattr(oracle.accept(requests, value, AT_MS), "reason", None) == poison.reason, poison.name


def test_a_day_has_all_its_lines_by_its_curve() -> None:
    hours: Counter[int] = Counter()
    for window in by_the_curve(240_007, 0):
        hours[window.begin_ms // HOUR_MS] += len(window.times_ms)
        assert all(window.begin_ms <= at_ms < window.begin_ms + 3_000 for at_ms in window.times_ms)
    assert sum(hours.values()) == 240_007
    assert hours[3] < 6_000
    assert hours[14] > 13_000


def test_the_command_writes_a_file_that_can_be_read(tmp_path: Path) -> None:
    out = tmp_path / "log.csv"
    main(["--lines", "100", "--hours", "1", "--groups", "1", str(out)])
    assert len(list(read(out))) == 100


def test_the_command_names_a_file_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path / "gone" / "log.csv")])
    assert "gone/log.csv: cannot be written (No such file or directory); name a file" in capsys.readouterr().err
