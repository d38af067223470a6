"""A job reaches Flink by a warm gateway; without one that works, by a JVM of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.engines.flink import gateway, submission, warm_up
from millrace.patterns import load_all
from millrace.settings import PROJECT

JOB = {"name": "p (generation 1)"}


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The jars of a Flink home."""
    folder = tmp_path / "home" / "lib"
    folder.mkdir(parents=True)
    (tmp_path / "first.jar").touch()
    (folder / "millrace-kernel.jar").symlink_to(tmp_path / "first.jar")
    monkeypatch.setenv("FLINK_HOME", str(folder.parent))
    return folder


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The jobs for which a JVM would have been started."""
    started: list[dict[str, Any]] = []
    monkeypatch.setattr(submission, "_submit_cold", started.append)
    return started


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Callable[[bytes | None], Path]]:
    """A socket that gives every client one answer, or none; its path is longer than a socket's may be."""
    folder = tmp_path / ("a" * 120)
    folder.mkdir()
    server = socket.socket(socket.AF_UNIX)
    over = threading.Event()

    def listen(answer: bytes | None) -> Path:
        with pytest.MonkeyPatch.context() as inside:
            inside.chdir(folder)
            server.bind("socket")
        server.listen()
        threading.Thread(target=serve, args=(answer,), daemon=True).start()
        return folder / "socket"

    def serve(answer: bytes | None) -> None:
        client, _ = server.accept()
        with client:
            while client.recv(65536):
                pass
            if answer is None:
                over.wait()
            else:
                client.sendall(answer)

    yield listen
    over.set()
    server.close()


def test_a_gateway_that_takes_the_job_is_all_that_is_needed(
    library: Path, cold: list[dict[str, Any]], answering: Callable[[bytes | None], Path]
) -> None:
    submission.submit(JOB, answering(b'{"job_id": "abc"}'))
    assert cold == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b'{"refused": "other jars"}', "refuses: other jars"),
        (b"", "does not answer"),
        (b"no JSON", "does not answer"),
        (None, "does not answer within 0 s"),
    ],
    ids=["refuses", "died", "nonsense", "hangs"],
)
def test_a_gateway_that_does_not_take_the_job_is_named_and_a_jvm_is_started(
    answer: bytes | None,
    reason: str,
    library: Path,
    cold: list[dict[str, Any]],
    answering: Callable[[bytes | None], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(gateway, "SUBMIT_WITHIN_S", 0.3)
    submission.submit(JOB, at := answering(answer))
    assert cold == [JOB]
    assert capsys.readouterr().out.startswith(f"the gateway at {at} {reason}")


@pytest.mark.parametrize("where", [None, Path("/nowhere/socket")], ids=["none", "not there"])
def test_without_a_gateway_a_jvm_is_started(where: Path | None, library: Path, cold: list[dict[str, Any]]) -> None:
    submission.submit(JOB, where)
    assert cold == [JOB]


def test_what_flink_refuses_is_not_tried_again(
    library: Path, cold: list[dict[str, Any]], answering: Callable[[bytes | None], Path]
) -> None:
    refusal = {"error": "Caused by: Job has already been submitted."}
    with pytest.raises(SystemExit, match="already been submitted"):
        submission.submit(JOB, answering(json.dumps(refusal).encode()))
    assert cold == []


def test_a_home_without_the_kernel_is_refused(
    tmp_path: Path, cold: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINK_HOME", str(tmp_path))
    with pytest.raises(SystemExit, match=r"holds no kernel in lib/"):
        submission.submit(JOB, None)
    assert cold == []


def test_the_jars_are_named_by_what_the_links_point_to(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(gateway, "request", lambda _, text, __: asked.append(json.loads(text)) or {"job_id": "abc"})
    gateway.submit(tmp_path / "socket", JOB, library)
    (tmp_path / "second.jar").touch()
    (library / "millrace-kernel.jar").unlink()
    (library / "millrace-kernel.jar").symlink_to(tmp_path / "second.jar")
    gateway.submit(tmp_path / "socket", JOB, library)
    assert [question["library"] for question in asked] == [
        [str(tmp_path / "first.jar")],
        [str(tmp_path / "second.jar")],
    ]


def test_a_gateway_warms_up_with_a_flink_job_of_the_patterns() -> None:
    job = json.loads(warm_up.submission())
    first = next(one for one in load_all() if one.pattern.stages.events.engine == "flink")
    assert job["name"] == f"{first.name} (generation 1)"
    assert job["settings"]["rest.address"] == "127.0.0.1"
    assert job["definitions"]
    assert job["inserts"]


def test_the_gateway_finds_the_job_on_its_input() -> None:
    assert became_cat("") == warm_up.submission()


def test_the_gateway_starts_with_rules_that_cannot_be_read() -> None:
    broken = "warm_up.submission = lambda: [][0]; "
    assert became_cat(broken) == "no warm-up, the first submission takes longer: list index out of range\n"


def became_cat(change: str) -> str:
    """What `cat` prints as the command of a warm-up."""
    program = f"from millrace.engines.flink import warm_up; {change}warm_up.main(['cat'])"
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, check=True, capture_output=True, text=True)
    return done.stdout
