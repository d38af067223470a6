"""Sensors that overheat: an example to replace."""

from millrace.rules import UseCase

from .events import readings
from .rules import enriched, enrichment, overheated
from .traffic import TRAFFIC

__all__ = ["MY_USE"]

MY_USE = UseCase(
    name="my-use",
    judged=readings,
    enrichment=enrichment,
    enriched=enriched,
    rules=(overheated,),
    traffic=TRAFFIC,
)
