"""The use `flood` with a rule and numbers over sliding windows, which no use of the project has."""

from dataclasses import replace

from millrace.rules import Count, Sliding, Sum, WindowRule, WindowSummary
from pipelines import flood  # a job takes the only use of this name in this module
from pipelines.flood.rules import HARMLESS, REFUSALS, WINDOW_MS, enriched

__all__ = ["MOVING"]

moving_ip = WindowRule(
    name="moving-ip",
    doc="An ip sends more than 30 requests within 3 seconds from any second on, and all of them are refused log-ins.",
    on=enriched,
    key="ip",
    window=Sliding(WINDOW_MS, 1_000),
    measures={"n": Count(), "refused": REFUSALS},
    alert_when=lambda w: (w.n > HARMLESS) & (w.refused == w.n),
)

requests_moving = WindowSummary(
    name="requests-moving",
    doc="The requests of each group in 4 seconds, every 2 seconds.",
    on=enriched,
    keys=("group_id",),
    window=Sliding(4_000, 2_000),
    measures={"requests": Count(), "refused": REFUSALS, "bytes": Sum("size")},
)

MOVING = replace(
    flood.FLOOD,
    rules=(*flood.FLOOD.rules, moving_ip),
    summaries=(*flood.FLOOD.summaries, requests_moving),
)
