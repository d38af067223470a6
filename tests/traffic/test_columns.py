"""A recorded CSV file is replayed by the column map that its use declares, line by line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.oracle import Refusal, accept
from millrace.settings import PROJECT
from millrace.traffic import Message
from millrace.traffic.replay import Replay, ReplayError, read_replay
from millrace.traffic.tokens import secrets_under
from pipelines.fraud import FRAUD
from tests.traffic.visits import COLUMNS, VISITS, visits

NOW_MS = 1_790_000_000_000
HEADER = b"second,page,status,browser\n"


def replayed(tmp_path: Path, lines: bytes, header: bytes = HEADER) -> Replay:
    path = tmp_path / "log.csv"
    path.write_bytes(header + lines)
    return read_replay(path, VISITS, {}, COLUMNS)


def sent(replay: Replay, speed: float = 1.0) -> list[Message]:
    return list(replay.messages(NOW_MS, speed))


def test_columns_become_the_fields_of_the_event_and_identical_lines_are_separate_events(tmp_path: Path) -> None:
    found = sent(replayed(tmp_path, b"100,home,401.0,\n100,home,401.0,\n102,about,200.0,x\r\n"))
    assert [json.loads(each.value or b"") for each in found] == [
        {"page": "home", "status": 401, "at_ms": NOW_MS, "sent_ms": NOW_MS},
        {"page": "home", "status": 401, "at_ms": NOW_MS, "sent_ms": NOW_MS},
        {"page": "about", "status": 200, "at_ms": NOW_MS + 2_000, "sent_ms": NOW_MS + 2_000},
    ]
    assert [(each.due_ms, each.key) for each in found] == [(0, b"home"), (0, b"home"), (2_000, b"about")]


def test_faster_than_recorded_the_distances_between_events_stay(tmp_path: Path) -> None:
    found = sent(replayed(tmp_path, b"100,a,200.0,\n500,a,200.0,\n"), speed=400)
    times = [json.loads(each.value or b"")["at_ms"] for each in found]
    assert times == [NOW_MS + 1_000 - 400_000, NOW_MS + 1_000]
    assert [each.due_ms for each in found] == [0, 1_000]


@pytest.mark.parametrize(
    "line",
    [
        b'103,"a stray quote,200.0',
        b"103,a",
        b"103,a,200.0,x,y",
        b"yesterday,a,200.0,",
        b"103,a,good,",
        b"103,,200.0,",
        b"103,caf\xe9,200.0,",
        b"103,a\x00,,",
    ],
)
def test_a_line_that_cannot_be_parsed_is_sent_as_it_is_counted_and_rejected(tmp_path: Path, line: bytes) -> None:
    replay = replayed(tmp_path, b"100,a,200.0,\n" + line + b"\r\n104,a,200.0,\n")
    assert (replay.events, replay.unparsed) == (3, 1)
    found = sent(replay)
    assert (found[1].value, found[1].topic, found[1].key, found[1].due_ms) == (line, "visits", None, 0)
    assert isinstance(accept(visits, found[1].value, NOW_MS), Refusal)
    assert json.loads(found[2].value or b"")["at_ms"] == NOW_MS + 4_000


def test_values_that_no_event_may_have_are_sent_for_the_pattern_to_reject(tmp_path: Path) -> None:
    found = sent(replayed(tmp_path, b"100,a,9999.0,\n"))
    assert accept(visits, found[0].value, NOW_MS) == Refusal("range:status")


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (b"second,page,code,browser\n", "column 3 of its header is 'code', not 'status'"),
        (b"second,page,status\n", "its header has 3 columns, not 4"),
        (b"", "its header has 0 columns, not 4"),
        (b"\xff\xfe\n", "column 1 of its header is '"),
    ],
)
def test_another_header_is_refused_with_the_file_and_the_remedy(tmp_path: Path, header: bytes, found: str) -> None:
    with pytest.raises(ReplayError) as error:
        replayed(tmp_path, b"", header)
    assert str(error.value).startswith(f"{tmp_path / 'log.csv'}: {found}")
    assert str(error.value).endswith("; the first line must be 'second,page,status,browser'")


def test_a_file_without_events_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"log\.csv: the file has no events; write one of visits per line$"):
        replayed(tmp_path, b"")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (b"nonsense\nyesterday,home,401.0,\n", "not the columns of the header; quote commas, and write UTF-8"),
        (b"yesterday,home,401.0,\nnonsense\n", "no time; correct it or remove the line"),
    ],
)
def test_a_file_without_a_line_that_can_be_parsed_is_refused_for_the_reason_of_the_first(
    tmp_path: Path, lines: bytes, reason: str
) -> None:
    with pytest.raises(ReplayError, match=f"the file has no events; write one of visits per line; line 2: {reason}$"):
        replayed(tmp_path, lines)


def test_where_events_carry_tokens_such_a_line_is_refused_because_it_could_hold_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_bytes(b"transaction_id,customer,card_number,at\na,c,9999990000000009,2020-01-01T00:00:00Z,9999\n")
    with pytest.raises(ReplayError, match="line 2: not the columns of the header") as error:
        read_replay(path, FRAUD, secrets_under(FRAUD, b"k"))
    assert "999999" not in str(error.value)


PEAK = """
import sys, tracemalloc
from pathlib import Path
from millrace.traffic.replay import read_replay
from tests.traffic.visits import COLUMNS, VISITS
replay = read_replay(Path(sys.argv[1]), VISITS, {}, COLUMNS)
tracemalloc.start()
lines = sum(1 for _ in replay.messages(int(sys.argv[2])))
print(lines, tracemalloc.get_traced_memory()[1])
"""


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """In a process of its own: it counts what all threads allocate."""

    def peak(lines: int) -> int:
        path = tmp_path / f"{lines}.csv"
        path.write_bytes(HEADER + b"".join(b"%d,page%d,200.0,\n" % (n // 100, n % 9) for n in range(lines)))
        words = [sys.executable, "-c", PEAK, str(path), str(NOW_MS)]
        done = subprocess.run(words, cwd=PROJECT, check=True, capture_output=True, text=True)
        read, most = map(int, done.stdout.split())
        assert read == lines
        return most

    assert peak(20_000) < 2 * peak(2_000)
