"""`watch` restarts servers that die or hang, and deployed jobs that are gone or stalled.

`millrace up` starts it beside the servers, `millrace down` stops it first. What fails again and again is given up until
the next `up` or `deploy`. A job that crash-loops is restarted by its engine, without end, and some engines work on
without checkpoints; the watcher journals both (decision 0068).
"""

from __future__ import annotations

import signal
import sys
from functools import partial

from millrace import stack
from millrace.errors import InfraError
from millrace.machine import environments, processes
from millrace.settings import Settings
from millrace.stack import WATCH
from millrace.target import Target
from millrace.verbs.watch.faults import faults_of
from millrace.verbs.watch.journal import Journal
from millrace.verbs.watch.loop import Watch

STARTED_WITHIN_S, STOPPED_WITHIN_S = 30, 5


def ensure(settings: Settings) -> None:
    """Start the watcher unless it runs."""
    with stack.only_one(settings, WATCH, lambda *_: None):  # two at once would start two
        record = processes.read(settings.run / f"{WATCH}.json")
        if record is not None and processes.alive(record):
            return
        processes.cap(Journal.of(settings).path)
        began = len(Journal.of(settings).read())
        command = [sys.executable, "-m", "millrace.verbs.watch"]
        environment = environments.variables_of_python(settings)
        log = settings.state / "logs" / f"{WATCH}.out"
        record = processes.start(WATCH, command, environment, log, settings.run)
        try:
            if not processes.wait_until(lambda: len(Journal.of(settings).read()) > began, STARTED_WITHIN_S):
                raise InfraError(f"the watcher did not start within {STARTED_WITHIN_S} s; see {log}")
        except BaseException:
            processes.stop(record, STOPPED_WITHIN_S)
            processes.forget(record, settings.run)
            raise


def end(settings: Settings) -> bool:
    """Stop the watcher that `ensure` started, and forget one that died; return whether it ran."""
    with stack.only_one(settings, WATCH, lambda *_: None):
        record = processes.read(settings.run / f"{WATCH}.json")
        if record is None:
            return False
        did_run = processes.alive(record)
        processes.stop(record, STOPPED_WITHIN_S)
        processes.forget(record, settings.run)
        return did_run


def run(settings: Settings) -> None:
    """Watch until SIGTERM or Ctrl-C."""
    target = Target.read(settings)
    watch = Watch(settings, partial(faults_of, target))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: watch.stop())
    watch.run()
