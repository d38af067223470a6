"""The engines that there are, found by folder: the package of each declares itself in one `ENGINE`.

The rest of millrace reads these declarations and names no engine. What an engine does is in its folder:

| file | offers | needed |
|---|---|---|
| `__init__.py` | `ENGINE`, a `Manifest` | always |
| `engine.py` | `connect(target)`, a `millrace.job.Engine` | always |
| `servers.py` | `servers(settings, profiles)`, `addresses(settings, profiles)` | always |
| `java/`, `libraries.py` | the engine's part of the kernel, `compiled_against(settings)` | if it runs the kernel |
| `pom.xml`, `*/pom.xml` | components: locked jars, under the name of the pom's folder | if it runs on jars |
| `compaction.py` | a command: `FOLDER_URI --use USE` makes one file of an hour's many | if it `compacts` |

Standard library only: set-up reads this before any environment exists, and each job reads it in its engine's own.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Literal

from millrace.errors import InfraError

FOLDER = "millrace.engines"

SHAPES: Mapping[str, str] = {
    "event": "rules over single events, with what measures remember",
    "fold": "rules that are a step in plain Python",
    "parallel": "several instances of its per-event stage (`parallelism`)",
    "real-time": "events written as they come by an engine of batches (`real_time`), if the stage keeps nothing",
    "session": "rules over session windows",
    "tumbling": "rules over tumbling windows",
    "sliding": "rules over sliding windows",
    "summary": "numbers over tumbling and sliding windows",
    "persist:hdfs": "accepted events as Parquet",
    "persist:hbase": "accepted events and the state of keys as tables",
    "windows-elsewhere": "another engine's windows may follow its per-event stage",
    "events-elsewhere": "its windows may follow another engine's per-event stage",
    "at-least-once-with-ids": "outputs may come twice, under the same ids",
    "exactly-once": "each output comes once, to readers of committed messages",
    "at-most-once": "no output comes twice, and a restart may lose some",
}
"""The features of an engine that a pattern can use."""
WINDOWS = ("session", "tumbling", "sliding", "summary")
"""The features of a windows stage: an engine without any of them runs none."""
PERSIST = "persist:"
PROMETHEUS = "prometheus"
"""The profile in which an engine serves its own figures for Prometheus."""
INSTANCES_MOST = 64
"""Of one stage of a pattern."""


@dataclass(frozen=True)
class StateTopic:
    """A topic in which an engine keeps state of a pattern's job, or hands on what is its own."""

    name: str
    """With `{pattern}` in it."""
    stage: Literal["events", "windows"]
    """The stage that needs it."""
    configs: Mapping[str, str]


CHANGELOG: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
    # All that is remembered of a key is one message: of about a million events, where a measure looks far back.
    "max.message.bytes": str(16 << 20),
}
"""Of a topic that holds what a job remembers."""


@dataclass(frozen=True)
class Manifest:
    """What an engine declares of itself, as plain data."""

    name: str
    """As pattern files write it; the folder has this name, with `_` for `-`."""
    title: str
    """Its name in texts."""
    can: frozenset[str]
    """The shapes that it runs."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """The reason for each of the other shapes, for the author of a pattern."""
    has_environment: bool = True
    """Whether it needs Python packages of its own: the extra of this name in pyproject.toml, in an environment."""
    imports: frozenset[str] = frozenset()
    """The packages, beyond the standard library, that the modules for its environment import."""
    components: tuple[str, ...] = ()
    """The jars that its servers and jobs run on."""
    kernel_parts: tuple[str, ...] = ()
    """The parts of the kernel that its Java uses beside the one for all.

    `stage` judges events and windows over a state of bytes; `kafka` is for jobs on Kafka's own clients.
    """
    needs: tuple[str, ...] = ()
    """The services that its own service needs."""
    is_default: bool = False
    """Whether `millrace up` starts it by default."""
    profiles: tuple[str, ...] = ()
    """Other forms of its servers."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """The ports of its servers, as offsets in a stack's hundred."""
    process: str = ""
    """The record of the process whose processor time is the cost of `{pattern}`; further ones have a number, too."""
    state_topics: tuple[StateTopic, ...] = ()
    """Its state beside the checkpoints: provisioned with a pattern, in its ACLs, and removed with its data."""
    skew_ms: int = 2_000
    """Its per-event stage reads two topics at most so far apart."""
    survives: tuple[str, ...] = ()
    """Its servers whose crash a pattern survives."""
    forgets_if_fresh: bool = False
    """Whether `deploy --fresh` starts its jobs without their earlier state."""
    compacts: bool = False
    """Whether it can rewrite the many small files that it stores."""
    counts_late: bool = False
    """Whether rows of its summaries may count an event that its dead letters call late for the windows of rules."""

    def process_of(self, pattern: str, number: int = 1) -> str:
        """The record of the process of this number that runs a pattern's job."""
        name = self.process.format(pattern=pattern)
        return name if number == 1 else f"{name}-{number}"

    @property
    def package(self) -> str:
        return f"{FOLDER}.{self.name.replace('-', '_')}"

    def module(self, name: str) -> ModuleType:
        """A module of its folder, imported only now: it may need libraries that not every environment has."""
        return import_module(f"{self.package}.{name}")


def manifests() -> tuple[Manifest, ...]:
    """Every engine, by the order of their names."""
    return _read(tuple(import_module(FOLDER).__path__))


def names() -> list[str]:
    """The names of all engines."""
    return [each.name for each in manifests()]


def manifest(name: str) -> Manifest:
    """The engine of that name."""
    for each in manifests():
        if each.name == name:
            return each
    raise InfraError(f"there is no engine '{name}'; choose one of: {', '.join(names())}")


def able_to(shapes: Iterable[str]) -> list[str]:
    """The names of the engines that run one of these shapes."""
    wanted = frozenset(shapes)
    return [each.name for each in manifests() if each.can & wanted]


@cache
def _read(folders: tuple[str, ...]) -> tuple[Manifest, ...]:
    packages = sorted(each.name for each in pkgutil.iter_modules(folders) if each.ispkg)
    return tuple(import_module(f"{FOLDER}.{name}").ENGINE for name in packages)
