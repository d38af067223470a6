"""Which Parquet files of a pattern count, before, during and after a compaction, and what is wrong with one."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millrace.errors import InfraError
from millrace.patterns.parquet import hour_of, is_data_file, live
from millrace.settings import Settings
from millrace.stores.files import File, NoFileError
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.verbs.parquet import Files, files_of, part_of, rows_of
from millrace.verbs.stored import StoredError, read_stored
from millrace.verify import Evidence, judge
from pipelines.flood import FLOOD
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines.pretend import QUESTION, messages, ran, topics
from tests.pipelines.test_verdict import red, spoilt

HOUR = "/data/p/date=2026-11-22/hour=03"
OLD, NEW = [f"{HOUR}/a.parquet", f"{HOUR}/b.parquet"], f"{HOUR}/new.parquet"
LIST = f"{HOUR}/_replaced-new.parquet"


@pytest.mark.parametrize(
    ("paths", "counted"),
    [
        ([], []),
        (OLD, OLD),
        ([*OLD, LIST], OLD),  # the list came first: the new file is not there
        ([*OLD, NEW, LIST], [NEW]),
        ([OLD[1], NEW, LIST], [NEW]),  # killed while it deleted
        ([NEW], [NEW]),
        ([*OLD, "/data/p/date=2026-11-22/hour=04/a.parquet", NEW, LIST], [NEW, f"{HOUR[:-1]}4/a.parquet"]),
    ],
)
def test_a_replaced_file_does_not_count_while_its_replacement_does(paths: list[str], counted: list[str]) -> None:
    listed = {LIST: ["a.parquet", "b.parquet"]}
    assert live(set(paths), "/data/p", listed.__getitem__) == sorted(counted)


@pytest.mark.parametrize("name", ["_temporary/a.parquet", ".a.parquet", "a.crc", "_SUCCESS", "x/.staging/a.parquet"])
def test_an_unfinished_file_does_not_count(name: str) -> None:
    assert not is_data_file(f"/data/p/{name}", "/data/p")


class Folder:
    """A folder in memory."""

    def __init__(self, found: Mapping[str, bytes]) -> None:
        self.found = dict(found)

    def files(self, path: str) -> Iterator[File]:
        yield from (File(each, 1, 0) for each in self.found)

    def read(self, path: str) -> bytes:
        if path not in self.found:
            raise NoFileError(path)
        return self.found[path]


def parquet(rows: list[dict[str, Any]], **types: pa.DataType) -> bytes:
    table, content = pa.Table.from_pylist(rows), io.BytesIO()
    for name, kind in types.items():
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))
    pq.write_table(table, content)
    return content.getvalue()


@pytest.fixture(scope="module")
def good() -> Evidence:
    return ran(PLAN, topics(messages(PLAN)))


PLAN = plan_for(TRAFFIC, 200, 20, seed=3, name="p", customers=60)


def stored(good: Evidence) -> dict[str, list[dict[str, Any]]]:
    """The rows of each hour, in the columns that the topic has."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in good.stores["files"]:
        found.setdefault(hour_of(row["at_ms"]), []).append(dict(row))
    return found


def reds(good: Evidence, there: Mapping[str, bytes]) -> set[str]:
    read = files_of(Folder(there), "/d", FRAUD.enriched, Files())  # type: ignore[arg-type]
    found = {"wrong_files": read.wrong, "replaced": list(read.replaced)}
    evidence = Evidence(**{**vars(spoilt(good, files=list(read.rows))), **found})
    return red(judge(QUESTION, evidence))


def test_what_readers_of_the_folder_would_read_otherwise_is_red(good: Evidence) -> None:
    rows = stored(good)
    files = {f"/d/{hour}/a.parquet": parquet(own) for hour, own in rows.items()}
    hour, own = max(rows.items(), key=lambda each: len(each[1]))
    forged = parquet([{**row, "amount_cents": 1} for row in own])
    assert reds(good, files) == set()
    elsewhere = {path.replace(hour, "date=1999-01-01/hour=00"): content for path, content in files.items()}
    assert reds(good, elsewhere) == {"files"}
    deeper = {path.replace("/d/", "/d/copy/"): content for path, content in files.items()}
    assert reds(good, deeper) == {"files"}
    assert reds(good, {**files, f"/d/{hour}/b.parq": forged}) == {"files"}
    assert reds(good, {**files, f"/d/{hour}/b": forged}) == {"files"}
    assert reds(good, {**files, f"/d/{hour}/_SUCCESS": b"", f"/d/{hour}/.a.parquet.crc": b"x"}) == set()
    assert reds(good, {**files, f"/d/{hour}/a.parquet": parquet(own, amount_cents=pa.int32())}) == {"files"}
    listed = {f"/d/{hour}/_replaced-a.parquet": b"b.parquet\n"}
    assert reds(good, {**files, **listed, f"/d/{hour}/b.parquet": forged}) == {"files"}


@pytest.mark.parametrize("name", ["_x", ".x.parquet", "_x.parquet", "x", "b.parquet"])
def test_a_list_hides_no_file_unless_readers_see_what_replaces_it(good: Evidence, name: str) -> None:
    files = {f"/d/{hour}/a.parquet": parquet(own) for hour, own in stored(good).items()}
    hour, own = max(stored(good).items(), key=lambda each: len(each[1]))
    for more in (
        [{**row, "source_offset": 1 << 40} for row in own],
        [{**row, "pan": "4000000000000002"} for row in own],
    ):
        bad = {f"/d/{hour}/b.parquet": parquet(more), f"/d/{hour}/{name}": parquet(more)}
        assert reds(good, {**files, **bad, f"/d/{hour}/_replaced-{name}": b"b.parquet"}) == {"files"}


def test_files_that_replace_each_other_are_named(good: Evidence) -> None:
    files = {f"/d/{hour}/a.parquet": parquet(own) for hour, own in stored(good).items()}
    hour, own = max(stored(good).items(), key=lambda each: len(each[1]))
    bad = {f"/d/{hour}/{name}.parquet": parquet(own) for name in "bc"}
    listed = {f"/d/{hour}/_replaced-b.parquet": b"c.parquet", f"/d/{hour}/_replaced-c.parquet": b"b.parquet"}
    assert reds(good, {**files, **bad, **listed}) == {"files"}


def test_a_column_of_a_replaced_file_that_no_event_has_is_red(good: Evidence) -> None:
    rows = stored(good)
    files = {f"/d/{hour}/compacted-1.parquet": parquet(own) for hour, own in rows.items()}
    hour, own = max(rows.items(), key=lambda each: len(each[1]))
    listed = {**files, f"/d/{hour}/_replaced-compacted-1.parquet": b"a.parquet"}
    empty = {"removed": None}
    assert reds(good, {**listed, f"/d/{hour}/a.parquet": parquet([{**row, **empty} for row in own])}) == set()
    pan = {"pan": "4000000000000002"}
    assert reds(good, {**listed, f"/d/{hour}/a.parquet": parquet([{**row, **pan} for row in own])}) == {"files"}


@pytest.mark.parametrize("listed", [b"\xff", b"\n", b"../a.parquet", b"x/a.parquet"])
def test_a_list_that_names_no_files_is_named(listed: bytes) -> None:
    found = {LIST: listed, NEW: parquet([{"at_ms": 1}])}
    with pytest.raises(InfraError, match=f"{LIST} is no list of files"):
        files_of(Folder(found), "/data/p", FRAUD.enriched, Files())  # type: ignore[arg-type]


def test_a_moment_that_no_clock_shows_is_named() -> None:
    content = parquet([{"at_ms": 1 << 60}], at_ms=pa.timestamp("ms"))
    with pytest.raises(InfraError, match="/f is not a complete Parquet file"):
        rows_of("/f", content)
    with pytest.raises(InfraError, match="/f is not a complete Parquet file"):
        part_of("/f", content, 0, 10)


def test_a_compaction_under_way_or_killed_is_no_fault(good: Evidence) -> None:
    rows = stored(good)
    hour, own = max(rows.items(), key=lambda each: len(each[1]))
    others = {f"/d/{each}/a.parquet": parquet(found) for each, found in rows.items() if each != hour}
    old = [{name: value for name, value in row.items() if value is not None} for row in own[:5]]
    halves = {f"/d/{hour}/a.parquet": parquet(old), f"/d/{hour}/b.parquet": parquet(own[5:])}
    new = {f"/d/{hour}/compacted-1.parquet": parquet(own)}
    listed = {f"/d/{hour}/_replaced-compacted-1.parquet": b"a.parquet\nb.parquet"}
    for there in (halves, {**halves, **listed}, {**halves, **listed, **new}, {**listed, **new}, new):
        assert reds(good, {**others, **there}) == set()


def test_a_replaced_file_is_compared_once(good: Evidence) -> None:
    hour, own = next(iter(stored(good).items()))
    found = {f"/d/{hour}/a.parquet": parquet(own), f"/d/{hour}/_replaced-compacted-1.parquet": b"a.parquet"}
    folder = Folder({**found, f"/d/{hour}/compacted-1.parquet": parquet(own)})
    first = files_of(folder, "/d", FRAUD.enriched, Files())  # type: ignore[arg-type]
    assert (list(first.holds.values()), first.wrong) == ([True], ())
    known = replace(first, holds=dict.fromkeys(first.holds, False))
    assert len(files_of(folder, "/d", FRAUD.enriched, known).wrong) == 1  # type: ignore[arg-type]


def test_stored_events_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    target = Target.read(Settings.read({"MILLRACE_STATE": str(tmp_path / "state")}), {})
    folder = tmp_path / "data"
    folder.mkdir()
    for name, content in {"new.parquet": b"no Parquet", "_replaced-new.parquet": b"\xff"}.items():
        (folder / name).write_bytes(content)
        with pytest.raises(StoredError, match=f"^{folder}: "):
            read_stored(target, FLOOD, str(folder))
