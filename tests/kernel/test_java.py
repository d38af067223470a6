"""The tests in Java, of all folders `tests/*/java`: compiled and run in a JVM for each engine, without a server."""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from millrace import kernel, registry
from millrace.machine import jars
from millrace.settings import PROJECT, Settings

pytestmark = pytest.mark.builds

QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SHARED = "streams"
"""The engine whose jars the tests of the shared parts run with: its kernel has all of them."""
FOLDERS: dict[str, list[Path]] = {}
"""By engine."""
for path in sorted((PROJECT / "tests").glob("*/java")):
    FOLDERS.setdefault(path.parent.name if path.parent.name in registry.names() else SHARED, []).append(path)
CLASSES = {
    ".".join(path.relative_to(folder).with_suffix("").parts): engine
    for engine, folders in FOLDERS.items()
    for folder in folders
    for path in folder.rglob("*Test.java")
}
OTHERS_FRAME = re.compile(r"\s+at (?!millrace)")
Outcomes = dict[str, dict[str, str]]
"""By class and test: why it failed, or nothing."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    found: Outcomes = {}
    for engine in FOLDERS:
        found |= outcomes_of(engine, tmp_path_factory.mktemp(engine))
    return found


def outcomes_of(engine: str, folder: Path) -> Outcomes:
    settings = Settings.read(os.environ)
    (junit,) = jars.folder(settings, "junit").glob("*.jar")
    libraries = registry.manifest(engine).module("libraries").compiled_against(settings)
    class_path = os.pathsep.join(map(str, [kernel.ensure(settings, engine), *libraries]))
    sources = [path for each in FOLDERS[engine] for path in sorted(each.rglob("*.java"))]
    compiler = ["javac", *(f"-J{each}" for each in QUICK), *kernel.OPTIONS, "-d", folder]
    compiled = run([*compiler, "-cp", f"{class_path}{os.pathsep}{junit}", *sources])
    assert compiled.returncode == 0, compiled.stderr
    chosen = [f"--select-class={name}" for name, of in sorted(CLASSES.items()) if of == engine]
    words = ["execute", "-cp", f"{folder}{os.pathsep}{class_path}", *chosen, "--include-engine=junit-jupiter"]
    done = run(["java", *QUICK, "-Xmx256m", "-jar", junit, *words, f"--reports-dir={folder}", "--disable-banner"])
    return reported(folder / "TEST-junit-jupiter.xml", done.stdout + done.stderr)


def run(command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    # Java 17 reads file names by the locale: in C, a folder with a letter beyond ASCII does not exist.
    return subprocess.run(command, env={**os.environ, "LC_ALL": "C.UTF-8"}, capture_output=True, text=True)


def reported(report: Path, printed: str) -> Outcomes:
    assert report.exists(), printed
    found: Outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        problems = [each.text or "" for each in case if each.tag in ("failure", "error", "skipped")]
        lines = [line for text in problems for line in text.splitlines() if not OTHERS_FRAME.match(line)]
        found.setdefault(case.get("classname", ""), {})[case.get("name", "")] = "\n".join(lines)
    return found


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_java(outcomes: Outcomes, name: str) -> None:
    assert outcomes.get(name), "no test ran"
    failed = {test: why for test, why in outcomes[name].items() if why}
    assert not failed, "\n\n".join(f"{name}.{test}: {why}" for test, why in failed.items())
