import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from millrace import kernel, registry
from millrace.errors import InfraError
from millrace.settings import PACKAGE, Settings

pytestmark = pytest.mark.builds


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A package with no Java of its own yet, and the real engines' jars."""
    real, package = Settings.read(os.environ), tmp_path / "millrace"
    for part in ("machine/lock", *(f"engines/{engine}/pom.xml" for engine in registry.names())):
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

KAFKA = "package millrace.kafka; public class D { org.apache.kafka.common.Metric metric = null; }"


def test_each_engine_has_a_jar_of_the_shared_part_and_its_own(settings: Settings) -> None:
    source(settings, "kernel/java/A.java", SHARED)
    source(settings, "engines/flink/java/B.java", FLINK)
    source(settings, "engines/spark/java/C.java", SPARK)
    source(settings, "kernel/java/note.txt", "goes along")
    assert kernel.engines(settings) == ["flink", "spark"]
    for engine, own in (("flink", "flink/B"), ("spark", "spark/C")):
        jar = kernel.ensure(settings, engine)
        names = {name for name in zipfile.ZipFile(jar).namelist() if not name.startswith("META-INF")}
        assert names == {"note.txt", "millrace/kernel/A.class", f"millrace/{own}.class"}


def test_a_further_part_is_in_the_jars_of_the_engines_that_name_it(settings: Settings) -> None:
    source(settings, "kernel/java/A.java", SHARED)
    source(settings, "kernel/kafka/java/D.java", KAFKA)
    source(settings, "engines/streams/java/E.java", "package millrace.streams; class E extends millrace.kafka.D {}")
    source(settings, "engines/flink/java/B.java", FLINK)
    with_it, without = (zipfile.ZipFile(kernel.ensure(settings, each)).namelist() for each in ("streams", "flink"))
    assert "millrace/kafka/D.class" in with_it
    assert "millrace/kafka/D.class" not in without
    source(settings, "kernel/kafka/java/D.java", KAFKA.replace("Metric ", "streams.KafkaStreams "))
    with pytest.raises(InfraError, match=r"package org\.apache\.kafka\.common\.streams does not exist"):
        kernel.ensure(settings, "streams")


def test_an_engine_whose_environment_is_absent_is_not_needed_for_the_jar_of_another(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    source(settings, "kernel/java/A.java", SHARED)
    source(settings, "engines/flink/java/B.java", FLINK)
    source(settings, "engines/spark/java/C.java", SPARK)
    monkeypatch.setattr("millrace.engines.spark.libraries.compiled_against", lambda settings: [])
    before = kernel.ensure(settings, "flink")
    source(settings, "engines/spark/java/C.java", "this does not compile")
    assert kernel.ensure(settings, "flink") == before
    with pytest.raises(InfraError, match="compiled against are missing; run `millrace setup`"):
        kernel.ensure(settings, "spark")


def test_the_same_sources_are_compiled_once_and_make_the_same_bytes(settings: Settings) -> None:
    source(settings, "kernel/java/A.java", SHARED)
    first = kernel.ensure(settings, "flink")
    written, content = first.stat().st_mtime_ns, first.read_bytes()
    assert kernel.ensure(settings, "flink").stat().st_mtime_ns == written
    first.unlink()
    assert kernel.ensure(settings, "flink").read_bytes() == content
    source(settings, "kernel/java/A.java", SHARED + "\n")
    assert kernel.ensure(settings, "flink") != first


def test_the_shared_part_cannot_come_to_need_an_engine(settings: Settings) -> None:
    source(settings, "kernel/java/A.java", "package millrace.kernel; class A { org.apache.flink.types.Row row; }")
    with pytest.raises(
        InfraError, match=r"the kernel does not compile:\n.*A\.java:1: error: package org\.apache\.flink"
    ):
        kernel.ensure(settings, "flink")
