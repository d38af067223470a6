"""Two DAGs of a pattern: one deploys it, the other proves it with traffic and shows the verdict."""

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, chain, get_parsing_context, task

from millrace.airflow.about import deploy_doc, prove_doc
from millrace.airflow.alarms import within
from millrace.airflow.assets import verdict
from millrace.airflow.form import (
    DEPLOYED_WITHIN,
    PROVEN_WITHIN,
    TASK_WITHIN,
    VERDICT_WITHIN,
    closing,
    deploy_form,
    mixture_words,
    prove_form,
    survivable,
    tape_of,
)
from millrace.airflow.operators import (
    RETRYABLE,
    Approve,
    AwaitVerb,
    Changes,
    Declared,
    Fault,
    FormFits,
    Report,
    Validate,
    Verb,
)
from millrace.patterns import Variant

TAPE = "{{ tape_of(params.tape, run_id, ti.try_number) }}"
FORM_TAPE = "{{ tape_of(params.tape, run_id, 1) if ti.try_number == 1 else '' }}"
"""What the form checks. It is empty in a later try, which does not share the tries of the traffic and so its name."""


@task(task_id="faults")
def servers_to_crash(params: dict) -> list[str]:
    """The servers to crash, one mapped task for each."""
    return params["faults"]


def deploy_and_prove(variant: Variant) -> None:
    """Make the DAGs of a pattern in the DAG file that calls this, but not in the process of another pattern's task."""
    name = variant.name
    if get_parsing_context().dag_id not in (None, f"deploy-{name}", f"prove-{name}"):
        return
    with_canaries = variant.use.canaries is not None
    with DAG(
        f"deploy-{name}",
        description=f"Deploys and keeps running: {variant.pattern.title}",
        doc_md=deploy_doc(variant),
        schedule=None,
        max_active_runs=1,
        default_args=RETRYABLE,
        deadline=within(DEPLOYED_WITHIN),
        tags=["deploy", name, variant.pattern.use],
    ) as deployment:
        chain(
            Approve(task_id="approve", subject=f"Deploy {name}?", body="{{ params }}", execution_timeout=None),
            Changes(task_id="provision", words=["provision", name]),
            Declared(task_id="declared", words=["provision", name, "--plan"]),
            Changes(
                task_id="deploy",
                words=[
                    "deploy",
                    name,
                    # A loss that the new job finds is accepted only while `deploy` waits for that job.
                    "{{ '' if params.accept_loss else '--no-wait' }}",
                    "{{ '--fresh' if params.fresh else '' }}",
                    "{{ '--accept-loss' if params.accept_loss else '' }}",
                    "{{ '--verdicts' if params.verdicts else '' }}",
                    *(["{{ '--canaries' if params.canaries else '' }}"] if with_canaries else ()),
                ],
                # After each loss that it accepts, `deploy` waits for the job anew.
                execution_timeout=2 * TASK_WITHIN,
            ),
            AwaitVerb(task_id="await_healthy", words=["await", name]),
        )
    # A form comes after the tasks: a task that is made after it gets a copy, and Airflow, which reads the file twice a
    # minute, checks every field of every copy several times.
    deployment.params = deploy_form(with_canaries=with_canaries)

    with DAG(
        f"prove-{name}",
        description=f"Sends traffic and validates the output: {variant.pattern.title}",
        doc_md=prove_doc(variant),
        schedule=None,
        max_active_runs=1,
        user_defined_macros={"tape_of": tape_of},
        default_args=RETRYABLE,
        deadline=within(PROVEN_WITHIN + closing(variant.use)),
        tags=["prove", name, variant.pattern.use],
    ) as proof:
        form, words = (
            [
                *("traffic", name, f"--name={tape}", "--events={{ params.events }}"),
                *("--rate={{ params.rate_per_s }}", "--seed={{ params.seed }}"),
                *mixture_words(variant.use.traffic),
            ]
            for tape in (FORM_TAPE, TAPE)
        )
        fits = FormFits(task_id="form", when="{{ params.events > 0 }}", words=[*form, "--plan"])
        approve = Approve(task_id="approve", subject=f"Prove {name}?", body="{{ params }}", execution_timeout=None)
        provision = Changes(task_id="provision", words=["provision", name])
        declared = Declared(task_id="declared", words=["provision", name, "--plan"])
        # `--for`: the run's teardown leaves a pattern running that was deployed before.
        deploy = Changes(
            task_id="deploy", words=["deploy", name, "--no-wait", "--for={{ '' if params.keep else run_id }}"]
        )
        healthy = AwaitVerb(task_id="await_healthy", words=["await", name])
        traffic = Verb(
            task_id="traffic",
            when="{{ params.events > 0 }}",
            words=words,
            execution_timeout=TASK_WITHIN + closing(variant.use),
        )
        faults = servers_to_crash()
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
        teardown = Changes(
            task_id="teardown",
            when="{{ not params.keep }}",
            words=["teardown", name, "--for={{ run_id }}", "{{ '--data' if params.remove_data else '' }}", "--yes"],
        )
        chain(fits, approve, provision, declared, deploy, healthy, [traffic, faults], validate, report, teardown)
        chain(faults, fault, validate)
        # Airflow takes a run's state from its leaves and teardowns: without this leaf a failed verdict could be green.
        validate >> EmptyOperator(task_id="proven")
        # Teardowns run after any verdict.
        report.as_teardown(setups=provision, on_failure_fail_dagrun=True)
        teardown.as_teardown(setups=provision, on_failure_fail_dagrun=True)
    proof.params = prove_form(variant.use, survivable(variant.engines))
