"""millrace roll-back: undo the last upgrade."""

from typing import Annotated

import typer

from millrace.cli.changes import PatternName, print_changes
from millrace.cli.printing import Json, progress, settings


def roll_back(
    pattern: PatternName,
    upgrade_id: Annotated[
        str,
        typer.Option(
            "--id",
            metavar="ID",
            help="Undo only the upgrade with this id; if the last one has another id, nothing changes. Default: the "
            "last upgrade, whatever its id.",
        ),
    ] = "",
    json: Json = False,
) -> None:
    """Undo the last upgrade: the jobs continue from their state before it.

    The jobs read the messages since the upgrade again, and write their alerts again under the same ids. Readers must
    ignore these duplicates.

    Examples:
    millrace roll-back flink-spark
    millrace roll-back flink-spark --id v2
    """
    from millrace.target import Target
    from millrace.verbs import upgrade as upgrading

    changes = upgrading.roll_back(Target.read(settings()), pattern, upgrade_id, report=progress)
    print_changes("roll-back", pattern, changes, plan=False, json=json)
