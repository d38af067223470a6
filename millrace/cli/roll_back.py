"""millrace roll-back: undo the last upgrade."""

from millrace.cli.changes import PatternName, print_changes
from millrace.cli.printing import Json, progress, settings


def roll_back(pattern: PatternName, json: Json = False) -> None:
    """Undo the last upgrade: the jobs continue from their state before it.

    The jobs read the messages since the upgrade again, and write their alerts again under the same ids. Readers must
    ignore these duplicates.

    Examples:
    millrace roll-back flink-spark
    """
    from millrace.target import Target
    from millrace.verbs import upgrade as upgrading

    changes = upgrading.roll_back(Target.read(settings()), pattern, report=progress)
    print_changes("roll-back", pattern, changes, plan=False, json=json)
