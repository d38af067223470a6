"""millrace demo: the main job from nothing to a verdict."""

import json as json_
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from millrace import stack
from millrace.cli.changes import PatternName
from millrace.cli.printing import progress_console, report, result_console, settings
from millrace.cli.validate import print_checks, print_latencies
from millrace.errors import InfraError
from millrace.settings import Settings

if TYPE_CHECKING:
    from millrace.patterns import Variant
    from millrace.target import Target

SHOWN_EVERY_S = 0.3  # alerts come faster than anybody reads


def demo(
    pattern: PatternName = "flink-spark",
    seconds: Annotated[int, typer.Option("--seconds", min=10, max=3600, help="How long to send traffic.")] = 60,
    rate: Annotated[int, typer.Option("--rate", min=10, max=20_000, help="Events per second.")] = 300,
    keep: Annotated[bool, typer.Option("--keep", envvar="KEEP", help="Leave everything running at the end.")] = False,
) -> None:
    """Run the main job: servers up, pattern deployed, a minute of labelled traffic, alerts live, then the verdict.

    Everything is stopped at the end unless --keep, or KEEP=1, is given; the data stays for the next time.

    Examples:  millrace demo  |  KEEP=1 millrace demo flink --seconds 120 --rate 1000
    """
    from millrace.patterns import load
    from millrace.target import Target
    from millrace.verbs import deploy as deploying
    from millrace.verbs import provision as provisioning
    from millrace.verbs import validate as validating
    from millrace.verbs import watch

    chosen, variant, console = settings(), load(pattern), progress_console()
    Target.read(chosen).require_traffic_allowed()
    began = time.monotonic()
    with _stopped_at_the_end(chosen, keep=keep):
        _title(console, 1, "Real servers: Kafka, HDFS, HBase, Flink")
        stack.up(chosen, report=report)
        if keep:  # as after `millrace up`
            watch.ensure(chosen)
        target = Target.read(chosen)
        _title(console, 2, f"{variant.name}: {variant.pattern.title}")
        for change in provisioning.provision(target, pattern):
            report(change.action, f"{change.kind} {change.name}")
        deploying.deploy(target, pattern, report=lambda line: console.print(line, markup=False))
        _title(console, 3, f"{seconds} s of labelled traffic at {rate} events/s; alerts as they come")
        _traffic_with_alerts(target, variant, seconds * rate, rate, console)
        _title(console, 4, "The verdict of the oracle")
        found = validating.validate(target, pattern, report=lambda line: console.print(line, markup=False))
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


def _traffic_with_alerts(target: "Target", variant: "Variant", events: int, rate: int, console: Console) -> None:
    from millrace.rules import ALERTS
    from millrace.stores.topics import Tail

    words = ["traffic", variant.name, "--events", str(events), "--rate", str(rate), "--json"]
    with closing(Tail(target.bootstrap, {ALERTS.name: variant.topic(ALERTS)})) as tail:
        following = tail.follow()
        next(following)
        sender = subprocess.Popen([sys.executable, "-m", "millrace.cli", *words], stdout=subprocess.PIPE, text=True)
        try:
            shown_at, count = 0.0, 0
            while sender.poll() is None:
                record = next(following)
                if record is None or record.value is None:
                    continue
                count += 1
                if time.monotonic() - shown_at > SHOWN_EVERY_S:
                    shown_at = time.monotonic()
                    console.print(_alert_line(json_.loads(record.value), record.ingest_ms), markup=False)
        finally:
            if sender.poll() is None:
                sender.terminate()
            sender.wait()
    if sender.returncode:
        raise InfraError(f"the traffic ended with exit code {sender.returncode}; run `millrace traffic {variant.name}`")
    console.print(f"{count} alerts arrived while the traffic ran", style="bold")


def _alert_line(alert: dict[str, object], arrived_ms: int) -> str:
    operands = alert["operands"]
    assert isinstance(operands, dict)
    reason = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in operands.items())
    sent_ms = alert["sent_ms"]
    after = f"{arrived_ms - sent_ms:>6} ms" if isinstance(sent_ms, int) else ""
    return f"  {alert['rule']:<20} {after}  {alert['customer']}: {reason}"


def _where_to_look_next(target: "Target", variant: "Variant", *, keep: bool) -> None:
    from millrace.rules import ALERTS
    from millrace.stores.topics import Tail

    console = result_console()
    console.print("\nWhere to look next", style="bold")
    with closing(Tail(target.bootstrap, {ALERTS.name: variant.topic(ALERTS)})) as tail:
        last = [record for record in tail.new() if record.value][-1:]
    customer = json_.loads(last[0].value or b"{}")["customer"] if last else "ID"
    again = "" if keep else "   (after `millrace up`)"
    for words, what in (
        (f"customer {customer} --pattern {variant.name}", "one customer, from HBase"),
        (f"topics tail {variant.name} alerts --all", "every alert"),
        (f"dead-letters list {variant.name}", "what was refused, and why"),
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
