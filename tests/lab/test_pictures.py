"""The pictures of the README: there, small, and with the commit that they show."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from lab.pictures import BYTES_MOST, FOLDER, SCHEMES, keep
from millrace.settings import PROJECT, Settings


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_readme_shows_a_small_picture_of_each_scheme(scheme: str) -> None:
    path = FOLDER / f"live-{scheme}.webp"
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    assert re.search(rf'src(set)?="{path}"', readme)
    assert "(docs/records/pictures.json)" in readme
    assert 20_000 < (PROJECT / path).stat().st_size <= BYTES_MOST


def test_their_record_names_the_commit_that_they_show(tmp_path: Path) -> None:
    project = tmp_path / "project"
    git = [
        "git",
        "-C",
        str(project),
        "-c",
        "user.name=n",
        "-c",
        "user.email=e@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    (project / FOLDER).mkdir(parents=True)
    (project / FOLDER / "live-light.webp").write_bytes(b"old")
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    keep(Settings(project, tmp_path, tmp_path / "state", 20000), {"light": b"new"}, taken_s=61.2)
    assert (project / FOLDER / "live-light.webp").read_bytes() == b"new"
    (record,) = (json.loads(path.read_text()) for path in (tmp_path / "state" / "records").iterdir())
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert (record["commit"], record["figures"]["seconds"]) == (head, {"taken after": 61.2})
