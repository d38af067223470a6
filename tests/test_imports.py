"""Who may import whom: rules <- patterns, verify, fraud <- adapters <- millrace <- airflow | cli <- dags | lab."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from millrace import registry
from tests.rooms import arrows, circles, dotted, imports, longest, modules

pytestmark = pytest.mark.source

PROJECT = Path(__file__).resolve().parent.parent
ROOTS = ("pipelines", "millrace", "lab", "dags")

RULES = ("millrace.rules",)
ENGINES = ("millrace.registry",)
MEANING = (
    *ENGINES,
    "millrace.kept",
    "millrace.oracle",
    "millrace.project",
    "millrace.whole_files",
    "millrace.yaml_text",
    "millrace.patterns",
    "millrace.traffic",
    "millrace.verify",
    "pipelines.fraud",
    *RULES,
)
LIBRARY = ("millrace", *MEANING)

ANY = None


@dataclass(frozen=True)
class Allowed:
    """What one package may import of ours, and of others beyond the standard library (ANY: all but the engines)."""

    ours: tuple[str, ...]
    others: tuple[str, ...] | None = ()


# An engine's folder holds its adapter, which runs in the engine's environment, and what starts it, which does not.
OUTSIDE_THE_ENGINE = ("engine", "container", "libraries", "nimbus", "servers")
FOLDERS = {engine.package: engine for engine in registry.manifests()}

USES = [f"pipelines.{path.parent.name}" for path in PROJECT.glob("pipelines/*/__init__.py")]

MAY_IMPORT = {
    "millrace.rules": Allowed(RULES),
    "millrace.traffic": Allowed(MEANING, ("kafka",)),  # for Kafka's own hash
    "millrace.oracle": Allowed(MEANING),
    "millrace.project": Allowed(("millrace.errors", *RULES)),
    "millrace.kept": Allowed(("millrace.errors", "millrace.project", *RULES)),
    "millrace.whole_files": Allowed(()),
    "millrace.yaml_text": Allowed((), ("yaml",)),
    **{use: Allowed((use, *MEANING), ("kafka",)) for use in USES},  # likewise
    "millrace.charts": Allowed(()),
    "millrace.shapes": Allowed((), ("pydantic",)),
    "millrace.verify": Allowed(
        (*MEANING, "millrace.charts", "millrace.shapes"), ("jinja2", "markupsafe", "pydantic", "pydantic_core")
    ),
    "millrace.patterns": Allowed(MEANING, ("pydantic", "pydantic_core", "yaml")),
    # Below the patterns, which are checked against it; set-up reads it before any environment exists.
    "millrace.registry": Allowed(("millrace.registry", "millrace.errors")),
    **{folder: Allowed((folder, *MEANING), tuple(engine.imports)) for folder, engine in FOLDERS.items()},
    **{f"{folder}.{module}": Allowed(LIBRARY, ANY) for folder in FOLDERS for module in OUTSIDE_THE_ENGINE},
    "millrace": Allowed(LIBRARY, ANY),
    "millrace.cli": Allowed(("millrace.cli", *LIBRARY), ANY),
    "millrace.airflow": Allowed(("millrace.airflow", *LIBRARY), ("airflow", "fastapi", "httpx")),
    "lab": Allowed(("lab", *LIBRARY), ANY),
    "lab.choices.spark": Allowed(("lab.choices.spark", "millrace.engines.spark", *MEANING), ("pyspark",)),
    "dags": Allowed(("dags", "millrace.airflow", *LIBRARY), ("airflow",)),
}
# Each lives in an environment that the others do not have, so ANY does not include them, but for what the command line
# has as well.
SHARED = {"happybase", "kafka", "pyarrow"}
ENGINE_LIBRARIES = {"airflow", *(name for engine in FOLDERS.values() for name in engine.imports - SHARED)}
# Parts that are above the rest of their package: `millrace` may import millrace.stack, never millrace.cli.
ABOVE = ("millrace.cli", "millrace.airflow")


def test_every_import_follows_the_layers() -> None:
    assert list(breaches(PROJECT)) == []
    assert len(list(modules(PROJECT))) > 20, "the test looked in the wrong place"


def test_a_breach_is_found_with_its_place(tmp_path: Path) -> None:
    write(tmp_path, "millrace/rules/events.py", "import json\n\nimport pydantic\n")
    write(tmp_path, "pipelines/fraud/__init__.py", "from millrace.engines.flink.sink import write\n")
    write(
        tmp_path,
        "millrace/engines/flink/job.py",
        "def late():\n    from .. import spark\n    from ..spark import job\n",
    )
    write(
        tmp_path,
        "millrace/stack/__init__.py",
        "import pyflink.table\nfrom millrace.cli import up\nfrom millrace import cli, jars\n",
    )
    write(tmp_path, "millrace/airflow/__init__.py", "import pyspark\n")
    write(tmp_path, "millrace/other/__init__.py", "from millrace.patterns import load_all\nimport kafka, lab.bench\n")
    write(tmp_path, "pipelines/stray.py", "")
    assert sorted(breaches(tmp_path)) == [
        "millrace/airflow/__init__.py:1 imports pyspark",
        "millrace/engines/flink/job.py:2 imports millrace.engines.spark",
        "millrace/engines/flink/job.py:3 imports millrace.engines.spark.job",
        "millrace/other/__init__.py:2 imports lab.bench",
        "millrace/rules/events.py:3 imports pydantic",
        "millrace/stack/__init__.py:1 imports pyflink.table",
        "millrace/stack/__init__.py:2 imports millrace.cli.up",
        "millrace/stack/__init__.py:3 imports millrace.cli",
        "pipelines/fraud/__init__.py:1 imports millrace.engines.flink.sink.write",
        "pipelines/stray.py:1 belongs to no layer",
    ]


def test_no_import_is_part_of_a_circle() -> None:
    assert list(circles(arrows(PROJECT))) == []


def test_a_circle_is_found_also_where_a_function_or_a_type_alone_imports(tmp_path: Path) -> None:
    write(tmp_path, "millrace/__init__.py", "")
    write(tmp_path, "millrace/stores/__init__.py", "")
    write(tmp_path, "millrace/stores/topics.py", "from millrace.stores import files\n")
    write(tmp_path, "millrace/stores/files.py", "if TYPE_CHECKING:\n    from millrace.stores.topics import Tail\n")
    write(tmp_path, "millrace/stores/tables.py", "from millrace.stack import marks\n")
    write(tmp_path, "millrace/stack/__init__.py", "")
    write(tmp_path, "millrace/stack/marks.py", "import millrace.rules\n")
    write(tmp_path, "millrace/stack/ports.py", "def free():\n    from .. import stores\n")
    assert list(circles(arrows(tmp_path))) == [
        "millrace/stack imports millrace/stores imports millrace/stack",
        "millrace/stores/files.py imports millrace/stores/topics.py imports millrace/stores/files.py",
    ]


USE_FOLDERS = [
    *(path.parent for path in PROJECT.glob("pipelines/*/__init__.py")),
    PROJECT / "millrace/starter/pipelines/my_use",
    PROJECT / "tests/uses/probe",
]


def test_a_use_imports_its_own_modules_relatively() -> None:
    """A use may be copied, renamed, or shipped in a package."""
    found = [path for folder in USE_FOLDERS for path in folder.rglob("*.py")]
    assert [path for path in found if re.search(r"^\s*(from|import) pipelines\b", path.read_text(), re.MULTILINE)] == []
    assert len(found) > 20, "the test looked in the wrong place"


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def breaches(root: Path) -> Iterator[str]:
    for path in modules(root):
        place = path.relative_to(root)
        package = dotted(path, root)
        layer = longest(package, MAY_IMPORT)
        if layer is None and package not in ROOTS:
            yield f"{place}:1 belongs to no layer"
        for line, name in imports(path, package):
            if layer is None or not may_import(MAY_IMPORT[layer], layer, name):
                yield f"{place}:{line} imports {name}"


def may_import(allowed: Allowed, layer: str, name: str) -> bool:
    top = name.partition(".")[0]
    if top in ROOTS:
        above = longest(name, ABOVE)
        reach = longest(name, allowed.ours)
        return reach is not None and (above is None or above in (layer, reach))
    if top in sys.stdlib_module_names:
        return True
    return top not in ENGINE_LIBRARIES if allowed.others is ANY else top in allowed.others
