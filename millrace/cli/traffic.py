"""millrace traffic: send events to a pattern, invented ones or those of a file."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from millrace.cli.changes import WOULD_CHANGE, PatternName
from millrace.cli.printing import Json, fields, print_json, progress_console, result_console, settings
from millrace.errors import InfraError

if TYPE_CHECKING:
    from millrace.verbs.traffic import Load, Run
    from pipelines.fraud.tokens import Tokens


def traffic(
    pattern: PatternName,
    rate: Annotated[float, typer.Option(min=10, max=100_000, help="Events per second, come what may.")] = 1_000,
    seconds: Annotated[float, typer.Option(min=1, help="For how long, unless --events says how many.")] = 60,
    events: Annotated[int, typer.Option(min=0, help="How many events.")] = 0,
    seed: Annotated[int, typer.Option(help="The same seed invents the same people and purchases.")] = 1,
    customers: Annotated[int, typer.Option(min=0, help="How many people; 0: as many as the rate needs.")] = 0,
    poison: Annotated[float, typer.Option(min=0, max=0.3, help="Share of messages that must be refused.")] = 0.01,
    duplicates: Annotated[float, typer.Option(min=0, max=0.3, help="Share of purchases that come twice.")] = 0.01,
    file: Annotated[Path | None, typer.Option("--from", help="Replay this CSV or JSON lines file instead.")] = None,
    speed: Annotated[float, typer.Option(min=0.1, help="With --from: so many times as fast as it happened.")] = 1.0,
    name: Annotated[str, typer.Option(help="Part of every id; a new one for each run unless given.")] = "",
    plan_only: Annotated[
        bool, typer.Option("--plan", help=f"Only check that it may be sent; exit code {WOULD_CHANGE} if it may.")
    ] = False,
    json: Json = False,
) -> None:
    """Send traffic to a pattern at a stated rate: everyday life, frauds, edge cases, duplicates, nonsense.

    Every event says when it was meant to be sent. Card numbers become tokens before they leave this process. After the
    traffic, one small purchase a second goes on in every partition until the last windows are known to be complete.

    Servers of MILLRACE_TARGET get none, neither invented nor from a file, unless it says "allow_traffic": true.

    Examples:  millrace traffic flink-spark  |  millrace traffic flink --rate 5000 --seconds 30 --seed 7
    """
    from millrace.patterns import load
    from millrace.patterns import topics as topics_of
    from millrace.target import Target
    from millrace.verbs import cost
    from millrace.verbs import traffic as sending
    from millrace.verbs.listening import listening
    from pipelines.fraud.tokens import TokenError
    from pipelines.fraud.traffic import Plan
    from pipelines.fraud.traffic.replay import ReplayError

    chosen, variant = settings(), load(pattern)
    target = Target.read(chosen)
    target.require_traffic_allowed()
    try:
        tokens = sending.card_tokens(chosen)
        plan = Plan(
            events=events or round(rate * seconds),
            rate_per_s=rate,
            seed=seed,
            name=name or f"r{int(time.time()):x}",
            customers=customers,
            poison_share=poison,
            duplicate_share=duplicates,
        )
        wanted = from_file(file, tokens, speed) if file else sending.invented(plan, tokens)
    except (TokenError, ReplayError, ValueError) as error:
        raise InfraError(str(error)) from None
    progress = progress_console()
    bootstrap, topics = target.bootstrap, topics_of(variant)
    if plan_only:
        print_plan(pattern, bootstrap, wanted, json=json)
        raise typer.Exit(WOULD_CHANGE)
    before = cost.cpu_seconds(chosen, pattern)
    with listening(bootstrap, topics, sending.arrivals(chosen, pattern)):
        run = sending.send(bootstrap, topics, wanted, report=lambda line: progress.print(line, markup=False))
    cpu_s = cost.spent(before, cost.cpu_seconds(chosen, pattern))
    run = replace(run, about={**run.about, "cpu_s": cpu_s})
    sending.keep(chosen, pattern, run)
    if json:
        print_json("traffic", pattern=pattern, **fields(run))
    else:
        show(run)
    if not run.is_complete:
        raise typer.Exit(130)  # as a shell says of what was interrupted


def from_file(file: Path, tokens: "Tokens", speed: float) -> "Load":
    """What is in the file, checked whole before any of it is sent."""
    from millrace.verbs import traffic as sending
    from pipelines.fraud.traffic.replay import read_replay

    return sending.replayed(read_replay(file, tokens), file, speed)


def print_plan(pattern: str, bootstrap: str, wanted: "Load", *, json: bool) -> None:
    """What would be sent, and where to."""
    if json:
        print_json("traffic", pattern=pattern, plan=True, bootstrap=bootstrap, about=wanted.about)
    else:
        result_console().print(f"{pattern}: {wanted.name} would be sent to Kafka at {bootstrap}", markup=False)


def show(run: "Run") -> None:
    """What was sent, and how punctually."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for topic, count in sorted(run.by_topic.items()):
        table.add_row(topic, f"{count:,}")
    table.add_row("rate", f"{run.rate_per_s:,.0f}/s over {run.seconds:.1f} s")
    behind = ", ".join(
        f"{name.removesuffix('_ms')} {run.behind_ms[name]:.1f}" for name in ("p50_ms", "p99_ms", "max_ms")
    )
    table.add_row("behind the plan", f"{behind} ms")
    console = result_console()
    console.print(table)
    if not run.is_punctual:
        console.print(
            "The sender itself was late or stopped early: its labels are left out of verdicts.", style="yellow"
        )
