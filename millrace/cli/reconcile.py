"""millrace reconcile: declared against running."""

import typer

from millrace.cli.changes import PlanOnly, end_plan, print_changes
from millrace.cli.printing import Json, print_json, progress_console, settings


def reconcile(plan: PlanOnly = False, json: Json = False) -> None:
    """Start again the jobs that were deployed and are gone, and name those that run though nobody asked for them.

    A job that died goes on from its newest savepoint or checkpoint. What was torn down stays down. Nothing is stopped:
    what is extra is shown, and a person decides. Exit code 1 if a job is sick; `millrace jobs`
    explains the states.

    Examples:  millrace reconcile  |  millrace reconcile --plan
    """
    from millrace import deployments
    from millrace.target import Target
    from millrace.verbs import reconcile as reconciling

    console, target = progress_console(), Target.read(settings())
    changes, extra = reconciling.reconcile(target, plan=plan, report=lambda line: console.print(line, markup=False))
    sick = deployments.sick(target)
    if json:
        print_json("reconcile", plan=plan, changes=changes, extra=extra, sick=sick)
    else:
        print_changes("reconcile", "all that was deployed", changes, plan=plan, json=False)
        for running in extra:
            console.print(f"extra: {running.name}, id {running.job_id}, {running.where}", style="red", markup=False)
        for name, job in sick.items():
            console.print(f"{job.state}: {name}: {job.problem}", style="red", markup=False)
    end_plan(changes, plan=plan)
    if sick:
        raise typer.Exit(1)
