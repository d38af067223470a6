import subprocess
import sys
from pathlib import Path

import pytest

from millrace.engines.flink import libraries as flink
from millrace.engines.spark import libraries as spark
from millrace.errors import InfraError
from millrace.machine import environments
from millrace.settings import PROJECT, Settings


@pytest.mark.parametrize("name", environments.FOLDERS)
def test_every_environment_has_the_python_that_all_are_made_from(name: str) -> None:
    said = subprocess.run([environments.python(name), "--version"], check=True, capture_output=True, text=True).stdout
    assert said.startswith("Python 3.11.")


def test_engines_are_where_their_servers_look_for_them() -> None:
    assert list((flink.package() / "lib").glob("flink-dist-*.jar"))
    assert list((spark.package() / "jars").glob("spark-core_*.jar"))


def test_each_engine_is_in_its_own_environment_only() -> None:
    found = {
        name: [engine for engine in ("pyflink", "pyspark", "airflow") if (packages(name) / engine).exists()]
        for name in environments.FOLDERS
    }
    assert found == {"cli": [], "flink": ["pyflink"], "spark": ["pyspark"], "airflow": ["airflow"]}


def packages(name: str) -> Path:
    return environments.python(name).parent.parent / "lib/python3.11/site-packages"


def test_set_up_begins_with_the_standard_library_alone() -> None:
    bare = Path(sys.base_prefix) / "bin/python3.11"
    code = f"import sys; sys.path.insert(0, {str(PROJECT)!r}); import millrace.machine.setup"
    done = subprocess.run([bare, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert done.stderr == ""


def test_an_environment_that_cannot_be_made_says_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "PROJECT", tmp_path)
    for name in ("pyproject.toml", "uv.lock"):
        (tmp_path / name).write_text("")
    settings = Settings(tmp_path, tmp_path / "home", tmp_path / "state", 20000)
    uv = settings.home / f"uv-{environments.UV_VERSION}"
    (uv / "bin").mkdir(parents=True)
    (uv / "complete").touch()
    (uv / "bin/uv").write_text("#!/bin/sh\necho no space left on device\nexit 2\n")
    (uv / "bin/uv").chmod(0o755)
    with pytest.raises(InfraError, match=r"the Python environment 'flink' could not be installed; .*\n  no space left"):
        environments.ensure(settings, "flink")
    assert "flink" in environments.absent()
