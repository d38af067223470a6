"""The project: the folder whose pipelines/ holds the uses, a folder each with its rules, patterns and contracts."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millrace.rules import UseCase

FOLDER = "pipelines"
AROUND_PACKAGE = Path(__file__).absolute().parent.parent


def root(environ: Mapping[str, str] = os.environ) -> Path:
    """MILLRACE_PROJECT, else the nearest folder upwards with pipelines/, else the clone, else the working directory."""
    if given := environ.get("MILLRACE_PROJECT"):
        return Path(given).expanduser().absolute()
    here = Path.cwd()
    places = (here, *here.parents, AROUND_PACKAGE)
    return next((place for place in places if (place / FOLDER).is_dir()), here)


def use_folder(use: str) -> Path:
    """Everything of one use."""
    return root() / FOLDER / use


def pattern_folders() -> list[Path]:
    """The folders of pattern files, one for each use that has any."""
    return sorted(path for path in root().glob(f"{FOLDER}/*/patterns") if path.is_dir())


def make_importable() -> None:
    """Import `pipelines` from the project, even if another package of that name is on Python's path.

    The project itself does not go on the path: its other folders could hide installed packages.
    """
    folder = root() / FOLDER
    if folder.is_dir():
        sys.modules[FOLDER] = module = ModuleType(FOLDER)
        module.__path__ = [str(folder)]


@cache
def uses() -> dict[str, UseCase]:
    """Every use that the packages in pipelines/ export, by name; none where there is no pipelines/."""
    from millrace.rules import UseCase  # here: most verbs start without the rules

    try:
        pipelines = import_module(FOLDER)
    except ModuleNotFoundError as error:
        if error.name != FOLDER:
            raise
        return {}
    modules = [import_module(f"{FOLDER}.{found.name}") for found in iter_modules(pipelines.__path__) if found.ispkg]
    return {value.name: value for module in modules for value in vars(module).values() if isinstance(value, UseCase)}
