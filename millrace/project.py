"""The project: the folder whose pipelines/ holds the uses, a folder each with its patterns and contracts."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).absolute().parent.parent


def root() -> Path:
    """MILLRACE_PROJECT, or the clone that this package is in."""
    return Path(os.environ.get("MILLRACE_PROJECT") or HERE).absolute()


def use_folder(use: str) -> Path:
    """Everything of one use."""
    return root() / "pipelines" / use


def pattern_folders() -> list[Path]:
    """The folders of pattern files, one for each use that has any."""
    return sorted(path for path in root().glob("pipelines/*/patterns") if path.is_dir())
