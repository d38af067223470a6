"""OpenLineage events: the topics, folders and tables that jobs, traffic and verdicts read and write.

Off unless its own configuration names a place: OPENLINEAGE_URL, OPENLINEAGE_CONFIG, OPENLINEAGE__TRANSPORT__..., or a
file openlineage.yml. A place that takes no events costs a verb one line of warning, and nothing else.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid4, uuid5

from millrace import registry
from millrace.deployments import deployed
from millrace.patterns import EnginePlan, Variant, load
from millrace.patterns import topics as topics_of
from millrace.patterns.contracts import Schema, contracts_of
from millrace.patterns.plan import HOP, table_of
from millrace.rules import ALERTS, DEAD_LETTERS, EventType, Table
from millrace.rules.outputs import WINDOWS_TOPIC
from millrace.rules.tables import state_columns
from millrace.target import Target

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient

    from millrace.verify import Verdict
    from millrace.verify.ledger.chain import Entry

Report = Callable[[str], None]
NAMESPACE, NAMESPACE_DEFAULT = "OPENLINEAGE_NAMESPACE", "millrace"
"""The variable that names the namespace of jobs, as the other integrations of OpenLineage have it."""
FILES = ("openlineage.yml", "~/.openlineage/openlineage.yml")
TAKEN_WITHIN_S = 15.0
"""A transport that takes longer counts as one that takes no events."""
RETRIED_AFTER_S = 300.0
START, COMPLETE, FAIL, ABORT = "START", "COMPLETE", "FAIL", "ABORT"


@dataclass(frozen=True)
class Dataset:
    """A topic, a folder or a table, with the fields of its messages or rows: name and type."""

    namespace: str
    name: str
    fields: tuple[tuple[str, str], ...]
    doc: str = ""


Flow = Callable[[], tuple[list[Dataset], list[Dataset]]]
"""Gives what a job reads and what it writes; called where a failure is no more than a warning."""


@dataclass
class Outcome:
    """What a run adds to its last event."""

    rows: Mapping[str, int] = field(default_factory=dict)
    """Name of a dataset -> how many messages were written to it."""
    verdict: Verdict | None = None
    segment: Entry | None = None
    """The segment of a ledger that the verdict is on."""


def is_configured() -> bool:
    """Whether OpenLineage's own configuration names a place for events; its library is not imported for this."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    is_named = any(os.environ.get(name) for name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG"))
    is_set = any(name.startswith("OPENLINEAGE__TRANSPORT") for name in os.environ)
    return is_named or is_set or any(os.path.exists(os.path.expanduser(path)) for path in FILES)


def jobs(
    target: Target,
    variant: Variant,
    report: Report,
    *,
    ended: Iterable[EnginePlan] = (),
    begun: Iterable[EnginePlan] = (),
) -> None:
    """Jobs that a verb has stopped and started: the run of a job lasts until it is stopped."""
    if not is_configured():
        return
    changes = [*((COMPLETE, plan) for plan in ended), *((START, plan) for plan in begun)]
    with _warned(report) as send:
        for state, plan in changes:
            # Each generation is a run of the job, and has the same id when it begins and when it ends.
            run_id = str(uuid5(NAMESPACE_URL, f"{target.bootstrap}/{plan.job_id}"))
            name, title = f"{variant.name}.{plan.engine}", registry.manifest(plan.engine).title
            flow = partial(_of_job, target, variant, plan)
            send(_event(state, run_id, name, flow, doc=variant.pattern.doc, engine=title))


def replaced(target: Target, name: str, before: Mapping[str, EnginePlan], report: Report) -> None:
    """The jobs of now in place of those before, by engine; `roll-back` needs no declaration, which may be broken."""
    if not is_configured():
        return
    try:
        variant = load(name)
    except Exception as error:  # a project's own code is imported
        report(f"warning: no OpenLineage event was sent: {type(error).__name__}: {error}")
        return
    now = {engine: plan for engine, plan in deployed(target, name).items() if plan != before.get(engine)}
    ended = [plan for engine, plan in before.items() if engine in now]
    jobs(target, variant, report, ended=ended, begun=now.values())


def traffic(target: Target, variant: Variant, report: Report) -> AbstractContextManager[Outcome]:
    """The sending of events, from its beginning to its end."""
    raw = [each.name for each in (*variant.use.raw, *variant.use.references)]
    return _run(f"{variant.name}.traffic", lambda: ([], _topics(target, variant, raw)), report)


def verdict(target: Target, variant: Variant, report: Report) -> AbstractContextManager[Outcome]:
    """The judging of all that a pattern wrote, from its beginning to its end."""
    return _run(_judging(variant), partial(_judged, target, variant), report)


@contextmanager
def segments(target: Target, variant: Variant, report: Report) -> Iterator[Callable[[Entry], None]]:
    """Sends the verdict on each segment of a ledger, as a run that is complete.

    A validator runs for months: where an event is not taken, a later one is tried.
    """
    from millrace.verify.ledger.chain import verdict_of

    with _warned(report, retried_after_s=RETRIED_AFTER_S) as send:

        def judged(entry: Entry) -> None:
            if not is_configured():
                return
            found = verdict_of(variant.name, [entry])
            # Whether a segment without messages is ok, its own checks show.
            outcome = Outcome(
                verdict=replace(found, checks=found.checks[:-1]) if entry.figures else found, segment=entry
            )
            run_id = str(uuid5(NAMESPACE_URL, f"{target.bootstrap}/{variant.name}/{entry.digest}"))
            send(_event(COMPLETE, run_id, _judging(variant), partial(_judged, target, variant), outcome))

        yield judged


def _judging(variant: Variant) -> str:
    return f"{variant.name}.validate"


@contextmanager
def _run(name: str, flow: Flow, report: Report) -> Iterator[Outcome]:
    """A verb that may fail or be interrupted: its last event has what it wrote into the outcome."""
    outcome = Outcome()
    if not is_configured():
        yield outcome
        return
    run_id = str(uuid4())
    with _warned(report) as send:

        def happened(state: str, error: BaseException | None = None) -> None:
            send(_event(state, run_id, name, flow, outcome, error))

        happened(START)
        try:
            yield outcome
        except KeyboardInterrupt:
            happened(ABORT)
            raise
        except BaseException as error:
            happened(FAIL, error)
            raise
        happened(COMPLETE)


@contextmanager
def _warned(report: Report, retried_after_s: float = math.inf) -> Iterator[Callable[[Callable[[], Any]], None]]:
    """What sends an event. A failure is reported; after it nothing is sent for a while, and the verb continues."""
    client: OpenLineageClient | None = None
    broken_until_s = 0.0

    def emit(made: Callable[[], Any]) -> None:
        nonlocal client
        if client is None:
            from openlineage.client import OpenLineageClient

            client = OpenLineageClient()
        client.emit(made())

    def send(made: Callable[[], Any]) -> None:
        nonlocal client, broken_until_s
        if time.monotonic() < broken_until_s:
            return
        try:
            _in_time(partial(emit, made))
        except Exception as error:  # whatever a transport raises: a catalogue that is away stops no verb
            client, broken_until_s = None, time.monotonic() + retried_after_s
            why = " ".join(str(error).split())[:200]
            report(f"warning: no OpenLineage event was sent: {type(error).__name__}: {why}")

    try:
        yield send
    finally:
        if client is not None:
            with suppress(Exception):
                _in_time(client.close)


def _in_time(act: Callable[[], Any]) -> None:
    """Do it in a thread that ends with the process: a transport may wait for minutes, or for ever."""
    failed: list[Exception] = []

    def acting() -> None:
        try:
            act()
        except Exception as error:
            failed.append(error)

    thread = Thread(target=acting, name="lineage", daemon=True)
    thread.start()
    thread.join(TAKEN_WITHIN_S)
    if failed:
        raise failed[0]
    if thread.is_alive():
        raise TimeoutError(f"it was not taken within {TAKEN_WITHIN_S:g} s")


def _event(
    state: str,
    run_id: str,
    name: str,
    flow: Flow,
    outcome: Outcome | None = None,
    error: BaseException | None = None,
    *,
    doc: str = "",
    engine: str = "",
) -> Callable[[], Any]:
    """What makes the event, at the time of this call."""
    now, outcome = datetime.now(UTC).isoformat(), outcome or Outcome()

    def made() -> Any:
        from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
        from openlineage.client.facet_v2 import (
            documentation_job,
            error_message_run,
            job_type_job,
            nominal_time_run,
            output_statistics_output_dataset,
        )

        reads, writes = flow()
        job_facets: dict[str, Any] = {
            "jobType": job_type_job.JobTypeJobFacet(
                processingType="STREAMING" if engine else "BATCH", integration="MILLRACE", jobType=engine or "VERB"
            )
        }
        if doc:
            job_facets["documentation"] = documentation_job.DocumentationJobFacet(doc)
        run_facets: dict[str, Any] = {}
        if error is not None:
            message = f"{type(error).__name__}: {error}"
            run_facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message, "PYTHON")
        if outcome.verdict is not None:
            status = outcome.segment.status if outcome.segment else outcome.verdict.status
            run_facets["millrace_verdict"] = _verdict_facet(outcome.verdict, status)
        if outcome.segment is not None:
            span = (outcome.segment.since_ms, outcome.segment.cut_ms)
            begins, ends = (datetime.fromtimestamp(at_ms / 1000, UTC).isoformat() for at_ms in span)
            run_facets["nominalTime"] = nominal_time_run.NominalTimeRunFacet(begins, ends)
        counted = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
        return RunEvent(
            eventTime=now,
            run=Run(run_id, run_facets),
            job=Job(os.environ.get(NAMESPACE) or NAMESPACE_DEFAULT, name, job_facets),
            eventType=RunState[state],
            inputs=[
                InputDataset(each.namespace, each.name, _assertions(each, outcome.verdict), facets=_facets(each))
                for each in reads
            ],
            outputs=[
                OutputDataset(
                    each.namespace,
                    each.name,
                    {"outputStatistics": counted(rowCount=rows)} if (rows := outcome.rows.get(each.name)) else {},
                    facets=_facets(each),
                )
                for each in writes
            ],
        )

    return made


def _facets(dataset: Dataset) -> dict[str, Any]:
    from openlineage.client.facet_v2 import documentation_dataset, schema_dataset

    fields = [schema_dataset.SchemaDatasetFacetFields(name, of_type) for name, of_type in dataset.fields]
    facets: dict[str, Any] = {"schema": schema_dataset.SchemaDatasetFacet(fields)}
    if dataset.doc:
        facets["documentation"] = documentation_dataset.DocumentationDatasetFacet(dataset.doc)
    return facets


def _assertions(dataset: Dataset, verdict: Verdict | None) -> dict[str, Any]:
    """The checks of a verdict, as tests of the alerts: all of them concern what a reader of the alerts gets."""
    if verdict is None or not dataset.name.endswith(f".{ALERTS.name}"):
        return {}
    from openlineage.client.facet_v2 import data_quality_assertions_dataset as quality

    checks = [
        quality.Assertion(
            check.name, check.status == "ok", severity="error", description=check.asks, actual=check.status
        )
        for check in verdict.checks
    ]
    return {"dataQualityAssertions": quality.DataQualityAssertionsDatasetFacet(checks)}


def _verdict_facet(verdict: Verdict, status: str) -> Any:
    """A facet of our own: an assertion that is `unknown` is as one that failed."""
    from openlineage.client.generated.base import RunFacet

    checks = {check.name: check.status for check in verdict.checks}
    return RunFacet().with_additional_properties(status=status, checks=checks)


def _judged(target: Target, variant: Variant) -> tuple[list[Dataset], list[Dataset]]:
    """What a verdict reads."""
    kinds = [kind for kind in topics_of(variant) if kind != HOP]
    return [*_topics(target, variant, kinds), *_stores(target, variant)], []


def _of_job(target: Target, variant: Variant, plan: EnginePlan) -> tuple[list[Dataset], list[Dataset]]:
    """What a job reads and writes."""
    use = variant.use
    reads, writes = [], []
    if plan.judges_events:
        reads += [each.name for each in (*use.raw, *use.references)]
        writes += [use.enriched.name, DEAD_LETTERS.name]
    if plan.windows or plan.summaries or plan.persist:
        reads.append(use.enriched.name)
    if plan.events or plan.windows:
        writes.append(ALERTS.name)
    if plan.summaries:
        writes.append(WINDOWS_TOPIC)
    stores = _stores(target, variant) if plan.persist else []
    return _topics(target, variant, reads), [*_topics(target, variant, writes), *stores]


def _topics(target: Target, variant: Variant, kinds: Iterable[str]) -> list[Dataset]:
    contracts, names = contracts_of(variant.use), topics_of(variant)
    namespace = f"kafka://{target.bootstrap.split(',')[0]}"
    return [
        Dataset(namespace, names[kind], _fields(contracts[kind]), str(contracts[kind].get("description", "")))
        for kind in dict.fromkeys(kinds)
    ]


def _stores(target: Target, variant: Variant) -> list[Dataset]:
    """The folder and the tables of a pattern that persists."""
    enriched = variant.use.enriched
    types = dict(_fields(enriched.json_schema()))
    found = []
    if "hdfs" in variant.stores:
        found.append(Dataset(target.hdfs_uri, target.folder(variant), tuple(types.items()), enriched.doc))
    if "hbase" in variant.stores:
        namespace = f"hbase://{target.hbase.host}:{target.hbase.port}"
        found += [
            Dataset(namespace, table_of(variant.name, table.name), _columns(table, variant.use.enriched, types))
            for table in variant.use.tables
        ]
    return found


def _columns(table: Table, enriched: EventType, types: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The parts of a table's key, and its cells."""
    of_events = {name: types[name] for name in table.columns_of(enriched)}
    states = [state_columns(name, measure) for name, measure in table.state.items()]
    of_states = {cell: types[source] for each in states for cell, source in each.items()}
    return tuple(({name: types[name] for name in table.fields} | of_events | of_states).items())


def _fields(schema: Schema) -> tuple[tuple[str, str], ...]:
    """The fields of a contract; of one with alternatives those of all."""
    found: dict[str, str] = {}
    for each in schema.get("oneOf", (schema,)):
        for name, about in each.get("properties", {}).items():
            of_type = about.get("type", "object")
            found.setdefault(name, of_type if isinstance(of_type, str) else " or ".join(of_type))
    return tuple(found.items())
