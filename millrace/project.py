"""The project: the folder whose pipelines/ holds the uses, a folder each with its rules, patterns and contracts.

An installed package brings more uses by an entry point: `shop = "acme_shop:SHOP"` in the group `millrace.uses`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module, invalidate_caches, metadata
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from pkgutil import iter_modules
from traceback import extract_tb
from types import ModuleType
from typing import TYPE_CHECKING

from millrace.errors import InfraError

if TYPE_CHECKING:
    from millrace.rules import UseCase

FOLDER = "pipelines"
GROUP = "millrace.uses"
"""The entry points of packages that bring a use."""
AROUND_PACKAGE = Path(__file__).absolute().parent.parent


class ProjectError(InfraError):
    """A use that cannot be found or loaded; names its places and the remedy."""


@dataclass(frozen=True)
class Installed:
    """A use that an installed package brings."""

    name: str
    """Of the entry point."""
    value: str
    """MODULE:NAME of the use."""
    distribution: metadata.Distribution | None

    def __str__(self) -> str:
        package = self.distribution.name if self.distribution else "unknown"
        return f"entry point '{self.name}' of the package {package}"

    @property
    def top(self) -> Path:
        """The top-level package of its module."""
        name = self.value.partition(":")[0].partition(".")[0]
        spec = find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise ProjectError(
                f"{self}: there is no package '{name}'; repair the entry point, or uninstall the package"
            )
        return Path(next(iter(spec.submodule_search_locations))).resolve()

    @property
    def folder(self) -> Path:
        """The folder of the package that holds the use; beside it are patterns/ and contracts/."""
        path = self.top.joinpath(*self.value.partition(":")[0].split(".")[1:])
        return path if path.is_dir() else path.parent


def root(environ: Mapping[str, str] = os.environ) -> Path:
    """MILLRACE_PROJECT, else the nearest folder upwards with pipelines/, else the clone, else the working directory."""
    if around := nearest(environ):
        return around
    return AROUND_PACKAGE if (AROUND_PACKAGE / FOLDER).is_dir() else Path.cwd()


def nearest(environ: Mapping[str, str] = os.environ) -> Path | None:
    """MILLRACE_PROJECT, else the nearest folder upwards with pipelines/; None without either."""
    if given := environ.get("MILLRACE_PROJECT"):
        return Path(given).expanduser().absolute()
    here = Path.cwd()
    return next((place for place in (here, *here.parents) if (place / FOLDER).is_dir()), None)


def state(environ: Mapping[str, str] = os.environ) -> Path:
    """MILLRACE_STATE, else .millrace in the project: the files of one stack."""
    return Path(environ.get("MILLRACE_STATE") or root(environ) / ".millrace").expanduser().absolute()


def enter(folder: Path) -> None:
    """Make a folder, as it is now, the project of this process and of all that it starts."""
    os.environ["MILLRACE_PROJECT"] = str(folder)
    invalidate_caches()
    make_importable()
    for each in (_brought, _found, uses):
        each.cache_clear()


def use_folder(use: str) -> Path:
    """Everything of one use."""
    return _found()[use].folder


@dataclass(frozen=True)
class Code:
    """Where the code of a use is."""

    module: str
    """The module that holds the use."""
    top: Path
    """The folder of its top-level package."""


def code(use: str) -> Code:
    """Where the code of one use is."""
    return _found()[use].code


def own_uses() -> dict[str, UseCase]:
    """The uses in pipelines/, by name: those whose files this project may write."""
    return {name: found.use for name, found in _found().items() if found.is_own}


def pattern_folders() -> list[Path]:
    """The folders of pattern files, one for each use that has any."""
    own = sorted(path for path in root().glob(f"{FOLDER}/*/patterns"))
    brought = [each.folder / "patterns" for each in _brought()]
    return [path for path in dict.fromkeys((*own, *brought)) if path.is_dir()]


def make_importable() -> None:
    """Import `pipelines` from the project, even if another package of that name is on Python's path.

    The project itself does not go on the path: its other folders could hide installed packages.
    """
    folder = root() / FOLDER
    if folder.is_dir():
        spec = ModuleSpec(FOLDER, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        sys.modules[FOLDER] = module_from_spec(spec)


@cache
def uses() -> dict[str, UseCase]:
    """Every use, by name: of the packages in pipelines/ and of installed packages."""
    return {name: found.use for name, found in _found().items()}


def installed() -> list[Installed]:
    """The uses that installed packages bring, by their entry points; none is imported."""
    return [Installed(each.name, each.value, each.dist) for each in metadata.entry_points(group=GROUP)]


@cache
def _brought() -> list[Installed]:
    """Those of this process: the search reads a file of every package, and each pattern that is read needs them."""
    return installed()


@dataclass(frozen=True)
class _Found:
    """A use and its folder."""

    use: UseCase
    folder: Path
    origin: str
    is_own: bool
    code: Code


@cache
def _found() -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    for each in (*_in_folders(), *map(_loaded, _brought())):
        other = found.setdefault(each.use.name, each)
        if other.use is not each.use or other.folder.resolve() != each.folder.resolve():
            raise ProjectError(f"two uses are called '{each.use.name}': {other.origin} and {each.origin}; rename one")
    return found


def _in_folders() -> Iterator[_Found]:
    from millrace.rules import UseCase  # here: most verbs start without the rules

    try:
        pipelines = import_module(FOLDER)
    except ModuleNotFoundError as error:
        if error.name != FOLDER:
            raise
        return
    for package in iter_modules(pipelines.__path__):
        if not package.ispkg:
            continue
        module = _imported(f"{FOLDER}.{package.name}")
        folder = Path(str(module.__file__)).parent
        for use in {id(value): value for value in vars(module).values() if isinstance(value, UseCase)}.values():
            yield _Found(use, folder, str(folder), is_own=True, code=Code(module.__name__, root() / FOLDER))


def _imported(name: str) -> ModuleType:
    """The package of a use; an error in its code names the line."""
    from millrace.rules.expressions import DeclarationError

    try:
        return import_module(name)
    except (DeclarationError, InfraError):
        raise
    except Exception as error:
        raise ProjectError(f"{_line_of(error)}: {type(error).__name__}: {error}; repair this use") from error


def _line_of(error: Exception) -> str:
    """The last line of the project's own code that led to an error."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    here = str(root() / FOLDER)
    lines = [(each.filename, each.lineno) for each in extract_tb(error.__traceback__)]
    file, number = next((each for each in reversed(lines) if each[0].startswith(here)), lines[-1])
    return f"{file}, line {number}"


def _loaded(brought: Installed) -> _Found:
    from millrace.rules import UseCase

    module, _, name = brought.value.partition(":")
    try:
        use = getattr(import_module(module), name)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise ProjectError(f"{brought} cannot be loaded: {why}; repair or uninstall the package") from error
    if not isinstance(use, UseCase):
        raise ProjectError(f"{brought} is {type(use).__name__}, not a UseCase; name the use, as in acme_shop:SHOP")
    return _Found(use, brought.folder, str(brought), is_own=False, code=Code(module, brought.top))
