"""millrace restart: stop and start some servers."""

from millrace import stack
from millrace.cli.printing import Json, ServerNames, print_json, report, settings


def restart(names: ServerNames, json: Json = False) -> None:
    """Stop servers and start them again, with the current configuration.

    Examples:
    millrace restart kafka
    millrace restart flink-taskmanager
    """
    chosen = settings()
    stack.restart(chosen, names, report)
    if json:
        print_json("restart", servers=stack.status(chosen))
