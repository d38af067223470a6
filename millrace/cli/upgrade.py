"""millrace upgrade: replace the jobs of a pattern by their next generation."""

import uuid
from typing import Annotated

import typer

from millrace.cli.changes import PatternName, print_changes
from millrace.cli.printing import Json, print_json, progress, settings


def upgrade(
    pattern: PatternName,
    upgrade_id: Annotated[
        str,
        typer.Option(
            "--id",
            metavar="ID",
            help="Any id; a second call with it resumes the upgrade. Once that is complete, a changed pattern needs "
            "another id. Default: a new upgrade.",
        ),
    ] = "",
    json: Json = False,
) -> None:
    """Replace running jobs after a change of rules or code, with a way back, and a trial first where that is possible.

    On engines that can, a trial job first restores the state of the running job; its output has no readers. If the
    trial fails, or the change lacks a topic or a table or would break a contract, the upgrade is refused and the
    running job is left alone. Otherwise the running job stops with its state, and a new job (the next generation)
    continues from there. `millrace deploy PATTERN --plan` lists beforehand what changes in meaning.

    Afterwards `millrace validate` checks the result, and `millrace roll-back` undoes the upgrade. `millrace deploy`
    replaces jobs, too, but without a trial and without a way back.

    Examples:
    millrace upgrade flink-spark
    """
    from millrace.patterns import load
    from millrace.target import Target
    from millrace.verbs import upgrade as upgrading

    done = upgrading.upgrade(
        Target.read(settings()),
        load(pattern),
        upgrade_id or uuid.uuid4().hex,
        report=progress,
    )
    if json:
        print_json("upgrade", pattern=pattern, changes=done.changes, gap_ms=done.gap_ms)
        return
    print_changes("upgrade", pattern, done.changes, plan=False, json=False)
    progress(f"longest time without output while messages came in: {done.gap_ms} ms")
