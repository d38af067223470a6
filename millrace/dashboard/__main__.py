"""Serves the live page until it is stopped, on this machine only."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import uvicorn

from millrace import project
from millrace.charts import PACKAGES
from millrace.dashboard.app import application
from millrace.dashboard.archive import Archive
from millrace.dashboard.history import History
from millrace.dashboard.hub import Hub
from millrace.dashboard.reader import Reader
from millrace.dashboard.surroundings import Surroundings
from millrace.machine import npm
from millrace.servers.server import LOOPBACK
from millrace.settings import Settings
from millrace.stores.topics import Publisher
from millrace.target import Target

ENDS_WITHIN_S = 2
NICE = 5
"""The stream that it shows comes first: where cores are few, open pages would make alerts late by milliseconds."""


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    project.make_importable()
    threading.excepthook = _ended_by
    target, hub = Target.read(settings), Hub()
    reader = Reader(target.bootstrap, hub.publish)
    app = application(
        hub,
        reader,
        Surroundings(target, reader, hub.publish, renew),
        History(target),
        Archive(target),
        Publisher(target.bootstrap),
        assets=assets(settings),
        records=settings.state / "records",
    )
    uvicorn.run(
        app,
        host=LOOPBACK,
        port=settings.port("dashboard"),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=ENDS_WITHIN_S,
    )


def renew() -> None:
    """Become a new process with the code as it is now, under the same pid."""
    os.execv(sys.executable, [sys.executable, "-m", "millrace.dashboard"])


def _ended_by(failed: threading.ExceptHookArgs) -> None:
    """A page whose reader has died shows nothing new: the process ends, and the watcher starts another."""
    sys.excepthook(failed.exc_type, failed.exc_value or failed.exc_type(), failed.exc_traceback)
    os.kill(os.getpid(), signal.SIGTERM)


def assets(settings: Settings) -> Path:
    """The chart library and the coastlines, installed if they are missing."""
    return npm.ensure(settings, PACKAGES) / "assets"


if __name__ == "__main__":
    os.nice(max(0, NICE - os.nice(0)))  # it may be this process again (`renew`)
    serve(Settings.read(os.environ))
