"""millrace provision: create the topics, contracts, folders and tables of a pattern."""

from millrace.cli.changes import PatternName, PlanOnly, end_plan, print_changes
from millrace.cli.printing import Json, settings


def provision(pattern: PatternName, plan: PlanOnly = False, json: Json = False) -> None:
    """Create what the jobs of a pattern need: topics, contracts, folders and tables.

    A contract is the JSON schema of a topic's messages. What exists is changed where it differs from the pattern. A
    change that would break readers of a topic is refused; the error names the field and the remedy.

    Examples:
    millrace provision flink-spark --plan
    millrace provision flink-spark
    """
    from millrace.target import Target
    from millrace.verbs import provision as provisioning

    changes = provisioning.provision(Target.read(settings()), pattern, plan=plan)
    print_changes("provision", pattern, changes, plan=plan, json=json)
    end_plan(changes, plan=plan)
