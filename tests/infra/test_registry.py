"""An engine is one folder: what it declares there is all that the rest of millrace needs."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from millrace import registry
from millrace.settings import PROJECT

MANIFEST = """
from millrace.registry import Manifest
ENGINE = Manifest(
    name="made-up", title="Made-up", can=frozenset({"event", "persist:hdfs", "at-least-once-with-ids"}),
    cannot={"events-elsewhere": "made-up windows see their own stage only"},
    has_environment=False, needs=("kafka",), is_default=True, profiles=("made-up-pair",), ports={"made-up-ui": 90},
    process="made-up-{pattern}", survives=("made-up-1",), forgets_if_fresh=True,
)
"""
SERVERS = """
from dataclasses import dataclass
from millrace.servers.server import Server

@dataclass(frozen=True)
class One(Server):
    number: int = 1
    @property
    def name(self): return f"made-up-{self.number}"
    @property
    def doors(self): return {"ui": self.settings.port("made-up-ui")}
    def command(self): return ["true"]

def servers(settings, profiles):
    return tuple(One(settings, number=n) for n in ((1, 2) if "made-up-pair" in profiles else (1,)))

def addresses(settings, profiles):
    return {"MADE_UP_URL": f"http://127.0.0.1:{settings.port('made-up-ui')}"}
"""
ADAPTER = """
def connect(target):
    return ("connected", target.address("MADE_UP_URL"))
"""
PROGRAM = """
import json, sys
from pathlib import Path
from millrace import engines
engines.__path__.append(sys.argv[1])
from millrace import kernel, stack
from millrace.machine import environments
from millrace.patterns import PatternError, json_schema, model, read
from millrace.settings import PORTS, PROJECT, Settings
from millrace.stack.services import DEFAULT, services, with_needs
from millrace.target import Target

def refused(text):
    path = Path(sys.argv[1], "pattern.yaml")
    path.write_text(text)
    try:
        return read(path) and ""
    except PatternError as error:
        return str(error)

settings = Settings(PROJECT, Path("/home"), Path("/state"), 26000)
known = services(settings, ["made-up-pair"])
schema = json_schema()["$defs"]
pattern = model.files()["flink-spark"].read_text()
print(json.dumps({
    "services": [server.name for each in with_needs(known, ["made-up"]) for server in each.servers],
    "default": "made-up" in DEFAULT,
    "port": settings.port("made-up-ui"),
    "address": stack.addresses(settings)["MADE_UP_URL"],
    "engine": Target.read(settings, {}).engine("made-up"),
    "schema": [schema[stage]["properties"]["engine"] for stage in ("EventsStage", "PersistStage")],
    "environment": "made-up" in environments.SHARED,
    "kernels": kernel.engines(settings),
    "can": refused(pattern.replace("engine: flink", "engine: made-up")),
    "cannot": refused(pattern.replace("windows: {engine: spark", "windows: {engine: made-up")),
    "apart": refused(pattern.replace("windows: {engine: spark, rules: [burst], summaries: [spend-per-minute]}",
                                     "windows: {engine: made-up}")),
    "store": refused(pattern.replace("persist: {engine: spark", "persist: {engine: made-up")),
}))
"""


def test_another_engine_is_another_folder_and_no_line_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "made_up"
    folder.mkdir()
    for name, text in (("__init__", MANIFEST), ("servers", SERVERS), ("engine", ADAPTER)):
        (folder / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=PROJECT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {
        "services": ["kafka-1", "made-up-1", "made-up-2"],
        "default": True,
        "port": 26090,
        "address": "http://127.0.0.1:26090",
        "engine": ["connected", "http://127.0.0.1:26090"],
        "schema": [
            {"enum": ["flink", "made-up", "spark", "storm", "streams"], "title": "Engine", "type": "string"},
            {"enum": ["made-up", "spark"], "title": "Engine", "type": "string"},
        ],
        "environment": False,
        "kernels": ["flink", "spark", "storm", "streams"],
        "can": "pattern.yaml: stages.windows.engine: it does not declare 'windows-elsewhere'; choose made-up here too",
        "cannot": "pattern.yaml: stages.windows.rules: 'burst' cannot run on made-up: it does not declare 'session'",
        "apart": "pattern.yaml: stages.windows.engine: made-up windows see their own stage only; choose flink here too",
        "store": "pattern.yaml: stages.persist.to: made-up cannot write to 'hbase': it does not declare "
        "'persist:hbase'",
    }


@pytest.mark.parametrize("engine", registry.manifests(), ids=lambda each: each.name)
def test_an_engine_declares_what_its_folder_offers(engine: registry.Manifest) -> None:
    folder = Path(engine.module("engine").__file__ or "").parent
    assert folder.name == engine.name.replace("-", "_")
    assert engine.module("engine").connect
    assert engine.module("servers").servers
    assert engine.module("servers").addresses
    assert not (folder / "java").is_dir() or engine.module("libraries").compiled_against
    assert (folder / "compaction.py").exists() == engine.compacts
    assert not engine.can & engine.cannot.keys()
    assert engine.can | engine.cannot.keys() == registry.SHAPES.keys(), "each shape it lacks needs its reason"


def test_no_two_engines_share_a_port_a_profile_or_a_component() -> None:
    engines = registry.manifests()
    for shared in ("ports", "profiles", "components"):
        counts = Counter(each for engine in engines for each in getattr(engine, shared))
        twice = [each for each, count in counts.items() if count > 1]
        assert twice == ([registry.PROMETHEUS] if shared == "profiles" else []), shared


def test_engines_are_found_before_any_environment_exists() -> None:
    program = "from millrace import registry; print(*registry.names())"
    bare = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert bare.stdout.split() == registry.names()


def test_reading_the_declarations_imports_no_engine() -> None:
    program = (
        "import sys, millrace.cli.app, millrace.patterns, millrace.stack.services\n"
        "from millrace import registry; registry.names()\n"
        "print(*(name for name in sys.modules if name.startswith('millrace.engines.') and name.endswith('.engine')))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
