"""A recorded log and stored events become a finite stream on real servers; a changed rule is replayed on them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from millrace import stack as stacks
from millrace.machine.environments import command
from millrace.machine.processes import wait_until
from millrace.settings import PROJECT, Settings
from millrace.stores import topics
from pipelines.flood.groups import group_of
from tests.flood import by_hand

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800)]

NOON_MS = 1_467_288_000_000  # 2016-06-30: no event of then is accepted today
SECONDS = 120
DOCUMENT = {"zone": 0, "cik": 1_371_610, "accession": "0001499258-13-221839", "extention": "a.htm", "size": 486}
FLAGS = dict.fromkeys(("idx", "norefer", "noagent", "find", "crawler"), 0)
FLOODS = {  # the ip, its requests within a window, how many of them are served, and the second at which it begins
    "10.0.0.aaa": (31, 0, 30),
    "10.0.0.bbb": (30, 0, 33),
    "10.0.0.ccc": (31, 1, 36),
    "10.0.0.ddd": (45, 0, 39),
    "10.0.0.eee": (33, 0, SECONDS),  # the last window of the log: nothing comes after it
}
ENDED_WITHIN_S = 300
STORED, AGAIN, BROKEN_OFF = "june-stored", "june-again", "june-broken-off"


def request(ip: str, code: int, second: int) -> dict[str, Any]:
    key = {"ip": ip, "group_id": str(group_of(ip, 12)), "at_ms": NOON_MS + second * 1000, "code": code}
    return {**key, **DOCUMENT, **FLAGS}


def log() -> list[dict[str, Any]]:
    """Everyday requests, and the floods among them, in the order of their times."""
    everyday = [request(f"198.51.{second % 7}.abc", 200, second) for second in range(SECONDS) for _ in range(5)]
    floods = [
        request(ip, 200 if number < served else 401, second + number % 3)
        for ip, (count, served, second) in FLOODS.items()
        for number in range(count)
    ]
    return sorted([*everyday, *floods], key=lambda event: int(event["at_ms"]))


class Commands:
    """The command line on the tests' stack, in this project or another."""

    def __init__(self, stack: Settings, project: Path = PROJECT) -> None:
        self.environ = {**os.environ, **stack.environment(), "MILLRACE_PROJECT": str(project)}
        self.program = str(command(stack))

    def __call__(self, *words: str, exits: int = 0) -> dict[str, Any]:
        done = subprocess.run([self.program, *words, "--json"], env=self.environ, capture_output=True, text=True)
        assert done.returncode == exits, (words, done.stdout, done.stderr)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen([self.program, *words], env=self.environ, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def millrace(stack: Settings) -> Iterator[Commands]:
    found = Commands(stack)
    yield found
    for name in (STORED, AGAIN, BROKEN_OFF):
        subprocess.run(
            [found.program, "teardown", name, "--data", "--yes"], env=found.environ, capture_output=True, check=False
        )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = [json.dumps(event) for event in log()]
    path = tmp_path_factory.mktemp("log") / "june.jsonl"
    path.write_text("\n".join([*lines[:100], "a cut line", *lines[100:]]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def stored(millrace: Commands, written: Path) -> dict[str, Any]:
    """The log, judged by Flink and Spark and kept as Parquet."""
    return millrace("backfill", "flood-flink-spark", "--from", str(written), "--into", STORED)


@pytest.fixture(scope="module")
def again(millrace: Commands, stack: Settings, stored: dict[str, Any]) -> dict[str, Any]:
    """The Parquet, judged by Flink alone."""
    folder = f"{stacks.addresses(stack)['HDFS_URI']}/millrace/data/{STORED}"
    return millrace("backfill", "flood-flink", "--from", folder, "--into", AGAIN)


def messages(stack: Settings, name: str, kind: str) -> list[dict[str, Any]]:
    with closing(topics.Tail(stacks.addresses(stack)["KAFKA_BOOTSTRAP"], {kind: f"{name}.{kind}"})) as tail:
        return [json.loads(record.value or b"") for record in tail.new()]


def alerts(stack: Settings, name: str) -> Mapping[by_hand.Alert, dict[str, Any]]:
    return {
        by_hand.Alert(each["rule"], each["key"], each["window_start_ms"]): each
        for each in messages(stack, name, "alerts")
    }


def test_a_log_of_long_ago_is_judged_to_its_last_window(stack: Settings, stored: dict[str, Any]) -> None:
    assert stored["verdict"] == "ok"
    wanted = by_hand.alerts(log())
    assert {alert.key for alert in wanted if alert.rule == "flood-ip"} == {"10.0.0.aaa", "10.0.0.ddd", "10.0.0.eee"}
    assert alerts(stack, STORED).keys() == wanted.keys()
    assert [(letter["reason"]) for letter in messages(stack, STORED, "dead-letters")] == ["json"]
    assert {event["ingest_ms"] // 1000 for event in messages(stack, STORED, "enriched")} <= {
        event["at_ms"] // 1000 for event in log()
    }


def test_stored_events_give_the_same_alerts_again(
    stack: Settings, stored: dict[str, Any], again: dict[str, Any]
) -> None:
    assert again["verdict"] == "ok"
    assert again["messages"]["requests"] == again["messages"]["enriched"] == len(log())
    ids = [{alert["alert_id"] for alert in alerts(stack, name).values()} for name in (STORED, AGAIN)]
    assert ids[0] == ids[1] != set()


def test_no_job_is_left_and_the_name_is_taken(millrace: Commands, again: dict[str, Any], written: Path) -> None:
    assert {job["job"]["state"] for job in millrace("jobs", AGAIN)["jobs"].values()} <= {"stopped", "absent"}
    refused = millrace("backfill", "flood-flink", "--from", str(written), "--into", AGAIN, exits=1)
    assert f"`millrace teardown {AGAIN} --data`" in refused["error"]["message"]


def test_a_changed_threshold_names_exactly_the_alerts_that_vanish(
    stack: Settings, again: dict[str, Any], millrace: Commands, tmp_path: Path
) -> None:
    same = millrace("replay", AGAIN, "--check")
    assert {rule["rule"]: rule["appear"] + rule["disappear"] for rule in same["rules"]} == {
        "flood-ip": 0,
        "flood-group": 0,
    }
    shutil.copytree(PROJECT / "pipelines/flood", tmp_path / "pipelines/flood")
    rules = tmp_path / "pipelines/flood/rules.py"
    rules.write_text(rules.read_text().replace("HARMLESS = 30", "HARMLESS = 40"), encoding="utf-8")
    changed = Commands(stack, tmp_path)("replay", AGAIN, "--rule", "flood-ip", "--check", exits=1)
    (rule,) = changed["rules"]
    assert changed["events"] == len(log())
    assert (rule["stay"], rule["appear"], rule["disappear"]) == (1, 0, 2)
    assert [each["key"] for each in rule["disappearing"]] == ["10.0.0.aaa", "10.0.0.eee"]
    assert all(each["event_ids"] for each in rule["disappearing"])
    assert [rule["new"]] != rule["old"]


def test_ctrl_c_leaves_no_job_and_the_name_can_be_removed(millrace: Commands, stack: Settings, written: Path) -> None:
    running = millrace.begin("backfill", "flood-flink", "--from", str(written), "--into", BROKEN_OFF)
    assert running.stderr is not None
    for line in running.stderr:
        if "not running" in line:  # the job is being submitted
            running.send_signal(signal.SIGINT)
            break
    running.stderr.read()
    assert running.wait(ENDED_WITHIN_S) == 130
    assert wait_until(lambda: not up(millrace, BROKEN_OFF), ENDED_WITHIN_S)
    removed = millrace("teardown", BROKEN_OFF, "--data", "--yes")["changes"]
    assert f"{BROKEN_OFF}.requests" in [change["name"] for change in removed if change["action"] == "remove"]


def up(millrace: Commands, name: str) -> list[str]:
    states = [job["job"]["state"] for job in millrace("jobs", name)["jobs"].values()]
    return [state for state in states if state in ("starting", "running")]


def test_a_wrong_alert_turns_the_verdict_red(millrace: Commands, stack: Settings, again: dict[str, Any]) -> None:
    """The last of this file: it spoils what the others read."""
    one = next(alert for alert in alerts(stack, AGAIN).values() if alert["rule"] == "flood-ip")
    wrong = json.dumps(one | {"operands": one["operands"] | {"n": "99"}}).encode()
    topics.publish(stacks.addresses(stack)["KAFKA_BOOTSTRAP"], [(f"{AGAIN}.alerts", one["subject"].encode(), wrong)])
    found = millrace("validate", AGAIN, "--settled-after", "0", exits=1)
    assert [check["name"] for check in found["checks"] if check["status"] == "failed"] == ["alerts: flood-ip"]
