"""Readings of sensors: each rule has a window or a measure that no other has."""

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
        Text("sensor", r"[a-z0-9|%-]+"),
        Text("site"),
        Whole("code", least=0, most=999),
        Whole("units", required=False),
        Real("level", -100, 100, required=False),
        Whole("at_ms", least=0),
    ),
    key="sensor",
    time="at_ms",
    past_ms=DAY_MS,
    future_ms=60_000,
)
enrichment = Enrichment(
    on=readings,
    remembers={"peak": Max("level"), "seen": Count()},
    adds={
        "peak_before": lambda now, before: before.peak,
        "seen_before": lambda now, before: before.seen,
        "stretched": lambda now, before: now.level * 1e307,
    },
)
enriched = enrichment.enriched("enriched", "A reading, with the highest level before it.")

higher = EventRule(
    "higher",
    "A level above all before it.",
    readings,
    remembers={"peak": Max("level")},
    alert_when=lambda now, before: now.level > before.peak,
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
    remembers={"units": Sum("units"), "others": DistinctOthers("code", within_ms=500), "least": Min("units")},
    alert_when=lambda now, before: (before.units == 2**63 - 1) & (before.others >= 1),
)

beyond = EventRule(
    "beyond",
    "Twice the units are negative, or the stretched level is huge: null where a number leaves its kind.",
    readings,
    alert_when=lambda now, before: (now.units * 2 < 0) | (now.level * 1e307 > 1.7e308),
)

FAILED = Count(where=lambda now: (now.code == 401) | (now.code == 403))

tumbling = WindowRule(
    "tumbling",
    "More than three readings of a sensor in three seconds, and all of them failed.",
    enriched,
    "sensor",
    Tumbling(3_000),
    {"n": Count(), "failed": FAILED, "code": Last("code"), "kinds": CountDistinct("code")},
    lambda w: (w.n > 3) & (w.failed == w.n),
)
sliding = WindowRule(
    "sliding",
    "Three sensors of a site within four seconds.",
    enriched,
    "site",
    Sliding(4_000, 1_000),
    {
        "sensors": CountDistinct("sensor"),
        "sensor": Last("sensor"),
        "level": Last("level"),
        "units": Sum("units"),
        "lowest": Min("level"),
        "highest": Max("level"),
        "least": Min("units"),
        "stretched": Max("stretched"),
        "seen": Last("seen_before"),
        "offset": Max("source_offset"),
    },
    lambda w: w.sensors >= 3,
)
session = WindowRule(
    "session",
    "A chain of ten readings of a site.",
    enriched,
    "site",
    Session(300),
    {"n": Count(), "failed": FAILED, "first": Min("at_ms")},
    lambda w: w.n >= 10,
)
per_site = WindowSummary(
    "per-site",
    "Readings of each site.",
    enriched,
    ("site",),
    Tumbling(2_000),
    {"readings": Count(), "failed": FAILED, "units": Sum("units"), "sensors": CountDistinct("sensor")},
)
moving = WindowSummary(
    "moving",
    "Levels of each site, every second.",
    enriched,
    ("site",),
    Sliding(3_000, 1_000),
    {"lowest": Min("level"), "highest": Max("level"), "last": Last("code"), "stretched": Min("stretched")},
)
by_value = WindowSummary(
    "by-value",
    "Readings of each number of units and each level, the absent ones together.",
    enriched,
    ("units", "level"),
    Tumbling(2_000),
    {"readings": Count(), "sensors": CountDistinct("sensor")},
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
