import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from millrace.machine import jars
from millrace.machine.jars import JarError
from millrace.settings import PROJECT, Settings

A, B = b"the bytes of a", b"the bytes of b"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A project of one component with two jars, locked and present."""
    settings = Settings(tmp_path, tmp_path / "höme", tmp_path / "state", 20000, package=tmp_path / "Mühle x")
    pom = settings.package / "machine/jars/mill/pom.xml"
    pom.parent.mkdir(parents=True)
    pom.write_text("<project/>")
    place = jars.folder(settings, "mill")
    place.mkdir(parents=True)
    (place / "a-1.jar").write_bytes(A)
    (place / "b-1.jar").write_bytes(B)
    lock = jars.Lock(place.name, {path.name: jars.hash_of(path) for path in place.glob("*.jar")})
    jars.lock_path(settings).write_text(jars.lock_text({"mill": lock}))
    jars.write_marker(place, lock)
    return settings


def test_present_and_unchanged_jars_need_no_download(settings: Settings) -> None:
    assert jars.ensure(settings, ["mill"]) == []


def test_a_tampered_jar_is_refused_by_name(settings: Settings) -> None:
    (jars.folder(settings, "mill") / "b-1.jar").write_bytes(b"THE BYTES OF B")
    with pytest.raises(JarError, match=r"b-1\.jar was changed: its SHA-256 is [0-9a-f]{64}, in the lock it is"):
        jars.ensure(settings, ["mill"])


def test_tampering_that_hides_behind_size_and_time_is_found_when_all_is_read_again(settings: Settings) -> None:
    jar = jars.folder(settings, "mill") / "b-1.jar"
    before = jar.stat()
    jar.write_bytes(B.upper())
    os.utime(jar, ns=(before.st_atime_ns, before.st_mtime_ns))
    lock = jars.read_lock(settings)["mill"]
    with pytest.raises(JarError, match=r"b-1\.jar was changed"):
        jars.is_complete(settings, "mill", lock, reread=True)


def test_a_touched_jar_is_read_once_and_believed(settings: Settings) -> None:
    place = jars.folder(settings, "mill")
    os.utime(place / "a-1.jar", (1, 1))
    assert jars.ensure(settings, ["mill"]) == []
    assert json.loads((place / ".complete").read_text())["a-1.jar"][2] == 1_000_000_000


def test_an_unlisted_jar_is_refused_by_name(settings: Settings) -> None:
    (jars.folder(settings, "mill") / "evil.jar").write_bytes(b"")
    with pytest.raises(JarError, match=r"evil\.jar is not in the lock; remove it"):
        jars.ensure(settings, ["mill"])


@pytest.mark.parametrize("lost", [".complete", "a-1.jar"])
def test_a_folder_that_is_not_whole_is_not_believed(settings: Settings, lost: str) -> None:
    (jars.folder(settings, "mill") / lost).unlink()
    assert not jars.is_complete(settings, "mill", jars.read_lock(settings)["mill"])


def test_a_pom_changed_after_the_lock_is_refused(settings: Settings) -> None:
    (settings.package / "machine/jars/mill/pom.xml").write_text("<project></project>")
    with pytest.raises(JarError, match=r"mill/pom\.xml is not the one that .*lock\.json was made from"):
        jars.ensure(settings, ["mill"])


def test_an_unknown_component_is_named_with_those_there_are(settings: Settings) -> None:
    with pytest.raises(JarError, match="no component 'mil'; choose one of: mill"):
        jars.ensure(settings, ["mil"])


def test_without_maven_nothing_is_half_believed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    (jars.folder(settings, "mill") / "a-1.jar").unlink()
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(JarError, match=r"Maven \(mvn\) is not on PATH; `millrace doctor`"):
        jars.ensure(settings, ["mill"])
    assert not jars.is_complete(settings, "mill", jars.read_lock(settings)["mill"])


def test_the_committed_lock_belongs_to_the_committed_poms() -> None:
    settings = Settings.read({"MILLRACE_HOME": "/nowhere"})
    locks = jars.read_lock(settings)
    assert sorted(locks) == jars.components(settings)
    assert {name: lock.pom for name, lock in locks.items()} == {
        name: jars.folder(settings, name).name for name in jars.components(settings)
    }
    assert jars.lock_path(settings).read_text() == jars.lock_text(locks)


# One small jar from the real repository, by the real Maven.
JACKSON = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>t</groupId><artifactId>t</artifactId><version>1</version><packaging>pom</packaging><dependencies><dependency>
<groupId>com.fasterxml.jackson.core</groupId><artifactId>jackson-core</artifactId><version>2.21.2</version>
</dependency></dependencies></project>"""


@pytest.fixture
def remote(tmp_path: Path) -> Settings:
    settings = Settings(tmp_path, tmp_path / "höme", tmp_path / "state", 20000, package=tmp_path / "Mühle x")
    pom = settings.package / "machine/jars/mill/pom.xml"
    pom.parent.mkdir(parents=True)
    pom.write_text(JACKSON)
    locked = jars.read_lock(Settings.read({}))["flink"].jars["jackson-core-2.21.2.jar"]
    write_lock(settings, locked)
    return settings


def write_lock(settings: Settings, locked: jars.Jar) -> None:
    lock = jars.Lock(jars.folder(settings, "mill").name, {"jackson-core-2.21.2.jar": locked})
    jars.lock_path(settings).write_text(jars.lock_text({"mill": lock}))


@pytest.mark.builds
@pytest.mark.stack
def test_two_at_once_download_once(remote: Settings) -> None:
    seen: list[tuple[str, int, int]] = []
    with ThreadPoolExecutor() as workers:
        both = [workers.submit(jars.ensure, remote, ["mill"], lambda *what: seen.append(what)) for _ in range(2)]
        assert sorted(len(one.result()) for one in both) == [0, 1]
    size = jars.read_lock(remote)["mill"].size
    assert seen[0] == ("mill", 0, size)
    assert seen[-1] == ("mill", size, size)
    assert sorted(path.name for path in jars.folder(remote, "mill").iterdir()) == [
        ".complete",
        "jackson-core-2.21.2.jar",
    ]


@pytest.mark.builds
@pytest.mark.stack
def test_a_download_that_differs_from_the_lock_is_refused(remote: Settings) -> None:
    size = jars.read_lock(remote)["mill"].size
    write_lock(remote, jars.Jar("0" * 64, size))
    with pytest.raises(JarError, match=r"jackson-core-2\.21\.2\.jar was changed"):
        jars.ensure(remote, ["mill"])
    assert not jars.folder(remote, "mill").exists()


@pytest.mark.builds
@pytest.mark.stack
def test_an_interrupted_download_leaves_no_usable_jars_and_no_process(tmp_path: Path) -> None:
    environ = {**os.environ, "MILLRACE_HOME": str(tmp_path / "höme")}
    command = [sys.executable, "-m", "millrace.machine.jars", "ensure", "hdfs"]
    with subprocess.Popen(command, cwd=PROJECT, env=environ, stderr=subprocess.PIPE, start_new_session=True) as started:
        log = tmp_path / "höme/jars/hdfs/maven.log"
        deadline = time.monotonic() + 60
        while not (log.exists() and "Downloaded" in log.read_text()):
            assert started.poll() is None
            assert time.monotonic() < deadline, "Maven did not begin to download"
            time.sleep(0.05)
        started.send_signal(signal.SIGINT)
        assert started.wait(30) != 0
        with pytest.raises(ProcessLookupError):
            os.killpg(started.pid, 0)
    settings = Settings.read(environ)
    assert not jars.is_complete(settings, "hdfs", jars.read_lock(settings)["hdfs"])
