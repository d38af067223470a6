"""The tests in Java, of all folders `tests/*/java`: compiled and run in one JVM, without a server."""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from millrace import kernel
from millrace.engines.flink.libraries import compiled_against
from millrace.machine import jars
from millrace.settings import PROJECT, Settings

pytestmark = pytest.mark.builds

QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
FOLDERS = sorted((PROJECT / "tests").glob("*/java"))
SOURCES = [path for folder in FOLDERS for path in sorted(folder.rglob("*.java"))]
CLASSES = {
    ".".join(path.relative_to(folder).with_suffix("").parts)
    for folder in FOLDERS
    for path in folder.rglob("*Test.java")
}
OTHERS_FRAME = re.compile(r"\s+at (?!millrace)")
Outcomes = dict[str, dict[str, str]]
"""By class and test: why it failed, or nothing."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    settings, folder = Settings.read(os.environ), tmp_path_factory.mktemp("junit")
    (junit,) = jars.folder(settings, "junit").glob("*.jar")
    class_path = os.pathsep.join(map(str, [kernel.ensure(settings, "flink"), *compiled_against(settings)]))
    compiler = ["javac", *(f"-J{each}" for each in QUICK), *kernel.OPTIONS, "-d", folder]
    compiled = run([*compiler, "-cp", f"{class_path}{os.pathsep}{junit}", *SOURCES])
    assert compiled.returncode == 0, compiled.stderr
    chosen = [f"--select-class={name}" for name in sorted(CLASSES)]
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
