"""What a verb changed or would change, in the same words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Action = Literal["create", "change", "remove", "start", "stop", "keep"]


@dataclass(frozen=True)
class Change:
    """One thing, and what a verb does about it."""

    kind: str
    name: str
    action: Action
    detail: str = ""


def pending(changes: Iterable[Change]) -> list[Change]:
    """The changes without those that keep a thing as it is."""
    return [change for change in changes if change.action != "keep"]
