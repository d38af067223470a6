"""A use of the tests' own, with nothing of another's in it: visits to pages, without ids and without secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from millrace.rules import Count, Enrichment, EventRule, EventType, Max, Text, Tumbling, UseCase, Whole, WindowRule
from millrace.traffic import CLOSING, Columns, Label, Message, Secrets, Share, Size, TrafficPlan, message

visits = EventType(
    "visits",
    "A visit to a page.",
    (Text("page"), Whole("status", 100, 599), Whole("at_ms", least=0), Whole("sent_ms", least=0, required=False)),
    key="page",
    time="at_ms",
    past_ms=60_000,
)
_nothing_added = Enrichment(on=visits, lookups=(), remembers={}, adds={})
_enriched = _nothing_added.enriched("enriched", "Visits.")

crowd = WindowRule(
    name="crowd",
    doc="Three visits to a page within a second.",
    on=_enriched,
    key="page",
    window=Tumbling(1_000),
    measures={"n": Count()},
    alert_when=lambda w: w.n >= 3,
)
worse = EventRule(
    name="worse",
    doc="The status is greater than any before.",
    on=visits,
    remembers={"highest": Max("status")},
    alert_when=lambda now, before: now.status > before.highest,
)

COLUMNS = Columns(
    event=visits,
    header=("second", "page", "status", "browser"),
    at_ms=lambda row: int(row["second"]) * 1_000,
    fields={"page": "page", "status": lambda row: int(float(row["status"]))},
    is_quoted=False,
)


class Visits:
    """Three visits at once, or one."""

    shares: Mapping[str, Share] = {"crowds": Share(0.1, "Share of moments with a crowd.", most=1.0)}
    sizes: Mapping[str, Size] = {"pages": Size(4, "How many pages there are.", most=100)}
    ambiguous = frozenset({"chance"})
    slack_ms = 500

    def references(self, plan: TrafficPlan, also: Sequence[str]) -> Iterator[Message]:
        yield from ()

    def messages(self, plan: TrafficPlan, secrets: Secrets, start_ms: int) -> Iterator[Message]:
        for position in range(plan.events):
            due_ms = plan.due_ms(position)
            is_crowd = position % 10 < 3 and plan.shares["crowds"] > 0
            label = Label("crowd", position // 10, ("crowd",)) if is_crowd else Label("alone", position)
            yield visit(f"p{position // 10 if is_crowd else -position}", start_ms, due_ms, label)

    def closing_key(self, plan: TrafficPlan, number: int) -> str:
        return f"closing-{number}"

    def closing(
        self, plan: TrafficPlan, secrets: Secrets, start_ms: int, keys: Sequence[str], for_ms: int
    ) -> Iterator[Message]:
        for key in keys:
            yield visit(key, start_ms, plan.due_ms(plan.events) + for_ms, Label(CLOSING))

    def columns(self, plan: TrafficPlan) -> Columns | None:
        return COLUMNS


def visit(page: str, start_ms: int, due_ms: int, label: Label) -> Message:
    """One visit that happens when it is sent."""
    at_ms = start_ms + due_ms
    return message(due_ms, "visits", page, {"page": page, "status": 200, "at_ms": at_ms, "sent_ms": at_ms}, label)


TRAFFIC = Visits()
VISITS = UseCase(
    name="visits",
    judged=visits,
    others=(),
    references=(),
    enrichment=_nothing_added,
    enriched=_enriched,
    rules=(crowd, worse),
    summaries=(),
    traffic=TRAFFIC,
)
