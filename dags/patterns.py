"""For each pattern file a DAG that brings the pattern up, proves it, shows the proof and takes it down again."""

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, chain, task

from infra.airflow.about import pattern_doc
from infra.airflow.alarms import within
from infra.airflow.assets import verdict
from infra.airflow.form import VERDICT_WITHIN, pattern_form, tape_of
from infra.airflow.operators import (
    SAID_AGAIN,
    Approve,
    AsDeclared,
    AwaitVerb,
    Changes,
    Fault,
    FormFits,
    Report,
    Validate,
    Verb,
)
from pipelines.patterns import readable

TAPE = "{{ tape_of(params.tape, run_id, ti.try_number) }}"


@task(task_id="faults")
def asked_for(params: dict) -> list[str]:
    """The servers to crash, one mapped task for each."""
    return params["faults"]


for variant in readable():
    name = variant.name
    with DAG(
        name,
        dag_display_name=name,
        description=variant.pattern.title,
        doc_md=pattern_doc(variant),
        schedule=None,
        max_active_runs=1,
        params=pattern_form(),
        user_defined_macros={"tape_of": tape_of},
        default_args=SAID_AGAIN,
        deadline=within(minutes=30),
        tags=["pattern", variant.pattern.use],
    ):
        fits = FormFits(task_id="form")
        approve = Approve(task_id="approve", subject=f"Run {name}?", body="{{ params }}", execution_timeout=None)
        provision = Changes(task_id="provision", words=["provision", name])
        planned = Changes(task_id="planned", words=["provision", name, "--plan"])
        declared = AsDeclared.partial(task_id="declared", map_index_template="{{ task.change.name }}").expand(
            change=planned.output
        )
        deploy = Verb(task_id="deploy", words=["deploy", name, "--no-wait"])
        healthy = AwaitVerb(task_id="await_healthy", words=["await", name])
        traffic = Verb(
            task_id="traffic",
            when="{{ params.events > 0 }}",
            words=[
                *("traffic", name, f"--name={TAPE}", "--events={{ params.events }}"),
                *("--rate={{ params.rate_per_s }}", "--seed={{ params.seed }}"),
                "--poison={{ params.poison_share }}",
            ],
        )
        faults = asked_for()
        fault = Fault.partial(task_id="fault", map_index_template="{{ task.server }}").expand(server=faults)
        validate = Validate(
            task_id="validate",
            words=["validate", name],
            verdict=verdict(name),
            tape="{{ (ti.xcom_pull('traffic') or {}).get('about', {}).get('plan', {}).get('name', '') }}",
            retries=0,
            execution_timeout=VERDICT_WITHIN,
            trigger_rule="none_failed_min_one_success",
        )
        report = Report(task_id="report")
        teardown = Verb(
            task_id="teardown",
            when="{{ not params.keep }}",
            words=["teardown", name, "{{ '--data' if params.remove_data else '' }}", "--yes"],
        )
        chain(fits, approve, provision, deploy, healthy, [traffic, faults], validate, report, teardown)
        chain(faults, fault, validate)
        chain(provision, planned, declared, teardown)
        # A task before a teardown that may fail the run does not count by itself, so a red verdict needs its own leaf.
        chain([validate, declared], EmptyOperator(task_id="proven"))
        # They run whatever became of the proof.
        report.as_teardown(setups=provision, on_failure_fail_dagrun=True)
        teardown.as_teardown(setups=provision, on_failure_fail_dagrun=True)
