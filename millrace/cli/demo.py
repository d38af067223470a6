"""millrace demo: from nothing to a verdict."""

import json as json_
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from millrace import stack
from millrace.cli.alerts import alerts_shown
from millrace.cli.changes import complete_patterns, known_pattern
from millrace.cli.printing import progress, progress_console, report, result_console, settings
from millrace.cli.validate import print_checks, print_latencies
from millrace.settings import Settings
from millrace.stack.services import PAGE, needed

if TYPE_CHECKING:
    from millrace.patterns import Variant
    from millrace.target import Target


def pattern_of(name: str) -> str:
    """The pattern of this name, or the first one of the use of this name."""
    from millrace import project
    from millrace.patterns import load, names

    if name in names() or name not in project.uses():
        return known_pattern(name)
    return next((each for each in names() if load(each).use.name == name), None) or known_pattern(name)


def demo(
    pattern: Annotated[
        str,
        typer.Argument(
            metavar="PATTERN",
            help="Name of a pattern, or of a use, whose first pattern then runs; `millrace patterns` lists them.",
            autocompletion=complete_patterns,
            callback=pattern_of,
        ),
    ] = "flink-spark",
    seconds: Annotated[
        int, typer.Option("--seconds", metavar="SECONDS", min=10, max=3600, help="How long to send traffic.")
    ] = 60,
    rate: Annotated[
        int, typer.Option("--rate", metavar="RATE", min=10, max=20_000, help="How many events to send per second.")
    ] = 300,
    keep: Annotated[bool, typer.Option("--keep", envvar="KEEP", help="Leave servers and jobs running.")] = False,
) -> None:
    """Start the servers that a pattern needs, deploy it, send traffic for a minute, and print alerts and the verdict.

    At the end the jobs and servers are stopped, and the data stays.

    Examples:
    millrace demo
    millrace demo my-use
    millrace demo flink --seconds 120 --rate 1000 --keep
    """
    from millrace.patterns import load
    from millrace.target import Target
    from millrace.traffic import plan_for
    from millrace.verbs import deploy as deploying
    from millrace.verbs import provision as provisioning
    from millrace.verbs import traffic as sending
    from millrace.verbs import validate as validating
    from millrace.verbs import watch

    chosen, variant, console = settings(), load(pattern), progress_console()
    Target.read(chosen).require_traffic_allowed()
    plan = plan_for(sending.declared(variant.use), seconds * rate, rate, name=sending.new_name())
    began = time.monotonic()
    with _stopped_at_the_end(chosen, keep=keep):
        services = [*needed(variant.engines, variant.stores), PAGE]
        _title(console, 1, f"Real servers: {', '.join(services)}")
        stack.up(chosen, services, report=report)
        if keep:  # as after `millrace up`
            watch.ensure(chosen)
        target = Target.read(chosen)
        _title(console, 2, f"{variant.name}: {variant.pattern.title}")
        for change in provisioning.provision(target, pattern):
            report(change.action, f"{change.kind} {change.name}")
        deploying.deploy(target, pattern, report=progress)
        _title(console, 3, f"{seconds} s of labelled traffic at {rate} events/s; alerts as they arrive")
        _point_to_the_page(console, chosen, pattern)
        with alerts_shown(target, variant, console):
            run = sending.traffic(
                target,
                pattern,
                sending.generated(variant.use, plan, sending.secrets_of(chosen, variant.use)),
                report=progress,
            )
        if not run.is_complete:
            raise KeyboardInterrupt
        _title(console, 4, "The verdict")
        found = validating.validate(target, pattern, report=progress)
        print_checks(result_console(), found.verdict)
        print_latencies(result_console(), found.verdict)
        colour = "green" if found.verdict.status == "ok" else "red"
        minutes = (time.monotonic() - began) / 60
        result_console().print(
            f"\n[bold {colour}]{pattern}: {found.verdict.status}[/] after {minutes:.1f} minutes; report: {found.page}"
        )
        _where_to_look_next(target, variant, keep=keep)
    if found.verdict.status != "ok":
        raise typer.Exit(1)


def _point_to_the_page(console: Console, chosen: Settings, pattern: str) -> None:
    """The address of the live page, before there is something to see on it."""
    from millrace.servers.dashboard import url

    console.print(f"[bold]Open {url(chosen)}#/{pattern} in a browser[/]", highlight=False)
    console.print("  the rates of events, the flow from topic to topic, latencies, refused messages by reason;")
    console.print("  each alert as it comes: choose one to see why it was raised")


def _where_to_look_next(target: "Target", variant: "Variant", *, keep: bool) -> None:
    from millrace.rules import ALERTS
    from millrace.stores.topics import Tail
    from millrace.verbs.show import writes_tables

    console = result_console()
    console.print("\nWhere to look next", style="bold")
    with closing(Tail(target.bootstrap, {ALERTS.name: variant.topic(ALERTS)})) as tail:
        last = [record for record in tail.new() if record.value][-1:]
    subject = json_.loads(last[0].value or b"{}")["subject"] if last else "ID"
    tables = variant.use.tables if writes_tables(variant) else ()
    called = [table.called for table in tables if table.called and table.first == variant.use.judged.key]
    shown = ((f"{name} {quote(subject)} --pattern {variant.name}", f"one {name}, from HBase") for name in called)
    again = "" if keep else "   (after `millrace up`)"
    for words, what in (
        *shown,
        (f"topics tail {variant.name} alerts --all", "every alert"),
        (f"dead-letters list {variant.name}", "rejected messages, with reasons"),
        ("status", "the servers and their web pages"),
        (f"patterns {variant.name}", "the rules as sentences"),
    ):
        console.print(f"  millrace {words:<58} {what}{again}", markup=False, highlight=False)


@contextmanager
def _stopped_at_the_end(chosen: Settings, *, keep: bool) -> Iterator[None]:
    try:
        yield
    finally:
        if not keep:
            stack.down(chosen, report=report)


def _title(console: Console, number: int, text: str) -> None:
    console.print(f"\n[bold]{number}. {text}[/bold]")
