"""Who may import whom: rules <- patterns, verify, fraud <- flink | spark <- infra <- dags | lab | cli."""

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
ROOTS = ("pipelines", "infra", "lab", "dags")

RULES = ("pipelines.rules",)
MEANING = ("pipelines.oracle", "pipelines.patterns", "pipelines.verify", "pipelines.fraud", *RULES)
ENGINES = ("pipelines.flink", "pipelines.spark", *MEANING)
INFRA = ("infra", *ENGINES)

ANY = None


@dataclass(frozen=True)
class Allowed:
    """What one package may import of ours, and of others beyond the standard library (ANY: all but the engines)."""

    ours: tuple[str, ...]
    others: tuple[str, ...] | None = ()


MAY_IMPORT = {
    "pipelines.rules": Allowed(RULES),
    "pipelines.oracle": Allowed(MEANING),
    "pipelines.fraud": Allowed(MEANING),
    "pipelines.verify": Allowed(MEANING, ("jinja2", "markupsafe")),
    "pipelines.patterns": Allowed(MEANING, ("pydantic", "yaml")),
    "pipelines.flink": Allowed(("pipelines.flink", *MEANING), ("pyflink", "py4j")),
    "pipelines.spark": Allowed(
        ("pipelines.spark", *MEANING), ("pyspark", "py4j", "pandas", "pyarrow", "happybase", "kafka")
    ),
    "infra": Allowed(INFRA, ANY),
    "infra.cli": Allowed(("infra.cli", *INFRA), ANY),
    "infra.airflow": Allowed(("infra.airflow", *INFRA), ("airflow", "fastapi")),
    "lab": Allowed(("lab", *INFRA), ANY),
    "dags": Allowed(("dags", "infra.airflow", *INFRA), ("airflow",)),
}
# Each lives in an environment that the others do not have, so ANY does not include them.
ENGINE_LIBRARIES = {"pyflink", "pyspark", "airflow", "py4j"}
# Parts that are above the rest of their package: `infra` may import infra.stack, never infra.cli.
ABOVE = ("infra.cli", "infra.airflow")


def test_every_import_follows_the_layers() -> None:
    assert list(breaches(PROJECT)) == []
    assert len(list(modules(PROJECT))) > 20, "the test looked in the wrong place"


def test_a_breach_is_found_with_its_place(tmp_path: Path) -> None:
    write(tmp_path, "pipelines/rules/events.py", "import json\n\nimport pydantic\n")
    write(tmp_path, "pipelines/fraud/__init__.py", "from pipelines.flink.sink import write\n")
    write(tmp_path, "pipelines/flink/job.py", "def late():\n    from .. import spark\n    from ..spark import job\n")
    write(tmp_path, "infra/stack.py", "import pyflink.table\nfrom infra.cli import up\nfrom infra import cli, jars\n")
    write(tmp_path, "infra/airflow/__init__.py", "import pyspark\n")
    write(tmp_path, "infra/other/__init__.py", "from pipelines.patterns import load_all\nimport kafka, lab.bench\n")
    write(tmp_path, "pipelines/stray.py", "")
    assert sorted(breaches(tmp_path)) == [
        "infra/airflow/__init__.py:1 imports pyspark",
        "infra/other/__init__.py:2 imports lab.bench",
        "infra/stack.py:1 imports pyflink.table",
        "infra/stack.py:2 imports infra.cli.up",
        "infra/stack.py:3 imports infra.cli",
        "pipelines/flink/job.py:2 imports pipelines.spark",
        "pipelines/flink/job.py:3 imports pipelines.spark.job",
        "pipelines/fraud/__init__.py:1 imports pipelines.flink.sink.write",
        "pipelines/rules/events.py:3 imports pydantic",
        "pipelines/stray.py:1 belongs to no layer",
    ]


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def breaches(root: Path) -> Iterator[str]:
    for path in modules(root):
        place = path.relative_to(root)
        package = ".".join(place.with_suffix("").parts).removesuffix(".__init__")
        layer = layer_of(package, MAY_IMPORT)
        if layer is None and package not in ROOTS:
            yield f"{place}:1 belongs to no layer"
        for line, name in imports(path, package):
            if layer is None or not may_import(MAY_IMPORT[layer], layer, name):
                yield f"{place}:{line} imports {name}"


def modules(root: Path) -> Iterator[Path]:
    for folder in ROOTS:
        yield from sorted((root / folder).rglob("*.py"))


def imports(path: Path, package: str) -> Iterator[tuple[int, str]]:
    """Every imported name in full, wherever in the module: `from infra import cli` is infra.cli."""
    here = package if path.name == "__init__.py" else package.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = here.split(".")[: len(here.split(".")) - node.level + 1] if node.level else []
            start = ".".join([*up, *filter(None, [node.module])])
            yield from ((node.lineno, f"{start}.{alias.name}") for alias in node.names)


def may_import(allowed: Allowed, layer: str, name: str) -> bool:
    top = name.partition(".")[0]
    if top in ROOTS:
        above = layer_of(name, ABOVE)
        reach = layer_of(name, allowed.ours)
        return reach is not None and (above is None or above in (layer, reach))
    if top in sys.stdlib_module_names:
        return True
    return top not in ENGINE_LIBRARIES if allowed.others is ANY else top in allowed.others


def layer_of(name: str, layers: Iterable[str]) -> str | None:
    """The longest of the layers that a dotted name is in."""
    found = [layer for layer in layers if name == layer or name.startswith(f"{layer}.")]
    return max(found, key=len, default=None)
