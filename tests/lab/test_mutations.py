"""The table of mutations fits the code and docs/behaviours.md, and red is only what the table names."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab import mutations
from lab.mutants import MUTANTS, Mutant
from millrace.machine import processes
from millrace.settings import PROJECT

BEHAVIOURS = (PROJECT / "docs" / "behaviours.md").read_text(encoding="utf-8")

TESTS = """
import pytest

@pytest.fixture
def broken():
    assert 1 == 2

@pytest.fixture
def left():
    yield
    assert 1 == 2

def test_of_a_fixture(broken): assert 1 == 1
def test_meant(left):
    assert sum([1]) == 2, "no"
def test_of_a_crash():
    assert int("x") == 2
def test_of_another_assertion():
    assert 3 == 4
    assert 1 == 2
def test_raises():
    with pytest.raises(ValueError, match="x"):
        int("3")
def test_fine():
    assert sum([1]) == 1
@pytest.mark.skip(reason="no Terraform")
def test_skipped(): assert 1 == 2
"""


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_mutation_belongs_to_a_row_and_to_one_place(mutant: Mutant) -> None:
    assert f"`{mutant.test}`" in BEHAVIOURS
    assert (PROJECT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    assert mutant.old != mutant.new
    assert mutant.red in (PROJECT / mutant.test.partition("::")[0]).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[ElementTree.Element]:
    place = tmp_path_factory.mktemp("judged")
    (place / "test_it.py").write_text(TESTS)
    command = ["-m", "pytest", "-c", os.devnull, "--rootdir", place, f"--junitxml={place / 'report.xml'}", place]
    subprocess.run([sys.executable, *command], cwd=place, capture_output=True)
    return list(ElementTree.parse(place / "report.xml").iter("testcase"))


@pytest.mark.parametrize(
    ("test", "red", "meant"),
    [
        ("test_meant", "assert sum([1]) == 2", ("red", "")),
        ("test_raises", "with pytest.raises(ValueError", ("red", "")),
        ("test_fine", "assert sum([1]) == 1", ("survived", "")),
        ("test_fine", "", ("green", "")),
        ("test_of_a_fixture", "assert 1 == 2", ("red", "")),
        ("test_of_a_fixture", "assert 1 == 1", ("unclear", 'failed on setup with "assert 1 == 2"')),
        ("test_of_a_crash", 'assert int("x") == 2', ("unclear", "ValueError: invalid literal for int()")),
        ("test_of_another_assertion", "assert 1 == 2", ("unclear", "assert 3 == 4")),
        ("test_meant", "", ("unclear", 'failed on teardown with "assert 1 == 2"; AssertionError: no')),
        ("test_skipped", "assert 1 == 2", ("unclear", "did not run: no Terraform")),
        ("test_absent", "assert 1 == 2", ("unclear", "no test ran")),
    ],
)
def test_red_is_the_assertion_that_is_meant(
    cases: list[ElementTree.Element], test: str, red: str, meant: tuple[str, str]
) -> None:
    report = ElementTree.Element("testsuites")
    report.extend(each for each in cases if each.get("name") == test)
    found = mutations.judged(ElementTree.tostring(report, encoding="unicode"), red)
    assert (found.state, found.why[: len(meant[1])]) == meant


@pytest.mark.builds
def test_a_survivor_spoils_the_verdict_and_the_code_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone, asserted = tmp_path / "clone", "assert double(2) == 4"

    def copied(place: Path) -> Path:
        place.mkdir()
        (place / ".venv").symlink_to(sys.prefix)
        (place / "double.py").write_text("def double(x):\n    return x * 2\n")
        (place / "test_it.py").write_text(f"from double import double\n\ndef test_it():\n    {asserted}\n")
        return place

    monkeypatch.setattr(mutations, "copied", copied)
    thrice, squared = (Mutant("test_it.py", asserted, "double.py", "x * 2", new) for new in ("x * 3", "x * x"))
    found = mutations.measured(tmp_path, tmp_path / "log", {"thrice": thrice, "squared": squared})
    assert {name: each["state"] for name, each in found["mutations"].items()} == {
        "thrice": "red",
        "squared": "survived",
    }
    assert (found["as_it_is"]["state"], found["verdict"]) == ("green", "wrong")
    assert "x * 2" in (clone / "double.py").read_text()


@pytest.mark.builds
def test_an_interrupted_run_is_not_green_by_the_tests_that_ended_before(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / ".venv").symlink_to(sys.prefix)
    (clone / "test_it.py").write_text("def test_it(): pass\ndef test_cut_off(): raise KeyboardInterrupt\n")
    found = mutations.outcome(tmp_path, tmp_path / "log", ["test_it.py"])
    assert (found.state, found.why) == ("unclear", "pytest ended with 2, before all tests had")


def test_nothing_is_left_of_a_test_and_of_what_it_detached(tmp_path: Path) -> None:
    program = (
        "import os, subprocess, sys, time\n"
        "first = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "second = subprocess.Popen(['sleep', '600'], env={})\n"
        "print(first.pid, second.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as session:
        assert session.stdout is not None
        started = [session.pid, *map(int, session.stdout.readline().split())]
        assert all(processes.started(pid) for pid in started)
        mutations.end_all(tmp_path, session.pid)
        assert [pid for pid in started if processes.started(pid)] == []


def test_a_name_that_is_not_in_the_table_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert mutations.main(["no-such"]) == 2
    assert "lab/mutants.py has no no-such" in capsys.readouterr().err
    assert mutations.main(["--list", next(iter(MUTANTS))]) == 0
    assert next(iter(MUTANTS)) in capsys.readouterr().out
