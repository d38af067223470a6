"""The arguments of a rule's lambdas: values by their names, so that a misspelt one fails at definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.rules.events import EventType
from millrace.rules.expressions import Field, Kind, RuleError
from millrace.rules.nearest import nearest


class Names:
    """An attribute for each value."""

    def __init__(
        self, owner: str, kinds: Mapping[str, Kind], of: str, groups: Mapping[str, Mapping[str, Kind]]
    ) -> None:
        self._owner, self._kinds, self._of, self._groups = owner, kinds, of, groups

    def __getattr__(self, name: str) -> Any:
        if name in self._groups:
            return _Group(self._owner, name, self._groups[name], self._of)
        if name in self._kinds:
            return Field(self._owner, name, self._kinds[name])
        raise RuleError(f"{self._of}: '{self._owner}' has no '{name}'; {nearest(name, [*self._kinds, *self._groups])}")


class _Group:
    """The fields of one remembered event, as `before.place.latitude`; in the engines a column `place_latitude`."""

    def __init__(self, owner: str, name: str, kinds: Mapping[str, Kind], of: str) -> None:
        self._owner, self._name, self._kinds, self._of = owner, name, kinds, of

    def __getattr__(self, name: str) -> Any:
        if name in self._kinds:
            return Field(self._owner, f"{self._name}_{name}", self._kinds[name])
        raise RuleError(f"{self._of}: '{self._owner}.{self._name}' has no '{name}'; {nearest(name, list(self._kinds))}")

    def __repr__(self) -> str:
        return f"all of {self._owner}.{self._name}; name one of its values: {', '.join(self._kinds)}"


def event_names(on: EventType, of: str, owner: str = "now") -> Names:
    """The fields of an event."""
    return Names(owner, {field.name: field.kind for field in on.readable}, of, {})
