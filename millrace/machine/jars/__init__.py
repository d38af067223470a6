"""The Java parts: one pinned pom per class path, resolved once into a folder named by its content, every jar locked.

A component is a folder with a `pom.xml`, beside this file or in an engine's folder. Its jars go to
`<home>/jars/<component>/<sha256 of the pom>/`; every jar is checked against `lock.json`.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import InfraError
from millrace.settings import Settings

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

# More than this many JVMs at once slows two cores down without making the network faster.
DOWNLOADS_AT_ONCE = 3

Progress = Callable[[str, int, int], None]
"""Called with a component, the bytes of its jars that have arrived, and the bytes that are expected."""


class JarError(InfraError):
    """A jar, or a class path, that differs from the lock."""


@dataclass(frozen=True)
class Jar:
    """The size and hash of one jar."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Lock:
    """The lock of one component: the hash of its pom, and each jar by file name."""

    pom: str
    jars: Mapping[str, Jar]

    @property
    def size(self) -> int:
        return sum(jar.size for jar in self.jars.values())


@dataclass(frozen=True)
class Download:
    """The cost of one component's download."""

    component: str
    jars: int
    bytes: int
    seconds: float


def components(settings: Settings) -> list[str]:
    """Names every component that has a pom."""
    return sorted(_poms(settings))


def folder(settings: Settings, component: str) -> Path:
    """The folder whose jars are the component's class path."""
    return settings.home / "jars" / component / _pom_hash(settings, component)


def ensure(settings: Settings, names: Iterable[str], progress: Progress | None = None) -> list[Download]:
    """Download the named components that are missing, and check all against the lock; return the downloads."""
    if not (missing := absent(settings, names)):
        return []
    return asyncio.run(_download_all(settings, missing, read_lock(settings), progress or (lambda *_: None)))


def absent(settings: Settings, names: Iterable[str]) -> list[str]:
    """The named components that must be downloaded; an error names a jar that differs from the lock."""
    locks = read_lock(settings)
    for name in (names := list(dict.fromkeys(names))):
        _check_pom(settings, name, locks)
    return [name for name in names if not is_complete(settings, name, locks[name])]


def is_complete(settings: Settings, component: str, lock: Lock, *, reread: bool = False) -> bool:
    """Whether the component is complete; an error names a jar that differs from the lock."""
    place = folder(settings, component)
    seen = _read_marker(place)
    if seen is None:
        return False
    here = {path.name: path.stat() for path in place.glob("*.jar")}
    if lock.jars.keys() - here.keys():
        return False
    for name in sorted(here.keys() - lock.jars.keys()):
        raise JarError(f"{place / name} is not in the lock; remove it, it would be on the class path of {component}")
    # For a quick start, bytes are read again only if size or time of a file have changed.
    changed = [name for name, stat in here.items() if reread or seen.get(name) != _stamp(lock.jars[name], stat)]
    for name in sorted(changed):
        _refuse_if_different(place / name, lock.jars[name])
    if changed:
        write_marker(place, lock)
    return True


def read_lock(settings: Settings) -> dict[str, Lock]:
    """The locks of all components."""
    path = lock_path(settings)
    if not path.exists():
        raise JarError(f"{path} is missing; `python -m millrace.machine.jars lock` writes it")
    entries = json.loads(path.read_text())
    return {
        name: Lock(entry["pom"], {jar: Jar(**what) for jar, what in entry["jars"].items()})
        for name, entry in entries.items()
    }


def write_lock(settings: Settings, names: Collection[str], progress: Progress | None = None) -> list[Download]:
    """Download the named components again and write the lock, after a change of a pom."""
    kept = read_lock(settings) if lock_path(settings).exists() else {}
    known = {name: lock for name, lock in kept.items() if name in components(settings)}
    for name in names:
        shutil.rmtree(_repository(settings, name), ignore_errors=True)
    downloads = asyncio.run(_download_all(settings, names, None, progress or (lambda *_: None)))
    for name in names:
        known[name] = Lock(_pom_hash(settings, name), _hashes(folder(settings, name)))
    lock_path(settings).write_text(lock_text(known))
    return downloads


def lock_path(settings: Settings) -> Path:
    return settings.package / "machine/jars/lock.json"


async def _download_all(
    settings: Settings, names: Iterable[str], locks: Mapping[str, Lock] | None, progress: Progress
) -> list[Download]:
    turns = asyncio.Semaphore(DOWNLOADS_AT_ONCE)

    async def one(name: str) -> Download | None:
        async with turns, _only_one(settings.home / "jars" / name):
            return await _download(settings, name, locks[name] if locks else None, progress)

    # Largest first, so that the longest download does not start last.
    ordered = sorted(names, key=lambda name: -locks[name].size) if locks else list(names)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(name)) for name in ordered]
    except BaseExceptionGroup as errors:
        # Not `except*`: Debian's Python 3.11.2 puts what is raised there into a group again.
        if (known := errors.subgroup(InfraError)) is None:
            raise
        raise known.exceptions[0] from None
    return [done for task in tasks if (done := task.result())]


async def _download(settings: Settings, name: str, lock: Lock | None, progress: Progress) -> Download | None:
    if lock and is_complete(settings, name, lock):
        return None  # another process downloaded it while this one waited
    started = time.monotonic()
    place = folder(settings, name)
    # Maven keeps what it has in a repository of this component's own: two Mavens may not share one, an interrupted
    # download continues where it stopped, and it is removed at the end so that no jar is stored twice.
    repository = _repository(settings, name)
    staging = place.parent / ".arriving"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    pom = _poms(settings)[name]
    command = [
        *("mvn", "--batch-mode", "--update-snapshots", "--strict-checksums", "--file", str(pom)),
        *(f"-Dmaven.repo.local={repository}", f"{COPY}"),
        *("-DincludeScope=runtime", f"-DoutputDirectory={staging}"),
    ]
    await _run(name, command, lock.jars if lock else {}, progress, place.parent / "maven.log")
    size = sum(path.stat().st_size for path in repository.rglob("*") if path.is_file())
    found = _hashes(staging)
    locked = lock or Lock(_pom_hash(settings, name), found)
    try:
        _compare(name, found, locked, staging)
        write_marker(staging, locked)
        shutil.rmtree(place, ignore_errors=True)
        staging.rename(place)
    finally:
        # Also after a refusal: what was refused must not be offered again.
        shutil.rmtree(staging, ignore_errors=True)
        shutil.rmtree(repository)
    return Download(name, len(found), size, round(time.monotonic() - started, 1))


def _compare(name: str, found: Mapping[str, Jar], lock: Lock, place: Path) -> None:
    for jar in sorted(found.keys() | lock.jars.keys()):
        if jar not in found:
            raise JarError(f"{name}: Maven did not download {jar}, which the lock lists")
        if jar not in lock.jars:
            raise JarError(f"{name}: Maven downloaded {jar}, which the lock does not list; nothing of it is used")
        _refuse_if_different(place / jar, lock.jars[jar], found[jar])


async def _run(name: str, command: list[str], expected: Mapping[str, Jar], progress: Progress, log: Path) -> None:
    total = sum(jar.size for jar in expected.values())
    arrived = 0
    progress(name, 0, total or 1)
    try:
        maven = await asyncio.create_subprocess_exec(
            *command,
            # Java 17 reads file names by the locale: in C, a folder with a letter beyond ASCII does not exist.
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except FileNotFoundError:
        raise JarError("Maven (mvn) is not on PATH; `millrace doctor` prints how to install it") from None
    assert maven.stdout is not None
    try:
        with log.open("w") as kept:
            async for raw in maven.stdout:
                line = raw.decode(errors="replace")
                kept.write(line)
                if (match := re.search(r"Downloaded from .*/([^/ ]+\.jar)", line)) and match[1] in expected:
                    arrived += expected[match[1]].size
                    progress(name, arrived, total)
        code = await maven.wait()
    finally:
        if maven.returncode is None:
            maven.terminate()
            await maven.wait()
    if code:
        errors = [line for line in log.read_text().splitlines() if "ERROR" in line]
        raise JarError(f"{name}: Maven could not download it: {errors[0] if errors else code}\n  log: {log}")
    progress(name, total or 1, total or 1)


@asynccontextmanager
async def _only_one(place: Path) -> AsyncIterator[None]:
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(0.2)
        yield


def _check_pom(settings: Settings, component: str, locks: Mapping[str, Lock]) -> None:
    if component not in (known := components(settings)):
        raise JarError(f"no component {component!r}; choose one of: {', '.join(known)}")
    if component not in locks or locks[component].pom != _pom_hash(settings, component):
        raise JarError(
            f"{_poms(settings)[component]} is not the one that {lock_path(settings)} was made from; "
            f"after a deliberate change run `python -m millrace.machine.jars lock {component}`"
        )


def _refuse_if_different(path: Path, locked: Jar, found: Jar | None = None) -> None:
    found = found or hash_of(path)
    if found != locked:
        raise JarError(
            f"{path} was changed: its SHA-256 is {found.sha256}, in the lock it is {locked.sha256}; "
            f"if you did not do that find out who did, then remove the folder and run again"
        )


def _poms(settings: Settings) -> dict[str, Path]:
    """The pom of each component: a server's here, an engine's in its folder or one below."""
    folders = ("machine/jars/*", "engines/*", "engines/*/*")
    return {pom.parent.name: pom for folder in folders for pom in settings.package.glob(f"{folder}/pom.xml")}


def _repository(settings: Settings, component: str) -> Path:
    return settings.home / "jars" / component / ".maven"


def _pom_hash(settings: Settings, component: str) -> str:
    return hashlib.sha256(_poms(settings)[component].read_bytes()).hexdigest()


def _hashes(place: Path) -> dict[str, Jar]:
    return {path.name: hash_of(path) for path in sorted(place.glob("*.jar"))}


def hash_of(path: Path) -> Jar:
    with path.open("rb") as file:
        return Jar(hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size)


def _stamp(jar: Jar, stat: os.stat_result) -> list[str | int]:
    return [jar.sha256, stat.st_size, stat.st_mtime_ns]


def _read_marker(place: Path) -> dict[str, list[str | int]] | None:
    try:
        return dict(json.loads((place / ".complete").read_text()))
    except FileNotFoundError:
        return None


def write_marker(place: Path, lock: Lock) -> None:
    """Written last: marks the component as complete, with the time at which each jar was read."""
    seen = {name: _stamp(jar, (place / name).stat()) for name, jar in lock.jars.items()}
    arriving = place / f".complete.{os.getpid()}"
    arriving.write_text(json.dumps(seen))
    arriving.replace(place / ".complete")


def lock_text(locks: Mapping[str, Lock]) -> str:
    """One jar per line, so that a diff shows what changed."""
    parts = []
    for name in sorted(locks):
        jars = [
            f'   {json.dumps(jar)}: {{"sha256": "{what.sha256}", "size": {what.size}}}'
            for jar, what in sorted(locks[name].jars.items())
        ]
        parts.append(f' "{name}": {{\n  "pom": "{locks[name].pom}",\n  "jars": {{\n' + ",\n".join(jars) + "\n  }\n }")
    return "{\n" + ",\n".join(parts) + "\n}\n"
