"""Reads the files of a pattern for its ledger: those that are new, and slice by slice all others again."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from millrace.errors import InfraError
from millrace.patterns.parquet import REPLACED, hour_folder_of, is_data_file, is_visible
from millrace.rules import UseCase
from millrace.stores.files import File, Hdfs, NoFileError
from millrace.verbs.parquet import BrokenFileError, StoredFile, complaint, file_of, part_of
from millrace.verify.evidence import Bounds, StoredRow
from millrace.verify.ledger.state import Audit, State
from millrace.verify.ledger.step import Slice

FILES_LATE_MS = 3_600_000
"""A file may get its name so long after it was written: its writer was killed in between."""
DAY_S = 86_400
LISTED_MOST_MS = DAY_S * 1000
"""A compaction ends within an hour; one that was killed leaves its list for longer."""
FOLDERS_TRIED = 3
"""So many folders are looked at in a segment for one that does not change."""
FILES_READ_AGAIN = 50
"""So many files are read again in a segment: each takes some requests."""


@dataclass(frozen=True)
class SegmentFiles:
    """The files of a pattern, as its ledger reads them."""

    hdfs: Hdfs
    folder: str
    use: UseCase
    rows_most: int
    """So many rows are read again in a segment."""

    def new(self, state: State, cut_ms: int) -> tuple[list[StoredFile], list[str]]:
        """The files that were written since the last cut, and the complaints about those that cannot be read."""
        known = state.files
        since_ms = min(state.cut_ms, cut_ms) - FILES_LATE_MS
        found: list[StoredFile] = []
        wrong: list[str] = []
        there: set[str] = set()
        for file in self.hdfs.files_since(self.folder, since_ms, self._from_name(cut_ms)):
            there.add(file.path)
            if _is_to_come(file):
                _audit_first(state, [file.path])
            if file.modified_ms > cut_ms or not is_visible(file.path, self.folder):
                continue
            if file.path in known:
                _audit_first(state, [file.path] if known[file.path] != file.modified_ms else [])
                known[file.path] = file.modified_ms
                continue
            if not is_data_file(file.path, self.folder):
                wrong.append(complaint(file.path))
            else:
                try:
                    found.append(file_of(file.path, self._whole(file), self.use.enriched))
                except NoFileError:
                    pass  # a compaction has just replaced it
                except BrokenFileError as error:
                    wrong.append(str(error))
            known[file.path] = file.modified_ms
        gone = [path for path, modified_ms in known.items() if path not in there and modified_ms >= since_ms]
        _audit_first(state, gone)
        # It may only be absent from this listing, and is not new if it comes again.
        known.update({path: -known[path] for path in gone})
        for path in [path for path, modified_ms in known.items() if abs(modified_ms) < since_ms]:
            del known[path]
        return found, wrong

    def _from_name(self, cut_ms: int) -> str:
        """The first of the folders that may have new files."""
        oldest_s = (cut_ms - self.use.judged.past_ms) / 1000 - DAY_S
        return f"date={time.strftime('%Y-%m-%d', time.gmtime(oldest_s))}"

    def _whole(self, file: File) -> bytes:
        """The content of a file; one that is read in part is read again with the next attempt."""
        content = self.hdfs.read(file.path)
        if len(content) != file.size:
            raise InfraError(f"{len(content)} of {file.size} bytes of {file.path} were read")
        return content

    def again(self, state: State, cut_ms: int) -> tuple[Slice | None, list[str]]:
        """The next rows of files that are there, and why folders cannot be read; none of a folder that changes.

        A round begins with what is there and was never listed, because of its name or its time.
        """
        audit, names = state.audit, sorted(state.folders)
        if not audit.listing and not audit.again and (not names or names[-1] <= audit.folder):
            others = (name for name in self.hdfs.outline(self.folder) if name not in state.folders)
            audit.again = sorted(name for name in others if is_visible(f"{self.folder}/{name}", self.folder))
        after = [each for each in names if each > audit.folder] + [each for each in names if each <= audit.folder]
        begun = [audit.folder] if audit.listing else []
        unread: list[str] = []
        for name in list(dict.fromkeys([*begun, *audit.again[:1], *after]))[:FOLDERS_TRIED]:
            found = list(self.hdfs.files(f"{self.folder}/{name}"))
            if _is_quiet(state, found, cut_ms, is_listed=name >= self._from_name(cut_ms)):
                with suppress(NoFileError):  # a compaction has just begun
                    foreign = [] if name in state.folders else self._foreign(state, found)
                    return replace(self._slice(state.audit, name, found), foreign=foreign), unread
            unread += _obstacles(found, cut_ms)
            # What is new to the ledger may be about to be listed; else the next round finds it.
            state.audit = Audit(name, again=[*audit.again[1:], *(each for each in audit.again[:1] if each in names)])
        return None, unread

    def _foreign(self, state: State, found: Iterable[File]) -> list[str]:
        """The complaints about files that are no Parquet, and were not read as they came."""
        paths = (file.path for file in found if not _is_data(file) and is_visible(file.path, self.folder))
        return [complaint(path) for path in paths if path not in state.files]

    def _slice(self, audit: Audit, name: str, found: Sequence[File]) -> Slice:
        """The next slice of a folder; from its first file on, if any of them has changed."""
        data = sorted((file for file in found if _is_data(file)), key=lambda file: file.path)
        listing = hashlib.sha256(repr([(each.path, each.size, each.modified_ms) for each in data]).encode()).hexdigest()
        is_first = (audit.folder, audit.listing) != (name, listing)
        path, row = ("", 0) if is_first else (audit.path, audit.row)
        rows: list[StoredRow] = []
        following: tuple[str, int] | None = None
        files = 0
        for file in data:
            if file.path < path:
                continue
            if len(rows) == self.rows_most or files == FILES_READ_AGAIN:
                following = file.path, 0
                break
            first = row if file.path == path else 0
            content, more, is_end = self.hdfs.read(file.path), list[StoredRow](), True
            with suppress(BrokenFileError):  # its rows are gone
                more, is_end = part_of(file.path, content, first, self.rows_most - len(rows))
            rows, files = rows + more, files + 1
            if not is_end:
                following = file.path, first + len(more)
                break
        return Slice(name, listing, rows, is_first, following)


def _audit_first(state: State, paths: Iterable[str]) -> None:
    """Read the folders of these files again before all others."""
    again = state.audit.again
    again += [folder for folder in dict.fromkeys(map(hour_folder_of, paths)) if folder not in again]


def _is_quiet(state: State, found: Sequence[File], cut_ms: int, *, is_listed: bool) -> bool:
    """Whether all files of a folder were read before the cut, if they are listed then, and none is being compacted."""
    known_since_ms = min(state.cut_ms, cut_ms) - FILES_LATE_MS
    return all(
        file.modified_ms <= cut_ms
        and not _is_list(file)
        and (file.modified_ms < known_since_ms or file.path in state.files or not _is_data(file) or not is_listed)
        for file in found
    )


def _obstacles(found: Iterable[File], cut_ms: int) -> Iterator[str]:
    """What keeps a folder from ever being quiet."""
    for file in found:
        if _is_to_come(file):
            yield f"{file.path} is dated {file.modified_ms}, which is still to come: its folder is not read again"
        elif _is_list(file) and file.modified_ms < cut_ms - LISTED_MOST_MS:
            why = "its folder is not read again until `millrace compact` has ended"
            yield f"{file.path} is of a compaction of more than a day ago: {why}"


def _is_to_come(file: File) -> bool:
    return file.modified_ms > time.time() * 1000 + Bounds.clocks_ms


def _is_list(file: File) -> bool:
    return PurePosixPath(file.path).name.startswith(REPLACED)


def _is_data(file: File) -> bool:
    return is_data_file(file.path, str(PurePosixPath(file.path).parent))
