"""The command line of millrace, as a task says verbs to it: progress becomes log lines, the answer is one JSON text."""

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
ANSWERED = (0, 1, WOULD_CHANGE)
"""Exit codes of a verb that has answered; a verdict that is not ok ends with 1."""
COMPLAINS = "millrace: "


class VerbError(AirflowException):
    """A verb that did not do what was asked; the message is the line with which it ended."""


@dataclass(frozen=True)
class Millrace:
    """Where the command line is, and what it may know of this process: its own variables, never Airflow's."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)

    def start(self, words: Sequence[str]) -> Saying:
        """Begin to say a verb."""
        answer = tempfile.TemporaryFile()  # noqa: SIM115 - Saying closes it
        child = subprocess.Popen(
            [*self.command, *words, "--json"],
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that the task can end it with all that it started
        )
        return Saying(words[0], child, answer)

    async def say(self, words: Sequence[str], log: Callable[[str], None]) -> Any:
        """Say a verb while other triggers go on; ends it when the trigger is called off."""
        saying = self.start(words)
        try:
            return await asyncio.to_thread(saying.finish, log)
        finally:
            saying.stop()


def millrace(connection: Connection | None) -> Millrace:
    """The command line as the connection has it: extra `command`, and `environment` with more variables."""
    extra = connection.extra_dejson if connection else {}
    # By their names, as Airflow judges names: what is called a password, a token or a secret never shows in a log.
    mask_secret(extra.get("environment", {}))
    command = extra.get("command") or str(environments.command(Settings.read(os.environ)))
    # The command line may be another installation: it is to read the pattern files from which the DAGs were made.
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
class Saying:
    """A verb while it is being said."""

    verb: str
    child: subprocess.Popen[bytes]
    answer: IO[bytes]

    def finish(self, log: Callable[[str], None]) -> Any:
        """Log what the verb reports until it ends, and return its answer; a verdict that is not ok is one, too."""
        complaint: list[str] = []
        for line in self._lines():
            log(line)
            complaint = [line] if line.startswith(COMPLAINS) or not complaint else [*complaint[-20:], line]
        code = self.child.wait()
        self.answer.seek(0)
        answer = self.answer.read()
        said = " ".join(complaint).removeprefix(COMPLAINS)
        if code not in (*ANSWERED, USAGE) or (code != 0 and not answer):
            raise VerbError(said or f"{self.verb} ended with code {code}")
        try:
            found = json.loads(answer)
        except ValueError:
            raise VerbError(f"millrace {self.verb} ended with code {code} and its answer is no JSON") from None
        version = found.get("version") if isinstance(found, dict) else None
        if version != JSON_VERSION:
            raise AirflowFailException(
                f"millrace {self.verb} answered in version {version}, not {JSON_VERSION}; install the package in "
                "Airflow from the clone that the connection names"
            )
        if error := found.get("error"):
            # Wrong words are wrong the next time, too.
            raise (AirflowFailException if code == USAGE else VerbError)(error["message"])
        return found

    def stop(self) -> None:
        """End the verb and all that it started; each verb can be said again."""
        with suppress(ProcessLookupError):
            if self.child.poll() is None:
                os.killpg(self.child.pid, signal.SIGTERM)
        self.answer.close()

    def _lines(self) -> Iterator[str]:
        assert self.child.stderr is not None
        for line in self.child.stderr:
            if text := line.decode("utf-8", errors="replace").rstrip():
                # Here, not only where a log is written: the local executor repeats every line, unmasked, in the
                # scheduler's own output.
                yield str(redact(text))
