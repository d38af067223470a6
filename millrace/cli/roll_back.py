"""millrace roll-back: put back what ran before the last upgrade."""

from millrace.cli.changes import PatternName, print_changes
from millrace.cli.printing import Json, progress_console, settings


def roll_back(pattern: PatternName, json: Json = False) -> None:
    """Put the jobs from before the last upgrade of a pattern back, from the state that they left.

    What the upgraded jobs wrote since is written again under the same ids: one kept for each id is there once.

    Examples:  millrace roll-back flink-spark
    """
    from millrace.target import Target
    from millrace.verbs import upgrade as upgrading

    console = progress_console()
    changes = upgrading.roll_back(
        Target.read(settings()), pattern, report=lambda line: console.print(line, markup=False)
    )
    print_changes("roll-back", pattern, changes, plan=False, json=json)
