"""The declarations that a deployed job runs with: a copy of its pattern and of its use's code (decision 0056).

A copy is a folder that is named after a digest of what it holds; it never changes.

Standard library only: the interpreter in a worker loads steps of rules from a copy.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module, invalidate_caches
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING

from millrace import project
from millrace.errors import InfraError

if TYPE_CHECKING:
    from millrace.rules import UseCase

PATTERN, USE = "pattern.json", "use.json"
DIGITS = 12
_IMPORTING = RLock()


class ChangedError(InfraError):
    """Files of the project that change while they are copied."""


def place(folder: Path, use: str, pattern: str) -> Path:
    """Where the folder of copies has, or would have, that of a pattern and its use as they are now."""
    code = project.code(use)
    return folder / _digest(code.top, _about(code), pattern)


def make(at: Path, use: str, pattern: str) -> None:
    """Copy a pattern and its use to their place, unless they are there."""
    if at.is_dir():
        return
    code = project.code(use)
    partial = at.with_name(f"{at.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    for path in _files(code.top):
        copy = partial / code.top.name / path.relative_to(code.top)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    (partial / USE).write_text(_about(code), encoding="utf-8")
    (partial / PATTERN).write_text(pattern, encoding="utf-8")
    if _digest(partial / code.top.name, _about(code), pattern) != at.name:
        shutil.rmtree(partial)
        raise ChangedError(f"{code.top} has changed during the deployment; deploy again")
    partial.rename(at)


def is_whole(at: Path) -> bool:
    """Whether a copy is there, and as it was made."""
    try:
        about = (at / USE).read_text(encoding="utf-8")
        top = at / json.loads(about)["module"].partition(".")[0]
        return _digest(top, about, pattern(at)) == at.name
    except (OSError, ValueError, KeyError):
        return False


def use_of(declared: str, name: str) -> UseCase:
    """The use of that name in a copy; as the project has it now, where there is no copy."""
    at = Path(declared)
    return _use(at, name) if declared and at.is_dir() else project.uses()[name]


def pattern(at: Path) -> str:
    """The pattern in a copy, as JSON."""
    return (at / PATTERN).read_text(encoding="utf-8")


@contextmanager
def imports(at: Path) -> Iterator[str]:
    """Import the code of a copy, whatever this process has imported under the same name; gives the use's module."""
    module: str = json.loads((at / USE).read_text(encoding="utf-8"))["module"]
    top = module.partition(".")[0]
    with _IMPORTING:
        others = _take_out(top)
        sys.path.insert(0, str(at))
        if top == project.FOLDER:  # it needs no __init__.py
            spec = ModuleSpec(top, None, is_package=True)
            spec.submodule_search_locations = [str(at / top)]
            sys.modules[top] = module_from_spec(spec)
        invalidate_caches()
        try:
            yield module
        finally:
            sys.path.remove(str(at))
            _take_out(top)
            sys.modules.update(others)


@cache
def _use(at: Path, name: str) -> UseCase:
    from millrace.rules import UseCase

    with imports(at) as module:
        found = [each for each in vars(import_module(module)).values() if isinstance(each, UseCase)]
    return next(each for each in found if each.name == name)


def _take_out(top: str) -> dict[str, ModuleType]:
    """The modules of a package, which are no longer imported then."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name == top or name.startswith(f"{top}.")}


def _about(code: project.Code) -> str:
    return json.dumps({"module": code.module})


def _digest(top: Path, *more: str) -> str:
    digest = hashlib.sha256()
    for part in (*(part for path in _files(top) for part in _named(top, path)), *map(str.encode, more)):
        digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()[:DIGITS]


def _named(top: Path, path: Path) -> tuple[bytes, bytes]:
    return str(path.relative_to(top)).encode(), path.read_bytes()


def _files(top: Path) -> list[Path]:
    """All files of a package but caches and hidden ones."""
    return sorted(
        path
        for path in top.rglob("*")
        if path.is_file()
        and not any(part == "__pycache__" or part.startswith(".") for part in path.relative_to(top).parts)
    )
