"""Class data archives (AppCDS): a JVM that maps one has its classes parsed and verified.

The first JVM of a kind records which classes it loads; once a pattern was deployed, all of them have worked, and each
kind is archived. An archive is a cache: a JVM without one only takes longer to start (decision 0034).
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import psutil

from millrace.machine import processes
from millrace.settings import Settings

RECORD = "-XX:+RecordDynamicDumpInfo"
PROPERTY = "millrace.archive"
"""On the command line of a JVM that records: the place of its archive."""

DUMP_WITHIN_S = 60
DUMPS_AT_ONCE = 2

# A JVM that cannot write its archive ends, so none is dumped unless there is room for many.
FREE_BYTES_LEAST = 2_000_000_000

# After a dump a JVM keeps some three times its archive in memory until it ends: 1.9 GB for a whole stack.
MEMORY_BYTES_LEAST = 6_000_000_000
AVAILABLE_BYTES_LEAST = 3_000_000_000

UNUSED_S_MOST = 7 * 24 * 3600
KEPT_MOST = 4
"""Archives of one class: another build of the kernel makes other ones, and so does another clone."""

# The JVM warns of each class that it leaves out, and of an archive that does not fit.
QUIET = "-Xlog:cds*=off"

Report = Callable[[str], None]


def archived(settings: Settings, command: Sequence[str]) -> list[str]:
    """A command that starts a JVM, with the options that make it use or record the archive of its kind."""
    if "java" not in command:
        return list(command)
    at = command.index("java") + 1
    class_path, main = command[command.index("-cp") + 1 :][:2]
    return [*command[:at], *options(settings, main, class_path), *command[at:]]


def options(settings: Settings, main: str, class_path: str) -> list[str]:
    """The options of a JVM that runs this class with these jars: use its archive, or record one."""
    java, folder = shutil.which("java"), settings.home / "archives"
    if java is None or not beside(java, "jcmd").exists() or _has_folder_before_jars(class_path):
        return []
    try:
        kind = f"{main.rpartition('.')[2]}-{_content(java, main, class_path)}"
    except OSError:
        return []  # without its jars the JVM prints warnings
    for archive in _archives(folder / kind):
        if _is_whole(archive):
            with suppress(OSError):
                os.utime(archive)
            return [f"-XX:SharedArchiveFile={archive}", QUIET]
    if psutil.virtual_memory().total < MEMORY_BYTES_LEAST or not _can_record(
        java, os.environ.get("JDK_JAVA_OPTIONS", "")
    ):
        return []
    return [RECORD, f"-D{PROPERTY}={folder / kind}", QUIET]


def make(settings: Settings, report: Report, idle: Collection[str] = ()) -> bool:
    """Archive what the recording JVMs of a stack have loaded, but those of the idle processes, which loaded too little.

    Each pauses for some seconds; returns whether any did.
    """
    began, folder = time.monotonic(), settings.home / "archives"
    made: list[int] = []
    try:
        if not missing(settings, idle):
            return False
        with _alone(folder):
            dumped = missing(settings, idle)
            if dumped and _has_room(folder, report):
                report("archiving the classes of servers and drivers, once: later starts are faster")
                with ThreadPoolExecutor(max_workers=DUMPS_AT_ONCE) as pool:
                    dumps = [pool.submit(_dump, place, pid, report) for place, pid in dumped.items()]
                made = [archive.stat().st_size for dump in dumps if (archive := dump.result())]
                _remove_unused(folder)
                seconds = time.monotonic() - began
                report(f"{len(made)} class archives in {seconds:.0f} s, {sum(made) / 1e6:.0f} MB, in {folder}")
    except OSError as error:
        report(f"no class archives: {error}")
    return bool(made)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One command at a time dumps archives, across all stacks."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _has_room(folder: Path, report: Report) -> bool:
    with tempfile.TemporaryFile(dir=folder):
        pass  # or a JVM could not write there either
    room = (
        (shutil.disk_usage(folder).free, FREE_BYTES_LEAST, f"on disk at {folder}"),
        (psutil.virtual_memory().available, AVAILABLE_BYTES_LEAST, "of memory"),
    )
    for free, least, where in room:
        if free < least:
            report(f"no class archives: {free / 1e9:.1f} GB {where} are free, {least / 1e9:g} GB are needed")
            return False
    return True


def missing(settings: Settings, idle: Collection[str] = ()) -> dict[Path, int]:
    """One JVM of the stack for each kind that has no archive and is being recorded, by the place of its archive."""
    found = {}
    for record in processes.records(settings.run).values():
        for process in processes.family(record) if record.name not in idle else ():
            with suppress(psutil.Error):
                for word in process.cmdline():
                    if word.startswith(f"-D{PROPERTY}="):
                        found[Path(word.partition("=")[2])] = process.pid
    return {place: pid for place, pid in found.items() if not any(map(_is_whole, _archives(place)))}


def _dump(place: Path, pid: int, report: Report) -> Path | None:
    """Make a JVM write its archive to another file, and rename it when it is complete."""
    arriving = place.with_name(f"{place.name}-{os.getpid()}.arriving")
    jcmd = str(beside(shutil.which("java") or "", "jcmd"))
    try:
        done = subprocess.run(
            [jcmd, str(pid), "VM.cds", "dynamic_dump", f'"{arriving}"'],
            env=processes.environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=DUMP_WITHIN_S,
        )
        if done.returncode:
            raise OSError((done.stdout.strip().splitlines() or ["jcmd failed"])[-1])
        with arriving.open("rb") as written:
            os.fsync(written.fileno())  # a truncated archive crashes a JVM
        return arriving.rename(place.with_name(f"{place.name}-{arriving.stat().st_size}.jsa"))
    except (OSError, subprocess.TimeoutExpired) as error:
        report(f"no class archive of {place.name.partition('-')[0]} (pid {pid}): {error}")
        return None
    finally:
        with suppress(OSError):
            arriving.unlink(missing_ok=True)


def _archives(place: Path) -> Iterator[Path]:
    return place.parent.glob(f"{place.name}-*.jsa")


def _is_whole(archive: Path) -> bool:
    """Whether the file has the size in its name: a JVM crashes on a truncated archive."""
    try:
        return archive.stat().st_size == int(archive.stem.rpartition("-")[2])
    except (OSError, ValueError):
        return False


def _remove_unused(folder: Path) -> None:
    """Remove archives that are old or superseded; a JVM that maps one keeps it."""
    with suppress(OSError):
        used_s = {path: path.stat().st_mtime for path in folder.glob("*-*")}
        kept = Counter[str]()
        for path in sorted(used_s, key=lambda path: -used_s[path]):
            kept[path.name.partition("-")[0]] += 1
            if used_s[path] < time.time() - UNUSED_S_MOST or kept[path.name.partition("-")[0]] > KEPT_MOST:
                path.unlink()


def _has_folder_before_jars(class_path: str) -> bool:
    """Whether jars come after a folder with files: a dump would end the JVM."""
    *before, _ = class_path.split(os.pathsep)
    return any(Path(entry).is_dir() and os.listdir(entry) for entry in before)


def _content(java: str, main: str, class_path: str) -> str:
    """A hash of what a JVM compares before it uses an archive: itself, and the paths, sizes and times of jars."""
    digest = hashlib.sha256(f"{main}\n{_stamp(Path(java).resolve())}\n".encode())
    for entry in class_path.split(os.pathsep):
        # In the folder's own order, in which the JVM takes them, too.
        jars = os.listdir(entry[:-1]) if entry.endswith("/*") else [""]
        for jar in jars:
            path = Path(entry.removesuffix("*"), jar)
            if path.suffix == ".jar":
                digest.update(f"{_stamp(path)}\n".encode())
    return digest.hexdigest()[:16]


def _stamp(path: Path) -> str:
    stat = path.stat()
    return f"{path} {stat.st_size} {int(stat.st_mtime)}"


@cache
def _can_record(java: str, given: str) -> bool:
    """Whether a JVM starts with the option: one that does not use the archive of its own classes ends."""
    command, env = [java, RECORD, "-version"], processes.environment({"JDK_JAVA_OPTIONS": given})
    return not subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True).returncode


def beside(java: str, program: str) -> Path:
    """A program of the same JDK; PATH may have its `java` alone."""
    return Path(java).resolve().with_name(program)
