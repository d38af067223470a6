"""The memory of a per-event stage: the measures of all its rules, each kept once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millrace.rules.expressions import Kind
from millrace.rules.measures import Measure, as_data, outputs, signature
from millrace.rules.rules import EventRule, UseCase


@dataclass(frozen=True)
class StageMemory:
    """The per-event rules that one job judges, and the columns in which an engine keeps their measures."""

    use: UseCase
    rules: tuple[EventRule, ...]
    _prefixes: Mapping[str, str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        signatures = [signature(measure, self.use.judged) for _, measure in self._declared()]
        object.__setattr__(self, "_prefixes", {s: f"_m{i}" for i, s in enumerate(dict.fromkeys(signatures))})

    @property
    def is_needed(self) -> bool:
        """Whether anything of a key's earlier events counts: a measure, or the ids of those that came already."""
        return self.use.judged.id is not None or bool(self.measures)

    @property
    def measures(self) -> list[dict[str, Any]]:
        """Every distinct measure as plain data, its outputs named by the stage's columns."""
        distinct = {signature(measure, self.use.judged): measure for _, measure in self._declared()}
        return [as_data(self._prefixes[s], measure, self.use.judged) for s, measure in distinct.items()]

    @property
    def columns(self) -> dict[str, Kind]:
        """All columns of remembered values, with their kinds."""
        return {name: kind for measure in self.measures for name, kind in measure["outputs"].items()}

    def column(self, remembers: Mapping[str, Measure], name: str) -> str:
        """The stage's column for the name by which a rule, or the enrichment, calls a remembered value."""
        for own, measure in remembers.items():
            if name in outputs(own, measure, self.use.judged):
                return self._prefixes[signature(measure, self.use.judged)] + name.removeprefix(own)
        raise KeyError(name)

    def _declared(self) -> Sequence[tuple[str, Measure]]:
        declared = [rule.remembers for rule in self.rules] + [self.use.enrichment.remembers]
        return [(name, measure) for remembers in declared for name, measure in remembers.items()]
