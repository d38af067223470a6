"""The journal of a stack's watcher."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from millrace.settings import Settings


@dataclass(frozen=True)
class Journal:
    """What the watcher saw and did, oldest first: a line of JSON for each event."""

    path: Path

    @classmethod
    def of(cls, settings: Settings) -> Journal:
        """The journal of the stack of these settings."""
        return cls(settings.state / "watch.jsonl")

    def write(self, subject: str, event: str, detail: str = "") -> None:
        """Add an event; a full disk loses it, and what follows half a line, so that the watcher works on."""
        line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "subject": subject, "event": event}
        with suppress(OSError), self.path.open("a", encoding="utf-8") as opened:
            opened.write(json.dumps(line | ({"detail": detail} if detail else {})) + "\n")

    def read(self) -> list[dict[str, str]]:
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        events = []
        for line in lines:
            with suppress(json.JSONDecodeError):  # the disk became full in the middle of it
                events.append(json.loads(line))
        return events
