import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from millrace.settings import PROJECT

TERRAFORM = PROJECT / "terraform"
MODULES = sorted(path.parent for path in TERRAFORM.glob("modules/*/main.tf"))
ROOTS = sorted(path.parent for path in TERRAFORM.glob("*/main.tf"))


@dataclass
class Terraform:
    """Terraform in one folder, keeping what it writes elsewhere."""

    folder: Path
    kept: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str, codes: tuple[int, ...] = (0,), within_s: float = 600) -> str:
        """What it prints, errors included; fails unless it ends with one of the codes."""
        done = subprocess.run(
            ["terraform", *words],
            cwd=self.folder,
            env=self.variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=within_s,
        )
        assert done.returncode in codes, f"terraform {' '.join(words)}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def variables(self) -> dict[str, str]:
        cleared = {name: value for name, value in os.environ.items() if not name.startswith(("TF_", "MILLRACE_"))}
        # Terraform allocates much and ends soon: collecting its garbage more rarely saves a third of its time.
        cleared.setdefault("GOGC", "400")
        return cleared | {"TF_DATA_DIR": str(self.kept), "TF_IN_AUTOMATION": "1", "NO_COLOR": "1"} | self.environment

    def init(self) -> "Terraform":
        self.run("init", "-no-color", "-input=false")
        return self

    def planned(self, *words: str) -> dict[str, Any]:
        """The plan as JSON."""
        out = self.kept / "plan"
        self.run("plan", "-no-color", "-input=false", f"-out={out}", f"-state={self.kept}/none.tfstate", *words)
        found: dict[str, Any] = json.loads(self.run("show", "-json", str(out)))
        return found


@pytest.fixture
def terraform_in(tmp_path: Path):
    """Makes Terraform ready in a folder; where there is no Terraform, the suite is skipped and named."""
    if not shutil.which("terraform"):
        said = "tests/terraform: terraform is not on PATH; `millrace doctor` says where to get it"
        if os.environ.get("MILLRACE_REQUIRE_TERRAFORM"):
            pytest.fail(said)
        pytest.skip(said)

    def make(folder: Path, **environment: str) -> Terraform:
        kept = tmp_path / "terraform-data"
        kept.mkdir(exist_ok=True)
        return Terraform(folder, kept, environment).init()

    return make


def resources(planned: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The inputs of all planned terraform_data of a name."""

    def below(module: dict[str, Any]) -> list[dict[str, Any]]:
        own = [one["values"]["input"] for one in module.get("resources", ()) if one["name"] == kind]
        return own + [each for child in module.get("child_modules", ()) for each in below(child)]

    return below(planned["planned_values"]["root_module"])
