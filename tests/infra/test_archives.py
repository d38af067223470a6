"""Class data archives: who uses which, and that a JVM starts whatever became of its archive."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millrace.machine import archives, processes
from millrace.machine.processes import ProcessRecord
from millrace.settings import Settings

PROGRAM = """
public class Waits {
    public static void main(String[] words) throws Exception {
        System.out.println("up");
        Thread.currentThread().join();
    }
}
"""


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "Waits.java").write_text(PROGRAM)
    for command in (["javac", "Waits.java"], ["jar", "cf", "waits.jar", "Waits.class"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "waits.jar"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A home and a stack of this test's own; with a space and an umlaut, as a user's may have."""
    return Settings(tmp_path, tmp_path / "my höme", tmp_path / "state", 20000)


@pytest.fixture
def start(settings: Settings, jar: Path) -> Iterator[Callable[[], ProcessRecord]]:
    """Starts the program as a server is started, in a JVM that uses an archive or records one."""
    begun = []

    def begin() -> ProcessRecord:
        # With a folder of files behind the jars, as servers have their configuration.
        command = archives.archived(settings, ["java", "-XX:+UseSerialGC", "-cp", f"{jar}:{jar.parent}", "Waits"])
        name = f"waits-{len(begun)}"
        record = processes.start(name, command, {}, settings.state / f"{name}.out", settings.run)
        begun.append(record)
        assert processes.wait_until(lambda: record.log.read_text().endswith("up\n"), 60), record.log.read_text()
        return record

    yield begin
    for record in begun:
        processes.stop(record, within_s=5)


def mapped(record: ProcessRecord) -> list[Path]:
    """The archives that a JVM maps, beside the JDK's own."""
    lines = Path(f"/proc/{record.pid}/maps").read_text().splitlines()
    return sorted({Path(line.split(maxsplit=5)[5]) for line in lines if "/archives/" in line and ".jsa" in line})


def place(settings: Settings, class_path: str, main: str = "org.example.Main") -> str:
    """Where a JVM's archive is to go."""
    given = archives.options(settings, main, class_path)
    return next(word for word in given if word.startswith("-D")).partition("=")[2]


def printed(record: ProcessRecord) -> list[str]:
    return [line for line in record.log.read_text().splitlines() if "JDK_JAVA_OPTIONS" not in line]


def kept(settings: Settings) -> list[Path]:
    return sorted((settings.home / "archives").glob("*.jsa"))


@pytest.mark.builds
def test_the_first_start_is_archived_and_the_next_one_maps_it(
    settings: Settings, start: Callable[[], ProcessRecord]
) -> None:
    first = start()
    assert mapped(first) == []
    said: list[str] = []
    archives.make(settings, said.append)
    assert processes.alive(first)
    second = start()
    assert mapped(second) == kept(settings), said
    archives.make(settings, said.append)
    assert len(kept(settings)) == 1, "it is made once"
    assert printed(second) == ["up"]


@pytest.mark.builds
def test_a_jvm_starts_without_an_archive_that_was_cut_off(
    settings: Settings, start: Callable[[], ProcessRecord]
) -> None:
    start()
    archives.make(settings, print)
    (archive,) = kept(settings)
    archive.chmod(0o600)
    os.truncate(archive, archive.stat().st_size // 2)
    assert mapped(start()) == []
    archives.make(settings, print)
    assert mapped(start()) == kept(settings), "another one takes its place"


@pytest.mark.builds
def test_a_jvm_ignores_an_archive_of_other_jars(
    settings: Settings, start: Callable[[], ProcessRecord], jar: Path
) -> None:
    start()
    archives.make(settings, print)
    (archive,) = kept(settings)
    os.utime(jar, (1, 1))
    archive.rename(f"{place(settings, str(jar), 'Waits')}-{archive.stat().st_size}.jsa")
    assert archives.RECORD not in archives.options(settings, "Waits", str(jar))
    record = start()
    assert mapped(record) == []
    assert printed(record) == ["up"]


@pytest.mark.builds
def test_a_jvm_that_uses_no_archive_of_its_own_starts_without_ours(
    settings: Settings, start: Callable[[], ProcessRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the option to record it would end."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xshare:off")
    assert mapped(start()) == []


@pytest.mark.builds
def test_a_jvm_with_a_folder_before_its_jars_makes_no_archive(settings: Settings, jar: Path) -> None:
    """It would end."""
    empty = settings.project / "empty"
    empty.mkdir()
    assert archives.options(settings, "Waits", f"{jar.parent}:{jar}") == []
    assert archives.options(settings, "Waits", f"{empty}:{jar}:{jar.parent}") != []


@pytest.mark.builds
@pytest.mark.parametrize("least", ["FREE_BYTES_LEAST", "AVAILABLE_BYTES_LEAST"])
def test_no_archive_is_made_where_little_room_is_left(
    settings: Settings, start: Callable[[], ProcessRecord], monkeypatch: pytest.MonkeyPatch, least: str
) -> None:
    monkeypatch.setattr(archives, least, 10**18)
    record, said = start(), list[str]()
    archives.make(settings, said.append)
    assert processes.alive(record)
    assert kept(settings) == []
    assert said[0].startswith("no class archives: ")


@pytest.mark.builds
def test_a_failed_dump_costs_one_line_of_output(
    settings: Settings, start: Callable[[], ProcessRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    record, said = start(), list[str]()
    monkeypatch.setattr(archives, "beside", lambda java, program: Path("/nowhere") / program)
    archives.make(settings, said.append)
    assert processes.alive(record)
    assert kept(settings) == []
    assert any(line.startswith(f"no class archive of Waits (pid {record.pid}): ") for line in said)


@pytest.mark.builds
def test_what_was_not_used_for_long_is_removed_and_what_is_too_many(
    settings: Settings, start: Callable[[], ProcessRecord]
) -> None:
    folder = settings.home / "archives"
    folder.mkdir(parents=True)
    old = {f"Waits-{age}-1.jsa": 60 * age for age in range(1, archives.KEPT_MOST + 2)}
    for name, age_s in (old | {"Other-0-1.jsa": archives.UNUSED_S_MOST + 60}).items():
        (folder / name).write_bytes(b"x")
        then = (folder / name).stat().st_mtime - age_s
        os.utime(folder / name, (then, then))
    start()
    archives.make(settings, print)
    others = [path.name for path in kept(settings) if path.name in old]
    assert (len(kept(settings)), others) == (archives.KEPT_MOST, list(old)[: archives.KEPT_MOST - 1])


def test_a_kind_is_its_class_and_its_jars_as_they_are(settings: Settings, tmp_path: Path) -> None:
    jar = tmp_path / "jars" / "a.jar"
    jar.parent.mkdir()
    jar.write_bytes(b"1")
    path = f"{jar.parent}/*"
    first = place(settings, path)
    assert place(settings, path) == first
    assert place(settings, f"{path}:{tmp_path}") == first, "a folder of configuration holds no classes"
    assert place(settings, path, "org.example.Other") != first
    os.utime(jar, (1, 1))
    assert place(settings, path) != first, "a JVM would not use it"


def test_what_starts_no_jvm_is_left_as_it_is(settings: Settings) -> None:
    assert archives.archived(settings, ["python", "-m", "airflow"]) == ["python", "-m", "airflow"]


@pytest.mark.builds
def test_the_options_come_right_after_the_word_java(settings: Settings, jar: Path) -> None:
    command = ["python", "-m", "warm_up", "java", "-Xmx1m", "-cp", str(jar), "Waits", "-cp"]
    given = archives.archived(settings, command)
    assert given == [*command[:4], *archives.options(settings, "Waits", str(jar)), *command[4:]]
    assert archives.RECORD in given
