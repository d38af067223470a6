"""The traffic: readings of some sensors; a few are too hot, a few are broken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random

from millrace.traffic import CLOSING, Columns, Label, Message, Secrets, Share, Size, TrafficPlan, message

from .events import readings

SECOND_MS = 1_000


class Sensors:
    """Readings of sensors chosen at random."""

    shares: Mapping[str, Share] = {
        "overheated": Share(0.01, "Share of readings that must alert."),
        "broken": Share(0.01, "Share of readings that must be refused."),
    }
    sizes: Mapping[str, Size] = {"sensors": Size(50, "How many sensors take part.")}
    ambiguous: frozenset[str] = frozenset()
    slack_ms = 30 * SECOND_MS

    def references(self, plan: TrafficPlan, also: Sequence[str]) -> Iterator[Message]:
        """None: the rules read no reference data."""
        return iter(())

    def messages(self, plan: TrafficPlan, secrets: Secrets, start_ms: int) -> Iterator[Message]:
        """One reading for each moment of the plan."""
        draw = Random(plan.seed)
        for position in range(plan.events):
            due_ms, kind = plan.due_ms(position), draw.random()
            sensor = f"{plan.name}-s{draw.randrange(plan.sizes['sensors'])}"
            reading = {
                "reading": f"{plan.name}-{position}",
                "sensor": sensor,
                "celsius": draw.randint(15, 80),
                "at_ms": start_ms + due_ms,
                "sent_ms": start_ms + due_ms,
            }
            label = Label("everyday")
            if kind < plan.shares["overheated"]:
                reading["celsius"] = draw.randint(81, 120)
                label = Label("overheated", alerts=("overheated",))
            elif kind < plan.shares["overheated"] + plan.shares["broken"]:
                del reading["celsius"]
                label = Label("broken", refusal="missing:celsius")
            yield message(due_ms, readings.name, sensor, reading, label)

    def closing_key(self, plan: TrafficPlan, number: int) -> str:
        """A sensor of the closing."""
        return f"{plan.name}-closing-{number}"

    def closing(
        self, plan: TrafficPlan, secrets: Secrets, start_ms: int, keys: Sequence[str], for_ms: int
    ) -> Iterator[Message]:
        """A cool reading of each of these sensors every second."""
        end_ms = plan.due_ms(plan.events)
        for second in range(1, for_ms // SECOND_MS + 2):
            due_ms = end_ms + second * SECOND_MS
            for sensor in keys:
                at_ms = start_ms + due_ms
                reading = {"reading": f"{sensor}-{second}", "sensor": sensor, "celsius": 20, "at_ms": at_ms}
                yield message(due_ms, readings.name, sensor, reading, Label(CLOSING))

    def columns(self, plan: TrafficPlan) -> Columns | None:
        """Recorded CSV files have the names of the fields as columns."""
        return None


TRAFFIC = Sensors()
