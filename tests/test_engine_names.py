"""The library names no engine outside the engine's folder, but where a person reads it: engines are found by folder."""

import ast
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from millrace import registry

pytestmark = pytest.mark.source

PROJECT = Path(__file__).resolve().parent.parent
ENGINES = PROJECT / "millrace/engines"

PATTERN = "the default is a pattern of this repository, which has the names of engines in its own"
READ = "a sentence that a person reads"
EXCEPTIONS = {
    ("millrace/cli/demo.py", "flink-spark"): PATTERN,
}
"""Module and text -> why it may name an engine. Docstrings and comments are for people, too, and may."""
WORDS = ("streams",)
"""Names of engines that are words of the trade: raw streams are in every module. No text is compared with them."""


def test_no_module_outside_an_engines_folder_names_an_engine() -> None:
    sources = {
        path: path.read_text(encoding="utf-8")
        for path in sorted((PROJECT / "millrace").rglob("*.py"))
        if not path.is_relative_to(ENGINES) or path.relative_to(ENGINES).parts[0] not in folders()
    }
    found = {
        (str(path.relative_to(PROJECT)), word): line
        for path, source in sources.items()
        if any(text in source.lower() for text in texts())
        for tree in [ast.parse(source)]
        for line, word in chain(named(tree), compared(tree))
    }
    assert [f"{path}:{found[path, word]} {word}" for path, word in found.keys() - EXCEPTIONS.keys()] == []
    assert EXCEPTIONS.keys() - found.keys() == set(), "no longer there: remove the exception"


def test_imports_identifiers_and_texts_are_found_but_not_docstrings() -> None:
    source = '''
"""Flink."""
from millrace.engines.flink import servers
import pyspark
class FlinkPage:
    """Flink."""
    spark_home: str = "local"
    """Spark."""
def start(engine="spark", flink=None):
    """Flink."""
    call(f"at {x} of Flink", spark=1)  # Spark
    return plan.flink
match name:
    case "spark":
        pass
    case "streams":
        pass
streams = {"streams": "Kafka Streams", "module": "millrace.engines.streams.job"}
if engine == "streams" or streams:
    pass
'''
    assert [word for _, word in sorted(named(ast.parse(source)))] == [
        *("millrace.engines.flink", "pyspark", "FlinkPage", "spark_home", "flink", "spark"),
        *(" of Flink", "spark", "flink", "spark", "Kafka Streams", "millrace.engines.streams.job"),
    ]
    assert [word for _, word in compared(ast.parse(source))] == ["streams", "streams"]


def folders() -> set[str]:
    return {registry.manifest(name).package.rpartition(".")[2] for name in registry.names()}


def texts() -> list[str]:
    """What a module that names an engine has somewhere in its text, so that only few modules are parsed."""
    return [*engine_names(), *engine_texts(), *(f'"{word}"' for word in WORDS)]


def engine_names() -> list[str]:
    return [name.partition("-")[0] for name in registry.names() if name not in WORDS]


def engine_texts() -> list[str]:
    """Titles and packages of the engines whose name is a word of the trade, too."""
    engines = [registry.manifest(name) for name in registry.names() if name in WORDS]
    return [text for each in engines for text in (each.title.lower(), each.package)]


def named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and text of all that names an engine and is not only read by people."""
    names = [*engine_names(), *engine_texts()]
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        for word in words(node) if id(node) not in docstrings else ():
            if any(name in word.lower() for name in names):
                yield getattr(node, "lineno", 0), word


def compared(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and text of each comparison with a name that is a word of the trade, too."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                texts = [each.value for each in (left, *others) if isinstance(each, ast.Constant)]
            case ast.MatchValue(value=ast.Constant(value=text)):
                texts = [text]
            case _:
                texts = []
        yield from ((getattr(node, "lineno", 0), text) for text in texts if text in WORDS)


def words(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.keyword(arg=str(name)) | ast.ImportFrom(module=str(name)):
            yield name
    if isinstance(node, ast.alias) and node.asname:
        yield node.asname
