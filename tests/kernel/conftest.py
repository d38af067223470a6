"""The Java kernel as a process that answers questions."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace import kernel
from millrace.machine import jars
from millrace.rules import EventType
from millrace.settings import Settings


class Partner:
    """The kernel: one line for each request."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def read(self, event_type: EventType, value: bytes | None, ingest_ms: int) -> list[Any]:
        """The reason and the fields, as EventReader gives them."""
        asked = {"event_type": json.dumps(event_type.reader()), "value": _base64(value), "ingest_ms": ingest_ms}
        return self._ask(asked)

    def kept(self, event_type: EventType, value: bytes | None, reason: str) -> str | None:
        """What a dead letter carries of a refused message, in base64."""
        declared = json.dumps(event_type.reader())
        found: str | None = self._ask({"event_type": declared, "value": _base64(value), "reason": reason})[0]
        return found

    def are_card_numbers_in(self, text: str) -> bool:
        return bool(self._ask({"text": text})[0])

    def fold(
        self, measures: list[dict[str, Any]], state: str | None, stream: str, event: dict[str, Any], is_judged: bool
    ) -> tuple[dict[str, Any], str]:
        """What was remembered before a judged event, by column, and the state behind the event."""
        asked = {"measures": json.dumps(measures), "state": state, "stream": stream, "event": event}
        asked["is_judged"] = is_judged
        names, before, state_after = self._ask(asked)
        return dict(zip(json.loads(names), json.loads(before), strict=False)), state_after

    def km(self, *places: float) -> float:
        return float(self._ask({"places": [float(place) for place in places]})[0])

    def _ask(self, question: dict[str, Any]) -> list[Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            pytest.fail(f"the kernel died of {question}")
        found: list[Any] = json.loads(answer)
        return found


@pytest.fixture(scope="session")
def partner() -> Iterator[Partner]:
    settings = Settings.read(os.environ)
    library = next(jars.folder(settings, "flink").glob("jackson-core-*.jar"))
    class_path = os.pathsep.join((str(kernel.ensure(settings, "flink")), str(library)))
    source = Path(__file__).with_name("Partner.java")
    with subprocess.Popen(
        ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", class_path, str(source)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        yield Partner(process)
        assert process.stdin
        process.stdin.close()
        process.wait(60)


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
