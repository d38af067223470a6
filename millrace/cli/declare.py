"""millrace declare: the generated files of a project."""

from millrace.cli.changes import PlanOnly, end_plan
from millrace.cli.printing import Json, print_json, print_rows, settings


def declare(plan: PlanOnly = False, json: Json = False) -> None:
    """Write the contracts of each use, and pipelines/declared.json, the input of Terraform.

    A contract is the JSON Schema of a topic. The input of Terraform has the topics, tables and jobs of all patterns,
    and the services and ports of the stack. Run this after a change of a pattern file, of a use's events, rules or
    tables, or of the version of millrace, and commit the files. A contract that breaks readers or old messages is
    listed with the reason; `provision` refuses it for a topic that exists.

    Examples:
    millrace declare --plan
    millrace declare
    """
    from millrace.verbs.contracts import contracts
    from millrace.verbs.declare import declare as write

    # First what refuses a project without patterns.
    of_terraform = write(settings(), plan=plan)
    changes = [*contracts(plan=plan), of_terraform]
    if json:
        print_json("declare", plan=plan, changes=changes)
    else:
        print_rows((each.action, each.kind, each.name, each.detail) for each in changes)
    end_plan(changes, plan=plan)
