"""The journal of a stack's watcher."""

from __future__ import annotations

import json
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
        line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "subject": subject, "event": event}
        with self.path.open("a", encoding="utf-8") as opened:
            opened.write(json.dumps(line | ({"detail": detail} if detail else {})) + "\n")

    def read(self) -> list[dict[str, str]]:
        try:
            return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
        except FileNotFoundError:
            return []
