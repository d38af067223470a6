"""The fraud rules: each is one declaration, and this is the only place that holds its thresholds."""

from millrace.rules import (
    Count,
    DistinctOthers,
    Enrichment,
    EventRule,
    Lookup,
    Max,
    Session,
    Sum,
    Tumbling,
    WindowRule,
    WindowSummary,
    km,
)

from .events import MINUTE_MS, PHONE, customers, merchants, transactions

BURST_GAP_MS = 10_000

enrichment = Enrichment(
    on=transactions,
    lookups=(
        Lookup(merchants, by="merchant", take={"merchant_category": "category", "merchant_place": "place"}),
        Lookup(customers, by="customer", take={"customer_segment": "segment"}),
    ),
    remembers={"phone": PHONE},
    adds={
        "km_from_phone": lambda now, before: km(now, before.phone),
        "phone_latitude": lambda now, before: before.phone.latitude,
        "phone_longitude": lambda now, before: before.phone.longitude,
        "phone_at_ms": lambda now, before: before.phone.at_ms,
    },
)

enriched = enrichment.enriched(
    "enriched", "Every accepted transaction, with what is known about it and the rules it set off."
)

above_previous_max = EventRule(
    name="above-previous-max",
    doc="The amount is greater than the largest of the customer's earlier transactions; the first one never alerts.",
    on=transactions,
    remembers={"highest_cents": Max("amount_cents")},
    alert_when=lambda now, before: now.amount_cents > before.highest_cents,
)

away_from_phone = EventRule(
    name="away-from-phone",
    doc="The card is used more than 1 km from where the customer's phone was at most 15 minutes before.",
    on=transactions,
    remembers={"phone": PHONE},
    alert_when=lambda now, before: (km(now, before.phone) > 1.0) & (now.at_ms - before.phone.at_ms <= 15 * MINUTE_MS),
)

spree = EventRule(
    name="spree",
    doc="The customer buys at a fifth different merchant within two minutes.",
    on=transactions,
    remembers={"other_merchants": DistinctOthers("merchant", within_ms=2 * MINUTE_MS)},
    alert_when=lambda now, before: before.other_merchants >= 4,
)

burst_at_once = EventRule(
    name="burst-at-once",
    doc=(
        "The customer buys again within 10 seconds, with any card. It alerts at once; `burst` alerts when the chain is "
        "over. The key is the customer, not the card: events are in order only within the key of their topic."
    ),
    on=transactions,
    remembers={"purchases": Count(within_ms=BURST_GAP_MS), "newest_ms": Max("at_ms")},
    # The count goes back from the newest purchase, and so does not judge one that arrives an hour late.
    alert_when=lambda now, before: (before.purchases >= 1) & (now.at_ms - before.newest_ms >= -BURST_GAP_MS),
)

burst = WindowRule(
    name="burst",
    doc="Two or more transactions of a card, each at most 10 seconds after the one before.",
    on=enriched,
    key="card",
    window=Session(gap_ms=BURST_GAP_MS),
    measures={"n": Count(), "total_cents": Sum("amount_cents")},
    alert_when=lambda w: w.n >= 2,
)

spend_per_minute = WindowSummary(
    name="spend-per-minute",
    doc="Purchases of each merchant category and place, minute by minute.",
    on=enriched,
    keys=("merchant_category", "merchant_place"),
    window=Tumbling(MINUTE_MS),
    measures={"purchases": Count(), "total_cents": Sum("amount_cents"), "largest_cents": Max("amount_cents")},
)
