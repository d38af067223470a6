import subprocess
from pathlib import Path

from millrace import records
from millrace.settings import Settings


def test_a_record_has_its_kind_machine_and_commit(tmp_path: Path) -> None:
    settings = Settings(tmp_path, tmp_path / "home", tmp_path / "state", 20000)
    records.append(settings, "latency", {"ms_p99": 24}, seed=7)
    records.append(settings, "latency", {"ms_p99": 25}, seed=8)
    records.append(settings, "setup", {})
    first, second = records.read(settings, "latency")
    assert (first["figures"], first["seed"], first["commit"]) == ({"ms_p99": 24}, 7, None)
    assert (second["figures"], second["seed"]) == ({"ms_p99": 25}, 8)
    assert first["machine"]["cpus"] >= 1
    assert 0 < first["machine"]["million_steps_ms"] < 10_000
    assert len(first["load_average"]) == 3


def test_a_commit_with_changes_is_not_passed_off_as_the_commit(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        name = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        return subprocess.run(["git", "-C", tmp_path, *name, *words], check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    commit = git("rev-parse", "HEAD").strip()
    assert records.commit(tmp_path) == commit
    (tmp_path / "file").touch()
    assert records.commit(tmp_path) == f"{commit}+changes"
