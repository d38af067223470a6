"""Break the code, one place at a time, and expect the test of docs/behaviours.md to turn red by its own assertion.

`python -m lab.mutations [NAME ...]` works in a copy of this clone and leaves a record. It ends with 1 when a mutation
survives, when a test fails otherwise than expected, or when one is not green on the code as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import copy2
from xml.etree import ElementTree

import psutil
import pytest

from lab.mutants import MUTANTS, Mutant
from millrace import records
from millrace.errors import InfraError
from millrace.machine import processes
from millrace.settings import PROJECT, Settings

WITHIN_S = 900
ENDED_WITHIN_S = 10
ASSERTION = ("AssertionError", "assert ", "Failed: DID NOT RAISE")


@dataclass(frozen=True)
class Outcome:
    """What became of the tests of one run."""

    state: str  # red, or survived (a mutation) | green (the code as it is) | unclear (none ran, or failed otherwise)
    why: str
    seconds: float = 0

    def __str__(self) -> str:
        return f"{self.state} in {self.seconds} s{': ' if self.why else ''}{self.why}"


def main(argv: Sequence[str]) -> int:
    given = _arguments(argv)
    if unknown := set(given.names) - set(MUTANTS):
        print(f"lab/mutants.py has no {', '.join(sorted(unknown))}; `--list` names all", file=sys.stderr)
        return 2
    chosen = {name: mutant for name, mutant in MUTANTS.items() if name in given.names or not given.names}
    if given.list:
        print("\n".join(f"{name:<42} {mutant.file:<52} {mutant.test}" for name, mutant in chosen.items()))
        return 0
    settings = Settings.read(os.environ)
    log = settings.state / "logs" / "mutations.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    _say("log", f"pytest prints to {log}")
    try:
        with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
            figures = measured(Path(folder), log, chosen)
    except KeyboardInterrupt:
        print("interrupted; nothing is left running", file=sys.stderr)
        return 130
    except InfraError as error:
        print(error, file=sys.stderr)
        return 2
    _say("record", str(records.append(settings, "mutations", figures)))
    if given.json:
        print(json.dumps(figures, indent=1))
    return 0 if figures["verdict"] == "ok" else 1


def measured(folder: Path, log: Path, mutants: dict[str, Mutant]) -> dict[str, object]:
    """Each mutation by itself, then all the tests on the code as it is."""
    began = time.monotonic()
    folder.chmod(0o755)  # PostgreSQL runs as another user than root
    project = copied(folder / "clone")
    found = {}
    for name, mutant in mutants.items():
        _say(name, f"{mutant.file} is broken; runs {mutant.test}")
        path = project / mutant.file
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        found[name] = outcome(folder, log, [mutant.test], mutant.red)
        path.write_text(text, encoding="utf-8")
        _say(name, str(found[name]))
    _say("as it is", f"{len(mutants)} tests on the code as it is")
    whole = outcome(folder, log, [mutant.test for mutant in mutants.values()])
    _say("as it is", str(whole))
    is_ok = whole.state == "green" and {each.state for each in found.values()} == {"red"}
    return {
        "verdict": "ok" if is_ok else "wrong",
        "seconds": round(time.monotonic() - began, 1),
        "mutations": {name: asdict(mutants[name]) | asdict(found[name]) for name in mutants},
        "as_it_is": asdict(whole),
    }


def copied(clone: Path) -> Path:
    """The files of this clone, changes included, with a `.venv` of their own; what is cached is shared."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True).stdout
    for name in filter(lambda each: (PROJECT / each).is_file(), listed.split("\0")):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        copy2(PROJECT / name, clone / name)
    _say("copy", f"is set up in {clone}")
    made = subprocess.run([sys.executable, "-m", "millrace.machine.setup"], cwd=clone, capture_output=True, text=True)
    if made.returncode:
        raise InfraError(f"the copy in {clone} could not be set up:\n{made.stderr}")
    return clone


def outcome(folder: Path, log: Path, tests: Sequence[str], red: str = "") -> Outcome:
    """What becomes of the tests in the copy, from an empty stack; whatever they started is ended."""
    began, report = time.monotonic(), folder / "report.xml"
    report.unlink(missing_ok=True)
    words = ["-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
    with log.open("a") as output:
        session = subprocess.Popen(
            [folder / "clone" / ".venv" / "bin" / "python", *words],
            cwd=folder / "clone",
            # Servers inherit TMPDIR: millrace.machine.processes.INHERITED. Byte code is valid for a size and a second,
            # so that of one mutation could pass for the next one's.
            env=os.environ | {"TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            session.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            return Outcome("unclear", f"not ended within {WITHIN_S} s", WITHIN_S)
        finally:
            end_all(folder, session.pid)
            session.wait()
    if not report.exists():
        return Outcome("unclear", f"pytest ended with {session.returncode}, without a report")
    if session.returncode == pytest.ExitCode.INTERRUPTED:  # the report has the tests that had ended until then
        return Outcome("unclear", f"pytest ended with {session.returncode}, before all tests had")
    return replace(judged(report.read_text(encoding="utf-8"), red), seconds=round(time.monotonic() - began, 1))


def judged(report: str, red: str) -> Outcome:
    """The outcome in a JUnit report: red only where the statement `red` failed, and as an assertion."""
    root = ElementTree.fromstring(report)
    failures, errors = list(root.iter("failure")), list(root.iter("error"))
    if red:  # a server that a broken `down` leaves fails a fixture after the test, too
        errors = [each for each in errors if not each.get("message", "").startswith("failed on teardown")]
        # Where many tests share what a fixture does, its assertion is theirs.
        if any(is_meant(each, red) for each in (*failures, *errors)) and all(is_meant(each, red) for each in errors):
            return Outcome("red", "")
    if others := [*errors, *failures]:
        return Outcome("unclear", "; ".join(each.get("message", "").splitlines()[0] for each in others[:3]))
    if skipped := list(root.iter("skipped")):
        return Outcome("unclear", f"did not run: {skipped[0].get('message')}")
    is_run = bool(list(root.iter("testcase")))
    return Outcome("survived" if red else "green", "") if is_run else Outcome("unclear", "no test ran")


def is_meant(found: ElementTree.Element, red: str) -> bool:
    """Whether the statement `red` failed, as an assertion: in the test, or in a fixture before it."""
    message = found.get("message", "").removeprefix('failed on setup with "')
    is_there = re.search(rf"^>\s+{re.escape(red)}", found.text or "", re.MULTILINE) is not None
    return is_there and message.startswith(ASSERTION)


def end_all(folder: Path, session: int) -> None:
    """Kills what is left of a session of pytest, and every server that got its folder; all their data is scrap."""

    def left() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                is_ours = os.getsid(process.pid) == session or process.environ().get("TMPDIR") == str(folder)
                if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def is_over() -> bool:
        for process in (remaining := left()):
            with suppress(psutil.NoSuchProcess):
                process.kill()  # psutil compares the start time before it signals
        return not remaining

    if not processes.wait_until(is_over, ENDED_WITHIN_S):
        raise InfraError(
            f"pids {[each.pid for each in left()]} survive SIGKILL for {ENDED_WITHIN_S} s; stuck on a disk?"
        )


def _say(subject: str, what: str) -> None:
    print(f"{subject:<42} {what}", file=sys.stderr, flush=True)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of them, one after the other")
    parser.add_argument("--list", action="store_true", help="name them, with file and test")
    parser.add_argument("--json", action="store_true", help="the figures of the record as JSON")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
