"""Reads the Parquet of a pattern: the rows that count, and what is wrong with a file as a whole."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ArrowException

from millrace.errors import InfraError
from millrace.patterns.parquet import COMPACTED, ListError, is_data_file, is_in_place, is_visible, replacements
from millrace.rules import EventType
from millrace.stores.files import Hdfs, NoFileError
from millrace.verify.evidence import StoredRow, kinds_of

ARROW: Mapping[str, Callable[[pa.DataType], bool]] = {
    "text": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    "whole": pa.types.is_int64,
    "real": pa.types.is_float64,
    "flag": pa.types.is_boolean,
    "words": pa.types.is_list,
    "text map": lambda kind: pa.types.is_map(kind) or pa.types.is_struct(kind),
}
"""Whether a column has the type of a kind of field."""
BATCH_ROWS = 5_000


class BrokenFileError(InfraError):
    """A file that is no Parquet, or only a part of it."""


@dataclass(frozen=True)
class StoredFile:
    """One file of Parquet."""

    rows: list[StoredRow]
    wrong: tuple[str, ...] = ()
    """What is wrong with its columns."""
    is_rewritten: bool = False
    """Whether a compaction wrote it: what it holds was in other files before."""


@dataclass(frozen=True)
class Files:
    """The files of a pattern's folder."""

    read: Mapping[str, StoredFile] = field(default_factory=dict)
    """By path; while a compaction is under way also those that it has replaced."""
    counted: tuple[str, ...] = ()
    """The paths of those that count."""
    wrong: tuple[str, ...] = ()
    """The complaints about files that readers would read otherwise."""
    holds: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    """Whether a file of a compaction has all rows of one that it replaces, by both paths."""

    @property
    def rows(self) -> Iterator[StoredRow]:
        for path in self.counted:
            yield from self.read[path].rows

    @property
    def replaced(self) -> Iterator[StoredRow]:
        """The rows of the other files, which readers see until they are deleted."""
        for path in self.read.keys() - set(self.counted):
            yield from self.read[path].rows


def files_of(hdfs: Hdfs, folder: str, of: EventType, known: Files) -> Files:
    """The files of a folder; one never changes, so each is read once.

    A compaction may run meanwhile, or have been killed. While it deletes files, the last answer stands.
    """
    paths = {file.path for file in hdfs.files(folder)}
    try:
        listed = replacements(paths, lambda path: hdfs.read(path).decode().splitlines())
        data = [path for path in sorted(paths) if is_data_file(path, folder)]
        read = {path: known.read.get(path) or file_of(path, hdfs.read(path), of) for path in data}
    except NoFileError:
        return known
    except ListError as error:
        raise BrokenFileError(str(error)) from None
    gone = {old for replaced in listed.values() for old in replaced}
    counted = tuple(path for path in data if path not in gone)
    wrong = [each for path in data for each in read[path].wrong]
    wrong += [complaint(path) for path in sorted(paths) if is_visible(path, folder) and path not in read]
    wrong += [f"{path} is not in the folder of an hour" for path in data if not is_in_place(path, folder)]
    pairs = [(path, other) for path, replaced in listed.items() if path in read for other in replaced if other in read]
    holds = _holds(read, pairs, of, known.holds)
    wrong += [
        f"{other} is listed as replaced, but {path} lacks rows of it" for path, other in pairs if not holds[path, other]
    ]
    wrong += [f"{other} is listed as replaced by {path}, which is listed, too" for path, other in pairs if path in gone]
    return Files(read, counted, tuple(wrong), holds)


def file_of(path: str, content: bytes, of: EventType) -> StoredFile:
    """One file, read."""
    table = _table(path, content)
    kinds = kinds_of(of.fields)
    wrong = [
        f"{path}: the column {column.name} is {column.type}, not what a {kinds[column.name]} is stored as"
        for column in table.schema
        if column.name in kinds and not (pa.types.is_null(column.type) or ARROW[kinds[column.name]](column.type))
    ]
    return StoredFile(_rows(path, table), tuple(wrong), PurePosixPath(path).name.startswith(COMPACTED))


def rows_of(path: str, content: bytes) -> list[StoredRow]:
    """The rows of a Parquet file."""
    return _rows(path, _table(path, content))


def part_of(path: str, content: bytes, first: int, most: int) -> tuple[list[StoredRow], bool]:
    """Rows of a file from one on, and whether they are its last; the file is never in memory as objects."""
    found: list[StoredRow] = []
    try:
        file, at = pq.ParquetFile(io.BytesIO(content)), 0
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            wanted = batch.slice(max(0, first - at), most - len(found))
            found += [StoredRow(row, path) for row in wanted.to_pylist()]
            at += len(batch)
            if len(found) == most:
                break
        return found, first + len(found) >= file.metadata.num_rows
    except (ArrowException, OSError, ValueError, OverflowError) as error:
        raise BrokenFileError(f"{path} is not a complete Parquet file: {error}") from None


def complaint(path: str) -> str:
    """The complaint about a file that is visible and holds no rows."""
    return f"{path} is no file of Parquet, and readers of the folder read it"


def _table(path: str, content: bytes) -> pa.Table:
    try:
        return pq.read_table(io.BytesIO(content))
    except pa.ArrowMemoryError:
        raise InfraError(f"{path} does not fit into memory") from None
    except (ArrowException, OSError, ValueError) as error:
        raise BrokenFileError(f"{path} is not a complete Parquet file: {error}") from None


def _rows(path: str, table: pa.Table) -> list[StoredRow]:
    try:
        return [StoredRow(row, path) for row in table.to_pylist()]
    except (ArrowException, ValueError, OverflowError) as error:
        raise BrokenFileError(f"{path} is not a complete Parquet file: {error}") from None


def _holds(
    read: Mapping[str, StoredFile],
    pairs: Sequence[tuple[str, str]],
    of: EventType,
    known: Mapping[tuple[str, str], bool],
) -> dict[tuple[str, str], bool]:
    """Whether each first file has all rows of the other one, as far as that is not known already."""

    def written(path: str) -> set[str]:
        return {json.dumps([row.get(name) for name in of.names], default=str) for row in read[path].rows}

    found = {pair: known[pair] for pair in pairs if pair in known}
    for path, own in groupby((pair for pair in pairs if pair not in known), key=itemgetter(0)):
        rows = written(path)
        found |= {pair: written(pair[1]) <= rows for pair in own}
    return found
