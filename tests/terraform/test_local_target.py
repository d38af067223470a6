"""The local target on real servers, in a copy of the clone: applied, stopped short, lost, repaired, changed, gone."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from millrace import records
from millrace import stack as stacks
from millrace.machine import processes
from millrace.settings import PORTS, PROJECT, Settings
from tests.terraform.conftest import Terraform

pytestmark = [pytest.mark.stack, pytest.mark.timeout(3600)]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of this clone with its own command line, rules and patterns, which its jobs see, too."""
    copy = tmp_path / "clone"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (PROJECT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, copy / name)
    names = "from millrace.machine import environments; from millrace.settings import Settings"
    program = f"import os; {names}; environments.ensure(Settings.read(os.environ), 'cli')"
    subprocess.run([sys.executable, "-c", program], cwd=copy, check=True, env=os.environ | {"PYTHONPATH": str(copy)})
    return copy


@pytest.fixture
def local(clone: Path, tmp_path: Path, test_port_base: int, terraform_in) -> Iterator[Terraform]:
    """The target, with a state folder and ports of its own; an interrupted test leaves no server of it running."""
    home = Settings.read(os.environ).home
    settings = Settings(clone, home, tmp_path / "state", test_port_base + 600)
    yield terraform_in(
        clone / "terraform" / "local",
        TF_VAR_state=str(settings.state),
        TF_VAR_port_base=str(settings.port_base),
        TF_VAR_home=str(home),
    )
    stacks.down(settings)


def listeners(base: int) -> list[int]:
    """The ports of the stack that are open."""
    ports = {base + offset for offset in PORTS.values()}
    found = psutil.net_connections(kind="tcp")
    return sorted({one.laddr.port for one in found if one.status == psutil.CONN_LISTEN and one.laddr.port in ports})


def test_an_interrupted_apply_leaves_nothing_running_and_the_next_one_lives_a_whole_life(
    local: Terraform, clone: Path, tmp_path: Path
):
    """All servers are interrupted; what is applied next is lost, repaired, changed and destroyed, and runs on few."""
    interrupt_an_apply(local)
    quick, patterns = yaml.safe_load((clone / "pipelines/fraud/patterns/streams.yaml").read_text()), ("quick", "theirs")
    quick["stages"].pop("persist")
    for name in patterns:
        (clone / f"pipelines/fraud/patterns/{name}.yaml").write_text(yaml.safe_dump(quick))
    subprocess.run([clone / ".venv/bin/millrace", "declare"], cwd=clone, check=True)
    live(local, clone, tmp_path, *patterns, engines=["streams"], services=["hdfs", "kafka", "streams"])


@pytest.mark.drill
def test_a_pattern_of_two_engines_and_stores_lives_a_whole_life(local: Terraform, clone: Path, tmp_path: Path):
    all_by_default = ["dashboard", "flink", "hbase", "hdfs", "kafka", "spark"]
    engines = ["flink", "spark"]
    figures = live(local, clone, tmp_path, "flink-spark", "flink", engines=engines, services=all_by_default)
    records.append(Settings.read(os.environ), "terraform-local", figures)


def live(
    local: Terraform, clone: Path, tmp_path: Path, pattern: str, theirs: str, *, engines: list[str], services: list[str]
) -> dict[str, Any]:
    """A stack and a pattern, and another team's pattern on the same servers, until all is destroyed; its times."""
    local.run("init", "-no-color", "-test-directory=tests/stack")
    began = time.monotonic()
    said = local.run(
        *(
            "test",
            "-json",
            "-test-directory=tests/stack",
            f'-var=clone="{clone}"',
            f'-var=folder="{tmp_path / "state"}"',
            f"-var=patterns={json.dumps([pattern])}",
            f"-var=pattern={json.dumps(pattern)}",
            f"-var=theirs={json.dumps(theirs)}",
            f"-var=engines={json.dumps(engines)}",
            f"-var=services={json.dumps(services)}",
        ),
        codes=(0, 1),
        within_s=3000,
    )
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    runs = [line["test_run"] for line in lines if is_end_of_run(line)]
    problems = [line["diagnostic"] for line in lines if line["type"] == "diagnostic" and line["@level"] == "error"]
    assert not problems, json.dumps(problems, indent=1)
    assert runs
    assert {each["status"] for each in runs} == {"pass"}
    assert listeners(int(local.environment["TF_VAR_port_base"])) == []
    assert any((tmp_path / "state" / "data").iterdir()), "a destroy keeps the data"
    return {"seconds": round(time.monotonic() - began, 1), "runs": seconds_of(lines)}


def interrupt_an_apply(local: Terraform) -> None:
    """Begin to apply, press Ctrl-C as soon as a server starts, and wait until nothing listens any more."""
    apply = subprocess.Popen(
        ["terraform", "apply", "-no-color", "-auto-approve", "-input=false", "-var", "patterns=[]"],
        cwd=local.folder,
        env=local.variables(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    base = int(local.environment["TF_VAR_port_base"])
    assert apply.stdout is not None
    seen = []
    for line in apply.stdout:
        seen.append(line)
        if "kafka-1" in line and "starting" in line:
            os.killpg(apply.pid, signal.SIGINT)  # Ctrl-C reaches the whole group
            break
    else:
        pytest.fail(f"no server was started\n{''.join(seen)}")
    said = apply.stdout.read()
    assert apply.wait(timeout=300) != 0, said
    # Terraform does not wait for the command line to have stopped what it began.
    assert processes.wait_until(lambda: not listeners(base), 300), f"{listeners(base)} are in use\n{said}"


def is_end_of_run(line: dict) -> bool:
    """Terraform reports a long run every two seconds, also while it destroys."""
    return line["type"] == "test_run" and line["test_run"]["progress"] == "complete"


def seconds_of(lines: list[dict]) -> dict[str, float]:
    """How long each run took, the destroying at the end included."""
    ends = [
        (line["test_run"]["run"] if is_end_of_run(line) else "destroy", datetime.fromisoformat(line["@timestamp"]))
        for line in lines
        if is_end_of_run(line) or line["type"] == "test_summary"
    ]
    first = datetime.fromisoformat(lines[0]["@timestamp"])
    starts = [first, *(at for _, at in ends)]
    return {name: round((at - before).total_seconds(), 1) for (name, at), before in zip(ends, starts, strict=False)}
