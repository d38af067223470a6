import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from millrace import kernel
from millrace.errors import InfraError
from millrace.settings import PACKAGE, Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A package with no Java of its own yet, and the real engines' jars."""
    real, package = Settings.read(os.environ), tmp_path / "millrace"
    for part in ("machine/lock", "machine/jars/flink", "machine/jars/spark"):
        (package / part).parent.mkdir(parents=True, exist_ok=True)
        (package / part).symlink_to(PACKAGE / part)
    (tmp_path / "home").mkdir()
    for part in ("jars", "environments"):
        (tmp_path / "home" / part).symlink_to(real.home / part)
    return replace(real, package=package, home=tmp_path / "home")


def source(settings: Settings, path: str, text: str) -> None:
    file = settings.package / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


SHARED = "package millrace.kernel; public class A { public static int twice(int number) { return 2 * number; } }"
FLINK = "package millrace.flink; class B { org.apache.flink.types.Row row; int i = millrace.kernel.A.twice(1); }"
SPARK = "package millrace.spark; class C { org.apache.spark.sql.Row row; int i = millrace.kernel.A.twice(1); }"


def test_each_part_is_compiled_against_its_own_engine_into_one_jar(settings: Settings) -> None:
    source(settings, "kernel/java/A.java", SHARED)
    source(settings, "engines/flink/java/B.java", FLINK)
    source(settings, "engines/spark/java/C.java", SPARK)
    source(settings, "kernel/java/note.txt", "goes along")
    jar = kernel.ensure(settings)
    names = {name for name in zipfile.ZipFile(jar).namelist() if not name.startswith("META-INF")}
    assert names == {"note.txt", *(f"millrace/{name}.class" for name in ("kernel/A", "flink/B", "spark/C"))}


def test_the_same_sources_are_compiled_once_and_make_the_same_bytes(settings: Settings) -> None:
    source(settings, "kernel/java/A.java", SHARED)
    first = kernel.ensure(settings)
    written, content = first.stat().st_mtime_ns, first.read_bytes()
    assert kernel.ensure(settings).stat().st_mtime_ns == written
    first.unlink()
    assert kernel.ensure(settings).read_bytes() == content
    source(settings, "kernel/java/A.java", SHARED + "\n")
    assert kernel.ensure(settings) != first


def test_the_shared_part_cannot_come_to_need_an_engine(settings: Settings) -> None:
    source(settings, "kernel/java/A.java", "package millrace.kernel; class A { org.apache.spark.sql.Row row; }")
    with pytest.raises(
        InfraError, match=r"the kernel does not compile:\n.*A\.java:1: error: package org\.apache\.spark"
    ):
        kernel.ensure(settings)
