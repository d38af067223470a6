"""millrace declare: the input of Terraform."""

from millrace.cli.changes import PlanOnly, end_plan
from millrace.cli.printing import Json, print_json, print_rows, settings


def declare(plan: PlanOnly = False, json: Json = False) -> None:
    """Write pipelines/declared.json, the input of Terraform.

    The file has the topics, tables and jobs of all patterns, and the services and ports of the stack. Run it after a
    change of a pattern file, of a use's events or tables, or of the version of millrace.

    Examples:
    millrace declare --plan
    millrace declare
    """
    from millrace.verbs.declare import declare as write

    change = write(settings(), plan=plan)
    if json:
        print_json("declare", plan=plan, changes=[change])
    else:
        print_rows([(change.action, change.kind, change.name, change.detail)])
    end_plan([change], plan=plan)
