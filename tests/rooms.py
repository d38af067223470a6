"""Modules and the imports between them; `python -m tests.rooms [FOLDER]` counts those of a checkout."""

import ast
import sys
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

Arrows = set[tuple[Path, Path]]
"""Each module with each other module that it imports; paths from the root."""


def modules(root: Path) -> Iterator[Path]:
    """The modules of all top folders but the tests."""
    for folder in sorted(root.iterdir()):
        if folder.is_dir() and folder.name != "tests" and not folder.name.startswith("."):
            yield from sorted(folder.rglob("*.py"))


def dotted(path: Path, root: Path) -> str:
    """The name under which a module is imported."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path, package: str) -> Iterator[tuple[int, str]]:
    """Every imported name in full, wherever in the module: `from millrace import cli` is millrace.cli."""
    here = package if path.name == "__init__.py" else package.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = here.split(".")[: len(here.split(".")) - node.level + 1] if node.level else []
            start = ".".join([*up, *filter(None, [node.module])])
            yield from ((node.lineno, f"{start}.{alias.name}") for alias in node.names)


def longest(name: str, among: Iterable[str]) -> str | None:
    """The longest of some dotted names that another is, or is in."""
    found = [each for each in among if name == each or name.startswith(f"{each}.")]
    return max(found, key=len, default=None)


def arrows(root: Path) -> Arrows:
    """All imports between modules."""
    places = {dotted(path, root): path.relative_to(root) for path in modules(root)}
    found = set()
    for path in modules(root):
        for _, name in imports(path, dotted(path, root)):
            module = next((each for each in within(name) if each in places), None)
            if module is not None and places[module] != path.relative_to(root):
                found.add((path.relative_to(root), places[module]))
    return found


def within(name: str) -> Iterator[str]:
    """A dotted name, and all that it is in, the nearest first."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def circles(arrows: Arrows) -> Iterator[str]:
    """For each folder a circle between its parts; a circle of modules is one of the parts of some folder."""
    for folder in sorted({parent for one, _ in arrows for parent in one.parents}):
        parts: dict[Path, set[Path]] = {}
        for one, other in arrows:
            if folder in one.parents and folder in other.parents and part(one, folder) != part(other, folder):
                parts.setdefault(part(one, folder), set()).add(part(other, folder))
        try:
            TopologicalSorter({one: sorted(others) for one, others in sorted(parts.items())}).prepare()
        except CycleError as error:
            yield " imports ".join(map(str, reversed(error.args[1])))


def part(path: Path, folder: Path) -> Path:
    """The module or the folder, directly in a folder, to which a path leads."""
    return folder / path.relative_to(folder).parts[0]


def count(root: Path) -> str:
    """The size of a house: a room is a folder in one of the top folders, or a module that lies loose there."""
    rooms = {Path(*path.relative_to(root).parts[:2]) for path in modules(root)}
    pairs = {(Path(*one.parts[:2]), Path(*other.parts[:2])) for one, other in arrows(root)}
    return f"{len(list(modules(root)))} modules, {len(rooms)} rooms, {sum(one != other for one, other in pairs)} arrows"


if __name__ == "__main__":
    print(count(Path(*sys.argv[1:])))
