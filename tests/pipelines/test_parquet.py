"""Which Parquet files of a pattern count, before, during and after a compaction."""

import pytest

from millrace.patterns.parquet import is_data_file, live

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
