"""The trial before an upgrade: the next generation of a job restores a copy of the running one's state."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

from millrace.deployments import deployed_file, job_name, write_json
from millrace.job import EngineError
from millrace.patterns import EnginePlan
from millrace.rules.outputs import REHEARSAL
from millrace.stores import topics
from millrace.stores.topics import Topic
from millrace.target import ROOT, Target


def rehearse(target: Target, running: EnginePlan, wanted: EnginePlan) -> None:
    """Let the next generation restore a copy of the running job's state; its outputs go to a scratch topic."""
    scratch = _scratch(running.pattern)
    written = {kind: scratch.name for kind in running.topics if kind not in _read_kinds(wanted)}
    rehearsal = replace(
        wanted,
        # Under its own name, too: its offsets must not count as the pattern's.
        pattern=f"{running.pattern}-rehearsal",
        generation=int(time.time()),  # an engine accepts each job id only once
        topics={**wanted.topics, **written},
        # Apart from the real ones: a checkpoint of a killed rehearsal must never count as the newest state.
        checkpoints=f"{target.hdfs_uri}{_folder(running.pattern)}/{running.engine}",
    )
    # Recorded before it starts: if this process is killed, the next verb ends the trial.
    write_json(_file(target, running.pattern), json.loads(rehearsal.to_json()))
    topics.ensure(target.bootstrap, [scratch])
    try:
        target.engine(running.engine).rehearse(running, rehearsal)
    except EngineError as error:
        raise EngineError(f"{running.pattern}: upgrade refused, {job_name(running)} keeps running: {error}") from None
    finally:
        topics.remove(target.bootstrap, [scratch.name])
        _file(target, running.pattern).unlink(missing_ok=True)


def discard_left(target: Target, name: str) -> None:
    """End the trial of an upgrade whose process was killed, and remove what it wrote; the caller holds the lock."""
    file = _file(target, name)
    if not file.exists():
        return
    left = EnginePlan.from_json(file.read_text(encoding="utf-8"))
    target.engine(left.engine).discard(left)
    target.hdfs.remove(_folder(name))
    topics.remove(target.bootstrap, [_scratch(name).name])
    file.unlink(missing_ok=True)


def _read_kinds(plan: EnginePlan) -> set[str]:
    use = plan.use
    events = {each.name for each in (*use.raw, *use.references)} if plan.judges_events else set()
    return events | (set() if plan.judges_events else {use.enriched.name})


def _scratch(name: str) -> Topic:
    return Topic(f"{name}.{REHEARSAL}", 1, {"retention.ms": "60000"})


def _folder(name: str) -> str:
    return f"{ROOT}/rehearsals/{name}"


def _file(target: Target, name: str) -> Path:
    return deployed_file(target, name).with_suffix(".rehearsal")
