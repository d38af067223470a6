"""Which worker gets which suite."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xdist.remote import Producer

from tests.scheduling import STACKS_MOST, Scheduling, only_computes

WAITING = "tests/test_variants.py", "tests/dashboard/test_page.py", "tests/test_makefile.py"
COMPUTING = "tests/pipelines/test_segments.py", "tests/kernel/test_reading.py"


class Worker:
    """A worker as the scheduler knows it: it keeps what it is sent, and runs nothing."""

    def __init__(self, number: int) -> None:
        self.gateway, self.shutting_down = SimpleNamespace(id=f"gw{number}"), False
        self.sent: list[int] = []

    def send_runtest_some(self, tests: list[int]) -> None:
        self.sent += tests

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduled(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, suites: list[str], workers: int
) -> list[Any]:
    """The suites, by number, that each worker was sent until none was left, and whether it was shut down."""
    names = [f"tests/{number}-{suite}" for number, suite in enumerate(suites)]
    monkeypatch.setattr("tests.scheduling.only_computes", lambda suite: suite.endswith("computes"))
    monkeypatch.setattr("xdist.scheduler.loadscope.parse_tx_spec_config", lambda _: range(workers))
    scheduling, own = (
        Scheduling(pytestconfig, Producer("scheduling", enabled=False)),
        [Worker(number) for number in range(workers)],
    )
    tests = [f"{name}::test" for name in names]
    for worker in own:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, tests)
    scheduling.schedule()
    done: list[set[int]] = [set() for _ in own]
    while any(set(worker.sent) - did for worker, did in zip(own, done, strict=True)):
        for worker, did in zip(own, done, strict=True):
            for test in [each for each in worker.sent if each not in did]:
                did.add(test)
                scheduling.mark_test_complete(worker, test)
    assert scheduling.tests_finished
    return [(sorted(did), worker.shutting_down) for worker, did in zip(own, done, strict=True)]


def test_what_waits_goes_to_as_many_workers_as_there_may_be_stacks(pytestconfig, monkeypatch) -> None:
    suites = ["computes"] * 9 + ["waits"] * 12
    found = scheduled(pytestconfig, monkeypatch, suites, STACKS_MOST + 1)
    *with_stack, (rest, _) = found
    assert sorted(test for own, _ in found for test in own) == list(range(len(suites)))
    assert all(suites[test] == "computes" for test in rest)
    assert all(any(suites[test] == "waits" for test in own) for own, _ in with_stack)
    assert all(is_down for _, is_down in found)


@pytest.mark.parametrize("suites", [["waits"] * 12, ["computes"] * 12])
def test_where_all_suites_are_of_one_kind_none_is_left(pytestconfig, monkeypatch, suites) -> None:
    found = scheduled(pytestconfig, monkeypatch, suites, STACKS_MOST + 1)
    assert sorted(test for own, _ in found for test in own) == list(range(len(suites)))


def test_a_suite_only_computes_if_it_starts_no_process() -> None:
    assert not any(map(only_computes, WAITING))
    assert all(map(only_computes, COMPUTING))
