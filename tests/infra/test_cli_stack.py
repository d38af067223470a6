"""What the command line prints to a pipe, to a program and after a mistyped word."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer import Context
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from millrace import deployments, records, stack
from millrace.cli import main
from millrace.cli.app import GROUPS, app
from millrace.cli.command import unwrapped
from millrace.cli.printing import complete_servers, duration
from millrace.cli.version import described
from millrace.deployments import deployed_file
from millrace.errors import InfraError, UsageError
from millrace.job import Job, State
from millrace.machine import environments
from millrace.oracle import Record
from millrace.patterns import EnginePlan, PatternError, load
from millrace.patterns.model import files
from millrace.settings import PROJECT, Settings
from millrace.stores.changes import Action, Change
from millrace.stores.topics import TopicError, group
from millrace.target import Target
from millrace.traffic.runs import Run
from millrace.verbs import traffic
from pipelines.fraud import FRAUD
from tests.infra.conftest import Millrace


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_the_version_names_the_commit_of_a_clone(millrace: Millrace, tmp_path: Path, word: str) -> None:
    done = millrace(tmp_path, word)
    commit = records.commit(PROJECT)
    assert (done.returncode, done.stdout) == (0, f"millrace {metadata.version('millrace')} ({commit})\n")
    assert commit
    assert not tmp_path.joinpath("run").exists()


def test_the_version_of_an_installed_package_has_no_commit(tmp_path: Path) -> None:
    assert described("1.2.3", tmp_path) == "millrace 1.2.3"


def test_status_is_tabs_for_a_pipe_and_a_list_for_a_program(millrace: Millrace, tmp_path: Path) -> None:
    lines = millrace(tmp_path, "status").stdout.splitlines()
    assert lines[0].split("\t")[:3] == ["server", "state", "address"]
    assert lines[1].split("\t")[:3] == ["kafka-1", "stopped", "127.0.0.1:29001"]
    answer = json.loads(millrace(tmp_path, "status", "--json").stdout)
    assert (answer["version"], answer["verb"]) == (1, "status")
    first = answer["servers"][0]
    assert (first["name"], first["service"], first["state"], first["pid"]) == ("kafka-1", "kafka", "stopped", None)


def test_status_check_fails_unless_every_server_runs(millrace: Millrace, tmp_path: Path) -> None:
    assert millrace(tmp_path, "status").returncode == 0
    assert millrace(tmp_path, "status", "--check").returncode == 1


@pytest.mark.parametrize(
    ("state", "is_red"), [("absent", True), ("stopped", True), ("failed", True), ("starting", False)]
)
def test_status_check_fails_where_a_deployed_job_does_not_run(
    millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: State, is_red: bool
) -> None:
    target = Target.read(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {})
    monkeypatch.setattr(stack, "status", lambda *_: [])
    monkeypatch.setattr(Target, "engine", lambda *_: SimpleNamespace(job=lambda _: Job(state)))
    (plan,) = deployments.plans(target, load("spark"))
    deployments.record(target, "spark", plan)
    assert millrace(tmp_path, "status", "--check").returncode == 0, "it was torn down"
    deployments.want(target, "spark", "")
    done = millrace(tmp_path, "status", "--check")
    assert (done.returncode, f"spark/spark generation 1: {state}" in done.stdout) == (is_red, is_red)
    with deployments.alone(target, "spark"):  # as a verb does while it replaces the job
        assert millrace(tmp_path, "status", "--check").returncode == (state == "failed")


@pytest.mark.parametrize("state", ["absent", "stopped"])
def test_jobs_fails_where_a_deployed_job_does_not_run(
    millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: State
) -> None:
    target = Target.read(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {})
    monkeypatch.setattr(Target, "engine", lambda *_: SimpleNamespace(job=lambda _: Job(state)))
    (plan,) = deployments.plans(target, load("spark"))
    deployments.record(target, "spark", plan)
    assert millrace(tmp_path, "jobs", "spark").returncode == 0, "it was torn down"
    deployments.want(target, "spark", "")
    assert millrace(tmp_path, "jobs", "spark").returncode == 1


def test_addresses_are_exports_that_a_shell_reads_back(millrace: Millrace, tmp_path: Path) -> None:
    state = tmp_path / "my 'stück'"
    exports = millrace(state, "env").stdout
    read_back = subprocess.run(
        ["sh", "-c", f'{exports}\nprintf %s "$MILLRACE_STATE"'], capture_output=True, text=True, check=True
    )
    assert read_back.stdout == str(state)
    assert str(environments.python(Settings.read(os.environ), "spark")) in exports.split("MILLRACE_PYTHON_SPARK=")[1]
    printed = millrace(state, "env", "--json").stdout
    assert json.loads(printed)["addresses"]["KAFKA_BOOTSTRAP"] == "127.0.0.1:29001"
    assert Target.read(Settings.read({}), {"MILLRACE_TARGET": printed}).bootstrap == "127.0.0.1:29001"


def test_patterns_lists_what_can_be_read_and_names_all_that_cannot(
    millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("good", files()["flink"].read_text()), ("bad", "title: [\n"), ("worse", "use: it\n")):
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.setattr("millrace.patterns.model.folders", lambda: [tmp_path])
    done = millrace(tmp_path / "state", "patterns")
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["good"]
    assert "bad.yaml: not valid YAML" in done.stderr
    assert "worse.yaml: title: this key is required; add it" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    "words",
    [
        ["up", "kakfa"],
        ["up", "--profile", "huge"],
        ["up", "--port-base", "80"],
        ["logs", "kafak"],
        ["kill"],
        ["nothing"],
        ["deploy", "flink-sparks"],
        ["jobs", "nope"],
        ["patterns", "nope"],
        ["observe", "nope"],
        ["traffic", "flink", "--rate", "inf"],
        ["traffic", "flink", "--seconds", "inf"],
        ["dead-letters", "replay", "flink", "--reason", "--json"],
        ["traffic", "flink", "--name", "--json"],
        ["alerts", "flink", "--precision", "--to", "alerts.csv"],
        ["--foo"],
        ["deploy", "--foo"],
        ["topics", "nothing"],
        ["traffic", "flink", "--events", "many"],
        ["traffic", "flink", "--speed", "1", "--plan"],
    ],
)
def test_wrong_usage_ends_with_two_and_one_line(millrace: Millrace, tmp_path: Path, words: list[str]) -> None:
    done = millrace(tmp_path, *words)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("millrace: ")
    for_programs = json.loads(millrace(tmp_path, *words, "--json").stdout)
    assert (for_programs["version"], for_programs["error"]["kind"], for_programs["error"]["exit"]) == (1, "usage", 2)


def test_a_wrong_port_base_is_named_as_it_was_given(millrace: Millrace, tmp_path: Path) -> None:
    done = millrace(tmp_path, "up", "--port-base", "37000")
    assert done.stderr.startswith("millrace: --port-base is '37000': it must be a whole number from 1024 to 32668")


def test_a_wrong_option_is_named_with_its_verb_and_the_place_of_its_help(millrace: Millrace, tmp_path: Path) -> None:
    done = millrace(tmp_path, "deploy", "--foo")
    assert done.stderr == "millrace: no such option: --foo (Possible options: --for); see `millrace deploy --help`\n"
    assert millrace(tmp_path, "topics", "tial").stderr == (
        "millrace: no such command 'tial'. Did you mean 'tail'?; see `millrace topics --help`\n"
    )


@pytest.mark.parametrize(("words", "code"), [([], 2), (["topics"], 2), (["--help"], 0), (["deploy", "-h"], 0)], ids=str)
def test_help_is_printed_where_it_is_asked_for_or_nothing_is(
    millrace: Millrace, tmp_path: Path, words: list[str], code: int
) -> None:
    done = millrace(tmp_path, *words)
    assert (done.returncode, done.stderr) == (code, "")
    assert "Usage: millrace" in done.stdout


def test_a_shell_completes_a_verb(millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_MILLRACE_COMPLETE": "complete_bash", "COMP_WORDS": "millrace dep", "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(name, value)
    done = millrace(tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, ["deploy"])


def test_a_name_that_leads_elsewhere_is_refused_and_nothing_is_written(millrace: Millrace, tmp_path: Path) -> None:
    victim = tmp_path / "uv.lock"
    victim.write_text("precious")
    for name in ("../../uv", str(tmp_path / "uv"), "nope"):
        assert millrace(tmp_path / "state", "roll-back", name).returncode == 2
    with pytest.raises(UsageError):
        deployed_file(Target.read(Settings.read({"MILLRACE_STATE": str(tmp_path / "state")}), {}), "../../uv")
    assert [path.name for path in tmp_path.rglob("*")] == ["uv.lock"]
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(
    "words",
    [["traffic", "flink"], ["traffic", "flink", "--plan"], ["traffic", "flink", "--from", "tape.jsonl"], ["demo"]],
    ids=" ".join,
)
def test_a_target_that_allows_no_traffic_gets_none_and_nothing_starts(
    millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(stack, "up", lambda *_, **__: pytest.fail("a server was started"))
    monkeypatch.setenv("MILLRACE_TARGET", '{"KAFKA_BOOTSTRAP": "127.0.0.1:1"}')
    done = millrace(tmp_path, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("millrace: MILLRACE_TARGET does not allow traffic to Kafka at 127.0.0.1:1")
    assert 'add "allow_traffic": true' in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["demo", "spark"], ["up", "--for", "spark"]], ids=" ".join)
def test_only_the_servers_of_a_patterns_plan_are_started(
    millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    def refuse(settings: Settings, names: Sequence[str] = (), *_: object, **__: object) -> None:
        raise InfraError(f"asked for {' '.join(names)}")

    monkeypatch.setattr(stack, "up", refuse)
    done = millrace(tmp_path, *words)
    assert "millrace: asked for kafka hdfs hbase spark dashboard\n" in done.stderr


def test_traffic_that_is_allowed_is_planned_without_a_server(
    millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_TARGET", '{"KAFKA_BOOTSTRAP": "127.0.0.1:1", "allow_traffic": true}')
    done = millrace(tmp_path, "traffic", "flink", "--events", "1200", "--rate", "100", "--plan", "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["plan"], answer["bootstrap"]) == (3, True, "127.0.0.1:1")
    assert (answer["about"]["plan"]["events"], answer["about"]["plan"]["rate_per_s"]) == (1200, 100)


def test_a_plan_is_refused_under_a_name_that_the_pattern_was_sent(millrace: Millrace, tmp_path: Path) -> None:
    words = ("traffic", "flink", "--events", "1200", "--name", "tape-1", "--plan", "--json")
    planned = millrace(tmp_path, *words)
    assert planned.returncode == 3
    run = Run(json.loads(planned.stdout)["about"], 0, 1_200, {}, 12.0, 100.0, {}, True)
    traffic.keep(Settings.read({"MILLRACE_STATE": str(tmp_path)}), "flink", run)
    refused = millrace(tmp_path, *words)
    assert (refused.returncode, json.loads(refused.stdout)["error"]["kind"]) == (2, "usage")
    assert "remove the data first: `millrace teardown flink --data`" in refused.stderr
    assert millrace(tmp_path, "traffic", "flink", "--plan").returncode == 3, "its default name is a new one"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--name", "june"], "--name"),
        (["--rate", "1000"], "--rate"),
        (["--seconds", "5", "--events", "0"], "--seconds, --events"),
        (["--poison", "0.2", "--seed=1"], "--seed, --poison"),
        (["--customers", "10", "--frauds", "0.1"], "--frauds"),
    ],
    ids=str,
)
def test_with_a_file_an_option_of_generated_traffic_is_refused_by_name(
    millrace: Millrace, tmp_path: Path, words: list[str], named: str
) -> None:
    file = tmp_path / "june.jsonl"
    file.write_text("{}\n")
    done = millrace(tmp_path, "traffic", "flink", "--from", str(file), *words, "--plan")
    assert (done.returncode, done.stderr.partition(": this is of generated traffic only")[0]) == (
        2,
        f"millrace: {named}",
    )


def test_with_a_file_the_sizes_of_the_use_act_since_they_decide_how_it_is_read(
    millrace: Millrace, tmp_path: Path
) -> None:
    head = "ip,date,time,zone,cik,accession,extention,code,size,idx,norefer,noagent,find,crawler,browser"
    file = tmp_path / "log.csv"
    file.write_text(f"{head}\n1.1.1.abc,2016-03-01,00:00:00,0.0,1.0,0-1,.txt,200.0,9.0,0.0,1.0,0.0,0.0,0.0,\n")
    words = ("--from", str(file), "--speed", "2", "--groups", "3", "--plan", "--json")
    done = millrace(tmp_path, "traffic", "flood-flink", *words)
    assert (done.returncode, done.stderr) == (3, "")
    assert json.loads(done.stdout)["about"]["sizes"]["groups"] == 3


def test_an_impossible_state_folder_is_an_error_of_one_line(millrace: Millrace) -> None:
    done = millrace(Path("/dev/null"), "traffic", "flink")
    assert done.returncode == 1
    assert "/dev/null" in done.stderr
    assert "MILLRACE_STATE" in done.stderr


@pytest.mark.parametrize("damaged", ["{", "[]", '{"port_base": "x"}'])
def test_a_damaged_memory_of_the_stack_is_named(tmp_path: Path, damaged: str) -> None:
    (tmp_path / "stack.json").write_text(damaged)
    with pytest.raises(InfraError, match=r"stack\.json is not .* delete it"):
        Settings.read({"MILLRACE_STATE": str(tmp_path)})


def test_what_does_not_run_cannot_be_killed(millrace: Millrace, tmp_path: Path) -> None:
    done = millrace(tmp_path, "kill", "kafka")
    assert (done.returncode, "kafka-1 does not run" in done.stderr) == (1, True)


def test_a_failure_is_one_object_for_programs_with_the_same_exit_code(millrace: Millrace, tmp_path: Path) -> None:
    done = millrace(tmp_path, "kill", "kafka", "--json")
    message = "kafka-1 does not run; `millrace status` lists those that do"
    error = {"message": message, "kind": "failed", "exit": 1}
    assert json.loads(done.stdout) == {"version": 1, "verb": "kill", "error": error}
    assert (done.returncode, done.stderr) == (1, f"millrace: {message}\n")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KeyboardInterrupt(), {"message": "interrupted", "kind": "interrupted", "exit": 130}),
        (TopicError("no topic a at b"), {"message": "no topic a at b", "kind": "topic", "exit": 1}),
        (PatternError("a.yaml: no"), {"message": "a.yaml: no", "kind": "pattern", "exit": 1}),
    ],
    ids=["Ctrl-C", "a topic", "a pattern"],
)
def test_what_ends_a_verb_is_named_by_its_kind(
    millrace: Millrace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    expected: dict[str, object],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("millrace.verbs.provision.provision", fail)
    done = millrace(tmp_path, "provision", "flink", "--json")
    answer = {"version": 1, "verb": "provision", "error": expected}
    assert (json.loads(done.stdout), done.returncode) == (answer, expected["exit"])


def every_verb() -> Iterator[tuple[str, TyperCommand]]:
    """Every verb by its words, those of groups and of uses among them."""
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    context = Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        if isinstance(found, TyperGroup):
            yield from ((f"{name} {own}", each) for own, each in found.commands.items())  # type: ignore[misc]
        else:
            assert isinstance(found, TyperCommand)
            yield name, found


def test_every_verb_with_json_names_itself_in_its_error(millrace: Millrace, tmp_path: Path) -> None:
    offering = [name for name, verb in every_verb() if any("--json" in option.opts for option in verb.params)]
    assert {"status", "deploy", "await", "topics tail", "dead-letters list", "customer"} <= set(offering)
    for name in offering:
        done = millrace(tmp_path, *name.split(), "--json", "--no-such-option")
        answer = json.loads(done.stdout)
        assert (answer["version"], answer["verb"], answer["error"]["kind"]) == (1, name, "usage"), name
        assert answer["error"]["message"].endswith(f"; see `millrace {name} --help`")


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (["validate", "flink", "--continuous"], "`millrace verdicts flink --json`"),
        (["canaries", "flink"], "`millrace canaries flink --status --json`"),
        (["watch"], "`millrace watch --journal --json`"),
        (["logs", "kafka", "--follow"], "leave out --follow"),
    ],
    ids=["validate", "canaries", "watch", "logs"],
)
def test_what_runs_until_it_is_stopped_refuses_json_and_names_what_has_it(
    millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], instead: str
) -> None:
    for each in ("verbs.ledger.follow", "verbs.canaries.send", "verbs.watch.run", "cli.logs._follow"):
        monkeypatch.setattr(f"millrace.{each}", lambda *_, **__: None)
    done = millrace(tmp_path, *words, "--json")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["kind"], len(done.stderr.splitlines())) == (2, "usage", 1)
    assert instead in error["message"]


def test_an_unexpected_error_keeps_its_traceback_and_is_still_an_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("millrace.verbs.provision.provision", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(sys, "argv", ["millrace", "provision", "flink", "--json"])
    with pytest.raises(ZeroDivisionError):
        main()
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "unexpected"


def test_wrong_patterns_are_in_the_one_answer(
    millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.yaml").write_text("title: [\n")
    monkeypatch.setattr("millrace.patterns.model.folders", lambda: [tmp_path])
    done = millrace(tmp_path / "state", "patterns", "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["version"], answer["patterns"]) == (1, 1, [])
    assert "bad.yaml: not valid YAML" in answer["problems"][0]


AWAY = {
    **{"alert_id": "0" * 32, "rule": "away-from-phone", "key": "anna", "customer": "anna", "event_ids": ["t"]},
    **{"rule_version": FRAUD.rule("away-from-phone").version, "at_ms": 60_000},
    "operands": {
        **{"latitude": "52.5", "longitude": "13.4", "at_ms": "60000"},
        **{"before_phone_latitude": "41.0", "before_phone_longitude": "29.0", "before_phone_at_ms": "15000"},
    },
}


@pytest.fixture
def tailed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """A topic of alerts that needs no server: two of one rule, one of another."""
    alerts = [AWAY, AWAY | {"key": "ben", "customer": "ben"}, AWAY | {"rule": "spree", "rule_version": "old"}]
    records = [
        Record("alerts", 0, n, n, str(each["customer"]).encode(), json.dumps(each).encode())
        for n, each in enumerate(alerts)
    ]

    class Canned:
        def __init__(self, *_: object) -> None: ...

        def new(self) -> list[Record]:
            return records

        def close(self) -> None: ...

    monkeypatch.setattr("millrace.stores.topics.Tail", Canned)
    return alerts


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ([], [0, 1, 2]),
        (["--json"], [0, 1, 2]),
        (["--rule", "away-from-phone"], [0, 1]),
        (["--key", "anna"], [0, 2]),
        (["--rule", "away-from-phone", "--key", "ben"], [1]),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_a_pipe_gets_the_chosen_alerts_as_json_lines(
    millrace: Millrace, tmp_path: Path, tailed: list[dict[str, object]], words: list[str], chosen: list[int]
) -> None:
    done = millrace(tmp_path, "topics", "tail", "flink", "alerts", "--all", *words)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [tailed[n] for n in chosen]


def test_a_person_reads_an_alert_as_the_sentence_of_its_rule(
    millrace: Millrace, tmp_path: Path, tailed: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.cli.topics.result_console", lambda: SimpleNamespace(is_terminal=True))
    first, _, of_another_version = millrace(tmp_path, "topics", "tail", "flink", "alerts", "--all").stdout.splitlines()
    assert first.startswith("away-from-phone      anna  1970-01-01 00:01:00.000: the distance between ")
    assert " km) is greater than 1 km and " in first
    assert of_another_version.endswith("before_phone_at_ms 15000")


@pytest.mark.parametrize(
    "words", [["alerts", "--rule", "bursts"], ["dead-letters", "--rule", "burst"], ["alarms"]], ids=" ".join
)
def test_what_no_topic_or_rule_is_called_is_wrong_usage(millrace: Millrace, tmp_path: Path, words: list[str]) -> None:
    assert millrace(tmp_path, "topics", "tail", "flink", *words).returncode == 2


def test_a_readers_group_begins_with_its_pattern() -> None:
    assert group({"alerts": "flink-spark.alerts", "hop": "flink-spark.hop"}, "tail") == "flink-spark.tail"


def test_down_of_nothing_is_done(millrace: Millrace, tmp_path: Path) -> None:
    done = millrace(tmp_path, "down")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "words", [["down", "--purge"], ["teardown", "flink", "--data"], ["forget", "flink", "k"]], ids=" ".join
)
def test_a_removal_without_a_terminal_is_refused(millrace: Millrace, tmp_path: Path, words: list[str]) -> None:
    precious = tmp_path / "data" / "precious"
    precious.parent.mkdir()
    precious.touch()
    done = millrace(tmp_path, *words)
    assert (done.returncode, f"{' '.join(words)} removes data; add --yes" in done.stderr) == (2, True)
    assert precious.exists()


@pytest.mark.parametrize(("answer", "stays"), [("y", False), ("n", True)])
def test_on_a_terminal_a_person_sees_what_goes_and_decides(tmp_path: Path, answer: str, stays: bool) -> None:
    precious = tmp_path / "data" / "precious"
    precious.parent.mkdir()
    precious.touch()
    said, code = on_a_terminal(tmp_path, f"{answer}\n", "down", "--purge")
    assert f"{tmp_path}/data" in said.replace("\r\n", "")
    assert (precious.exists(), code) == (stays, 1 if stays else 0)


def on_a_terminal(state: Path, typed: str, *words: str) -> tuple[str, int]:
    """What the command prints where a person sits, and how it ends."""
    ours, theirs = pty.openpty()
    environ = os.environ | {"MILLRACE_STATE": str(state), "MILLRACE_PORT_BASE": "29000", "COLUMNS": "200"}
    command = [sys.executable, "-m", "millrace.cli", *words]
    with subprocess.Popen(command, cwd=PROJECT, env=environ, stdin=theirs, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        os.write(ours, typed.encode())
        said = b""
        with suppress(OSError):  # a terminal that the other side has closed
            while part := os.read(ours, 65536):
                said += part
    os.close(ours)
    return said.decode(), child.returncode


def test_yes_agrees_beforehand(millrace: Millrace, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert millrace(tmp_path, "down", "--purge", "--yes").returncode == 0
    assert not (tmp_path / "data").exists()


def test_a_purge_frees_the_names_of_the_backfills_whose_data_it_removes(millrace: Millrace, tmp_path: Path) -> None:
    backfill = tmp_path / "backfills" / "june.json"
    backfill.parent.mkdir()
    backfill.write_text('{"of": "flood-flink", "from": "june.jsonl", "pattern": {}}')
    assert millrace(tmp_path, "down", "--purge", "--yes").returncode == 0
    assert not backfill.exists()


@pytest.mark.parametrize("verb", ["provision", "deploy", "teardown", "reconcile"])
@pytest.mark.parametrize(("action", "code"), [("create", 3), ("keep", 0)])
@pytest.mark.parametrize("json_", [[], ["--json"]], ids=["plain", "json"])
def test_a_plan_ends_with_three_where_something_would_change(
    millrace: Millrace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    action: Action,
    code: int,
    json_: list[str],
) -> None:
    changes = [Change("topic", "flink.alerts", action), Change("topic", "flink.enriched", "keep")]
    monkeypatch.setattr(
        f"millrace.verbs.{verb}.{verb}", lambda *_, **__: (changes, []) if verb == "reconcile" else changes
    )
    monkeypatch.setattr("millrace.deployments.sick", lambda *_: {})
    words = [verb, *([] if verb == "reconcile" else ["flink"]), *json_]
    done = millrace(tmp_path, *words, "--plan")
    assert (done.returncode, action in done.stdout) == (code, True)
    assert millrace(tmp_path, *words).returncode == 0


@pytest.mark.parametrize("json_", [[], ["--json"]], ids=["plain", "json"])
def test_a_sick_job_makes_jobs_and_reconcile_end_with_one(
    millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, json_: list[str]
) -> None:
    plan = EnginePlan("flink", 1, "flink", "fraud", "127.0.0.1:1", {}, "file:///nowhere")
    for state, code in (("running", 0), ("starting", 0), ("degraded", 1), ("crash-looping", 1), ("stalled", 1)):
        job = Job(state, problem="too hot" if code else "")  # type: ignore[arg-type]
        sick = {"flink/flink generation 1": job} if code else {}
        monkeypatch.setattr("millrace.deployments.jobs", lambda *_, job=job: {"flink": (plan, job)})
        monkeypatch.setattr("millrace.verbs.reconcile.reconcile", lambda *_, **__: ([], []))
        monkeypatch.setattr("millrace.deployments.sick", lambda *_, sick=sick: sick)
        for words in (["jobs", "flink"], ["reconcile"]):
            done = millrace(tmp_path, *words, *json_)
            assert (done.returncode, "too hot" in done.stdout + done.stderr) == (code, bool(code)), (words, state)


def test_a_sick_job_matters_more_than_a_plan_with_changes(
    millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = [Change("job", "flink/flink", "start")]
    monkeypatch.setattr("millrace.verbs.reconcile.reconcile", lambda *_, **__: (changes, []))
    monkeypatch.setattr("millrace.deployments.sick", lambda *_: {"spark": Job("stalled", problem="too hot")})
    done = millrace(tmp_path, "reconcile", "--plan")
    assert (done.returncode, "start" in done.stdout, "too hot" in done.stderr) == (1, True, True)


def test_status_shows_the_watcher_and_what_it_has_given_up(millrace: Millrace, tmp_path: Path) -> None:
    assert "watcher: stopped; nothing restarts what dies" in millrace(tmp_path, "status").stdout
    run = Settings.read({"MILLRACE_STATE": str(tmp_path)}).run
    run.mkdir()
    (run / "flink.given-up").touch()
    assert "given up: flink; fix the cause, then `millrace up`" in millrace(tmp_path, "status").stdout
    answer = json.loads(millrace(tmp_path, "status", "--json").stdout)
    assert answer["watch"] == {"state": "stopped", "pid": None, "given_up": ["flink"]}


def test_a_second_watcher_is_refused(millrace: Millrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "watch_status", lambda _: stack.WatchStatus("running", 17, []))
    done = millrace(tmp_path, "watch")
    assert (done.returncode, "a watcher is running (pid 17)" in done.stderr) == (2, True)


def test_help_names_the_exit_code_of_a_plan(millrace: Millrace, tmp_path: Path) -> None:
    assert "3 --plan has changes" in " ".join(millrace(tmp_path, "--help").stdout.split())
    assert "exit code 3" in " ".join(millrace(tmp_path, "deploy", "--help").stdout.replace("│", " ").split())


def test_every_verb_has_examples_and_a_text_for_each_argument_and_the_name_of_each_value() -> None:
    for name, command in commands(get_command(app)):
        assert "\nExamples:\nmillrace " in f"\n{command.help}" or name == "env", name
        for each in command.params:
            assert each.help, f"{name} {each.name}"
            assert each.metavar is not None or getattr(each, "is_flag", False), f"{name} {each.name}"


def test_every_example_has_a_verb_and_options_that_exist() -> None:
    verbs = dict(commands(get_command(app)))
    for name, command in verbs.items():
        for example in re.findall(r"millrace ([a-z][^\n&|)]*)", (command.help or "").partition("Examples:")[2]):
            words = shlex.split(example.rstrip('"'))
            verb = verbs[" ".join(words[:2])] if words[0] in GROUPS else verbs[words[0]]
            options = {option for each in verb.params for option in (*each.opts, *each.secondary_opts)}
            given = {word.partition("=")[0] for word in words if word.startswith("-")}
            assert given <= options, f"{name}: {example}"


def test_a_use_gives_a_key_a_verb_of_its_own(millrace: Millrace, tmp_path: Path) -> None:
    assert "customer" in millrace(tmp_path, "--help").stdout
    shown = " ".join(millrace(tmp_path, "customer", "--help").stdout.replace("│", " ").split())
    assert "millrace customer ID --pattern PATTERN --last 50 --json" in shown
    assert "<bool>" not in shown
    done = millrace(tmp_path, "customer", "anna")
    assert (done.returncode, "no pattern of fraud is deployed; name one with --pattern" in done.stderr) == (2, True)
    assert millrace(tmp_path, "custom").returncode == 2


def test_help_shows_no_type_for_a_flag(millrace: Millrace, tmp_path: Path) -> None:
    for words in ([], ["topics"], ["deploy"]):
        assert "<bool>" not in millrace(tmp_path, *words, "--help").stdout


def commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every verb, by its words."""
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from commands(each, f"{name} ")
        else:
            yield f"{path}{name}", each


def test_help_is_wrapped_by_the_terminal_and_examples_keep_their_lines() -> None:
    text = """Do one
    thing.

    Then another,
    too.

    Examples:  a
               b
    """
    assert unwrapped(text) == "Do one thing.\n\nThen another, too.\n\nExamples:  a\n           b"


# What takes longer to import than `millrace status` takes in all; pydantic is not among it, since Typer imports it.
HEAVY = {"confluent_kafka", "happybase", "hdfs", "jinja2", "kafka", "millrace.patterns", "pyarrow", "requests"}
# What one verb, or a terminal, needs.
RARE = {"http.server", "rich.progress"}
CLIENTS_OF_STORES = {"happybase", "hdfs", "kafka", "requests"}


@pytest.mark.parametrize("words", [["--help"], ["deploy", "--help"], ["status"]], ids=" ".join)
def test_what_a_verb_works_with_is_not_imported_before_it_works(tmp_path: Path, words: list[str]) -> None:
    script = f"import sys\nsys.argv = {['millrace', *words]}\nfrom millrace.cli import main\n"
    script += "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    environ = os.environ | {"MILLRACE_STATE": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=PROJECT, env=environ, check=True, capture_output=True, text=True
    )
    imported = set(ran.stderr.split())
    assert "millrace.cli.app" in imported
    assert imported & (HEAVY | RARE) == set()


@pytest.mark.parametrize("verb", ["deploy", "provision", "traffic", "validate"])
def test_a_verb_imports_the_client_of_a_store_when_it_connects(verb: str) -> None:
    script = f"import sys, millrace.verbs.{verb}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], cwd=PROJECT, check=True, capture_output=True, text=True)
    assert set(ran.stdout.split()) & CLIENTS_OF_STORES == set()


def test_ctrl_c_while_the_command_line_is_still_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Impatient:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "millrace.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "millrace.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Impatient(), *sys.meta_path])
    with pytest.raises(SystemExit, match="130"):
        main()
    assert capsys.readouterr().err == "millrace: interrupted\n"


def test_a_half_typed_server_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path))
    assert complete_servers("datan") == ["datanode-1", "datanode-2"]
    assert complete_servers("k") == ["kafka", "kafka-1"]


def test_time_spans_are_written_in_words() -> None:
    spans = [duration(seconds) for seconds in (5, 65, 3600 + 120, 86400 * 2 + 3600)]
    assert spans == ["5 s", "1 min", "1 h 2 min", "2 d 1 h"]
