"""`teardown` stops a pattern's jobs and keeps their state; it removes data only on request."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from itertools import chain

from millrace import deployments
from millrace.deployments import alone, deployed, job_name
from millrace.errors import InfraError
from millrace.job import Engine
from millrace.patterns import EnginePlan, Variant, backfills, load
from millrace.patterns.plan import state_topics, table_of, tables
from millrace.rules.tables import FORGOTTEN
from millrace.stores import topics
from millrace.stores.changes import Change, pending
from millrace.target import ROOT, Target
from millrace.verbs import canaries, companions, ledger, lineage, traffic
from millrace.verbs.provision import wanted_topics
from millrace.verbs.rehearsal import discard_left


def teardown(
    target: Target,
    name: str,
    *,
    data: bool = False,
    plan: bool = False,
    for_run: str = "",
    report: Callable[[str], None] = lambda line: None,
) -> list[Change]:
    """Stop the pattern's jobs and keep their state; with `data` remove everything that the pattern wrote.

    With `for_run` a pattern that was not deployed for that run stays as it is.
    """
    variant = load(name)
    with alone(target, name):
        if for_run and deployments.is_wanted(target, name) and deployments.owner(target, name) != for_run:
            detail = "not deployed by this run: it keeps running"
            return [Change("job", job_name(each), "keep", detail) for each in deployed(target, name).values()]
        changes: list[Change] = []
        ended = []
        if not plan:
            deployments.unwant(target, name)  # first: the watcher restarts none of the jobs from here on
            for companion in deployments.COMPANIONS:
                companions.stop(target, name, companion)
            # What a person started runs until that person ends it.
            for verb, process in companions.others(target, name).items():
                changes.append(
                    Change("process", verb, "keep", f"not started by `deploy`: process {process} still runs")
                )
            canaries.stopped(target.settings, name)
            discard_left(target, name)
        for deployed_plan in reversed(list(deployed(target, name).values())):
            engine = target.engine(deployed_plan.engine)
            # One that has failed may still hold what it ran on.
            is_up = engine.job(deployed_plan).is_up or _is_there(engine, deployed_plan)
            if is_up and not plan:
                engine.stop(deployed_plan)
                ended.append(deployed_plan)
            changes.append(Change("job", job_name(deployed_plan), "stop" if is_up else "keep"))
        lineage.jobs(target, variant, report, ended=ended)
        if data:
            jobs = deployed(target, name).values()
            written = [*(each.name for each in wanted_topics(variant)), *chain(*map(state_topics, jobs))]
            changes += topics.remove(target.bootstrap, list(dict.fromkeys(written)), plan=plan)
            changes += _remove_tables(target, variant, jobs, plan=plan)
            folder = target.hdfs.remove(target.folder(variant), plan=plan)
            changes += [folder] if "hdfs" in variant.stores else pending([folder])
            changes.append(target.hdfs.remove(f"{ROOT}/checkpoints/{name}", plan=plan))
            changes += _remove_local_state(target, jobs, plan=plan)
            if not plan:
                topics.keep_contracts(target.bootstrap, dict.fromkeys(written))
                ledger.forget(target, variant)
                canaries.forget(target.settings, name)
                traffic.forget(target.settings, name)
                deployments.forget(target, name)
                backfills.forget(name)
        return changes


def _is_there(engine: Engine, plan: EnginePlan) -> bool:
    return plan.job_id in {each.job_id for each in engine.running()}


def _remove_local_state(target: Target, jobs: Iterable[EnginePlan], *, plan: bool) -> list[Change]:
    """Remove what ended jobs have left on this machine."""
    folders = [target.engine(job.engine).local_state(job) for job in jobs]
    there = [folder for folder in folders if folder is not None and folder.exists()]
    for folder in () if plan else there:
        shutil.rmtree(folder)
    return [Change("folder", str(folder), "remove") for folder in there]


def _remove_tables(target: Target, variant: Variant, jobs: Iterable[EnginePlan], *, plan: bool) -> list[Change]:
    """Remove the tables of the use. A pattern that writes none may have an earlier one's, if HBase runs at all."""
    if not variant.use.tables:
        return []
    try:
        changes = target.hbase.remove(list(tables(variant)), plan=plan)
        marks = target.hbase.remove([table_of(variant.name, FORGOTTEN)], plan=plan)
    except InfraError as error:
        if "hbase" in variant.stores or any(job.tables for job in jobs):
            raise
        return [Change("table", name, "keep", f"not looked for: {error}") for name in tables(variant)]
    return changes + pending(marks)  # few patterns have this table
