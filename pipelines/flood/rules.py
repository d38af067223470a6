"""The flood rules: each is one declaration, and this is the only place that holds their numbers."""

from millrace.rules import Count, Enrichment, Last, Sum, Tumbling, WindowRule, WindowSummary

from .events import REFUSED, SECOND_MS, requests

WINDOW_MS = 3 * SECOND_MS
HARMLESS = 30
"""So many refused requests in a window set off nothing; one more does."""

enrichment = Enrichment(on=requests, lookups=(), remembers={}, adds={})

enriched = enrichment.enriched("enriched", "Every accepted request.")

REFUSALS = Count(where=lambda now: (now.code == REFUSED[0]) | (now.code == REFUSED[1]))

flood_ip = WindowRule(
    name="flood-ip",
    doc="An ip sends more than 30 requests within 3 seconds, and all of them are refused log-ins.",
    on=enriched,
    key="ip",
    window=Tumbling(WINDOW_MS),
    measures={"n": Count(), "refused": REFUSALS},
    alert_when=lambda w: (w.n > HARMLESS) & (w.refused == w.n),
)

flood_group = WindowRule(
    name="flood-group",
    doc=(
        "A group of ips sends more than 30 requests within 3 seconds, and all of them are refused log-ins. The rule is "
        "silent while another ip of the group is served; flood-ip is not."
    ),
    on=enriched,
    key="group_id",
    window=Tumbling(WINDOW_MS),
    measures={"n": Count(), "refused": REFUSALS, "ip": Last("ip")},
    alert_when=lambda w: (w.n > HARMLESS) & (w.refused == w.n),
)

requests_3s = WindowSummary(
    name="requests-3s",
    doc="The requests of each group, every 3 seconds.",
    on=enriched,
    keys=("group_id",),
    window=Tumbling(WINDOW_MS),
    measures={"requests": Count(), "refused": REFUSALS, "bytes": Sum("size")},
)
