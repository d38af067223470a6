"""Denial of service: floods of refused log-ins, found in the logs of a web server."""

from millrace.rules import UseCase

from .canaries import CANARIES
from .events import DISORDER_MS, requests
from .rules import enriched, enrichment, flood_group, flood_ip, requests_3s
from .traffic import TRAFFIC

__all__ = ["FLOOD"]

FLOOD = UseCase(
    name="flood",
    judged=requests,
    enrichment=enrichment,
    enriched=enriched,
    rules=(flood_ip, flood_group),
    summaries=(requests_3s,),
    disorder_ms=DISORDER_MS,
    traffic=TRAFFIC,
    canaries=CANARIES,
)
