"""What a pattern costs: the processor time and the memory of the engines that run it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import psutil

from millrace import registry
from millrace.machine import processes
from millrace.settings import Settings


def cpu_seconds(settings: Settings, pattern: str) -> dict[str, float]:
    """Seconds of processor time so far, by engine, of this stack's processes; those of one that died count as none.

    A process that the jobs of several patterns share counts whole: the figure is the pattern's own while it runs alone.
    """
    return {engine: sum(map(_used, records)) for engine, records in _processes(settings, pattern).items()}


def memory_mb(settings: Settings, pattern: str) -> dict[str, int]:
    """The memory of the same processes now, by engine."""
    return {
        engine: sum(map(processes.memory_bytes, records)) >> 20
        for engine, records in _processes(settings, pattern).items()
    }


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What was used in between; an engine that was started again in between counts from its start."""
    return {
        engine: round(used - before.get(engine, 0.0) if used >= before.get(engine, 0.0) else used, 2)
        for engine, used in after.items()
    }


def _processes(settings: Settings, pattern: str) -> dict[str, list[processes.ProcessRecord]]:
    found = processes.records(settings.run)
    owned = {
        engine.name: [found[name] for name in _names(engine, pattern) if name in found]
        for engine in registry.manifests()
    }
    return {engine: records for engine, records in owned.items() if records}


def _names(engine: registry.Manifest, pattern: str) -> list[str]:
    return [engine.process_of(pattern, number) for number in range(1, registry.INSTANCES_MOST + 1)]


def _used(record: processes.ProcessRecord) -> float:
    total = 0.0
    for member in processes.family(record):
        with suppress(psutil.Error):
            times = member.cpu_times()
            total += times.user + times.system
    return total
