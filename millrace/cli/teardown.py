"""millrace teardown: stop the jobs of a pattern."""

from typing import Annotated

import typer

from millrace.cli.changes import ForRun, PlanOnly, RunName, end_plan, print_changes
from millrace.cli.consent import Yes, require_consent
from millrace.cli.printing import Json, progress, settings


def teardown(
    pattern: RunName,
    plan: PlanOnly = False,
    data: Annotated[
        bool,
        typer.Option(
            "--data", help="Also remove the topics, people's marks among them, tables, files, checkpoints, contracts."
        ),
    ] = False,
    for_run: ForRun = "",
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Stop the jobs of a pattern, and keep its data.

    Each job stops with its state, from which the next `deploy` continues.

    Examples:
    millrace teardown flink-spark
    millrace teardown flink-spark --data --plan
    """
    from millrace.stores.changes import pending
    from millrace.target import Target
    from millrace.verbs import teardown as tearing_down

    target = Target.read(settings())

    def removed() -> list[str]:
        planned = pending(tearing_down.teardown(target, pattern, data=True, plan=True, for_run=for_run))
        return [f"{change.kind} {change.name}" for change in planned if change.action == "remove"]

    if data and not plan:
        require_consent(f"teardown {pattern} --data", removed, yes=yes, json=json)
    changes = tearing_down.teardown(target, pattern, data=data, plan=plan, for_run=for_run, report=progress)
    print_changes("teardown", pattern, changes, plan=plan, json=json)
    end_plan(changes, plan=plan)
