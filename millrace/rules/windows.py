"""The windows of rules and summaries: a closed family, aligned to 1970, the same in the oracle and in every engine."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.rules.events import SPAN_MOST_MS, is_whole
from millrace.rules.expressions import RuleError
from millrace.rules.sentences import span

WINDOWS_MOST = 1_000
"""Windows of one `Sliding` that an event is in."""


@dataclass(frozen=True)
class Session:
    """A maximal chain of a key's events in which each is at most `gap_ms` after the one before."""

    gap_ms: int

    def __post_init__(self) -> None:
        _require_positive("Session", gap_ms=self.gap_ms)

    @property
    def closes_after_ms(self) -> int:
        """How long after its last event a window can still grow."""
        return self.gap_ms

    def end_ms(self, start_ms: int, last_ms: int) -> int:
        """When a window is complete that starts here and whose last event is there."""
        return last_ms + self.gap_ms

    def phrase(self) -> str:
        return f"a chain of events, each at most {span(self.gap_ms)} after the one before,"


@dataclass(frozen=True)
class _Sized:
    """A window that ends a fixed time after its start."""

    size_ms: int

    @property
    def closes_after_ms(self) -> int:
        return self.size_ms

    def end_ms(self, start_ms: int, last_ms: int) -> int:
        return start_ms + self.size_ms


@dataclass(frozen=True)
class Tumbling(_Sized):
    """Spans of `size_ms`, one after the other; an event at a border is in the later one."""

    def __post_init__(self) -> None:
        _require_positive("Tumbling", size_ms=self.size_ms)

    def phrase(self) -> str:
        return f"a window of {span(self.size_ms)}"


@dataclass(frozen=True)
class Sliding(_Sized):
    """Spans of `size_ms`, a new one every `step_ms`; an event is in each span that covers it."""

    step_ms: int

    def __post_init__(self) -> None:
        _require_positive("Sliding", size_ms=self.size_ms, step_ms=self.step_ms)
        if self.size_ms % self.step_ms:
            raise RuleError(
                f"Sliding: size_ms={self.size_ms} is not a multiple of step_ms={self.step_ms}; choose a step that "
                "divides the size"
            )
        if (windows := self.size_ms // self.step_ms) > WINDOWS_MOST:
            raise RuleError(
                f"Sliding: each event would be in {windows:,} windows, and at most {WINDOWS_MOST:,} are allowed, "
                f"because an engine counts it in each; choose a step of at least {-(-self.size_ms // WINDOWS_MOST)} ms"
            )

    def phrase(self) -> str:
        return f"a window of {span(self.size_ms)}, a new one every {span(self.step_ms)},"


Window = Session | Tumbling | Sliding


def _require_positive(window: str, **spans: int) -> None:
    for name, value in spans.items():
        if not is_whole(value, 1, SPAN_MOST_MS):
            raise RuleError(
                f"{window}: {name} must be a whole number of milliseconds from 1 to {SPAN_MOST_MS:,}, not {value!r}"
            )
