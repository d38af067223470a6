"""Canaries: synthetic events that set off rules every minute, so that a rule without alerts is known to be alive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from millrace.rules.containers import require_mappings, require_tuples
from millrace.rules.places import placed
from millrace.rules.tokens import Secrets
from millrace.rules.traffic import Label, Message

CANARY = Label("canary")
"""The label of a message of a canary; a verdict judges it as any other."""


@dataclass(frozen=True)
class Canaries:
    """What a use declares of its canaries: synthetic keys, one in each partition, known by how their values begin."""

    marks: Mapping[str, str]
    """Field -> how its values begin in each event of a canary, and in no other; the key of judged events is one."""
    rules: tuple[str, ...]
    """The rules that each round sets off."""
    messages: Callable[[str, Secrets, int, int], Iterable[Message]]
    """The messages of one round of a key, in the order of their sending: of the key, the secrets, the start and the
    length of the round in milliseconds. It reads no clock and keeps nothing; each due time is within the round. The
    events after the first ones set off nothing: they move time on."""
    references: Callable[[str], Iterable[Message]] = lambda key: ()
    """The reference data of a key, sent before its first round."""

    def __post_init__(self) -> None:
        with placed("canaries"):
            require_mappings("canaries", '{"FIELD": "canary:"}', marks=self.marks)
            require_tuples("canaries", rules=self.rules)

    def has(self, values: Mapping[str, Any]) -> bool:
        """Whether an event, or a row of a summary, is a canary's."""
        return any(str(values.get(name) or "").startswith(mark) for name, mark in self.marks.items())
