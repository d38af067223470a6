"""`teardown` stops a pattern's jobs and keeps their state; it removes data only on request."""

from __future__ import annotations

from millrace import deployments
from millrace.deployments import alone, deployed, job_name
from millrace.patterns import backfills, load
from millrace.patterns import topics as topics_of
from millrace.patterns.plan import table_of, tables
from millrace.rules.layout import FORGOTTEN
from millrace.stores import topics
from millrace.stores.changes import Change
from millrace.target import ROOT, Target
from millrace.verbs import traffic
from millrace.verbs.rehearsal import discard_left


def teardown(target: Target, name: str, *, data: bool = False, plan: bool = False, for_run: str = "") -> list[Change]:
    """Stop the pattern's jobs and keep their state; with `data` remove everything that the pattern wrote.

    With `for_run` a pattern that was not deployed for that run stays as it is.
    """
    variant = load(name)
    with alone(target, name):
        if for_run and deployments.is_wanted(target, name) and deployments.owner(target, name) != for_run:
            detail = "not deployed by this run: it keeps running"
            return [Change("job", job_name(each), "keep", detail) for each in deployed(target, name).values()]
        changes = []
        if not plan:
            deployments.unwant(target, name)  # first: the watcher restarts none of the jobs from here on
            discard_left(target, name)
        for deployed_plan in reversed(list(deployed(target, name).values())):
            engine = target.engine(deployed_plan.engine)
            is_up = engine.job(deployed_plan).is_up
            if is_up and not plan:
                engine.stop(deployed_plan)
            changes.append(Change("job", job_name(deployed_plan), "stop" if is_up else "keep"))
        if data:
            jobs = deployed(target, name)
            owned = [topic for engine, job in jobs.items() for topic in target.engine(engine).owned(job)]
            changes += topics.remove(target.bootstrap, [*topics_of(variant).values(), *owned], plan=plan)
            changes += target.hbase.remove(list(tables(variant)), plan=plan)
            marks = target.hbase.remove([table_of(name, FORGOTTEN)], plan=plan)
            changes += [change for change in marks if change.action != "keep"]  # few patterns have this table
            changes.append(target.hdfs.remove(target.folder(variant), plan=plan))
            changes.append(target.hdfs.remove(f"{ROOT}/checkpoints/{name}", plan=plan))
            if not plan:
                topics.keep_contracts(target.bootstrap, dict.fromkeys(topics_of(variant).values()))
                traffic.forget(target.settings, name)
                deployments.forget(target, name)
                backfills.forget(name)
        return changes
