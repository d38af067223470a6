"""millrace canaries: synthetic events that show that each rule is alive."""

from typing import Annotated

import typer

from millrace.cli.changes import PatternName
from millrace.cli.printing import (
    Json,
    duration,
    fields,
    print_json,
    print_rows,
    progress,
    refuse_json,
    result_console,
    settings,
)
from millrace.settings import CANARIES_EVERY_S

COLUMNS = ("rule", "status", "last alert", "latency")
COLOURS = {"alive": "green", "silent": "red", "unknown": "yellow"}


def canaries(
    pattern: PatternName,
    status: Annotated[
        bool, typer.Option("--status", help="Print whether each rule was set off within two rounds, and exit.")
    ] = False,
    every_s: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=10, max=3_600, help="The length of a round.")
    ] = CANARIES_EVERY_S,
    json: Json = False,
) -> None:
    """Send canaries until Ctrl-C: synthetic events, to each partition, that set off each rule in each round.

    `millrace deploy PATTERN --canaries` keeps this running in the background. The use declares the events and the marks
    by which they are known: `alerts --no-canaries` and the live page leave them out. With --status, the exit code is 0
    only if each rule that canaries set off is alive: then one without alerts is quiet, not broken.

    Examples:
    millrace canaries flink-spark --status
    millrace canaries flink-spark --status --json
    millrace canaries flink --every 30
    """
    from millrace.patterns import load
    from millrace.target import Target
    from millrace.verbs import canaries as sending

    chosen = settings()
    if not status:
        refuse_json(json, f"`millrace canaries {pattern} --status --json` prints what they set off")
        sending.send(Target.read(chosen), pattern, every_s=every_s, report=progress)
        return
    found = sending.status(chosen, load(pattern))
    if json:
        print_json("canaries", pattern=pattern, **fields(found))
    else:
        ago = {each.rule: "" if each.silent_s is None else f"{duration(each.silent_s)} ago" for each in found.rules}
        took = {each.rule: "" if each.latency_ms is None else f"{each.latency_ms} ms" for each in found.rules}
        rows = [(each.rule, each.status, ago[each.rule], took[each.rule]) for each in found.rules]
        print_rows([COLUMNS, *rows] if rows else [])
        console = result_console()
        console.print(f"[{COLOURS[found.status]}]{found.status}[/]: {found.why}")
        for each in found.counting:
            console.print(f"{each} counts canaries: none of its keys has a mark", markup=False)
    if found.status != "alive":
        raise typer.Exit(1)
