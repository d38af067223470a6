"""millrace upgrade: replace the jobs of a pattern by their next generation."""

import uuid
from typing import Annotated

import typer

from millrace.cli.changes import PatternName, print_changes
from millrace.cli.printing import Json, print_json, progress_console, settings


def upgrade(
    pattern: PatternName,
    upgrade_id: Annotated[
        str, typer.Option("--id", help="A name for this upgrade; a call with the same name resumes an interrupted one.")
    ] = "",
    json: Json = False,
) -> None:
    """Replace the running jobs of a pattern by their next generation, each from its state, and wait until healthy.

    A rehearsal restores the state first, in a job whose outputs nobody reads: if it fails, the upgrade is refused and
    the old job keeps running. Afterwards `millrace validate` checks the result, and `millrace roll-back` undoes it.

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
    console.print(f"longest time without output while messages came in: {done.gap_ms} ms")
