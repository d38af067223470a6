"""millrace teardown: stop the jobs of a pattern."""

from typing import Annotated

import typer

from infra.cli.changes import PatternName, PlanOnly, print_changes
from infra.cli.printing import Json, settings


def teardown(
    pattern: PatternName,
    plan: PlanOnly = False,
    data: Annotated[
        bool, typer.Option("--data", help="Also remove its topics, tables, files, checkpoints and contracts.")
    ] = False,
    json: Json = False,
) -> None:
    """Stop the jobs of a pattern, each with its state, so that `deploy` goes on where they stopped.

    Examples:  millrace teardown flink-spark  |  millrace teardown flink-spark --data --plan
    """
    from infra import lifecycle
    from infra.target import Target

    changes = lifecycle.teardown(Target.read(settings()), pattern, data=data, plan=plan)
    print_changes("teardown", pattern, changes, plan=plan, json=json)
