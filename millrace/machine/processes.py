"""Processes that outlive the command that started them, identified by pid and start time, never by name."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from millrace.errors import InfraError

# The variables that a server inherits from the shell; all others (HADOOP_USER_NAME, JAVA_TOOL_OPTIONS, PYTHONPATH ...)
# would make a stack behave differently for each user. JDK_JAVA_OPTIONS is the one way to give every JVM an option.
INHERITED = ("HOME", "JDK_JAVA_OPTIONS", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")

PRIVATE = 0o077  # other users may neither read nor write the files of a stack

LOG_BYTES_MAX = 20_000_000

RECORDED_WITHIN_S = 10

FOLLOWS_WITHIN_S = 5  # descendants may take this long to end by themselves

PROBED_AFTER_SHARE = 0.05  # a wait pauses between two probes for such a share of its time,
PROBED_WITHIN_S = 0.5  # and for no longer

# The shell writes the record, then becomes the server: pid and start time stay the same, and if the parent is killed in
# between, no server runs without a record: on a full disk it does not start, and the record of the process before it
# stays, so that it counts as dead and is started later. Field 22 of stat is the start time (proc(5)); before it stands
# the name, "(sh)".
NOT_RECORDED = 74  # EX_IOERR of sysexits.h
RECORD_THEN_EXEC = f"""
record() {{ printf '%s"pid": %s, "started": %s}}\\n' "$head" "$1" "${{22}}" > "$file.new" && mv "$file.new" "$file"; }}
file=$1 head=$2; shift 2
read -r stat < /proc/self/stat
record $stat || exit {NOT_RECORDED}
exec "$@"
"""


@dataclass(frozen=True)
class ProcessRecord:
    """One process: its identity, its log, and the processes that it needs."""

    name: str
    pid: int
    started: int  # clock ticks after boot: with the pid it identifies one process for good
    boot: str
    since: float
    log: Path
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    fingerprint: str = ""  # of the configuration it runs with


def start(
    name: str,
    command: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    run_dir: Path,
    *,
    needs: Sequence[str] = (),
    fingerprint: str = "",
    folder: Path | None = None,
) -> ProcessRecord:
    """Start a process in a session of its own; its output goes to `log`, its record to `run_dir`."""
    child, record = _spawn(name, command, env, log, run_dir, needs, fingerprint, folder)
    # It is meant to outlive us; without this Python warns of a child still running.
    child.returncode = 0
    return record


def run(
    name: str,
    command: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    run_dir: Path,
    is_called_off: Callable[[], bool] = lambda: False,
) -> int | None:
    """Run a process to its end and return its exit code; None if it was cancelled."""
    child, record = _spawn(name, command, env, log, run_dir)
    wait_until(lambda: child.poll() is not None or is_called_off(), float("inf"))
    finished = child.poll()
    stop(record, within_s=5)
    forget(record, run_dir)
    return finished


def _spawn(
    name: str,
    command: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    run_dir: Path,
    needs: Sequence[str] = (),
    fingerprint: str = "",
    folder: Path | None = None,
) -> tuple[subprocess.Popen[bytes], ProcessRecord]:
    run_dir.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists():
        log.replace(log.with_name(log.name + ".1"))
    facts = {
        "name": name,
        "boot": boot_id(),
        "since": time.time(),
        "log": str(log),
        "command": list(command),
        "needs": list(needs),
        "fingerprint": fingerprint,
    }
    path = run_dir / f"{name}.json"
    head = json.dumps(facts)[:-1] + ", "
    with log.open("ab") as output:
        child = subprocess.Popen(
            ["/bin/sh", "-c", RECORD_THEN_EXEC, "sh", str(path), head, *command],
            env=environment(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            umask=PRIVATE,  # independent of the caller's umask
            cwd=folder or run_dir,  # files that a server writes to its working folder stay in the stack's folder
            start_new_session=True,
        )

    def recorded() -> ProcessRecord | None:
        return found if (found := read(path)) is not None and found.pid == child.pid else None

    wait_until(lambda: recorded() is not None or child.poll() is not None, RECORDED_WITHIN_S, every_s=0.005)
    if (record := recorded()) is None:
        ended = child.poll()
        child.kill()  # without a record no command could stop it
        child.wait()
        path.with_name(f"{path.name}.new").unlink(missing_ok=True)
        raise InfraError(_not_started(name, command[0], ended, path, log))
    return child, record


def _not_started(name: str, program: str, ended: int | None, path: Path, log: Path) -> str:
    if ended in (None, NOT_RECORDED):
        free_mb = shutil.disk_usage(path.parents[1]).free / 1e6
        return (
            f"{name} was not started: its record {path} could not be written ({free_mb:.0f} MB are free there); "
            "free some space, or point MILLRACE_STATE at another disk, then start it again"
        )
    return f"{name}: the process did not start ({program}); its log is {log}"


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process: a few of the shell's variables, a UTF-8 locale, and the given ones."""
    # Without a UTF-8 locale a JVM cannot open a path with a letter outside ASCII.
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | {"LC_ALL": "C.UTF-8"} | dict(env)


def records(run_dir: Path) -> dict[str, ProcessRecord]:
    """Every recorded process, dead or alive, by name."""
    found = (read(path) for path in sorted(run_dir.glob("*.json")))
    return {record.name: record for record in found if record is not None}


def read(path: Path) -> ProcessRecord | None:
    """The record in a file; None if the file is missing or incomplete."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    facts["log"] = Path(facts["log"])
    facts["command"] = tuple(facts["command"])
    facts["needs"] = tuple(facts["needs"])
    return ProcessRecord(**facts)


def forget(record: ProcessRecord, run_dir: Path) -> None:
    """Remove the record of an ended process; one that was started under its name meanwhile keeps its own."""
    path = run_dir / f"{record.name}.json"
    if read(path) == record:
        path.unlink(missing_ok=True)


def alive(record: ProcessRecord) -> bool:
    """Whether the process of the record runs: the same boot, pid and start time, and not a zombie."""
    if record.boot != boot_id():
        return False
    with suppress(ChildProcessError):  # an ended child stays a zombie until its parent waits
        os.waitpid(record.pid, os.WNOHANG)
    return started(record.pid) == record.started


def started(pid: int) -> int | None:
    """The start time of a live process in clock ticks after boot; None for a zombie or no process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(") ")[2].split()  # the name before it may hold spaces and brackets
    return None if state in "ZX" else int(fields[18])


def family(record: ProcessRecord) -> list[psutil.Process]:
    """The process and its descendants: they share its session, even after it has ended."""
    members = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            ticks = started(process.pid)
            # The kernel reuses no pid that is the id of a session: younger members are descendants.
            if ticks is not None and ticks >= record.started and os.getsid(process.pid) == record.pid:
                members.append(process)
    leader = started(record.pid)
    taken_over = record.boot != boot_id() or leader not in (None, record.started)
    return [] if taken_over else members


def stop(record: ProcessRecord, within_s: float) -> bool:
    """End the process and its descendants: TERM, then KILL at the deadline; return whether TERM was enough.

    Descendants have a few seconds more.
    """
    has_obeyed = True
    members = family(record)
    if alive(record):
        send(record, signal.SIGTERM)
        has_obeyed = wait_until(lambda: not alive(record), within_s)
        if has_obeyed:
            # A Spark driver's JVM follows its Python, and only then clears away the libraries it had unpacked.
            wait_until(lambda: not family(record), FOLLOWS_WITHIN_S)
    for member in {*members, *family(record)}:
        with suppress(psutil.NoSuchProcess):
            if member.pid != record.pid or not has_obeyed:
                member.kill()  # psutil compares the start time before it signals
    if not wait_until(lambda: not family(record) and not alive(record), 10):
        raise InfraError(f"{record.name}: pid {record.pid} survived SIGKILL for 10 s; is it stuck on a disk?")
    return has_obeyed


def kill(record: ProcessRecord) -> None:
    """End the process at once, as a crash would; its children keep running."""
    send(record, signal.SIGKILL)
    wait_until(lambda: not alive(record), 10)


def send(record: ProcessRecord, number: signal.Signals) -> None:
    """Send a signal to the process of the record, if it runs."""
    with suppress(ProcessLookupError):
        if alive(record):
            os.kill(record.pid, number)


def wait_until(is_true: Callable[[], bool], within_s: float, every_s: float = 0.05) -> bool:
    """Probe until the condition is true or the time is over; return whether it is true.

    A probe may cost more than what it waits for, so a long wait has fewer of them.
    """
    began = time.monotonic()
    while not is_true():
        waited_s = time.monotonic() - began
        if waited_s > within_s:
            return False
        time.sleep(max(every_s, min(waited_s * PROBED_AFTER_SHARE, PROBED_WITHIN_S)))
    return True


def memory_bytes(record: ProcessRecord) -> int:
    """The memory of the process and its descendants; shared pages count once (PSS)."""
    total = 0
    for member in family(record):
        with suppress(psutil.NoSuchProcess):
            try:
                total += member.memory_full_info().pss
            except psutil.AccessDenied:
                total += member.memory_info().rss
    return total


def listening(record: ProcessRecord) -> list[tuple[str, int]]:
    """Every address and port on which the process or a descendant accepts connections."""
    found = set()
    for member in family(record):
        with suppress(psutil.NoSuchProcess):
            found |= {
                (connection.laddr.ip, connection.laddr.port)
                for connection in member.net_connections(kind="tcp")
                if connection.status == psutil.CONN_LISTEN
            }
    return sorted(found)


def tail(log: Path, lines: int) -> list[str]:
    """The last lines of a log; none if it does not exist."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 400 * lines - 65536))
        return file.read().decode("utf-8", errors="replace").splitlines()[-lines:]


def cap(log: Path) -> None:
    """Cut a log that its writer does not rotate when it exceeds the limit; one older part is kept."""
    # The writer appends (O_APPEND), so after the cut it continues at the new end.
    if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
        shutil.copyfile(log, log.with_name(log.name + ".1"))
        os.truncate(log, 0)


def boot_id() -> str:
    """The id of this boot: pids and start times of another one mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
