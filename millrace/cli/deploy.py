"""millrace deploy: run the jobs of a pattern."""

from typing import Annotated

import typer

from millrace.cli.changes import ForRun, PatternName, PlanOnly, end_plan, print_changes
from millrace.cli.printing import Json, progress, settings


def deploy(
    pattern: PatternName,
    plan: PlanOnly = False,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Start jobs without the state of earlier ones, on the engines that can: `--plan --fresh` names what "
            "each keeps. On the others only `teardown --data` removes it. Refused while a job of the pattern runs.",
        ),
    ] = False,
    no_wait: Annotated[
        bool,
        typer.Option(
            "--no-wait",
            help="Return as soon as the engines have accepted the jobs. `millrace await` waits for the checkpoints.",
        ),
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Skip messages that were deleted before a job read them. The loss is recorded: no verdict is ok "
            "until `teardown --data` removes the data. With --no-wait only losses that earlier jobs have named are "
            "skipped: a new job that finds one fails.",
        ),
    ] = False,
    verdicts: Annotated[
        bool,
        typer.Option(
            "--verdicts",
            help="Judge the pattern as long as it is deployed: the watcher keeps `validate --continuous` running, "
            "`millrace verdicts` shows the ledger.",
        ),
    ] = False,
    canaries: Annotated[
        bool,
        typer.Option(
            "--canaries",
            help="Send canaries as long as the pattern is deployed: the watcher keeps `canaries` running, `millrace "
            "canaries PATTERN --status` shows whether each rule is alive.",
        ),
    ] = False,
    for_run: ForRun = "",
    json: Json = False,
) -> None:
    """Start the jobs of a pattern, and wait until each has completed a checkpoint.

    A job that runs as declared is left alone. A job that differs is stopped with its state, and a new job (the next
    generation) continues from there. A missing job continues from its newest savepoint or checkpoint. The wait fails
    after 540 s.

    A change that would break the contract of a topic, or that lacks a topic or a table, is refused before a job is
    touched: `millrace provision PATTERN` creates what is missing.

    With --plan it also lists what changes in meaning, field by field: of rules, summaries, the enrichment, the limits
    of events, tables and jobs, with both versions; and the offsets from which a change takes effect.

    Examples:
    millrace deploy flink-spark --plan
    millrace deploy flink-spark --verdicts --canaries
    millrace deploy flink-spark
    """
    from millrace import deployments
    from millrace.patterns import load
    from millrace.target import Target
    from millrace.verbs import canaries as sending
    from millrace.verbs import deploy as deploying
    from millrace.verbs import ledger
    from millrace.verbs import meaning as differing

    # Before anything is started.
    if canaries:
        sending.declared(load(pattern))
    if verdicts:
        ledger.require_endless(load(pattern))
    wanted = {deployments.VALIDATOR: verdicts, deployments.CANARIES: canaries}
    target = Target.read(settings())
    changes = deploying.deploy(
        target,
        pattern,
        plan=plan,
        fresh=fresh,
        wait=not no_wait,
        accept_loss=accept_loss,
        companions=[companion for companion, is_wanted in wanted.items() if is_wanted],
        for_run=for_run,
        report=progress,
    )
    found = differing.meaning(target, pattern, changes, fresh=fresh) if plan else None
    print_changes("deploy", pattern, changes, plan=plan, json=json, meaning=found)
    end_plan(changes, plan=plan)
