"""What a verb did, or would do: the same words for a plan and for its execution."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Action = Literal["create", "change", "remove", "start", "stop", "keep"]


@dataclass(frozen=True)
class Change:
    """One thing that a verb makes true."""

    kind: str
    name: str
    action: Action
    detail: str = ""


def pending(changes: Iterable[Change]) -> list[Change]:
    """The changes that change something."""
    return [change for change in changes if change.action != "keep"]
