"""A use before and after a change of its events, and of nothing that the version of a rule tells."""

from millrace.rules import Count, Enrichment, EventType, Sum, Text, Tumbling, UseCase, Whole, WindowRule, WindowSummary

WINDOW_MS, HOUR_MS = 3_000, 3_600_000


def use(*, is_changed: bool) -> UseCase:
    """Changed, the events have an id, a sum of their sizes may leave the 64 bits, and nobody reads the doors."""
    doors = EventType("doors", "", (Text("ip"), Whole("at_ms", least=0)), key="ip", time="at_ms", past_ms=HOUR_MS)
    requests = EventType(
        "requests",
        "",
        (
            Text("ip"),
            Text("request_id"),
            Whole("size", least=0, most=2**62 if is_changed else 1_000_000),
            Whole("at_ms", least=0),
        ),
        key="ip",
        id="request_id" if is_changed else None,
        time="at_ms",
        past_ms=HOUR_MS,
    )
    enrichment = Enrichment(on=requests, lookups=(), remembers={}, adds={})
    enriched = enrichment.enriched("enriched", "")
    measures = {"n": Count(), "size": Sum("size")}
    busy = WindowRule("busy", "", enriched, "ip", Tumbling(WINDOW_MS), measures, alert_when=lambda w: w.n > 1)
    return UseCase(
        name="changing",
        judged=requests,
        enrichment=enrichment,
        enriched=enriched,
        others=() if is_changed else (doors,),
        rules=(busy,),
        summaries=(WindowSummary("sizes", "", enriched, ("ip",), Tumbling(WINDOW_MS), measures),),
    )
