"""millrace jobs: the states of a pattern's jobs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from millrace.cli.changes import RunName
from millrace.cli.printing import Json, plain_table, print_json, print_pages, print_rows, result_console, settings

if TYPE_CHECKING:
    from millrace.job import Job
    from millrace.patterns import EnginePlan

COLUMNS = ("job", "state", "checkpoints", "restarts", "web page", "problem")


def jobs(pattern: RunName, json: Json = False) -> None:
    """Show the jobs of a pattern: state, completed checkpoints, restarts, web page, problem.

    Exit code 1 if a job is sick, or does not run though its pattern is deployed. The sick states are degraded (a store
    is unreachable, the job retries), crash-looping (the job fails repeatedly, with or without checkpoints in between;
    its engine restarts it without limit), stalled (no progress), failed, and given-up (the watcher no longer restarts
    it).

    Examples:
    millrace jobs flink-spark
    millrace jobs flink-spark --json
    """
    from millrace import deployments
    from millrace.target import Target

    target = Target.read(settings())
    found = deployments.jobs(target, pattern)
    if json:
        print_json("jobs", pattern=pattern, jobs=described(found))
    else:
        _print_table(pattern, found)
    if any(job.is_sick or deployments.is_down(target, pattern, plan, job) for plan, job in found.values()):
        raise typer.Exit(1)


def _print_table(pattern: str, found: "Mapping[str, tuple[EnginePlan, Job]]") -> None:
    from millrace import deployments

    rows = [
        (deployments.job_name(plan), job.state, str(job.checkpoints), str(job.restarts), job.web, job.problem)
        for plan, job in found.values()
    ]
    console = result_console()
    if not console.is_terminal:
        print_rows([COLUMNS, *rows])
        return
    if not rows:
        console.print(f"{pattern} was never deployed; run `millrace deploy {pattern}`", style="dim")
        return
    table = plain_table("job", "state", "checkpoints", "restarts", "problem")
    for (name, *row, _, problem), (_, job) in zip(rows, found.values(), strict=True):
        table.add_row(name, *row, problem, style="red" if job.is_sick else "" if job.state == "running" else "yellow")
    console.print(table)
    print_pages({name: web for name, *_, web, _ in rows})


def described(found: "Mapping[str, tuple[EnginePlan, Job]]") -> dict[str, Any]:
    """Jobs for programs, by engine."""
    return {
        engine: {"generation": plan.generation, "id": plan.job_id, "job": job} for engine, (plan, job) in found.items()
    }
