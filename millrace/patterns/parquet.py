"""The Parquet of a pattern: which files of its folder count.

A compaction lists old files in `_replaced-NAME`, then writes their rows to NAME, then deletes them and the list. While
the list and NAME exist, the listed files do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import PurePosixPath

PLACE = ("date", "hour")
"""Of an event's time: a file's folder is `date=2026-11-21/hour=09`, and readers see both as columns."""
REPLACED = "_replaced-"
"""The beginning of the name of such a list."""
COMPACTED = "compacted-"
"""The beginning of the name of a file that a compaction wrote."""
HOUR_MS = 3_600_000


class ListError(ValueError):
    """A list of replaced files that names none."""


def live(paths: Collection[str], folder: str, lines: Callable[[str], Iterable[str]]) -> list[str]:
    """The data files below the folder that count; `lines` reads a list of replaced files."""
    replaced = {old for listed in replacements(paths, lines).values() for old in listed}
    return sorted(path for path in paths if path not in replaced and is_data_file(path, folder))


def replacements(paths: Collection[str], lines: Callable[[str], Iterable[str]]) -> dict[str, list[str]]:
    """The files that others replace, by the path of the new one; `lines` reads a list of replaced files.

    Only what readers see replaces: beside a hidden file they read those that its list names.
    """
    return {
        new: _listed(path, lines)
        for path in paths
        if PurePosixPath(path).name.startswith(REPLACED) and (new := _replacement(path)) in paths and _is_data(new)
    }


def is_data_file(path: str, folder: str) -> bool:
    """Whether a reader of the folder reads this file as Parquet."""
    return path.endswith(".parquet") and is_visible(path, folder)


def is_visible(path: str, folder: str) -> bool:
    """Whether a reader of the folder sees this file; unfinished files begin with a dot or an underscore."""
    return not any(part.startswith((".", "_")) for part in PurePosixPath(path).relative_to(folder).parts)


def is_in_place(path: str, folder: str) -> bool:
    """Whether a file is in the folder of an hour, and that in the folder itself."""
    return len(PurePosixPath(path).relative_to(folder).parts) == len(PLACE) + 1


@lru_cache(maxsize=1024)
def hour_folder_of(path: str) -> str:
    """The folder of an hour in which a file is."""
    return "/".join(PurePosixPath(path).parts[-3:-1])


def hour_of(at_ms: int) -> str:
    """The folder in which an event of that time belongs; empty if there is no such hour."""
    return _hour(at_ms // HOUR_MS)


@lru_cache(maxsize=1024)
def _hour(hours: int) -> str:
    try:
        return f"{datetime.fromtimestamp(hours * HOUR_MS / 1000, UTC):date=%Y-%m-%d/hour=%H}"
    except (OverflowError, ValueError, OSError):
        return ""


def _listed(path: str, lines: Callable[[str], Iterable[str]]) -> list[str]:
    try:
        return [str(PurePosixPath(path).with_name(name)) for name in lines(path)]
    except ValueError as error:
        raise ListError(f"{path} is no list of files ({error}); delete it once no compaction runs") from None


def _is_data(path: str) -> bool:
    return is_data_file(path, str(PurePosixPath(path).parent))


def _replacement(path: str) -> str:
    place = PurePosixPath(path)
    return str(place.with_name(place.name.removeprefix(REPLACED)))
