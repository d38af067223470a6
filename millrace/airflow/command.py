"""Calls of the command line from a task: progress becomes log lines, the result is one JSON object."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException
from airflow.sdk.log import mask_secret, redact

from millrace.machine import environments, processes
from millrace.project import root
from millrace.settings import JSON_VERSION, Settings

CONNECTION = "millrace"
"""The connection that names the command line; without it, the one installed with this package runs."""

USAGE, WOULD_CHANGE = 2, 3
HAS_RESULT = (0, 1, WOULD_CHANGE)
"""Exit codes of a verb that has printed a result; a verdict that is not ok ends with 1."""
ERROR_PREFIX = "millrace: "


class VerbError(AirflowException):
    """A verb that failed; the message is the last line that it printed."""


@dataclass(frozen=True)
class Millrace:
    """The command line, and the environment that it gets: millrace's variables, none of Airflow's."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)

    def start(self, words: Sequence[str]) -> Call:
        """Start a verb as a process."""
        answer = tempfile.TemporaryFile()  # noqa: SIM115 - Call closes it
        child = subprocess.Popen(
            [*self.command, *words, "--json"],
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that one signal ends it with all that it started
        )
        return Call(words[0], child, answer)

    async def call(self, words: Sequence[str], log: Callable[[str], None]) -> Any:
        """Run a verb without blocking other triggers; end it when the trigger is cancelled."""
        call = self.start(words)
        try:
            return await asyncio.to_thread(call.finish, log)
        finally:
            call.stop()


def millrace(connection: Connection | None) -> Millrace:
    """The command line that the connection names: `command` and `environment` in its extra."""
    extra = connection.extra_dejson if connection else {}
    # Airflow masks a value if its name has a word such as password, token or secret.
    mask_secret(extra.get("environment", {}))
    command = extra.get("command") or str(environments.command(Settings.read(os.environ)))
    # The command line may be another installation; it must read the same pattern files as the DAGs.
    own = {"MILLRACE_PROJECT": str(root())}
    own |= {name: value for name, value in os.environ.items() if name.startswith("MILLRACE_")}
    return Millrace((command,), processes.environment(own | extra.get("environment", {})))


def connected() -> Millrace:
    """The command line for a task."""
    try:
        return millrace(BaseHook.get_connection(CONNECTION))
    except AirflowNotFoundException:
        return millrace(None)


async def aconnected() -> Millrace:
    """The command line for a trigger."""
    try:
        return millrace(await BaseHook.aget_connection(CONNECTION))
    except AirflowNotFoundException:
        return millrace(None)


@dataclass
class Call:
    """A verb that runs in a process."""

    verb: str
    child: subprocess.Popen[bytes]
    answer: IO[bytes]

    def finish(self, log: Callable[[str], None]) -> Any:
        """Log the verb's progress until it ends, and return its result; a verdict that is not ok is a result, too."""
        error_lines: list[str] = []
        for line in self._lines():
            log(line)
            error_lines = [line] if line.startswith(ERROR_PREFIX) or not error_lines else [*error_lines[-20:], line]
        code = self.child.wait()
        self.answer.seek(0)
        answer = self.answer.read()
        message = " ".join(error_lines).removeprefix(ERROR_PREFIX)
        if code not in (*HAS_RESULT, USAGE) or (code != 0 and not answer):
            raise VerbError(message or f"millrace {self.verb} ended with code {code}")
        try:
            found = json.loads(answer)
        except ValueError:
            raise VerbError(f"millrace {self.verb} ended with code {code} and printed no valid JSON") from None
        version = found.get("version") if isinstance(found, dict) else None
        if version != JSON_VERSION:
            raise AirflowFailException(
                f"millrace {self.verb} printed JSON of version {version}, not {JSON_VERSION}; install the package in "
                "Airflow from the clone that the connection names"
            )
        if error := found.get("error"):
            # A retry of a usage error fails, too.
            raise (AirflowFailException if code == USAGE else VerbError)(error["message"])
        return found

    def stop(self) -> None:
        """End the verb and all that it started."""
        with suppress(ProcessLookupError):
            if self.child.poll() is None:
                os.killpg(self.child.pid, signal.SIGTERM)
        self.answer.close()

    def _lines(self) -> Iterator[str]:
        assert self.child.stderr is not None
        for line in self.child.stderr:
            if text := line.decode("utf-8", errors="replace").rstrip():
                # Masked here, too: the local executor repeats each line, unmasked, in the scheduler's output.
                yield str(redact(text))
