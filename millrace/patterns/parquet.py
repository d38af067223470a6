"""The Parquet of a pattern: which files of its folder count.

A compaction lists old files in `_replaced-NAME`, then writes their rows to NAME, then deletes them and the list. While
the list and NAME exist, the listed files do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import PurePosixPath

PLACE = ("date", "hour")
"""Of an event's time: a file's folder is `date=2026-11-21/hour=09`, and readers see both as columns."""
REPLACED = "_replaced-"
"""The beginning of the name of such a list."""
COMPACTED = "compacted-"
"""The beginning of the name of a file that a compaction wrote."""


def live(paths: Collection[str], folder: str, lines: Callable[[str], Iterable[str]]) -> list[str]:
    """The data files below the folder that count; `lines` reads a list of replaced files."""
    replaced = {
        str(PurePosixPath(path).with_name(name))
        for path in paths
        if PurePosixPath(path).name.startswith(REPLACED) and _replacement(path) in paths
        for name in lines(path)
    }
    return sorted(path for path in paths if path not in replaced and is_data_file(path, folder))


def is_data_file(path: str, folder: str) -> bool:
    """Whether a reader of the folder reads this file; unfinished files begin with a dot or an underscore."""
    parts = PurePosixPath(path).relative_to(folder).parts
    return path.endswith(".parquet") and not any(part.startswith((".", "_")) for part in parts)


def _replacement(path: str) -> str:
    place = PurePosixPath(path)
    return str(place.with_name(place.name.removeprefix(REPLACED)))
