"""A file is replaced as a whole, also with two writers."""

import threading
from pathlib import Path

import pytest

from millrace.whole_files import write_whole


def test_files_that_differ_in_their_suffix_only_are_written_at_once_and_readers_never_see_a_part(
    tmp_path: Path,
) -> None:
    suffixes, rounds, size = (".json", ".past", ".upgrade", ".losses"), 200, 20_000
    ends = threading.Barrier(len(suffixes))
    failures: list[str] = []

    def write(number: int, path: Path) -> None:
        ends.wait()
        for _ in range(rounds):
            try:
                write_whole(path, str(number) * size)
                if path.read_text() != str(number) * size:
                    failures.append(path.name)
            except OSError as error:
                failures.append(str(error))

    writers = [
        threading.Thread(target=write, args=(number, tmp_path / f"flink{suffix}"))
        for number, suffix in enumerate(suffixes)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert failures == []
    assert sorted(path.suffix for path in tmp_path.iterdir()) == sorted(suffixes)


def test_what_cannot_be_written_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_whole(path, "before")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "after \ud800")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
