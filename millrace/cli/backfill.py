"""millrace backfill: run a pattern over a recorded file or over stored events."""

from typing import TYPE_CHECKING, Annotated

import typer

from millrace.cli.changes import PatternName
from millrace.cli.printing import Json, duration, print_json, progress, result_console, settings
from millrace.cli.validate import as_data, print_verdict
from millrace.errors import InfraError

if TYPE_CHECKING:
    from millrace.verbs.backfill import Backfill


def backfill(
    context: typer.Context,
    pattern: PatternName,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="FILE|URI",
            help="A CSV or JSON lines file, or stored Parquet: hdfs://HOST:PORT/FOLDER, or a local folder.",
        ),
    ],
    name: Annotated[
        str, typer.Option("--into", metavar="NAME", help="Name of the results: the prefix of topics, tables, folders.")
    ],
    json: Json = False,
) -> None:
    """Run a pattern over recorded events, at the events' own times, and print the verdict.

    The events go to topics of their own, then each engine judges all of them, closes the last windows and ends. The
    results stay under NAME until `millrace teardown NAME --data`. Lines that cannot be parsed become dead letters, as
    with `millrace traffic --from`. Ctrl-C stops the jobs. Exit code 0 only for the verdict ok.

    Stored events have no reference data and no other streams: uses that need these take a file only.

    Examples:
    millrace backfill flink-spark --from recorded.jsonl --into june
    millrace backfill my-use --from ./stored-events --into june
    """
    from millrace.patterns import load
    from millrace.target import Target
    from millrace.verbs import backfill as backfilling
    from millrace.verbs import traffic

    target, use = Target.read(settings()), load(pattern).use
    backfilling.require_free(name)
    progress(f"{source}: being read")
    try:
        recorded = backfilling.read(target, use, source, traffic.columns_of(use, context.obj))
    except ValueError as error:  # of the file
        raise InfraError(str(error)) from None
    found = backfilling.backfill(target, pattern, recorded, name, report=progress)
    if json:
        counts = {"of": found.of, "from": found.source, "messages": found.counts, "seconds": found.seconds}
        print_json("backfill", **counts, **as_data(found.validation))
    else:
        print_backfill(found)
    if found.validation.verdict.status != "ok":
        raise typer.Exit(1)


def print_backfill(found: "Backfill") -> None:
    """Print what was judged, and the verdict."""
    print_verdict(found.validation)
    console = result_console()
    counts = ", ".join(f"{count:,} {kind}" for kind, count in found.counts.items() if count)
    if console.is_terminal:
        console.print(f"{counts} in {duration(found.seconds)}; `millrace topics tail {found.name} alerts --all`")
