"""Module `lifecycle`: which verbs a change calls, in a command line that only writes them down."""

import shutil
from pathlib import Path

import pytest

from tests.terraform.conftest import TERRAFORM, Terraform

pytestmark = pytest.mark.builds

MAIN = """
variable "servers" {
  type    = string
  default = "first"
}

variable "place" {
  type    = string
  default = "here"
}

module "lifecycle" {
  source      = "./modules/lifecycle"
  pattern     = "flink"
  topics      = {}
  tables      = {}
  jobs        = {}
  cli         = abspath("cli")
  environment = { MILLRACE_STATE = abspath("."), PLACE = var.place }
  servers     = var.servers
  identity    = var.place
}
"""
ALL = ["here provision flink", "here deploy flink", "here validate flink"]


@pytest.fixture
def lifecycle(terraform_in, tmp_path: Path) -> Terraform:
    (tmp_path / "main.tf").write_text(MAIN)
    shutil.copytree(TERRAFORM / "modules", tmp_path / "modules")  # a module names the next one within its own folder
    (tmp_path / "cli").write_text(f'#!/bin/sh\necho "$PLACE $@" >> "{tmp_path}/calls"\n')
    (tmp_path / "cli").chmod(0o755)
    return terraform_in(tmp_path)


def calls_of(lifecycle: Terraform, *words: str) -> list[str]:
    calls = lifecycle.folder / "calls"
    calls.unlink(missing_ok=True)
    lifecycle.run("apply", "-no-color", "-auto-approve", *words)
    return calls.read_text().splitlines() if calls.exists() else []


def test_after_a_start_of_servers_every_verb_is_called_again(lifecycle: Terraform) -> None:
    assert calls_of(lifecycle) == ALL
    assert calls_of(lifecycle) == []
    assert calls_of(lifecycle, "-var=servers=second") == ALL


def test_jobs_leave_the_place_where_they_run_before_they_are_deployed_elsewhere(lifecycle: Terraform) -> None:
    calls_of(lifecycle)
    moved = calls_of(lifecycle, "-var=place=there", "-var=servers=second")
    assert moved == ["here teardown flink", "there provision flink", "there deploy flink", "there validate flink"]
