"""The events: what arrives, its key, its id and its time."""

from millrace.rules import EventType, Text, Whole

MINUTE_MS = 60_000

readings = EventType(
    "readings",
    "What a sensor measures.",
    (
        Text("reading"),
        Text("sensor"),
        Whole("celsius", least=-50, most=200),
        Whole("at_ms", least=0),
    ),
    key="sensor",
    id="reading",
    time="at_ms",
    past_ms=60 * MINUTE_MS,
    future_ms=MINUTE_MS,
)
