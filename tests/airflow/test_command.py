"""How a task takes what the command line answers, judged by Airflow's own interpreter."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from millrace.machine.environments import python
from millrace.settings import PROJECT, Settings

pytestmark = pytest.mark.builds

ELSEWHERE = '{"KAFKA_BOOTSTRAP": "127.0.0.1:1"}'
FORMS = {
    "small": {"events": 1_200, "rate_per_s": 200, "faults": []},
    "too much": {"events": 60_000, "rate_per_s": 100, "faults": []},
    "crash": {"events": 1_200, "rate_per_s": 200, "faults": ["kafka-1"]},
    "crash without traffic": {"events": 0, "rate_per_s": 200, "faults": ["kafka-1"]},
    "crash too early": {"events": 100_000, "rate_per_s": 4_445, "faults": ["kafka-1"]},
    "crash in time": {"events": 100_000, "rate_per_s": 4_444, "faults": ["kafka-1"]},
    "fast": {"events": 100_000, "rate_per_s": 4_445, "faults": []},
}
"""Of a proof, for its first task."""
PLAN = {"version": 1, "verb": "provision", "plan": True, "changes": [{"action": "create"}]}


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """By case: what the task got."""
    place = tmp_path_factory.mktemp("airflow")
    command = place / "millrace"
    command.write_text('#!/bin/sh\necho "millrace: Kafka is away" >&2\ncat "${0%/*}/answer"\nexit "$CODE"\n')
    command.chmod(0o755)
    environment = {"PATH": os.environ["PATH"], "HOME": str(place), "AIRFLOW_HOME": str(place)}
    done = subprocess.run(
        [
            python(Settings.read(os.environ), "airflow"),
            Path(__file__).with_name("answers.py"),
            command,
            json.dumps(list(CASES.values())),
            json.dumps(list(FORMS.values())),
        ],
        env=environment
        | {"PYTHONPATH": str(PROJECT), "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR", "MILLRACE_TARGET": ELSEWHERE},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip([*CASES, *FORMS], json.loads(done.stdout.splitlines()[-1]), strict=True))


def problem(code: int, **more: object) -> dict[str, object]:
    error = {"message": "Kafka is away", "kind": "topic", "exit": code}
    return {"code": code, "answer": json.dumps({"version": 1, "error": error} | more)}


CASES = {
    "problem": problem(1),
    "wrong words": problem(2),
    "of another version": problem(0, version=2),
    "done": {"code": 0, "answer": json.dumps(PLAN)},
    "would change": {"code": 3, "answer": json.dumps(PLAN)},
    "not ok": {"code": 1, "answer": json.dumps(PLAN)},
    "failed": {"code": 1, "answer": ""},
    "killed": {"code": 137, "answer": json.dumps(PLAN)},
    "of an older one": {"code": 0, "answer": "[]"},
    "no JSON": {"code": 0, "answer": "hello"},
}


@pytest.mark.parametrize("case", ["done", "would change", "not ok"])
def test_an_answer_counts_with_each_exit_code_of_the_verb(taken, case):
    assert taken[case] == {"answer": PLAN}


def test_what_failed_is_raised_with_its_line(taken):
    assert taken["failed"] == {"raised": "VerbError", "message": "Kafka is away"}
    assert taken["problem"] == {"raised": "VerbError", "message": "Kafka is away"}
    assert taken["wrong words"] == {"raised": "AirflowFailException", "message": "Kafka is away"}
    assert taken["of another version"]["raised"] == "AirflowFailException"
    assert "printed JSON of version 2, not 1" in taken["of another version"]["message"]
    assert "printed JSON of version None, not 1" in taken["of an older one"]["message"]
    assert taken["killed"]["raised"] == "VerbError"
    assert "no valid JSON" in taken["no JSON"]["message"]


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ("small", "does not allow traffic to Kafka at 127.0.0.1:1"),
        ("too much", "60,000 events at 100 per second take 10 minutes"),
        ("crash", "kafka-1: a crash is of servers of the local stack"),
        ("crash without traffic", "kafka-1: a crash is of servers of the local stack"),
        (
            "crash too early",
            "kafka-1: at 4,445 events per second a crash could come before the traffic begins, as all events are "
            "encoded first; with servers to crash the rate must be at most 4,444 per second: lower it, or select",
        ),
        ("crash in time", "kafka-1: a crash is of servers of the local stack"),
        ("fast", "does not allow traffic to Kafka at 127.0.0.1:1"),
    ],
)
def test_a_proof_fails_at_once_and_for_good_where_time_or_target_do_not_allow_it(taken, form, problem):
    assert taken[form]["raised"] == "AirflowFailException"
    assert problem in taken[form]["message"]
