"""Processes beside the jobs of a deployed pattern: `deploy` asks for one, `watch` starts it, `teardown` stops it."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millrace.deployments import COMPANIONS, Companion, deployed_file
from millrace.errors import UsageError
from millrace.machine import environments, processes
from millrace.stack import given_up_file
from millrace.target import Target

STOPPED_WITHIN_S = 10.0


class BusyError(UsageError):
    """Another process does it already."""


def start(target: Target, name: str, companion: Companion) -> None:
    """Start a companion of a pattern."""
    settings, process = target.settings, companion.of(name)
    given = {each: os.environ[each] for each in ("MILLRACE_TARGET", "MILLRACE_PATTERNS") if each in os.environ}
    verb, *words = companion.verb
    command = [sys.executable, "-m", "millrace.cli", verb, name, *words]
    environment = environments.variables_of_python(settings) | given
    processes.start(process, command, environment, settings.state / "logs" / f"{process}.log", settings.run)


def is_running(target: Target, name: str, companion: Companion) -> bool:
    """Whether the process of a companion runs."""
    record = recorded(target, name, companion)
    return record is not None and processes.alive(record)


def recorded(target: Target, name: str, companion: Companion) -> processes.ProcessRecord | None:
    """The record of a companion, dead or alive; None if it was not started yet, or was stopped."""
    return processes.read(target.settings.run / f"{companion.of(name)}.json")


def stop(target: Target, name: str, companion: Companion) -> None:
    """Stop a companion; what it has not written down is done again by the next."""
    if (record := recorded(target, name, companion)) is not None:
        processes.stop(record, within_s=STOPPED_WITHIN_S)
        processes.forget(record, target.settings.run)


def renew(target: Target, name: str) -> None:
    """Stop the companions of a pattern whose rules may have changed: the watcher starts them with the new ones.

    One that it had given up gets another chance.
    """
    for companion in COMPANIONS:
        stop(target, name, companion)
        given_up_file(target.settings, companion.of(name)).unlink(missing_ok=True)


@contextmanager
def only_one(file: Path, why: str) -> Iterator[None]:
    """Hold the lock in a file, or raise why another process holds it."""
    with file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(why) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def lock_of(target: Target, name: str, companion: Companion) -> Path:
    """The file that the verb of a companion holds for a pattern."""
    return deployed_file(target, name).with_suffix(companion.lock)


def others(target: Target, name: str) -> dict[str, str]:
    """The verbs of companions that run for a pattern though these are stopped, and their processes."""
    found = {}
    for companion in COMPANIONS:
        file = lock_of(target, name, companion)
        try:
            with only_one(file, ""):
                pass
        except BusyError:
            found[" ".join(("millrace", companion.verb[0], name, *companion.verb[1:]))] = file.read_text()
    return found
