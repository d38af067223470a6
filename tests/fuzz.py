"""New examples for the property tests, then new rules for the engines: python -m tests.fuzz MINUTES [SEED].

A record counts what was tried and names the tests with counterexamples.
"""

import os
import random
import re
import secrets
import sys
import time
from collections.abc import Iterator

import pytest

from millrace import records
from millrace.settings import Settings

WORDS = ["-q", "--no-header", "-p", "no:cacheprovider", "--timeout=0"]
PROPERTIES = [*WORDS, "-m", "hypothesis", "--hypothesis-profile=fuzz"]
ON_ENGINES = [*WORDS, "-m", "drill", "--rounds=1000", "-k", "agree", "tests/uses/test_invented_on_engines.py"]
ENGINES_SHARE = 0.4
"""Of the time; a round that has begun comes to its end."""
SEEDS = 2**32


class Search:
    """A plugin of pytest: it stops the session at the deadline and collects the counterexamples."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.order = random.Random()
        self.passed = 0
        self.found: dict[str, list[str]] = {}
        """Lines to paste above a test, by the test's id."""

    def is_over(self) -> bool:
        return time.monotonic() > self.deadline

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # A test with a counterexample would find the same one again.
        items[:] = [item for item in items if item.nodeid not in self.found]
        self.order.shuffle(items)  # a short search would never come to the last ones

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None and isinstance(call.excinfo.value, Exception):
            fixtures = getattr(item, "funcargs", {})
            self.found[item.nodeid] = [example_of(error, fixtures) for error in parts_of(call.excinfo.value)]
        elif call.when == "call" and call.excinfo is None:
            self.passed += 1

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if self.is_over():
            item.session.shouldstop = "the time is over"


def parts_of(error: BaseException) -> Iterator[BaseException]:
    """The errors of a group, or the one error."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from parts_of(part)
    else:
        yield error


def example_of(error: BaseException, fixtures: dict[str, object]) -> str:
    """The counterexample as a decorator, from the note that Hypothesis puts on the error."""
    for note in getattr(error, "__notes__", []):
        if falsifying := re.search(r"Failing [\w ]+: \w+\(\n(.*)\n\)", note, re.DOTALL):
            arguments = re.split(r"^    (?=\w+=)", falsifying[1], flags=re.MULTILINE)[1:]
            own = [each.strip().removesuffix(",") for each in arguments if each.split("=")[0] not in fixtures]
            return f"@example({', '.join(own)})"
    return f"# no example: {type(error).__name__}: {error}"


def main(minutes: float, seed: int) -> int:
    """1 when a counterexample was found; pytest's own code when the tests cannot run."""
    first, ends = seed, time.monotonic() + 60 * minutes
    search = Search(ends - 60 * minutes * ENGINES_SHARE)
    while not search.is_over():
        print(f"\nseed {seed}", flush=True)
        search.order.seed(seed)
        code = pytest.main([*PROPERTIES, f"--hypothesis-seed={seed}"], plugins=[search])
        if code == pytest.ExitCode.NO_TESTS_COLLECTED and search.found:
            break
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not search.is_over():
            return int(code)
        seed = (seed + 1) % SEEDS
    properties, search.passed = search.passed, 0
    search.deadline, os.environ["MILLRACE_SEED"] = ends, str(seed)
    code = pytest.main(ON_ENGINES, plugins=[search])
    for test, examples in search.found.items():
        print("", f"# {test}", *examples, sep="\n")
    print(f"\n{len(search.found)} tests with counterexamples")
    figures = {"minutes": minutes, "properties": properties, "rounds": search.passed, "found": [*search.found]}
    records.append(Settings.read(os.environ), "fuzz", figures, first)
    return 1 if search.found else 0 if search.is_over() else int(code)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else secrets.randbelow(SEEDS)))
