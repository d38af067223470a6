"""`dag.test()`: a DAG against the real stack as its author runs it, in one process and without Airflow's servers."""

import json
import subprocess
from pathlib import Path

import pytest

from millrace import deployments
from millrace.machine.environments import python
from millrace.servers.airflow import Airflow
from millrace.settings import PROJECT, Settings
from millrace.target import Target

pytestmark = [pytest.mark.stack, pytest.mark.drill, pytest.mark.timeout(1800)]


def test_a_pattern_is_proven_in_one_process(stack: Settings, tmp_path: Path) -> None:
    environment = (
        Airflow(stack).environment()
        | stack.environment()
        | {
            "AIRFLOW_HOME": str(tmp_path),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "LC_ALL": "C.UTF-8",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        }
    )
    airflow = [str(python(stack, "airflow")), "-m", "airflow"]
    subprocess.run([*airflow, "db", "migrate"], env=environment, cwd=tmp_path, check=True, capture_output=True)
    conf = {"events": 1000, "rate_per_s": 100, "seed": 11, "remove_data": True}
    words = [str(Path(__file__).with_name("one_process.py")), str(PROJECT / "dags"), "prove-spark", json.dumps(conf)]
    done = subprocess.run(
        [str(python(stack, "airflow")), *words], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    ended = json.loads(done.stdout.splitlines()[-1])
    assert ended["state"] == "success", ended
    assert ended["tasks"].pop("fault") == "skipped"
    assert set(ended["tasks"].values()) == {"success"}
    target = Target.read(stack, {})
    assert deployments.deployed(target, "spark") == {}, "its data was to be removed"
