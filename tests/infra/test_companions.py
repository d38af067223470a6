"""Processes beside the jobs of a pattern: found when they are gone, started, alone, and stopped."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from millrace import deployments, stack
from millrace.deployments import CANARIES, COMPANIONS, VALIDATOR, Companion
from millrace.errors import UsageError
from millrace.machine import processes
from millrace.settings import Settings
from millrace.target import Target
from millrace.verbs import canaries, companions, ledger
from millrace.verbs.watch.attempts import RESTARTS_MOST
from millrace.verbs.watch.faults import faults_of
from millrace.verbs.watch.loop import Watch

NAME = "flink"


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(replace(Settings.read(os.environ), state=tmp_path), {"KAFKA_BOOTSTRAP": "127.0.0.1:1"})


@pytest.mark.parametrize("companion", COMPANIONS, ids=lambda each: each.name)
def test_the_watcher_finds_a_companion_that_is_gone_until_the_pattern_is_torn_down(
    target: Target, companion: Companion
) -> None:
    deployments.want(target, NAME, "")
    assert faults_of(target) == {}, "no companion was asked for"
    deployments.want_companion(target, NAME, companion)
    ((process, fault),) = faults_of(target).items()
    assert (process, fault.event, fault.repair is not None) == (companion.of(NAME), "gone", True)
    deployments.unwant(target, NAME)
    deployments.want(target, NAME, "")
    assert faults_of(target) == {}


def test_a_companion_that_starts_while_its_pattern_is_torn_down_does_not_stay(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployments.want(target, NAME, "")
    deployments.want_companion(target, NAME, CANARIES)
    (fault,) = faults_of(target).values()
    assert fault.repair is not None
    start = companions.start

    def started(target: Target, name: str, companion: Companion) -> None:
        deployments.unwant(target, name)
        start(target, name, companion)
        assert companions.is_running(target, name, companion)

    monkeypatch.setattr(companions, "start", started)
    fault.repair()
    assert not companions.is_running(target, NAME, CANARIES)


def test_only_a_companion_that_died_counts_among_the_restarts_after_which_it_is_given_up(target: Target) -> None:
    deployments.want(target, NAME, "")
    deployments.want_companion(target, NAME, CANARIES)
    target.settings.run.mkdir(parents=True, exist_ok=True)
    watching = Watch(target.settings, partial(faults_of, target))

    def is_restarted_after(end: Callable[[], object]) -> bool:
        end()
        watching._look("jobs", watching._repair_jobs)
        return companions.is_running(target, NAME, CANARIES)

    def died() -> None:
        record = companions.recorded(target, NAME, CANARIES)
        assert record is not None
        processes.kill(record)

    try:
        assert all(is_restarted_after(lambda: companions.renew(target, NAME)) for _ in range(2 * RESTARTS_MOST))
        assert is_restarted_after(died)
        assert len(watching._attempts[CANARIES.of(NAME)].times) == 1
    finally:
        companions.stop(target, NAME, CANARIES)


def continued(target: Target) -> AbstractContextManager[None]:
    return ledger.alone(target, NAME)


def sent(target: Target) -> AbstractContextManager[None]:
    canaries.send(target, NAME)
    pytest.fail("it never returns")


@pytest.mark.parametrize(
    ("companion", "again", "busy"),
    [
        (VALIDATOR, continued, "another validator is running"),
        (CANARIES, sent, "canaries are sent already"),
    ],
    ids=["validator", "canaries"],
)
def test_a_companion_runs_alone_until_it_is_stopped(
    target: Target, companion: Companion, again: Callable[[Target], AbstractContextManager[None]], busy: str
) -> None:
    """No Kafka answers: it waits for one."""
    deployments.want(target, NAME, "")
    deployments.want_companion(target, NAME, companion)
    companions.start(target, NAME, companion)
    try:
        log = target.settings.state / "logs" / f"{companion.of(NAME)}.log"
        assert processes.wait_until(lambda: "Kafka does not answer" in log.read_text(), 60), log.read_text()
        assert companions.is_running(target, NAME, companion)
        assert faults_of(target) == {}
        with pytest.raises(UsageError, match=busy), again(target):
            pass
        given_up = stack.given_up_file(target.settings, companion.of(NAME))
        given_up.touch()
        companions.renew(target, NAME)
        assert faults_of(target).keys() == {companion.of(NAME)}, "the watcher starts it again, with the rules of now"
        assert not given_up.exists()
    finally:
        companions.stop(target, NAME, companion)
    assert not companions.is_running(target, NAME, companion)
