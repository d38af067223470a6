"""millrace traffic: send events to a pattern, generated or from a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millrace.cli.changes import WOULD_CHANGE, PatternName
from millrace.cli.printing import Json, fields, plain_table, print_json, progress, result_console, settings
from millrace.errors import InfraError, UsageError

if TYPE_CHECKING:
    from millrace.rules import UseCase
    from millrace.traffic.runs import Run
    from millrace.verbs.sending import Load

GENERATED = ("rate", "seconds", "events", "seed", "name")
"""Options of generated traffic, besides the shares of the use."""


def traffic(
    context: typer.Context,
    pattern: PatternName,
    rate: Annotated[
        float,
        typer.Option(metavar="RATE", min=10, max=100_000, help="How many events to send per second."),
    ] = 1_000,
    seconds: Annotated[float, typer.Option(metavar="SECONDS", min=1, max=604_800, help="How long to send.")] = 60,
    events: Annotated[
        int, typer.Option(metavar="COUNT", min=0, help="How many events to send; 0: as many as rate times seconds.")
    ] = 0,
    seed: Annotated[int, typer.Option(metavar="SEED", help="The same seed makes the same traffic.")] = 1,
    file: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Replay events from a CSV or JSON lines file, under new times."),
    ] = None,
    speed: Annotated[
        float, typer.Option(metavar="FACTOR", min=0.1, help="With --from: how many times faster than recorded.")
    ] = 1.0,
    name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Name of this traffic, a part of each event's id, so it must be new to the pattern; `compare` uses "
            "it. Default: a new name.",
        ),
    ] = "",
    plan_only: Annotated[
        bool,
        typer.Option("--plan", help=f"Check the arguments, send nothing; exit code {WOULD_CHANGE} if they are valid."),
    ] = False,
    json: Json = False,
) -> None:
    """Send generated events to a pattern: what its use declares, with edge cases and bad messages.

    Each event has a label, recorded but not sent, with the alerts that it must raise; `validate` checks them. The rate
    is fixed: slow servers do not slow the sender. If the sender is more than 100 ms behind its plan at p99, no
    latency of the run counts. Secrets are replaced by tokens. After the traffic, one harmless event per second and
    partition follows until the last windows of rules are complete; longer ones of summaries stay open. Behind a file
    nothing follows: its last windows are not judged until later events close them.

    With --from, the file gives the events and their pace: options of generated traffic are refused. A line that cannot
    be parsed is sent unchanged and becomes a dead letter. If events of the use carry tokens, the file is refused
    instead: the line could contain a secret.

    Servers from MILLRACE_TARGET receive traffic only if the target has "allow_traffic": true.

    Examples:
    millrace traffic flink-spark
    millrace traffic flink --rate 5000 --seconds 30 --seed 7
    """
    from millrace.patterns import load
    from millrace.target import Target
    from millrace.traffic import plan_for
    from millrace.verbs import traffic as sending

    target = Target.read(settings())
    target.require_traffic_allowed()
    use = load(pattern).use
    if file:
        require_none_ignored(context, use)
    elif is_given(context, "speed"):
        raise UsageError("--speed: this is of --from only, the pace of a file; generated traffic has a --rate")
    try:
        secrets = sending.secrets_of(target.settings, use)
        named = name or sending.new_name()
        if file and not use.traffic:
            wanted = sending.from_file(use, file, secrets, speed)
        else:
            made = sending.declared(use)
            plan = plan_for(made, events or round(rate * seconds), rate, seed, named, **context.obj)
            wanted = (
                sending.from_file(use, file, secrets, speed, plan) if file else sending.generated(use, plan, secrets)
            )
    except ValueError as error:  # of the plan, a key or the file
        raise InfraError(str(error)) from None
    if plan_only:
        sending.require_new(target.settings, pattern, wanted)
        print_plan(pattern, target.bootstrap, wanted, json=json)
        raise typer.Exit(WOULD_CHANGE)
    if file:
        progress(span(wanted.about))
    run = sending.traffic(target, pattern, wanted, report=progress)
    if json:
        print_json("traffic", pattern=pattern, **fields(run), counts_for_nothing=run.lateness)
    else:
        print_run(run)
    if not run.is_complete:
        raise typer.Exit(130)  # as a shell reports what was interrupted


def require_none_ignored(context: typer.Context, use: "UseCase") -> None:
    """Refuse what only generated traffic has: sizes of the use stay, for a file may be read by them."""
    own = [each for each in GENERATED if is_given(context, each)]
    of_use = [each.replace("_", "-") for each in context.obj]
    sizes = use.traffic.sizes if use.traffic else {}
    if ignored := [*own, *(each for each in of_use if each not in sizes)]:
        named = ", ".join(f"--{each}" for each in ignored)
        raise UsageError(
            f"{named}: this is of generated traffic only, and --from sends the events of a file as they are, at their "
            "own pace times --speed; leave out either"
        )


def is_given(context: typer.Context, option: str) -> bool:
    """Whether an option was written on the command line, its default included."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def print_plan(pattern: str, bootstrap: str, wanted: "Load", *, json: bool) -> None:
    """Print what would be sent, and where to."""
    if json:
        print_json("traffic", pattern=pattern, plan=True, bootstrap=bootstrap, about=wanted.about)
        return
    console = result_console()
    console.print(f"{pattern}: {wanted.name} would be sent to Kafka at {bootstrap}", markup=False)
    about = wanted.about
    if "from_ms" in about:
        console.print(span(about))
    if unparsed := about.get("unparsed"):
        console.print(f"{unparsed:,} of {wanted.events:,} lines cannot be parsed and would be sent unchanged")
    if left_out := about.get("canaries"):
        console.print(f"{left_out:,} events of canaries are left out")


def span(about: Mapping[str, Any]) -> str:
    """What a file holds: a time in another unit shows."""
    from millrace.traffic.replay import moment_of

    recorded = f"from {moment_of(about['from_ms'])} to {moment_of(about['to_ms'])}"
    lasts_s = (about["to_ms"] - about["from_ms"]) / about["speed"] / 1000
    return f"{about['events']:,} recorded events, {recorded}; to send them takes {lasts_s:,.1f} s"


def print_run(run: "Run") -> None:
    """Print what was sent, and how punctually."""
    table = plain_table()
    for topic, count in sorted(run.by_topic.items()):
        table.add_row(topic, f"{count:,}")
    table.add_row("rate", f"{run.rate_per_s:,.0f}/s over {run.seconds:.1f} s")
    behind = ", ".join(
        f"{name.removesuffix('_ms')} {run.behind_ms[name] or 0:.1f}" for name in ("p50_ms", "p99_ms", "max_ms")
    )
    table.add_row("behind the plan", f"{behind} ms")
    if unparsed := run.about.get("unparsed"):
        table.add_row("not parsed", f"{unparsed:,} lines, sent unchanged")
    if left_out := run.about.get("canaries"):
        table.add_row("of canaries", f"{left_out:,} events, left out")
    result_console().print(table)
