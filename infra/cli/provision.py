"""millrace provision: make the topics, contracts, folders and tables of a pattern."""

from infra import lifecycle
from infra.cli.changes import PatternName, PlanOnly, print_changes
from infra.cli.print import Json, settings
from infra.target import Target


def provision(pattern: PatternName, plan: PlanOnly = False, json: Json = False) -> None:
    """Make the topics, their contracts, the folders and the tables of a pattern; what is there already stays.

    A change that readers of a topic would not survive is refused, with the field and the remedy.

    Examples:  millrace provision flink-spark --plan  |  millrace provision flink-spark
    """
    changes = lifecycle.provision(Target.read(settings()), pattern, plan=plan)
    print_changes("provision", pattern, changes, plan=plan, json=json)
