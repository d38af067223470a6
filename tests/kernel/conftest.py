"""The Java kernel as a process that answers questions."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from millrace import kernel
from millrace.machine import jars
from millrace.oracle import Record
from millrace.rules import EventRule, EventType, UseCase, WindowRule
from millrace.rules.stage import stage_data, windows_data
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

    def judge(
        self, use: UseCase, tape: Sequence[Record], crashes: Sequence[int] = (), *, windows: bool = False
    ) -> list[tuple[str, str, dict[str, Any]]]:
        """What the per-event stage writes, or the windows behind it: kind, key and content of each message.

        `crashes` has for each message of the tape how many come again after it.
        """
        on_windows = [rule for rule in use.rules if isinstance(rule, WindowRule)]
        rules = tuple(rule for rule in use.rules if isinstance(rule, EventRule))
        references = {each.name: {"event": json.dumps(each.reader()), "key": each.key} for each in use.references}
        messages = [
            {
                "stream": each.topic,
                "partition": each.partition,
                "offset": each.offset,
                "ingest_ms": each.ingest_ms,
                "key": _base64(each.key),
                "value": _base64(each.value),
            }
            for each in tape
        ]
        asked = {
            "stage": json.dumps(stage_data(use, rules)),
            "topics": {each.name: each.name for each in (*use.raw, *use.references)},
            "references": references,
            "tape": messages,
            "windows": json.dumps(windows_data(use, on_windows, use.summaries)) if windows else None,
            "crashes": [*crashes, *(0 for _ in messages)],
        }
        written = iter(self._ask(asked))
        return [(kind, key, json.loads(content)) for kind, key, content in zip(written, written, written, strict=True)]

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
    class_path = os.pathsep.join((str(kernel.ensure(settings, "streams")), str(library)))
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
