"""The unit of systemd that starts a stack at each boot."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.errors import InfraError
from millrace.settings import Settings
from millrace.verbs import service

ODD = 'a "odd" 100 % Ω folder'


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path / ODD),
        "PATH": "/opt/java/bin:/usr/bin",
        "MILLRACE_STATE": str(tmp_path / ODD / "state"),
    }


def test_it_runs_this_program_with_this_stack(environ: dict[str, str], tmp_path: Path) -> None:
    path = service.install(Settings.read(environ), environ)
    assert path == tmp_path / ODD / ".config/systemd/user/millrace-20000.service"
    text = path.read_text(encoding="utf-8")
    assert f'ExecStart="{sys.executable}" "-m" "millrace.cli" up\n' in text
    assert f'ExecStop="{sys.executable}" "-m" "millrace.cli" down\n' in text
    assert f'Environment="MILLRACE_STATE={tmp_path}/a \\"odd\\" 100 %% Ω folder/state"\n' in text
    assert 'Environment="PATH=/opt/java/bin:/usr/bin"\n' in text


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze")
def test_systemd_finds_no_fault_in_it(environ: dict[str, str]) -> None:
    path = service.install(Settings.read(environ), environ)
    words = ["systemd-analyze", "verify", "--user", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, env=environ | {"PATH": "/usr/bin:/bin"})
    assert [line for line in done.stderr.splitlines() if path.name in line] == []


def test_a_unit_that_is_removed_is_gone_and_one_that_is_not_there_is_named(environ: dict[str, str]) -> None:
    settings = Settings.read(environ)
    path = service.install(settings, environ)
    assert service.uninstall(settings, environ) == path
    assert not path.exists()
    named = r"there is no .*millrace-20000\.service; `millrace service install` writes it"
    with pytest.raises(InfraError, match=named):
        service.uninstall(settings, environ)
