"""A process is known by pid and start time, and goes with all that it started."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.machine import processes
from millrace.machine.processes import ProcessRecord

SOON_S = 60  # a deadline of what takes no time on a quiet machine
FOREVER = ["sleep", "1000"]
STUBBORN = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]


def start(folder: Path, *command: str, name: str = "one") -> ProcessRecord:
    return processes.start(name, command, {}, folder / f"{name}.out", folder / "run")


def test_it_lives_until_it_is_stopped_and_leaves_nothing(tmp_path: Path) -> None:
    record = start(tmp_path, *FOREVER)
    assert processes.alive(record)
    assert processes.stop(record, within_s=SOON_S)
    assert not processes.alive(record)
    assert processes.family(record) == []


def test_its_record_has_the_command_that_started_it(tmp_path: Path) -> None:
    record = start(tmp_path, *FOREVER)
    try:
        assert processes.records(tmp_path / "run") == {"one": record}
        assert (record.name, record.command) == ("one", tuple(FOREVER))
        assert record.started == processes.started(record.pid)
    finally:
        processes.stop(record, within_s=SOON_S)


def test_its_folder_may_have_a_space_and_a_letter_beyond_ascii(tmp_path: Path) -> None:
    folder = tmp_path / "my stück 100%s $HOME"
    record = start(folder, "sh", "-c", 'echo "$0"; exec sleep 1000', "a 'word' \"with\" $signs")
    try:
        assert processes.wait_until(lambda: processes.tail(record.log, 1) != [], SOON_S)
        assert processes.tail(record.log, 1) == ["a 'word' \"with\" $signs"]
    finally:
        processes.stop(record, within_s=SOON_S)


def test_one_that_ended_by_itself_is_not_alive(tmp_path: Path) -> None:
    record = start(tmp_path, "true")
    assert processes.wait_until(lambda: not processes.alive(record), SOON_S)


def test_one_that_ignores_term_is_killed_at_the_deadline(tmp_path: Path) -> None:
    record = start(tmp_path, *STUBBORN)
    assert processes.wait_until(lambda: processes.tail(record.log, 1) == ["ready"], SOON_S)
    assert not processes.stop(record, within_s=0.3)
    assert not processes.alive(record)


def test_what_it_started_goes_with_it_also_when_it_was_killed_before(tmp_path: Path) -> None:
    record = start(tmp_path, "sh", "-c", "sleep 1000 & echo $!; exec sleep 1000")
    assert processes.wait_until(lambda: bool(processes.tail(record.log, 1)), SOON_S)
    processes.kill(record)
    assert [member.pid for member in processes.family(record)] == [int(processes.tail(record.log, 1)[0])]
    processes.stop(record, within_s=1)
    assert processes.family(record) == []


def test_a_pid_that_now_belongs_to_another_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen(FOREVER, start_new_session=True)
    try:
        ours = start(tmp_path, "true")
        for taken in (replace(ours, pid=other.pid, started=1), replace(ours, pid=other.pid, boot="another")):
            assert not processes.alive(taken)
            processes.stop(taken, within_s=1)
            processes.kill(taken)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_one_that_was_started_meanwhile_under_the_same_name_keeps_its_record(tmp_path: Path) -> None:
    """The watcher may start a process again before whoever has stopped it removes its record."""
    first = start(tmp_path, *FOREVER)
    processes.stop(first, within_s=5)
    second = start(tmp_path, *FOREVER)
    processes.forget(first, tmp_path / "run")
    assert processes.records(tmp_path / "run") == {second.name: second}
    processes.stop(second, within_s=5)
    processes.forget(second, tmp_path / "run")
    assert processes.records(tmp_path / "run") == {}


def test_a_record_that_was_never_finished_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"name": "one", "pid"')
    assert processes.records(tmp_path) == {}


def test_a_killed_parent_leaves_no_server_without_a_record(tmp_path: Path) -> None:
    """However short the time between start and kill: the server's own shell writes the record before it is a server."""
    code = (
        "import os, sys; from pathlib import Path; from millrace.machine import processes\n"
        "processes.read = lambda path: os.kill(os.getpid(), 9)\n"  # at the first look at the record
        "processes.start('one', ['sleep', '1000'], {}, Path(sys.argv[1]) / 'one.out', Path(sys.argv[1]) / 'run')\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert killed.returncode == -9
    assert processes.wait_until(lambda: "one" in processes.records(tmp_path / "run"), SOON_S)
    record = processes.records(tmp_path / "run")["one"]
    assert processes.alive(record)
    processes.stop(record, within_s=SOON_S)


def test_a_command_that_runs_to_its_end_has_its_exit_code(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert processes.run("one", ["sh", "-c", "exit 3"], {}, tmp_path / "out", run) == 3
    assert processes.run("one", FOREVER, {}, tmp_path / "out", run, is_called_off=lambda: True) is None
    assert processes.records(run) == {}


def test_a_missing_program_is_reported_in_its_log(tmp_path: Path) -> None:
    record = start(tmp_path, "no-such-program-at-all")
    assert processes.wait_until(lambda: not processes.alive(record), SOON_S)
    assert "no-such-program-at-all: not found" in "".join(processes.tail(record.log, 3))


def test_a_process_gets_a_utf8_locale_and_little_else_of_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    assert processes.run("one", [sys.executable, "-c", code], {"GIVEN": "é"}, tmp_path / "out", tmp_path / "run") == 0
    seen = json.loads(processes.tail(tmp_path / "out", 1)[0])
    assert (seen["LC_ALL"], seen["GIVEN"], "HADOOP_USER_NAME" in seen) == ("C.UTF-8", "é", False)


def test_a_log_that_is_too_long_is_cut_while_its_writer_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LOG_BYTES_MAX", 1000)
    log = tmp_path / "out"
    with log.open("a") as writer:
        print("x" * 2000, file=writer, flush=True)
        processes.cap(log)
        print("after", file=writer, flush=True)
    assert processes.tail(log, 5) == ["after"]
    assert (tmp_path / "out.1").stat().st_size == 2001


def test_the_tail_of_a_log_may_begin_in_the_middle_of_a_letter(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes("é\n".encode() * 100_000)
    assert processes.tail(tmp_path / "log", 2) == ["é", "é"]
    assert processes.tail(tmp_path / "none", 2) == []


def test_memory_counts_all_that_it_started(tmp_path: Path) -> None:
    hungry = "import time; x = bytearray(50_000_000); print('ready', flush=True); time.sleep(1000)"
    record = start(tmp_path, "sh", "-c", 'trap "kill 0" TERM; "$0" -c "$1" & wait', sys.executable, hungry)
    try:
        assert processes.wait_until(lambda: processes.tail(record.log, 1) == ["ready"], SOON_S)
        assert 50_000_000 < processes.memory_bytes(record) < 90_000_000
    finally:
        processes.stop(record, within_s=SOON_S)
