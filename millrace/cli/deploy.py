"""millrace deploy: bring the jobs of a pattern to run."""

from typing import Annotated

import typer

from millrace.cli.changes import ForRun, PatternName, PlanOnly, end_plan, print_changes
from millrace.cli.printing import Json, progress_console, settings


def deploy(
    pattern: PatternName,
    plan: PlanOnly = False,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Nothing of the pattern may run; Flink then begins anew, without its state."),
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Return when the engines have taken the jobs; `await` waits for the rest.")
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Continue behind messages that were deleted before a job read them. What was lost is recorded, and no "
            "verdict is ok until the data is removed.",
        ),
    ] = False,
    for_run: ForRun = "",
    json: Json = False,
) -> None:
    """Bring the jobs of a pattern to run, and wait until each has completed its first checkpoint.

    A job that runs as the pattern says is adopted. One that runs otherwise is stopped with its state, which the next
    generation takes up. One that is missing goes on from its newest savepoint or checkpoint.

    Examples:  millrace deploy flink-spark --plan  |  millrace deploy flink-spark
    """
    from millrace.target import Target
    from millrace.verbs import deploy as deploying

    console = progress_console()
    changes = deploying.deploy(
        Target.read(settings()),
        pattern,
        plan=plan,
        fresh=fresh,
        wait=not no_wait,
        accept_loss=accept_loss,
        for_run=for_run,
        report=lambda line: console.print(line, markup=False),
    )
    print_changes("deploy", pattern, changes, plan=plan, json=json)
    end_plan(changes, plan=plan)
