"""millrace provision: make the topics, contracts, folders and tables of a pattern."""

from millrace.cli.changes import PatternName, PlanOnly, end_plan, print_changes
from millrace.cli.printing import Json, settings


def provision(pattern: PatternName, plan: PlanOnly = False, json: Json = False) -> None:
    """Make the topics, their contracts, the folders and the tables of a pattern; what is there already stays.

    A change that readers of a topic would not survive is refused, with the field and the remedy.

    Examples:  millrace provision flink-spark --plan  |  millrace provision flink-spark
    """
    from millrace.target import Target
    from millrace.verbs import provision as provisioning

    changes = provisioning.provision(Target.read(settings()), pattern, plan=plan)
    print_changes("provision", pattern, changes, plan=plan, json=json)
    end_plan(changes, plan=plan)
