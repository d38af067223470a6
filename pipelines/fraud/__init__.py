"""Credit-card fraud: the flagship use."""

from millrace.rules import UseCase

from .canaries import CANARIES
from .events import customers, device_locations, merchants, transactions
from .rules import (
    above_previous_max,
    away_from_phone,
    burst,
    burst_at_once,
    enriched,
    enrichment,
    spend_per_minute,
    spree,
)
from .tables import TABLES
from .traffic import TRAFFIC

__all__ = ["FRAUD"]

FRAUD = UseCase(
    name="fraud",
    judged=transactions,
    others=(device_locations,),
    references=(merchants, customers),
    enrichment=enrichment,
    enriched=enriched,
    rules=(above_previous_max, away_from_phone, spree, burst_at_once, burst),
    summaries=(spend_per_minute,),
    tables=TABLES,
    traffic=TRAFFIC,
    canaries=CANARIES,
)
