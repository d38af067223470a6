"""The HBase tables of the fraud use."""

from millrace.rules import Max, Table, newest_first

from .events import PHONE

TABLES = (
    Table(
        "transactions",
        key=("customer", newest_first("at_ms"), "transaction_id"),
        columns="all",
        shows=(
            *("at_ms", "transaction_id", "merchant", "merchant_category"),
            *("amount_cents", "km_from_phone", "flags"),
        ),
    ),
    Table(
        "customers",
        key="customer",
        state={"highest_cents": Max("amount_cents"), "phone": PHONE},
        alerts=True,
        called="customer",
    ),
)
