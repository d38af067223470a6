"""Run by Airflow's own interpreter: describes DAG folders, for tests in an environment without Airflow.

Each line of standard input names a folder, a working directory and environment variables; the answer is a line of
JSON. Airflow is imported once, which takes two seconds; each folder is read in a process forked from there.
"""

import json
import os
import sys
import time
import traceback
from copy import copy
from types import SimpleNamespace


def main() -> None:
    import airflow.dag_processing.dagbag  # noqa: F401 - for all forks

    assert "millrace" not in sys.modules, "each project imports its own"
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            try:
                print("\n" + json.dumps(in_project(**json.loads(line)), default=str), flush=True)
            except BaseException:
                print("\n" + json.dumps({"failed": traceback.format_exc()}), flush=True)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)


def in_project(dags: str, place: str, environment: dict[str, str]) -> dict[str, object]:
    os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
    return describe(dags)


def describe(dags: str) -> dict[str, object]:
    from airflow.dag_processing.dagbag import DagBag

    began = time.process_time()
    bag = DagBag(dags)
    seconds = time.process_time() - began
    from airflow import plugins_manager

    import millrace.airflow.plugin

    plugin_brings = sorted(name for name in sys.modules if name.startswith("millrace.airflow."))
    import millrace.airflow.triggers
    from millrace.airflow import page, reports
    from millrace.airflow.command import millrace
    from millrace.airflow.form import too_much

    reports.find = lambda dag_id, run: f"<p>{dag_id} {run}</p>"
    shown = page.report(PROVE, TOKEN, None)
    forms = [(5_000_000, 10), (60_000, 100), (54_000, 100), (0, 10), (20_000, 500)]
    return {
        "seconds": seconds,
        "plugin_brings": plugin_brings,
        "passed": dict(millrace(None).environment),
        "too_much": {f"{events} at {rate}": too_much({"events": events, "rate_per_s": rate}) for events, rate in forms},
        "accepting": {
            dag_id: rendered(dag.get_task("deploy"), accept_loss=True)
            for dag_id, dag in bag.dags.items()
            if dag_id.startswith("deploy-")
        },
        "ended": {case: ended(bag.dags["upgrade"], outcomes) for case, outcomes in ENDS.items()},
        "undone": {case: undone(bag.dags["upgrade"], answer) for case, answer in VERDICTS.items()},
        "import_errors": bag.import_errors,
        "plugin_errors": plugins_manager.get_import_errors(),
        "report": {"policy": shown.headers["content-security-policy"], "body": shown.body.decode()},
        "modules": sorted({name.partition(".")[0] for name in sys.modules}),
        "dags": {dag_id: described(dag) for dag_id, dag in bag.dags.items()},
    }


REDECLARED = "could not be read: messages from before 09:00, which the pattern judged by other limits"
CHECKS = {"refusals": ("ok", ""), "conservation": ("ok", ""), "alerts: burst": ("unknown", REDECLARED)}


def verdict(status: str, **checks: tuple[str, str]) -> dict[str, object]:
    return {
        "verdict": status,
        "pattern": "flink",
        "checks": [{"name": name, "status": each, "why": why} for name, (each, why) in (CHECKS | checks).items()],
    }


VERDICTS = {
    "ok": verdict("ok"),
    "unknown": verdict("unknown"),
    "failed": verdict("failed", conservation=("failed", "")),
    "none": None,
}
"""What `validate` answers after an upgrade."""

ENDS = {
    "all succeed": {},
    "the verdict is not ok": {"validate": "failed"},
    "the upgrade fails": {"upgrade": "failed"},
    "the roll-back fails": {"roll_back": "failed"},
    # A rejection skips all that follows but the teardowns.
    "a person rejects it": dict.fromkeys(("approved", "upgrade", "validate", "proven"), "skipped"),
}
"""How the tasks of an upgrade end that run; the others succeed."""

PROVE, TOKEN = "prove-flink", f"{'4' * 8}.{'5' * 32}"


def undone(dag, answer: dict[str, object] | None) -> str:
    """What the task does that undoes an upgrade, after this verdict: the words of its verb, or why it is skipped."""
    from airflow.sdk.exceptions import AirflowSkipException

    from millrace.airflow.operators import small

    task, called = copy(dag.get_task("roll_back")), []
    task.call = lambda words: called.append(words[0]) or {}
    found = small(answer) if answer else None
    # Templates, too, read the verdict of `validate`.
    ti = SimpleNamespace(xcom_pull=lambda *_, **__: found, xcom_push=lambda *_: None)
    task.when = task.render_template(task.when, {"ti": ti}, dag.get_template_env())
    try:
        task.execute({"ti": ti})
    except AirflowSkipException as skipped:
        return str(skipped)
    return called[0]


class Instance:
    """A task of a run, without a database."""

    map_index, run_id = -1, "a run"

    def __init__(self, task, state: str | None = None) -> None:
        self.task, self.task_id, self.dag_id, self.state = task, task.task_id, task.dag_id, state

    def set_state(self, state: str, session: object) -> bool:
        self.state = state
        return True

    def get_dagrun(self, session: object) -> None:
        return None

    def get_relevant_upstream_map_indexes(self, **_: object) -> None:
        return None


def ended(dag, outcomes: dict[str, str]) -> dict[str, str]:
    """How each task of a run ends, by Airflow's own rules, and the run."""
    from airflow.models.dagrun import DagRun
    from airflow.ti_deps.dep_context import DepContext
    from airflow.ti_deps.deps.trigger_rule_dep import TriggerRuleDep
    from airflow.utils.state import State

    tasks = [
        Instance(task, state if (state := outcomes.get(task.task_id)) == "skipped" else None) for task in dag.tasks
    ]
    while waiting := [each for each in tasks if each.state is None]:
        for each in waiting:
            done = DepContext(flag_upstream_failed=True, finished_tis=[other for other in tasks if other.state])
            found = [*TriggerRuleDep()._get_dep_statuses(each, done, session=None)]
            if each.state is None and all(status.passed for status in found):
                each.state = outcomes.get(each.task_id, "success")
        assert len(waiting) > sum(each.state is None for each in tasks), "none of them can ever run"
    decisive = DagRun._tis_for_dagrun_state(None, dag=dag, tis=tasks)
    run = "failed" if any(each.state in State.failed_states for each in decisive) else "success"
    return {"run": run, **{each.task_id: str(getattr(each.state, "value", each.state)) for each in tasks}}


def described(dag) -> dict[str, object]:
    return {
        "doc": dag.doc_md or "",
        "description": dag.description or "",
        "tags": sorted(dag.tags),
        "max_active_runs": dag.max_active_runs,
        "catchup": dag.catchup,
        "schedule": type(dag.timetable).__name__,
        "late_after_s": max((each.interval.total_seconds() for each in dag.deadline), default=None),
        "params": {
            name: {"default": param.value, "description": param.description, **param.schema}
            for name, param in ((name, dag.params.get_param(name)) for name in dag.params)
        },
        "tasks": {task.task_id: task_described(task) for task in dag.tasks},
    }


def task_described(task) -> dict[str, object]:
    return {
        "type": task.task_type,
        "owner": task.owner,
        "retries": task.retries,
        "timeout_s": task.execution_timeout.total_seconds() if task.execution_timeout else None,
        "downstream": sorted(task.downstream_task_ids),
        "trigger_rule": str(getattr(task.trigger_rule, "value", task.trigger_rule)),
        "is_setup": task.is_setup,
        "is_teardown": task.is_teardown,
        "words": list(words) if isinstance(words := getattr(task, "words", None), (list, tuple)) else None,
        "rendered": rendered(task),
        "links": sorted(link.name for link in task.operator_extra_links),
        "params": sorted(task.params),
        "outlets": [outlet.name for outlet in task.outlets],
    }


def rendered(task, **params: object) -> list[str] | None:
    """The words of a task as the default form fills them in, but for these fields."""
    from millrace.airflow.operators import filled

    if not isinstance(words := getattr(task, "words", None), (list, tuple)):
        return None
    ti = SimpleNamespace(try_number=1, xcom_pull=lambda *_, **__: None)
    context = {"params": task.dag.params.dump() | params, "run_id": "manual__2026-01-01", "ti": ti}
    return filled(task.render_template(list(words), context, task.dag.get_template_env()))


if __name__ == "__main__":
    main()
