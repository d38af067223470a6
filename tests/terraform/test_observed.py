"""Module `observed`: the answer of an observer, or its absence, as differences."""

import json
import os
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from millrace.machine import processes
from millrace.verbs import observation_server
from tests.terraform.conftest import TERRAFORM

pytestmark = pytest.mark.builds

MAIN = """
module "observed" {
  source   = "%s/modules/observed"
  state    = "%s"
  port     = %d
  patterns = ["flink"]
}

output "provision" {
  value = module.observed.provision["flink"]
}
"""


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[int]:
    """An observer in this process, which answers with the text of a file."""
    monkeypatch.setattr(observation_server, "answer", lambda *_: (tmp_path / "answer").read_text())
    server = ThreadingHTTPServer(("127.0.0.1", 0), observation_server.Answers)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    (tmp_path / "run").mkdir()
    record: dict[str, object] = {"pid": os.getpid(), "started": processes.started(os.getpid())}
    record |= {"boot": processes.boot_id(), "fingerprint": f"{server.server_port} "}
    (tmp_path / "run" / "observer.json").write_text(json.dumps(record))
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"version": 1, "servers": {}, "provision": {"flink": ["it is gone"]}}, ["it is gone"]),
        ({"version": 2, "servers": {}, "provision": {"flink": []}}, ["in version 2, not 1"]),
        ({"servers": {}, "provision": {"flink": []}}, ["in version 0, not 1"]),
        ({"problem": "Kafka is away"}, ["the state is unknown: Kafka is away"]),
    ],
    ids=["understood", "newer", "older", "failed"],
)
def test_an_answer_that_cannot_be_read_leaves_the_state_unknown(terraform_in, tmp_path, port, answer, expected):
    (tmp_path / "answer").write_text(json.dumps({"deploy": {"flink": []}, "settled": {}} | answer))
    root = tmp_path / "root"
    root.mkdir()
    (root / "main.tf").write_text(MAIN % (TERRAFORM, tmp_path, port))
    found = terraform_in(root).planned()["planned_values"]["outputs"]["provision"]["value"]
    assert len(found) == len(expected)
    assert expected[0] in found[0]


def test_an_observer_that_was_started_for_other_ports_fails_no_plan(terraform_in, tmp_path: Path, port: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "main.tf").write_text(MAIN % (TERRAFORM, tmp_path, port - 1))
    found = terraform_in(root).planned()["planned_values"]["outputs"]["provision"]["value"]
    assert found == ["the state is unknown: the observer does not run"]
