"""What must hold of all DAGs: they parse quickly, document their purpose, and have the shape of their pattern."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from millrace.charts import REPORT_POLICY
from millrace.cli.app import app
from millrace.machine.environments import command, python, variables_of_python
from millrace.patterns import files as pattern_files
from millrace.patterns import load, names
from millrace.settings import PROJECT, Settings
from millrace.stack.services import PROFILES, needed, services, with_needs
from millrace.verbs.deploy import DEPLOY_WITHIN_S
from millrace.verify.closing import closing_ms

UPKEEP = ["compact", "compare", "ledger", "reconcile", "replay-dead-letters", "teardown", "upgrade"]
ENGINES = {"pyflink", "pyspark", "kafka", "confluent_kafka", "happybase", "hdfs"}
FOR_ALL = ["kafka-1", "datanode-1"]
PROVE_FORM = ["approval", "events", "faults", "keep", "rate_per_s", "remove_data", "seed", "tape"]
FORMS = {"deploy": ["accept_loss", "approval", "canaries", "fresh", "verdicts"], "prove": PROVE_FORM}


Describe = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def describe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Describe]:
    """What Airflow's own interpreter finds in a project's DAG folder."""
    home = tmp_path_factory.mktemp("airflow")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    }
    program = [python(Settings.read(os.environ), "airflow"), Path(__file__).with_name("describe.py")]
    with subprocess.Popen(
        program, env=environ, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout

        def ask(place: Path, project: Path = PROJECT, **environment: str) -> dict[str, Any]:
            asked = {
                "dags": str(project / "dags"),
                "place": str(place),
                "environment": {**environ, "PYTHONPATH": str(project), **environment},
            }
            print(json.dumps(asked), file=process.stdin, flush=True)
            answer = next((line for line in process.stdout if line.startswith("{")), '{"failed": "it ended"}')
            found: dict[str, Any] = json.loads(answer)
            assert "failed" not in found, found["failed"]
            return found

        yield ask
        process.stdin.close()


@pytest.fixture(scope="module")
def found(describe: Describe, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return describe(tmp_path_factory.mktemp("found"))


@pytest.fixture(scope="module")
def dags(found: Mapping[str, Any]) -> dict[str, Any]:
    return dict(found["dags"])


def mixture(name: str) -> list[str]:
    """The fields of a proof that the traffic of the pattern's use declares."""
    traffic = load(name).use.traffic
    return [*(f"{share}_share" for share in traffic.shares), *traffic.sizes] if traffic else []


def tasks_of(dags: Mapping[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(dag_id, task_id, task) for dag_id, dag in dags.items() for task_id, task in dag["tasks"].items()]


def of_patterns(names: Iterable[str]) -> list[str]:
    """The DAGs of patterns with these names."""
    return sorted(f"{what}-{name}" for name in names for what in FORMS)


def test_all_dags_parse_quickly_and_without_an_error(found):
    assert found["import_errors"] == {}
    assert found["plugin_errors"] == {}
    # A third of the time after which Airflow gives a DAG file up; it takes half a second. Of the processor, not of the
    # clock, so that a busy machine does not matter.
    assert found["seconds"] < 10


def test_there_are_two_dags_for_each_pattern_and_those_for_upkeep(dags):
    assert sorted(dags) == sorted([*of_patterns(names()), *UPKEEP])


def test_no_task_of_a_pattern_has_a_copy_of_the_form(dags):
    of_each = {name: [task["params"] for task in dags[name]["tasks"].values()] for name in of_patterns(names())}
    assert [name for name, copies in of_each.items() if any(copies)] == []


def test_the_process_of_a_task_makes_no_dag_of_another_pattern(describe, tmp_path):
    name = names()[0]
    made = describe(tmp_path, _AIRFLOW_PARSING_CONTEXT_DAG_ID=f"prove-{name}")["dags"]
    assert sorted(made) == sorted([*of_patterns([name]), *UPKEEP])


def test_the_dags_of_a_pattern_are_found_by_its_name_and_by_what_they_do(dags):
    for name in names():
        for what in FORMS:
            assert {what, name} <= set(dags[f"{what}-{name}"]["tags"])


def test_what_airflow_imports_holds_no_engine_and_no_client_of_one(found):
    assert ENGINES & set(found["modules"]) == set()
    assert "millrace" in found["modules"]


def test_the_plugin_that_every_task_loads_brings_no_web_framework(found):
    assert "millrace.airflow.plugin" in found["plugin_brings"]
    assert "millrace.airflow.page" not in found["plugin_brings"]


def test_a_report_draws_its_charts_in_airflows_frame_alone_and_shortens_tokens(found):
    assert found["report"]["policy"] == f"{REPORT_POLICY}; frame-ancestors 'self'"
    assert found["report"]["body"] == "<p>prove-flink 44444444.5555…</p>"


def test_every_dag_describes_its_purpose_what_to_do_when_it_is_red_and_when_it_is_late(dags):
    for dag_id, dag in dags.items():
        assert dag["description"], dag_id
        assert "### When it is red" in dag["doc"], dag_id
        assert set(dag["tags"]) & {*FORMS, "upkeep"}, dag_id
        # Later than any one of its tasks is given up.
        assert dag["late_after_s"] >= max(task["timeout_s"] or 0 for task in dag["tasks"].values()), dag_id
        assert dag["max_active_runs"] == 1, dag_id
        assert not dag["catchup"], dag_id


def test_the_page_of_a_pattern_without_windows_names_no_engine_for_them(dags):
    docs = {name: dags[f"prove-{name}"]["doc"] for name in names()}
    assert "Per-event stage on **storm**, no windows." in docs["storm"]
    assert {name for name, doc in docs.items() if ", no windows" in doc} == {
        name for name in names() if load(name).pattern.stages.windows is None
    }


def test_every_task_has_an_owner_and_tries_again_within_a_time(dags):
    for dag_id, task_id, task in tasks_of(dags):
        assert task["owner"] == "platform", (dag_id, task_id)
        # A verdict asked for twice would hide what the first one found; a person may take days.
        assert task["retries"] == (0 if task["type"] == "Validate" else 2), (dag_id, task_id)
        assert (task["timeout_s"] is None) == (task["type"] == "Approve"), (dag_id, task_id)


def test_every_task_that_runs_a_verb_links_to_the_engines_pages(dags):
    for dag_id, task_id, task in tasks_of(dags):
        if task["words"]:
            assert {"Flink job", "Spark job"} <= set(task["links"]), (dag_id, task_id)
        if task["type"] in ("Validate", "Report"):
            assert "Report" in task["links"], (dag_id, task_id)


@pytest.mark.parametrize("name", names())
def test_a_deployment_sends_nothing_and_stays_up(dags, name):
    tasks = dags[f"deploy-{name}"]["tasks"]
    assert {task_id: task["downstream"] for task_id, task in tasks.items()} == {
        "approve": ["provision"],
        "provision": ["declared"],
        "declared": ["deploy"],
        "deploy": ["await_healthy"],
        "await_healthy": [],
    }
    assert {task_id: task["rendered"] for task_id, task in tasks.items() if task["rendered"]} == {
        "provision": ["provision", name],
        "declared": ["provision", name, "--plan"],
        "deploy": ["deploy", name, "--no-wait"],
        "await_healthy": ["await", name],
    }


@pytest.mark.parametrize("name", names())
def test_a_deployment_that_accepts_losses_waits_for_the_job_that_finds_them(found, dags, name):
    assert found["accepting"][f"deploy-{name}"] == ["deploy", name, "--accept-loss"]
    assert dags[f"deploy-{name}"]["tasks"]["deploy"]["timeout_s"] > 2 * DEPLOY_WITHIN_S, "the job starts again"


@pytest.mark.parametrize("name", names())
def test_a_proof_goes_from_provision_to_teardown(dags, name):
    tasks = dags[f"prove-{name}"]["tasks"]
    assert {task_id: task["downstream"] for task_id, task in tasks.items()} == {
        "form": ["approve"],
        "approve": ["provision"],
        "provision": ["declared", "report", "teardown"],
        "declared": ["deploy"],
        "deploy": ["await_healthy"],
        "await_healthy": ["faults", "traffic"],
        "traffic": ["validate"],
        "faults": ["fault", "validate"],
        "fault": ["validate"],
        "validate": ["proven", "report"],
        "proven": [],
        "report": ["teardown"],
        "teardown": [],
    }
    # What follows a red verdict still runs, and does not make the run green.
    assert [task_id for task_id, task in tasks.items() if task["is_teardown"]] == ["report", "teardown"]
    assert [task_id for task_id, task in tasks.items() if task["is_setup"]] == ["provision"]
    assert tasks["validate"]["outlets"] == [f"verdict-{name}"]
    assert tasks["validate"]["trigger_rule"] == "none_failed_min_one_success"


def test_every_verb_has_the_dags_own_pattern_and_only_options_of_the_form(dags):
    for name in names():
        said = [task["words"] for task in dags[f"prove-{name}"]["tasks"].values() if task["words"]]
        assert [words[0] for words in said] == [
            *("traffic", "provision", "provision", "deploy", "await", "traffic", "validate", "teardown")
        ]
        assert {words[1] for words in said} == {name}


def test_a_proof_checks_that_traffic_is_allowed_before_anything_else(dags):
    for name in names():
        tasks = dags[f"prove-{name}"]["tasks"]
        assert tasks["form"]["rendered"] == [*tasks["traffic"]["rendered"], "--plan"]


def test_a_later_try_of_the_form_is_not_refused_for_the_name_of_an_earlier_try_of_the_traffic(dags):
    for name in names():
        tasks = dags[f"prove-{name}"]["tasks"]
        assert any("if ti.try_number == 1 else ''" in word for word in tasks["form"]["words"])
        assert not any("if ti.try_number" in word for word in tasks["traffic"]["words"])


def test_a_proof_tears_down_what_it_deployed_itself(dags):
    for name in names():
        tasks = dags[f"prove-{name}"]["tasks"]
        (deployed_for,) = [word for word in tasks["deploy"]["rendered"] if word.startswith("--for")]
        assert deployed_for in tasks["teardown"]["rendered"]


def test_the_words_of_every_task_parse_with_the_default_form(dags):
    for dag_id, task_id, task in tasks_of(dags):
        if task["rendered"]:
            command, given = parsed([*task["rendered"], "--json"])
            assert given["json"] is True, (dag_id, task_id, task["rendered"])
            assert command.startswith(task["words"][0]), (dag_id, task_id)
    assert parsed([*dags["replay-dead-letters"]["tasks"]["replay"]["rendered"], "--json"]) == (
        "dead-letters replay",
        {"pattern": names()[0], "reason": "", "corrected": None, "json": True},
    )


def parsed(words: list[str]) -> tuple[str, dict[str, Any]]:
    """The verb that the command line makes of the words, and its arguments."""
    command, name = get_command(app), ""
    while isinstance(command, TyperGroup):
        command, name, words = command.commands[words[0]], f"{name} {words[0]}", words[1:]
    return name.strip(), command.make_context(name, list(words)).params


def test_a_form_accepts_no_more_than_its_tasks_have_time_for(found, dags):
    assert found["too_much"]["5000000 at 10"].startswith(
        "5,000,000 events at 10 per second take 139 hours; a task has 10 minutes"
    )
    # Ten minutes of traffic leave no time for what comes before and after it; nine do.
    assert {case for case, why in found["too_much"].items() if why} == {"5000000 at 10", "60000 at 100"}
    for name in names():
        dag = dags[f"prove-{name}"]
        tasks = dag["tasks"]
        # What the largest form asks takes 100 s at the largest rate; to judge it takes longer.
        assert tasks["form"]["timeout_s"] == 600
        # However long the windows of the use are, the events that close them follow in time.
        assert tasks["traffic"]["timeout_s"] == 600 + closing_ms(load(name).use) / 1000
        assert tasks["validate"]["timeout_s"] == dags["upgrade"]["tasks"]["validate"]["timeout_s"] == 390 + 2000
        # A job that does not get well is named before its task is given up.
        assert tasks["await_healthy"]["timeout_s"] > DEPLOY_WITHIN_S
        # The largest form is not late while its tasks are in time.
        assert dag["late_after_s"] >= tasks["traffic"]["timeout_s"] + tasks["validate"]["timeout_s"] + 3 * 600


@pytest.mark.builds
def test_a_proof_has_time_to_close_the_windows_of_its_use(describe, tmp_path):
    rules = copied(tmp_path).parent / "rules.py"
    text = rules.read_text()
    assert text.count("window=Session(gap_ms=BURST_GAP_MS)") == 1
    rules.write_text(text.replace("gap_ms=BURST_GAP_MS", "gap_ms=3_600_000"))
    dag = describe(tmp_path / "home", tmp_path)["dags"]["prove-flink"]
    assert dag["tasks"]["traffic"]["timeout_s"] > 600 + 3_600
    assert dag["late_after_s"] > 3_600 + dag["tasks"]["validate"]["timeout_s"] + 4 * 600
    assert "small events follow for 60 minutes, to close the last windows" in dag["params"]["events"]["description"]


def test_an_upgrade_is_undone_after_a_failed_verdict_and_stays_after_an_unknown_one(found):
    undone = found["undone"]
    assert (undone["failed"], undone["none"]) == ("roll-back", "roll-back")
    assert undone["ok"] == "the verdict is ok: the upgrade stays"
    assert undone["unknown"] == (
        "the verdict is unknown and no check has failed: the upgrade stays; `millrace roll-back flink` undoes it. "
        "alerts: burst: could not be read: messages from before 09:00, which the pattern judged by other limits"
    )


def test_an_upgrade_is_undone_however_it_ended_and_its_run_is_red(found, dags):
    ended = found["ended"]
    assert {case: each["roll_back"] for case, each in ended.items()} == {
        "all succeed": "success",  # it reads the verdict, and undoes nothing
        "the verdict is not ok": "success",
        "the upgrade fails": "success",
        "the roll-back fails": "failed",
        "a person rejects it": "skipped",
    }
    assert [case for case, each in ended.items() if each["run"] == "success"] == ["all succeed", "a person rejects it"]
    # It undoes only the upgrade of its own run: none, if that was refused.
    tasks = dags["upgrade"]["tasks"]
    assert tasks["roll_back"]["words"][-1] == tasks["upgrade"]["words"][-1] == "--id={{ run_id }}"


def test_every_field_of_a_form_has_a_title_a_description_a_default_and_limits(dags):
    for dag_id, dag in dags.items():
        what, _, name = dag_id.partition("-")
        if what in FORMS:
            assert sorted(dag["params"]) == sorted([*FORMS[what], *(mixture(name) if what == "prove" else ())])
        for field, schema in dag["params"].items():
            assert schema["title"], (dag_id, field)
            assert schema["description"], (dag_id, field)
            assert schema["default"] is not None, (dag_id, field)
            types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            if {"integer", "number"} & set(types):
                assert schema["minimum"] <= schema["default"] <= schema["maximum"], (dag_id, field)
            if "string" in types:
                assert "pattern" in schema or "enum" in schema, (dag_id, field)
            if "array" in types:
                assert schema["items"]["enum"], (dag_id, field)


def test_a_proof_offers_to_crash_the_servers_that_its_pattern_runs_on(dags):
    offered = {name: dags[f"prove-{name}"]["params"]["faults"]["items"]["enum"] for name in names()}
    for name in ("flink", "streams", "storm-spark"):
        assert offered[name] == dags[f"prove-{name}"]["params"]["faults"]["examples"]
    assert offered["flink"] == offered["flink-spark"] == ["flink-taskmanager", "flink-jobmanager", *FOR_ALL]
    assert offered["storm-spark"] == ["storm-supervisor", "storm-nimbus", *FOR_ALL]
    assert offered["spark"] == offered["streams"] == FOR_ALL
    known = services(Settings.read({}), PROFILES)
    for name in names():
        variant = load(name)
        runs_on = with_needs(known, needed(variant.engines, variant.stores))
        assert set(offered[name]) <= {server.name for service in runs_on for server in service.servers}


COMPARED = """
import json
from types import SimpleNamespace
from airflow.sdk import Asset
from millrace.airflow.operators import OnOneTape, TAPES, Validate

found = {"a": {"t": "ok", "u": "ok", "": "ok"}, "b": {"t": "ok"}, "c": {"t": "ok", "u": "failed", "": "ok"}, "d": {}}
assets = {name: Asset(name) for name in found}
store = {
    assets[name]: {TAPES: {tape: {"pattern": name, "verdict": verdict} for tape, verdict in tapes.items()}}
    for name, tapes in found.items()
}
task = OnOneTape(task_id="on_one_tape", verdicts=[*assets.values()])
of_no_tape = {assets["a"]: [SimpleNamespace(extra={"tape": ""})]}
kept = SimpleNamespace(asset=Asset("e"), tapes={})
store[kept.asset] = SimpleNamespace(get=kept.tapes.get, set=kept.tapes.__setitem__)
answer = {"verdict": "ok", "pattern": "e", "checks": [], "report": "there"}
for tape in ("", "t"):
    context = {
        "ti": SimpleNamespace(xcom_push=lambda *_: None, xcom_pull=lambda **_: None),
        "run_id": "r",
        "asset_state_store": store,
        "outlet_events": {kept.asset: SimpleNamespace()},
    }
    Validate(task_id=f"validate_{tape}", words=[], verdict=kept.asset, tape=tape).result(context, answer)
print(
    json.dumps(
        {
            "without a trigger": task.execute({"asset_state_store": store, "triggering_asset_events": {}}),
            "without traffic": task.execute({"asset_state_store": store, "triggering_asset_events": of_no_tape}),
            "remembered": [*kept.tapes[TAPES]],
        }
    )
)
"""


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is compared, and what a verdict keeps for it."""
    tmp_path = tmp_path_factory.mktemp("compared")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AIRFLOW_HOME": str(tmp_path)}
    program = [python(Settings.read(os.environ), "airflow"), "-c", COMPARED]
    done = subprocess.run(
        program, env=environ | {"PYTHONPATH": str(PROJECT)}, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_all_patterns_with_an_ok_on_one_tape_are_compared_at_once(compared):
    assert compared["without a trigger"] == [["compare", "a", "b", "c", "t"]]


def test_verdicts_without_traffic_are_of_no_tape_and_not_compared(compared):
    assert compared["without traffic"] == []
    assert compared["remembered"] == ["t"]


@pytest.fixture(scope="module")
def with_two_more(describe: Describe, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Airflow finds when there are two more pattern files: a right one and a wrong one."""
    project = tmp_path_factory.mktemp("two-more")
    patterns = copied(project)
    (patterns / "my-own.yaml").write_text((patterns / "flink.yaml").read_text())
    (patterns / "half.yaml").write_text("title: half a pattern\n")
    return describe(project / "home", project)


@pytest.mark.builds
def test_a_new_pattern_file_is_two_new_dags_with_no_other_change(with_two_more):
    dags = with_two_more["dags"]
    assert sorted(dags) == sorted([*of_patterns([*names(), "my-own"]), *UPKEEP])
    assert dags["prove-my-own"]["tasks"].keys() == dags["prove-flink"]["tasks"].keys()


@pytest.mark.builds
def test_a_wrong_pattern_file_is_an_import_error_with_the_reason_and_stops_no_other_dag(with_two_more):
    (error,) = with_two_more["import_errors"].values()
    assert "half.yaml: stages: this key is required; add it" in error
    assert set(with_two_more["dags"]) >= set(of_patterns(names()))


@pytest.mark.builds
def test_the_command_line_of_a_clone_reads_the_pattern_files_of_the_package_that_made_the_dags(describe, tmp_path):
    patterns = copied(tmp_path)  # as if it were installed elsewhere
    (patterns / "my-own.yaml").write_text((patterns / "flink.yaml").read_text())
    found = describe(tmp_path / "home", tmp_path)
    assert known_to_the_command_line(found["passed"]) == sorted([*names(), "my-own"])


@pytest.mark.builds
def test_one_setting_decides_which_pattern_files_dags_and_command_line_read(describe, tmp_path):
    (tmp_path / "patterns").mkdir()
    (tmp_path / "patterns" / "my-own.yaml").write_text(pattern_files()["flink"].read_text())
    setting = {"MILLRACE_PATTERNS": str(tmp_path / "patterns")}
    found = describe(tmp_path, **setting)
    assert found["import_errors"] == {}
    assert sorted(found["dags"]) == sorted([*of_patterns(["my-own"]), *UPKEEP])
    assert known_to_the_command_line(found["passed"]) == known_to_the_command_line(setting) == ["my-own"]
    # What the stack starts, Airflow and the observer among it, gets it too.
    assert Settings.read(setting).environment().items() >= setting.items()


@pytest.mark.builds
def test_a_project_that_init_began_has_its_dags(describe, tmp_path):
    settings = replace(Settings.read(os.environ), project=tmp_path / "team", state=tmp_path / "state")
    settings.project.mkdir()
    subprocess.run([command(settings), "init", "my-use"], cwd=settings.project, check=True, capture_output=True)
    found = describe(tmp_path, settings.project, **variables_of_python(settings))
    assert found["import_errors"] == {}
    assert sorted(found["dags"]) == sorted([*of_patterns(["my-use"]), *UPKEEP])
    # The use declares no canaries.
    deploy = found["dags"]["deploy-my-use"]
    assert sorted(deploy["params"]) == [field for field in FORMS["deploy"] if field != "canaries"]
    assert deploy["tasks"]["deploy"]["rendered"] == ["deploy", "my-use", "--no-wait"]


def known_to_the_command_line(variables: Mapping[str, str]) -> list[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **variables}
    words = [str(command(Settings.read(os.environ))), "patterns", "--json"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return [each["name"] for each in json.loads(done.stdout)["patterns"]]


@pytest.mark.builds
@pytest.mark.parametrize("kept", [[], ["flink.yaml"]], ids=["no pattern at all", "one that keeps nothing"])
def test_upkeep_needs_no_pattern_that_it_could_be_done_to(describe, tmp_path, kept):
    copied(tmp_path)
    for file in tmp_path.glob("pipelines/*/patterns/*.yaml"):
        text = "\n".join(line for line in file.read_text().splitlines() if "persist:" not in line)
        file.unlink()
        if file.name in kept:
            file.write_text(text)
    found = describe(tmp_path / "home", tmp_path)
    assert found["import_errors"] == {}
    assert sorted(found["dags"]) == sorted([*of_patterns(Path(name).stem for name in kept), *UPKEEP])


def copied(tmp_path):
    """The project beside itself, with a folder of patterns of its own."""
    for part in ("millrace", "dags"):
        (tmp_path / part).symlink_to(PROJECT / part)
    shutil.copytree(PROJECT / "pipelines", tmp_path / "pipelines", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "home").mkdir()
    return tmp_path / "pipelines" / "fraud" / "patterns"
