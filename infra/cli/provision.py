"""millrace provision: make the topics, contracts, folders and tables of a pattern."""

from infra.cli.changes import PatternName, PlanOnly, end_plan, print_changes
from infra.cli.printing import Json, settings


def provision(pattern: PatternName, plan: PlanOnly = False, json: Json = False) -> None:
    """Make the topics, their contracts, the folders and the tables of a pattern; what is there already stays.

    A change that readers of a topic would not survive is refused, with the field and the remedy.

    Examples:  millrace provision flink-spark --plan  |  millrace provision flink-spark
    """
    from infra import lifecycle
    from infra.target import Target

    changes = lifecycle.provision(Target.read(settings()), pattern, plan=plan)
    print_changes("provision", pattern, changes, plan=plan, json=json)
    end_plan(changes, plan=plan)
