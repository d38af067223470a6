"""docs/behaviours.md names every test that needs servers, and no other."""

import ast
import re
from collections.abc import Iterator

import pytest

from millrace.settings import PROJECT

pytestmark = pytest.mark.source

TABLE = (PROJECT / "docs" / "behaviours.md").read_text(encoding="utf-8")


def server_tests() -> Iterator[str]:
    """The tests marked `stack`, by themselves or by their module; those imported from another module included."""
    for path in sorted((PROJECT / "tests").rglob("test_*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        is_marked = any(
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "pytestmark"
            and "mark.stack" in ast.unparse(node)
            for node in module.body
        )
        place = path.relative_to(PROJECT)
        for node in module.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                if is_marked or any("mark.stack" in ast.unparse(each) for each in node.decorator_list):
                    yield f"{place}::{node.name}"
            elif isinstance(node, ast.ImportFrom) and is_marked:
                yield from (f"{place}::{each.name}" for each in node.names if each.name.startswith("test_"))


def test_the_table_names_every_test_that_needs_servers_once() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py::\w+)`", TABLE)
    assert sorted(named) == sorted(server_tests())


def test_a_drill_is_called_one() -> None:
    assert TABLE.count("*drill*") - 1 == sum(
        path.read_text(encoding="utf-8").count("pytest.mark.drill")
        for path in (PROJECT / "tests").rglob("test_*.py")
        if path.name != "test_behaviours.py"
    )
