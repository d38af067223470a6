"""Upkeep of patterns: reconcile, upgrade, compare, compact, teardown, and the replay of dead letters."""

from collections.abc import Sequence
from datetime import timedelta
from functools import reduce
from operator import or_

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, chain

from millrace.airflow import about
from millrace.airflow.alarms import within
from millrace.airflow.assets import verdict
from millrace.airflow.form import DEPLOYED_WITHIN, VERDICT_WITHIN, approval, reason_begins, teardown_form, which_pattern
from millrace.airflow.operators import (
    RETRYABLE,
    Approve,
    AwaitVerb,
    Changes,
    Judge,
    NothingExtra,
    OnOneTape,
    Reconcile,
    Report,
    RollBack,
    Validate,
    Verb,
)
from millrace.patterns import Variant
from millrace.settings import LEDGERS_EVERY_S

PATTERN = "{{ params.pattern }}"


def upkeep(variants: Sequence[Variant]) -> None:
    """Make the DAGs that work on any of these patterns in the DAG file that calls this."""
    names = [variant.name for variant in variants]
    stored = [variant.name for variant in variants if variant.pattern.stages.persist]
    verdicts = [verdict(name) for name in names]

    with DAG(
        "reconcile",
        description="Restarts dead jobs of deployed patterns, and fails if a job is sick, "
        "runs twice or was never deployed",
        doc_md=about.RECONCILE,
        schedule=timedelta(minutes=5),
        catchup=False,
        max_active_runs=1,
        default_args=RETRYABLE,
        deadline=within(timedelta(minutes=10)),
        tags=["upkeep"],
    ):
        reconcile = Reconcile(task_id="reconcile", words=["reconcile"])
        reconcile >> NothingExtra(task_id="nothing_extra")
        AwaitVerb.partial(task_id="await_healthy", map_index_template="{{ task.words[1] }}").expand(
            words=reconcile.output
        )

    with DAG(
        "ledger",
        description="Judges the patterns that were deployed with continuous verdicts, segment by segment",
        doc_md=about.LEDGER,
        schedule=timedelta(seconds=LEDGERS_EVERY_S),
        catchup=False,
        max_active_runs=1,
        default_args=RETRYABLE | {"execution_timeout": timedelta(hours=1)},
        deadline=within(timedelta(hours=1)),
        tags=["upkeep"],
    ):
        Judge(task_id="judge", words=["verdicts", "--update"])

    with DAG(
        "upgrade",
        description="Replaces a pattern's jobs by their next generation, with their state; "
        "undone if the verdict is failed",
        doc_md=about.UPGRADE,
        schedule=None,
        max_active_runs=1,
        params={"pattern": which_pattern(names), "approval": approval()},
        default_args=RETRYABLE,
        deadline=within(DEPLOYED_WITHIN + VERDICT_WITHIN),
        tags=["upkeep"],
    ):
        approve = Approve(
            task_id="approve",
            subject=f"Upgrade {PATTERN}?",
            body="Each job stops with its state; its next generation continues from there.",
            execution_timeout=None,
        )
        upgrade = Verb(task_id="upgrade", words=["upgrade", PATTERN, "--id={{ run_id }}"])
        validate = Validate(
            task_id="validate", words=["validate", PATTERN, "--by-ledger"], retries=0, execution_timeout=VERDICT_WITHIN
        )
        report = Report(task_id="report")
        roll_back = RollBack(task_id="roll_back", words=["roll-back", PATTERN, "--id={{ run_id }}"])
        # A teardown runs only after its setup has succeeded. Of `roll_back` that is this task: an upgrade that fails
        # may have stopped the old job before. After a rejection it is skipped, and so is the teardown.
        approved = EmptyOperator(task_id="approved")
        chain(approve, approved, upgrade, validate, report, roll_back)
        # Airflow takes a run's state from its leaves and teardowns: without this leaf a failed verdict could be green.
        validate >> EmptyOperator(task_id="proven")
        # Teardowns run after any verdict; `roll_back` runs without one, too.
        report.as_teardown(setups=upgrade, on_failure_fail_dagrun=True)
        roll_back.as_teardown(setups=approved, on_failure_fail_dagrun=True)

    with DAG(
        "compare",
        description="Compares patterns on the same tape: alerts, latency and processor time, side by side",
        doc_md=about.COMPARE,
        schedule=reduce(or_, verdicts) if verdicts else None,
        max_active_runs=1,
        default_args=RETRYABLE,
        deadline=within(timedelta(minutes=10)),
        tags=["upkeep"],
    ):
        on_one_tape = OnOneTape(task_id="on_one_tape", verdicts=verdicts)
        Verb.partial(task_id="compare", map_index_template="{{ task.words[1:] | join(' ') }}").expand(
            words=on_one_tape.output
        )

    with DAG(
        "compact",
        description="Merges the small files of each hour",
        doc_md=about.COMPACT,
        schedule=None,
        max_active_runs=1,
        params={"pattern": which_pattern(stored)},
        default_args=RETRYABLE | {"execution_timeout": timedelta(hours=1)},
        deadline=within(timedelta(hours=1)),
        tags=["upkeep"],
    ):
        Verb(task_id="compact", words=["compact", PATTERN])

    with DAG(
        "replay-dead-letters",
        description="Sends rejected messages again, once the cause is fixed",
        doc_md=about.REPLAY,
        schedule=None,
        max_active_runs=1,
        params={"pattern": which_pattern(names), "reason": reason_begins(), "approval": approval()},
        default_args=RETRYABLE,
        deadline=within(timedelta(minutes=10)),
        tags=["upkeep"],
    ):
        approve = Approve(
            task_id="approve",
            subject=f"Send dead letters of {PATTERN} again?",
            body="Only those whose reason begins with '{{ params.reason }}'; an empty reason selects all.",
            execution_timeout=None,
        )
        replay = Verb(task_id="replay", words=["dead-letters", "replay", PATTERN, "--reason={{ params.reason or '' }}"])
        chain(approve, replay)

    with DAG(
        "teardown",
        description="Stops the jobs of a pattern and keeps their state; its data stays unless the form removes it",
        doc_md=about.TEARDOWN,
        schedule=None,
        max_active_runs=1,
        params=teardown_form(names),
        default_args=RETRYABLE,
        deadline=within(timedelta(minutes=10)),
        tags=["upkeep"],
    ):
        approve = Approve(
            task_id="approve",
            subject=f"Tear {PATTERN} down?",
            body="Its data {{ 'is removed, permanently' if params.remove_data else 'stays' }}.",
            execution_timeout=None,
        )
        words = ["teardown", PATTERN, "{{ '--data' if params.remove_data else '' }}", "--yes"]
        approve >> Changes(task_id="teardown", words=words)
