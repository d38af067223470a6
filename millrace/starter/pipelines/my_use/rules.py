"""The rules, and the enriched events."""

from millrace.rules import Enrichment, EventRule

from .events import readings

overheated = EventRule(
    name="overheated",
    doc="A sensor measures more than 80 degrees.",
    on=readings,
    alert_when=lambda now, before: now.celsius > 80,
)

enrichment = Enrichment(on=readings)
enriched = enrichment.enriched("enriched", "Every accepted reading, with the rules it set off.")
