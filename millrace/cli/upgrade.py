"""millrace upgrade: the next generation of a pattern's jobs, from the state of the one that runs."""

import uuid
from typing import Annotated

import typer

from millrace.cli.changes import PatternName, print_changes
from millrace.cli.printing import Json, print_json, progress_console, settings


def upgrade(
    pattern: PatternName,
    upgrade_id: Annotated[
        str, typer.Option("--id", help="Any name for this upgrade; said again with it, an interrupted one goes on.")
    ] = "",
    json: Json = False,
) -> None:
    """Bring the running jobs of a pattern to their next generation, each from its state, and wait until healthy.

    The state is tried out first, in a job that writes nowhere: what cannot be restored is refused while the old job
    runs. `millrace validate` then says whether all is well, and `millrace roll-back` takes the upgrade back.

    Examples:  millrace upgrade flink-spark
    """
    from millrace.patterns import load
    from millrace.target import Target
    from millrace.verbs import upgrade as upgrading

    console = progress_console()
    done = upgrading.upgrade(
        Target.read(settings()),
        load(pattern),
        upgrade_id or uuid.uuid4().hex,
        report=lambda line: console.print(line, markup=False),
    )
    if json:
        print_json("upgrade", pattern=pattern, changes=done.changes, gap_ms=done.gap_ms)
        return
    print_changes("upgrade", pattern, done.changes, plan=False, json=False)
    console.print(f"nothing came out for at most {done.gap_ms} ms while messages came in")
