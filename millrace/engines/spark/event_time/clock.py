"""The clock of a plan's windows: one look at all queries, and the ticks that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from millrace.engines.spark.checkpoints import Committed, Offsets
from millrace.engines.spark.event_time.elsewhere import Elsewhere
from millrace.engines.spark.event_time.ends import TopicEnds, covers
from millrace.engines.spark.event_time.silence import Look, Silence
from millrace.engines.spark.tuning import END_MARGIN_MS, IDLE_MS
from millrace.patterns import EnginePlan

if TYPE_CHECKING:
    from millrace.engines.spark.queries import RunningQuery


@dataclass(frozen=True)
class Due:
    """A moment that windows get once a topic is read up to the ends."""

    clock_ms: int
    ends: Offsets


class Clock:
    """Sends each query that follows another stage the time which that stage has reached."""

    def __init__(
        self, plan: EnginePlan, queries: Sequence[RunningQuery], tick: Callable[[str, int], None], ends: TopicEnds
    ) -> None:
        self._judged = plan.topics[plan.use.judged.name]
        self._enriched = plan.topics[plan.use.enriched.name]
        self._disorder_ms = plan.use.disorder_ms
        self._is_real_time = plan.real_time
        self._events = next((each for each in queries if each.query.name == "events"), None)
        self._windows = [each for each in queries if each.query.follows == "events"]
        self._summaries = [each for each in queries if each.query.follows == "rules"]
        self._tick = tick
        self._ends = ends
        self._silence = _end_of(plan) if plan.finite else Silence(IDLE_MS)
        self._sent_ms: dict[str, int] = {}
        self._due: Due | None = None
        self._followed_ms = 0
        self._batch = Due(0, {self._judged: {}})
        self._passed_ms = 0
        self.is_over = False
        """Whether every message is judged and counted, and no window is open."""

    def keep(self, now_ms: int) -> None:
        """Send the ticks that are due; `now_ms` is a clock that is never set: a step of it would count as silence."""
        events = self._events.committed() if self._events else None
        windows = [each.committed() for each in self._windows]
        events_ms = self._real_time_ms(events) if self._is_real_time else self._clock_ms(events)
        windows_ms = [self._clock_ms(each) for each in windows]
        elsewhere = Elsewhere({}) if self._events else self._ends.judged_elsewhere()
        self._send(self._summaries, min(windows_ms, default=max(events_ms, elsewhere.clock_ms)))
        self._send(self._windows, events_ms)
        # After the look at the other engine: what it has committed is in the intermediate topic before this end.
        ends = self._ends.of([self._judged, self._enriched])
        judged = _offsets(events) if self._events else elsewhere.offsets
        self._follow(elsewhere.clock_ms, ends, windows)
        is_counted = all(covers(_offsets(each), ends, self._enriched) for each in windows)
        open_ = [each for each in self._windows if each.holds_windows()]
        look = Look(
            ends,
            is_done=covers(judged, ends, self._judged) and is_counted,
            clock_ms=max([events_ms, *windows_ms]),
            is_open=bool(open_),
            # The windows may have read the last events before the tick that belongs to them.
            stage_ms=max(events_ms, elsewhere.clock_ms),
        )
        self.is_over = look.is_done and not look.is_open
        silent_ms = self._silence.tick(look, now_ms)
        if silent_ms is not None:
            self._send(open_, silent_ms)

    def interrupt(self) -> None:
        """A look has failed, so what came meanwhile is unknown: silence begins with the next look."""
        self._silence.interrupt()

    def _real_time_ms(self, events: Committed | None) -> int:
        """The time of the last batch behind which nothing is left that arrived before its end.

        In real time a batch ends in each partition by itself, so one may be ahead of another by all of a backlog.
        """
        if covers(_offsets(events), self._batch.ends, self._judged):
            self._passed_ms = self._batch.clock_ms
            self._batch = Due(self._clock_ms(events), self._ends.of([self._judged]))
        return self._passed_ms

    def _follow(self, clock_ms: int, ends: Offsets, windows: Sequence[Committed | None]) -> None:
        """Send the time that another engine has reached to the windows, once they have read all that belongs to it."""
        if self._due is None and clock_ms > self._followed_ms:
            self._due, self._followed_ms = Due(clock_ms, ends), clock_ms
        if self._due is None:
            return
        is_read = [covers(_offsets(each), self._due.ends, self._enriched) for each in windows]
        for query, each, is_due in zip(self._windows, windows, is_read, strict=True):
            if is_due and self._clock_ms(each) < self._due.clock_ms:
                self._send([query], self._due.clock_ms)
        if all(is_read):
            self._due = None

    def _clock_ms(self, committed: Committed | None) -> int:
        return committed.clock_ms(self._disorder_ms) if committed else 0

    def _send(self, queries: Iterable[RunningQuery], moment_ms: int) -> None:
        for name in (each.query.name for each in queries):
            if moment_ms > self._sent_ms.get(name, 0):
                self._tick(name, moment_ms)
                self._sent_ms[name] = moment_ms


def _end_of(plan: EnginePlan) -> Silence:
    """The silence behind a finite stream: it closes every window at once."""
    longest_ms = max((rule.window.closes_after_ms for rule in plan.window_rules), default=0)
    return Silence(idle_ms=0, leap_ms=longest_ms + 2 * plan.use.disorder_ms + END_MARGIN_MS)


def _offsets(committed: Committed | None) -> Offsets:
    return committed.offsets if committed else {}
