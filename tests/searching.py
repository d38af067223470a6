"""What is written anywhere below a folder, for tests of what must never be written."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Each file with what it holds; jobs are at work there, so what is listed may be gone."""
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            if path.is_file() and not path.is_symlink():
                yield path, _written(path)


def _written(path: Path) -> bytes:
    """What a file holds without its holes: Kafka's indexes are gigabytes of nothing."""
    parts, at = [], 0
    with suppress(OSError), path.open("rb", buffering=0) as file:  # also where there is no data behind the last
        while True:
            begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
            at = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            parts.append(os.pread(file.fileno(), at - begin, begin))
    return b"".join(parts)
