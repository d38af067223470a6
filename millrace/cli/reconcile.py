"""millrace reconcile: restart dead jobs, list extra ones."""

import typer

from millrace.cli.changes import PlanOnly, end_plan, print_changes
from millrace.cli.printing import Json, print_json, progress, progress_console, settings


def reconcile(plan: PlanOnly = False, json: Json = False) -> None:
    """Restart the dead jobs of all deployed patterns, and list jobs that were never deployed.

    A dead job continues from its newest savepoint or checkpoint. A pattern that was torn down stays down. Extra jobs
    are listed, not stopped. Exit code 1 if a job is sick, with --plan, too; `millrace jobs --help` lists the sick
    states.

    Examples:
    millrace reconcile --plan
    millrace reconcile
    """
    from millrace import deployments
    from millrace.target import Target
    from millrace.verbs import reconcile as reconciling

    target = Target.read(settings())
    changes, extra = reconciling.reconcile(target, plan=plan, report=progress)
    sick = deployments.sick(target)
    if json:
        print_json("reconcile", plan=plan, changes=changes, extra=extra, sick=sick)
    else:
        print_changes("reconcile", "all that was deployed", changes, plan=plan, json=False)
        console = progress_console()
        for running in extra:
            console.print(f"extra: {running.name}, id {running.job_id}, {running.where}", style="red", markup=False)
        for name, job in sick.items():
            console.print(f"{job.state}: {name}: {job.problem}", style="red", markup=False)
    if sick:
        raise typer.Exit(1)
    end_plan(changes, plan=plan)
