"""One command at a time changes a stack."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millrace.errors import InfraError
from millrace.machine import processes
from millrace.settings import Settings
from millrace.stack.startup import Report

LOCK_WITHIN_S = 600


@contextmanager
def only_one(settings: Settings, verb: str, report: Report) -> Iterator[None]:
    """Hold the stack's lock; a second command waits for it."""
    ensure_private(settings.state)
    path = settings.state / "lock"
    with path.open("a+") as lock:
        if not locked(lock.fileno()):
            lock.seek(0)
            report(verb, f"waiting for another command on this stack: {lock.read().strip()}")
            if not processes.wait_until(lambda: locked(lock.fileno()), LOCK_WITHIN_S):
                raise InfraError(f"another command held {path} for {LOCK_WITHIN_S} s")
        lock.truncate(0)
        lock.write(f"millrace {verb}, pid {os.getpid()}")
        lock.flush()
        yield


def ensure_private(state: Path) -> None:
    """Make a stack's folder, readable by its owner only: events, tokens, passwords and logs are below it."""
    state.mkdir(parents=True, exist_ok=True)
    # Root's PostgreSQL runs as another user, who passes through it to the database and lists nothing.
    is_passed = os.getuid() == 0 and (state / "data" / "postgres").exists()
    state.chmod(0o711 if is_passed else 0o700)


def locked(file: int) -> bool:
    """Take the lock of an open file, unless another process holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
