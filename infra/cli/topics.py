"""millrace topics: what a pattern's topics carry."""

from contextlib import closing
from typing import Annotated

import typer

from infra.cli.changes import PatternName
from infra.cli.command import Command
from infra.cli.printing import Json, print_json, print_rows, settings
from infra.errors import InfraError

topics = typer.Typer(help="Look into the topics of a pattern.", no_args_is_help=True)


@topics.command("list", cls=Command)
def list_topics(pattern: PatternName, json: Json = False) -> None:
    """List the topics of a pattern by the kind of event they carry.

    Example:  millrace topics list flink-spark
    """
    from pipelines.patterns import load
    from pipelines.patterns import topics as topics_of

    found = topics_of(load(pattern))
    if json:
        print_json("topics list", pattern=pattern, topics=found)
    else:
        print_rows(found.items())


@topics.command("tail", cls=Command)
def tail_topic(
    pattern: PatternName,
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="alerts, enriched, windows, dead-letters, transactions ...")
    ],
    all_: Annotated[bool, typer.Option("--all", help="From the beginning, and end at the end.")] = False,
) -> None:
    """Print what comes into a topic, a line each, until Ctrl-C.

    Examples:  millrace topics tail flink-spark alerts  |  millrace topics tail flink dead-letters --all
    """
    from infra.stores.topics import Tail
    from infra.target import Target
    from pipelines.patterns import load
    from pipelines.patterns import topics as topics_of

    found = topics_of(load(pattern))
    if kind not in found:
        raise InfraError(f"{pattern} has no topic for '{kind}'; there is: {', '.join(found)}")
    with closing(Tail(Target.read(settings()).bootstrap, {kind: found[kind]})) as tail:
        for record in tail.new() if all_ else tail.follow():
            if record is not None:
                print(record.value.decode("utf-8", errors="replace") if record.value else "", flush=True)
