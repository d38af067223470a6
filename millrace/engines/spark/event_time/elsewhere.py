"""How far the per-event stage on another engine has come: the offsets and notes that it commits (millrace/job.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millrace.engines.spark.checkpoints import Offsets


@dataclass(frozen=True)
class Elsewhere:
    """One look at what another engine's job has committed."""

    offsets: Offsets
    clock_ms: int = 0
    """The event time before which it has written all; 0 if that is unknown."""


def reached_ms(notes: Sequence[str]) -> int:
    """The event time that all partitions have reached, by a note for each; 0 without one of each.

    Tasks commit one after the other: the note of a slower one is older, and holds time back.
    """
    read: list[Mapping[str, Any]] = [json.loads(note) for note in notes if note]
    if not read or len(read) < len(notes):
        return 0
    newest_ms = max(each["newest_ms"] for each in read)
    return int(min(newest_ms, *(each["through_ms"] for each in read)))
