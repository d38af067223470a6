"""Files that other processes read while they are written."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import NamedTemporaryFile


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace a file atomically: a reader gets the old content or the new, also after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own: files that differ only in their suffix, or two processes, must not write into one another's.
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as arriving:
        try:
            arriving.write(content.encode() if isinstance(content, str) else content)
            arriving.close()
            os.replace(arriving.name, path)
        except BaseException:
            os.unlink(arriving.name)
            raise
