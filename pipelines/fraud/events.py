"""The events of the fraud use: purchases, phones, and the reference data about customers and merchants."""

from millrace.rules import TOKEN_LENGTH, TOKEN_PATTERN, EventType, Last, Real, Secret, Text, Whole

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000

CARD_NUMBER = Secret(
    "card_number",
    pattern=r"[0-9]{12,19}",
    separators=" -",
    complaint="a card number must have 12 to 19 digits, grouped by spaces or dashes or not at all",
)
LATITUDE, LONGITUDE = Real("latitude", -90, 90), Real("longitude", -180, 180)
# PCI DSS forbids to store these after authorisation; no topic may carry them at any time.
SENSITIVE = (
    *("cvv", "cvv2", "cvc", "cvc2", "cvn", "csc", "cav2", "pin", "pinblock"),
    *("track1", "track2", "track1data", "track2data", "trackdata", "magstripe"),
)
AT_MS = Whole("at_ms", least=0)

transactions = EventType(
    "transactions",
    "A purchase at a point of sale, authorised with a card.",
    (
        Text("transaction_id", may_pass_luhn=True),  # terminals may number their purchases
        Text("customer"),
        Text("card", TOKEN_PATTERN, TOKEN_LENGTH, may_pass_luhn=True, token_of=CARD_NUMBER),
        Text("merchant"),
        Whole("amount_cents", least=1, most=1_000_000_00),
        LATITUDE,
        LONGITUDE,
        AT_MS,
    ),
    key="customer",
    id="transaction_id",
    time="at_ms",
    past_ms=7 * DAY_MS,  # and so long every id is remembered, which is most of what is remembered at all
    future_ms=5 * MINUTE_MS,
    forbidden=SENSITIVE,
)

device_locations = EventType(
    "device-locations",
    "Where a customer's phone is.",
    (Text("customer"), LATITUDE, LONGITUDE, AT_MS),
    key="customer",
    time="at_ms",
    past_ms=7 * DAY_MS,
    future_ms=5 * MINUTE_MS,
    forbidden=SENSITIVE,
)

PHONE = Last(device_locations, "latitude", "longitude", "at_ms")

merchants = EventType(
    "merchants",
    "Reference data: a merchant, its category and its place.",
    (Text("merchant"), Text("category"), Text("place", pattern=r"[A-Za-z0-9_.:\- ]+")),
    key="merchant",
    compacted=True,
    forbidden=SENSITIVE,
)

customers = EventType(
    "customers",
    "Reference data: a customer and the segment it belongs to.",
    (Text("customer"), Text("segment")),
    key="customer",
    compacted=True,
    forbidden=SENSITIVE,
)
