"""Accepted events as a pattern stored them, as Parquet on HDFS or in a local folder."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ArrowException

from millrace.errors import InfraError
from millrace.oracle import Record
from millrace.patterns.parquet import ListError, live
from millrace.rules import EventType, UseCase
from millrace.rules.outputs import INGEST_MS, PROVENANCE, SOURCE, names
from millrace.target import Target

ARRIVAL = (INGEST_MS.name, *names(SOURCE[1:]))
"""The columns by which stored events are sorted: the order of their arrival."""
HDFS = "hdfs"
ROWS = 10_000


class StoredError(InfraError):
    """Stored events that cannot be read or restored; names the place, what is missing and the remedy."""


@dataclass(frozen=True)
class Stored:
    """The stored events of a use, in the order of their arrival. Arrow's columns are a tenth of Python's rows."""

    place: str
    use: UseCase
    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def rows(self) -> Iterator[dict[str, Any]]:
        """The stored events."""
        for batch in self.table.to_batches(max_chunksize=ROWS):
            yield from batch.to_pylist()

    def records(self) -> Iterator[Record]:
        """The raw messages that they were, at their places and arrival times."""
        judged = self.use.judged
        for row in self.rows():
            event = {name: row[name] for name in judged.names if row.get(name) is not None}
            partition, offset = (row[name] for name in names(SOURCE[1:]))
            # As UTF-8, and not in escapes, which may be longer than max_bytes. No half of a surrogate pair is stored.
            value = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
            yield Record(judged.name, partition, offset, row[INGEST_MS.name], str(event[judged.key]).encode(), value)


def is_stored(place: str) -> bool:
    """Whether this names stored events: a URI of HDFS, a folder, or a Parquet file."""
    return urlsplit(place).scheme == HDFS or place.endswith(".parquet") or Path(place).is_dir()


def require_restorable(place: str, use: UseCase) -> None:
    """Refuse a use whose rules need more than the events that are stored."""
    if missing := [each.name for each in (*use.others, *use.references)]:
        raise StoredError(
            f"{place}: stored events of '{use.name}' cannot be judged anew: they hold no {', '.join(missing)}; "
            "give a file with all kinds of events, or the topics"
        )


def read_stored(target: Target, use: UseCase, place: str) -> Stored:
    """Read stored events: the raw event and its place; an optional field that a file is older than is null."""
    try:
        tables = [_columns(place, pq.ParquetFile(file), use.judged) for file in _files(target, place)]
        table = pa.concat_tables(tables, promote_options="default") if tables else None
    except (ListError, ArrowException) as error:
        raise StoredError(f"{place}: {error}") from None
    if table is None:
        raise StoredError(f"{place}: no Parquet file counts there; give the folder of a pattern that persists to HDFS")
    if not table.num_rows:
        raise StoredError(f"{place}: the files hold no events")
    return Stored(place, use, table.sort_by([(name, "ascending") for name in ARRIVAL]))


def _columns(place: str, file: pq.ParquetFile, judged: EventType) -> pa.Table:
    optional = {each.name for each in judged.fields if not each.required}
    wanted = list(dict.fromkeys((*judged.names, *names(PROVENANCE))))
    lacking = [name for name in wanted if name not in file.schema_arrow.names]
    if missing := [name for name in lacking if name not in optional]:
        raise StoredError(
            f"{place}: the stored events have no {', '.join(missing)}, so the raw events cannot be restored; "
            "give a file of raw events, or the folder of another pattern"
        )
    table = file.read(columns=wanted)
    for name in lacking:
        table = table.append_column(name, pa.nulls(table.num_rows))
    return table


def _files(target: Target, place: str) -> Iterable[str | io.BytesIO]:
    """The files that count, and those on HDFS as their content."""
    uri = urlsplit(place)
    if uri.scheme != HDFS:
        return _local(Path(place))
    if uri.netloc and uri.netloc != (own := urlsplit(target.hdfs_uri).netloc):
        raise StoredError(
            f"{place}: the target's HDFS is at {own}; name that one, or another target in MILLRACE_TARGET"
        )
    hdfs, folder = target.hdfs, uri.path.rstrip("/")
    paths = {file.path for file in hdfs.files(folder)}
    counted = live(paths, folder, lambda path: hdfs.read(path).decode().splitlines())
    return (io.BytesIO(hdfs.read(path)) for path in counted)


def _local(place: Path) -> list[str]:
    if place.is_file():
        return [str(place)]
    paths = {str(path) for path in place.rglob("*") if path.is_file()}
    return live(paths, str(place), lambda path: Path(path).read_text(encoding="utf-8").splitlines())
