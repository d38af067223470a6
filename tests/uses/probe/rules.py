"""Readings of sensors: each rule has a window or a measure that no other has.

The names of fields are such as SQL, Kafka and the engines have for themselves.
"""

from millrace.rules import (
    Count,
    CountDistinct,
    DistinctOthers,
    Enrichment,
    EventRule,
    EventType,
    Last,
    Max,
    Min,
    Real,
    Session,
    Sliding,
    Sum,
    Text,
    Tumbling,
    UseCase,
    Whole,
    WindowRule,
    WindowSummary,
)

DAY_MS = 86_400_000

readings = EventType(
    "readings",
    "What a sensor has read.",
    (
        Text("topic", r"[a-z0-9|%-]+", takes_whole=True),
        Text("group"),
        Whole("value", least=0, most=999),
        Whole("offset", required=False),
        Real("Order", -100, 100, required=False),
        Whole("at_ms", least=0),
    ),
    key="topic",
    time="at_ms",
    past_ms=DAY_MS,
    future_ms=60_000,
)
enrichment = Enrichment(
    on=readings,
    remembers={"peak": Max("Order"), "seen": Count()},
    adds={
        "peak_before": lambda now, before: before.peak,
        "seen_before": lambda now, before: before.seen,
        "stretched": lambda now, before: now.Order * 1e307,
    },
)
enriched = enrichment.enriched("enriched", "A reading, with the highest level before it.")

higher = EventRule(
    "higher",
    "A level above all before it.",
    readings,
    remembers={"peak": Max("Order")},
    alert_when=lambda now, before: now.Order > before.peak,
)
hurried = EventRule(
    "hurried",
    "The fourth reading within a second.",
    readings,
    remembers={"lately": Count(within_ms=1_000)},
    alert_when=lambda now, before: before.lately >= 3,
)
full = EventRule(
    "full",
    "The units have reached the largest number.",
    readings,
    remembers={"offset": Sum("offset"), "others": DistinctOthers("value", within_ms=500), "least": Min("offset")},
    alert_when=lambda now, before: (before.offset == 2**63 - 1) & (before.others >= 1),
)

beyond = EventRule(
    "beyond",
    "Twice the units are negative, or the stretched level is huge: null where a number leaves its kind.",
    readings,
    alert_when=lambda now, before: (now.offset * 2 < 0) | (now.Order * 1e307 > 1.7e308),
)

FAILED = Count(where=lambda now: (now.value == 401) | (now.value == 403))

tumbling = WindowRule(
    "tumbling",
    "More than three readings of a sensor in three seconds, and all of them failed.",
    enriched,
    "topic",
    Tumbling(3_000),
    {"n": Count(), "failed": FAILED, "value": Last("value"), "kinds": CountDistinct("value")},
    lambda w: (w.n > 3) & (w.failed == w.n),
)
sliding = WindowRule(
    "sliding",
    "Three sensors of a site within four seconds.",
    enriched,
    "group",
    Sliding(4_000, 1_000),
    {
        "sensors": CountDistinct("topic"),
        "topic": Last("topic"),
        "Order": Last("Order"),
        "offset": Sum("offset"),
        "lowest": Min("Order"),
        "highest": Max("Order"),
        "least": Min("offset"),
        "stretched": Max("stretched"),
        "seen": Last("seen_before"),
        "farthest": Max("source_offset"),
    },
    lambda w: w.sensors >= 3,
)
session = WindowRule(
    "session",
    "A chain of ten readings of a site.",
    enriched,
    "group",
    Session(300),
    {"n": Count(), "failed": FAILED, "first": Min("at_ms")},
    lambda w: w.n >= 10,
)
per_site = WindowSummary(
    "per-site",
    "Readings of each site.",
    enriched,
    ("group",),
    Tumbling(2_000),
    {"readings": Count(), "failed": FAILED, "offset": Sum("offset"), "sensors": CountDistinct("topic")},
)
moving = WindowSummary(
    "moving",
    "Levels of each site, every second.",
    enriched,
    ("group",),
    Sliding(3_000, 1_000),
    {"lowest": Min("Order"), "highest": Max("Order"), "last": Last("value"), "stretched": Min("stretched")},
)
by_value = WindowSummary(
    "by-value",
    "Readings of each number of units and each level, the absent ones together.",
    enriched,
    ("offset", "Order"),
    Tumbling(2_000),
    {"readings": Count(), "sensors": CountDistinct("topic")},
)
altogether = WindowSummary(
    "altogether", "All readings.", enriched, (), Sliding(2_000, 1_000), {"readings": Count(), "failed": FAILED}
)

PROBE = UseCase(
    "probe",
    judged=readings,
    enrichment=enrichment,
    enriched=enriched,
    rules=(higher, hurried, full, beyond, tumbling, sliding, session),
    summaries=(per_site, moving, by_value, altogether),
    disorder_ms=1_000,
)
