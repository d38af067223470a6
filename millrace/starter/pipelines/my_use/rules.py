"""The rules, and the use that patterns name."""

from millrace.rules import Enrichment, EventRule, UseCase

from .events import readings

overheated = EventRule(
    name="overheated",
    doc="A sensor measures more than 80 degrees.",
    on=readings,
    alert_when=lambda now, before: now.celsius > 80,
)

enrichment = Enrichment(on=readings)

MY_USE = UseCase(
    name="my-use",
    judged=readings,
    enrichment=enrichment,
    enriched=enrichment.enriched("enriched", "Every accepted reading, with the rules it set off."),
    rules=(overheated,),
)
