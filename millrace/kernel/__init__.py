"""The kernel's jar: the Java of this folder and of each engine, compiled against the jars that the engines run with."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from millrace.errors import InfraError
from millrace.machine import environments, jars
from millrace.settings import Settings

# The parts in the order in which they are compiled. The shared part sees no engine, so it cannot come to need one.
SHARED = "kernel"
ENGINES = ("flink", "spark")

# -parameters: Flink reads the names of a function's arguments and state from the class file.
OPTIONS = ("--release", "17", "-parameters", "-encoding", "UTF-8", "-Xlint:all,-serial,-processing,-classfile,-path")

# A compiler that runs for seconds is not worth compiling well: with both, half the processor time.
QUICK_START = ("-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1")


def ensure(settings: Settings) -> Path:
    """The jar of the kernel, compiled if these sources were never compiled against these engines."""
    libraries = _libraries(settings)
    place = settings.home / "kernel" / _content(settings, libraries)
    jar = place / "millrace-kernel.jar"
    if jar.exists():
        return jar
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists():
            _build(settings, libraries, jar)
    return jar


def _build(settings: Settings, libraries: dict[str, list[Path]], jar: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jar.parent) as temporary:
        classes = Path(temporary) / "classes"
        classes.mkdir()
        for part, root in _roots(settings).items():
            if sources := sorted(root.rglob("*.java")):
                _compile(sources, [classes, *libraries[part]], classes)
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
        raise InfraError("javac is not on PATH; `millrace doctor` says how to install a JDK") from None
    if done.returncode:
        raise InfraError(f"the kernel does not compile:\n{done.stderr.strip()}")


def _pack(classes: Path, jar: Path) -> None:
    # Without times, so that the same sources make the same bytes.
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), "Manifest-Version: 1.0\n\n")
        for path in sorted(path for path in classes.rglob("*") if path.is_file()):
            packed.writestr(zipfile.ZipInfo(path.relative_to(classes).as_posix()), path.read_bytes())


def _libraries(settings: Settings) -> dict[str, list[Path]]:
    """What each part may see: Jackson for all, and each engine its own jars."""
    flink = sorted(jars.folder(settings, "flink").glob("*.jar"))
    libraries = {
        SHARED: [jar for jar in flink if jar.name.startswith("jackson-core-")],
        "flink": [
            *sorted((environments.flink_package(settings) / "lib").glob("*.jar")),
            *sorted((environments.flink_package(settings) / "opt").glob("flink-python-*.jar")),
            *flink,
        ],
        "spark": [
            *sorted((environments.spark_package(settings) / "jars").glob("*.jar")),
            *sorted(jars.folder(settings, "spark").glob("*.jar")),
        ],
    }
    for part, found in libraries.items():
        if not found:
            raise InfraError(
                f"the jars that the kernel's part {part!r} is compiled against are missing; run `millrace setup`"
            )
    return libraries


def _content(settings: Settings, libraries: dict[str, list[Path]]) -> str:
    """What makes one kernel differ from another: options, names of the libraries, sources."""
    digest = hashlib.sha256(repr(OPTIONS).encode())
    for part, found in libraries.items():
        digest.update(f"{part}: {[jar.name for jar in found]}\n".encode())
    for root in _roots(settings).values():
        for path in _files(root):
            digest.update(f"{path.relative_to(root)} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def _roots(settings: Settings) -> dict[str, Path]:
    """The folders of sources, in the order in which they are compiled."""
    package = settings.package
    return {SHARED: package / "kernel/java"} | {name: package / "engines" / name / "java" for name in ENGINES}


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())
