"""Compaction: a batch of the engine that wrote an hour's many small files makes them one."""

from __future__ import annotations

import fcntl
import subprocess

from millrace import registry
from millrace.deployments import deployed_file
from millrace.errors import InfraError
from millrace.machine import environments, processes
from millrace.patterns import load
from millrace.target import Target

COMPACT_WITHIN_S = 3000


def compact(target: Target, name: str) -> list[str]:
    """Rewrite each hour of many files as one; one sentence for each. A compaction that was killed is finished first."""
    variant = load(name)
    persist = variant.pattern.stages.persist
    if not persist or "hdfs" not in persist.to:
        raise InfraError(f"{name} stores no files: nothing to compact")
    engine = registry.manifest(persist.engine)
    if not engine.compacts:
        raise InfraError(f"{name}: {engine.title} stores its files and cannot compact them")
    next(target.hdfs.files(target.folder(variant)), None)  # fails fast, with one line, when HDFS does not answer
    log = target.settings.state / "logs" / f"compact-{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with deployed_file(target, name).with_suffix(".compacting").open("w") as lock, log.open("w") as output:
        try:
            # The batch holds it too: if we are killed, it continues alone, and no second one begins beside it.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InfraError(f"{name} is being compacted already; see {log}") from None
        done = subprocess.run(
            [
                *(str(environments.python(target.settings, engine.name)), "-m", f"{engine.package}.compaction"),
                *(target.hdfs_uri + target.folder(variant), "--use", variant.pattern.use),
            ],
            cwd=log.parent,
            env=processes.environment(environments.variables_of_python(target.settings)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            timeout=COMPACT_WITHIN_S,
            pass_fds=(lock.fileno(),),
        )
    if done.returncode:
        tail = "\n".join(processes.tail(log, 8))
        raise InfraError(f"{name} was not compacted; the end of {log}:\n{tail}")
    return [line for line in done.stdout.splitlines() if "files became one" in line]
