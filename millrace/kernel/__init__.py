"""The kernel, a jar for each engine: shared parts in Java and the engine's own, compiled against the engine's jars."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from millrace import registry
from millrace.errors import InfraError
from millrace.settings import Settings

JAR = "millrace-kernel.jar"
SHARED = "kernel"
"""The part that all engines share."""
LIBRARIES = {
    SHARED: ("jackson-core-",),
    "stage": ("jackson-core-",),
    "kafka": ("jackson-core-", "kafka-clients-", "slf4j-api-"),
}
"""The shared parts, and of an engine's jars those that each is compiled against: it cannot come to need an engine.

All engines share the first; the others are for those whose manifest names them.
"""

# -parameters: Flink reads the names of a function's arguments and state from the class file.
OPTIONS = ("--release", "17", "-parameters", "-encoding", "UTF-8", "-Xlint:all,-serial,-processing,-classfile,-path")

# A compiler that runs for seconds is not worth compiling well: with both, half the processor time.
QUICK_START = ("-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1")


def engines(settings: Settings) -> list[str]:
    """The engines with Java of their own, each of which has a kernel."""
    return [name for name in registry.names() if _java(settings, name).is_dir()]


def ensure(settings: Settings, engine: str) -> Path:
    """The jar of an engine's kernel, compiled if these sources were never compiled against its jars."""
    libraries = _libraries(settings, engine)
    place = settings.home / "kernel" / engine / _content(settings, libraries)
    jar = place / JAR
    if jar.exists():
        return jar
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists():
            build([(root, libraries[part]) for part, root in _roots(settings, libraries).items()], jar)
    return jar


def code(settings: Settings, engine: str) -> str:
    """Identifies an engine's kernel as its sources are now; empty where it has none, or lacks its jars."""
    try:
        return _content(settings, _libraries(settings, engine)) if engine in engines(settings) else ""
    except InfraError:
        return ""


def build(parts: Iterable[tuple[Path, Iterable[Path]]], jar: Path) -> None:
    """Make a jar of folders of sources, each compiled against its own jars and what the folders before it became."""
    with tempfile.TemporaryDirectory(dir=jar.parent) as temporary:
        classes = Path(temporary) / "classes"
        classes.mkdir()
        for root, libraries in parts:
            if sources := sorted(root.rglob("*.java")):
                _compile(sources, [classes, *libraries], classes)
            for path in _files(root):
                if path.suffix != ".java":
                    target = classes / path.relative_to(root)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, target)
        arriving = Path(temporary) / jar.name
        _pack(classes, arriving)
        arriving.replace(jar)


def _compile(sources: Iterable[Path], class_path: Iterable[Path], target: Path) -> None:
    # In an argument file, because a class path of some hundred jars is longer than a command may be.
    arguments = target.parent / "arguments"
    words = [*OPTIONS, "-d", target, "-cp", os.pathsep.join(map(str, class_path)), *sources]
    arguments.write_text("".join('"' + str(word).replace("\\", "\\\\") + '"\n' for word in words))
    try:
        done = subprocess.run(
            ["javac", *QUICK_START, f"@{arguments}"],
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
    except FileNotFoundError:
        raise InfraError("javac is not on PATH; `millrace doctor` prints how to install a JDK") from None
    if done.returncode:
        raise InfraError(f"the kernel does not compile:\n{done.stderr.strip()}")


def _pack(classes: Path, jar: Path) -> None:
    # Without times, so that the same sources make the same bytes.
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), "Manifest-Version: 1.0\n\n")
        for path in sorted(path for path in classes.rglob("*") if path.is_file()):
            packed.writestr(zipfile.ZipInfo(path.relative_to(classes).as_posix()), path.read_bytes())


def _libraries(settings: Settings, engine: str) -> dict[str, list[Path]]:
    """The parts, and the jars on the class path of each, in the order of compilation."""
    found: list[Path] = registry.manifest(engine).module("libraries").compiled_against(settings)
    parts = (SHARED, *registry.manifest(engine).kernel_parts)
    libraries = {part: [jar for jar in found if jar.name.startswith(LIBRARIES[part])] for part in parts}
    libraries[engine] = found
    for part, jars in libraries.items():
        if not jars:
            raise InfraError(
                f"the jars that the kernel's part {part!r} is compiled against are missing; run `millrace setup`"
            )
    return libraries


def _content(settings: Settings, libraries: dict[str, list[Path]]) -> str:
    """What makes one kernel differ from another: options, names of the libraries, sources."""
    digest = hashlib.sha256(repr(OPTIONS).encode())
    for part, found in libraries.items():
        digest.update(f"{part}: {[jar.name for jar in found]}\n".encode())
    for root in _roots(settings, libraries).values():
        for path in _files(root):
            digest.update(f"{path.relative_to(root)} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def _roots(settings: Settings, parts: Iterable[str]) -> dict[str, Path]:
    """The folder of each part's sources."""
    return {part: _java(settings, part) for part in parts}


def _java(settings: Settings, part: str) -> Path:
    if part in LIBRARIES:
        return settings.package / SHARED / ("" if part == SHARED else part) / "java"
    return settings.package / "engines" / part.replace("-", "_") / "java"


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())
