"""Where one stack lives and which ports it uses: read once from the environment, then passed along."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millrace import registry
from millrace.errors import InfraError, UsageError
from millrace.project import root, state

PACKAGE = Path(__file__).resolve().parent
PROJECT = PACKAGE.parent
"""The clone, for its own tests and measurements; where the wheel is installed it is site-packages, and unused."""

PORT_BASE_DEFAULT = 20000
# A second stack takes the next hundred: every offset below stays under it.
PORTS_PER_STACK = 100
# Ports from 32768 on are the system's own.
PORT_BASES = range(1024, 32768 - PORTS_PER_STACK + 1)

PORTS = {
    "kafka-1": 1,
    "kafka-2": 2,
    "kafka-3": 3,
    "kafka-1-controller": 4,
    "kafka-2-controller": 5,
    "kafka-3-controller": 6,
    "hdfs": 10,  # the NameNode's RPC
    "hdfs-http": 11,
    "datanode-1": 12,
    "datanode-1-http": 13,
    "datanode-1-ipc": 14,
    "datanode-2": 15,
    "datanode-2-http": 16,
    "datanode-2-ipc": 17,
    "zookeeper": 20,
    "hbase-master": 21,
    "hbase-master-http": 22,
    "hbase-regionserver": 23,
    "hbase-regionserver-http": 24,
    "hbase-thrift": 25,
    **{door: offset for engine in registry.manifests() for door, offset in engine.ports.items()},
    "airflow": 50,
    "dashboard": 60,
    "observer": 70,
}
# Short names: the port to which a client connects.
PORT_ALIASES = {"kafka": "kafka-1", "webhdfs": "hdfs-http", "thrift": "hbase-thrift", "hbase": "hbase-thrift"}

# Default of `validate --within`.
VALIDATE_WITHIN_S = 300.0

# Default of `validate --settled-after`. Outstanding output arrives within this time, or never: a store's batch may
# take this long on a busy machine.
SETTLED_AFTER_S = 90.0

# Defaults of `validate --continuous`: the length of a segment, and how long after its end it is judged.
EVERY_S, SETTLE_S = 60.0, 120.0

# How often Airflow judges all ledgers. `verdicts --update` looks twice as far back: a run may be late.
LEDGERS_EVERY_S = 300.0

# Default of `canaries --every`.
CANARIES_EVERY_S = 60.0

# Of every answer under --json; another one when a reader of this one would misread it.
JSON_VERSION = 1


@dataclass(frozen=True)
class Settings:
    """The places and the port base of one stack."""

    project: Path
    """Where pipelines/ and dags/ are."""
    home: Path
    """Downloads and builds, shared by all projects of a user."""
    state: Path
    port_base: int
    patterns: Path | None = field(default=None, compare=False)  # a stack runs servers, whatever its patterns are
    """Where the pattern files are, if not in the project."""
    package: Path = PACKAGE
    """The installed library: its locks, poms and Java sources."""

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> "Settings":
        """Reads MILLRACE_PROJECT, _HOME, _STATE, _PORT_BASE and _PATTERNS; a state folder stores its port base."""
        project = root(environ)
        cache = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".cache")
        home = Path(environ.get("MILLRACE_HOME") or cache / "millrace").expanduser().absolute()
        folder = state(environ)
        given = environ.get("MILLRACE_PORT_BASE")
        base = port_base(given) if given else remembered(folder).get("port_base", PORT_BASE_DEFAULT)
        patterns = Path(environ["MILLRACE_PATTERNS"]).absolute() if environ.get("MILLRACE_PATTERNS") else None
        return cls(project=project, home=home, state=folder, port_base=base, patterns=patterns)

    def port(self, name: str) -> int:
        """The port of a server or of one of its doors, by name."""
        return self.port_base + PORTS[PORT_ALIASES.get(name, name)]

    @property
    def run(self) -> Path:
        """Where the records of running processes are."""
        return self.state / "run"

    def environment(self) -> dict[str, str]:
        """The variables with which another process uses the same stack."""
        return {
            "MILLRACE_PROJECT": str(self.project),
            "MILLRACE_HOME": str(self.home),
            "MILLRACE_STATE": str(self.state),
            "MILLRACE_PORT_BASE": str(self.port_base),
            **({"MILLRACE_PATTERNS": str(self.patterns)} if self.patterns else {}),
        }


def port_base(text: str, given: str = "MILLRACE_PORT_BASE") -> int:
    """The base that a text names, with room for a stack's ports above it and below the system's ephemeral ones."""
    if not text.isdecimal() or int(text) not in PORT_BASES:
        raise UsageError(
            f"{given} is {text!r}: it must be a whole number from {PORT_BASES[0]} to {PORT_BASES[-1]}, "
            "for example 20000 (ports from 32768 on are the system's own)"
        )
    return int(text)


def remembered(state: Path) -> dict[str, Any]:
    """The port base and profiles of the last `up` of this state folder."""
    path = state / "stack.json"
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InfraError(f"{path} is not JSON ({error}); delete it and give MILLRACE_PORT_BASE again") from error
    if not isinstance(content, dict) or not isinstance(content.get("port_base", 0), int):
        raise InfraError(f"{path} is not what `millrace up` wrote; delete it and give MILLRACE_PORT_BASE again")
    return content
