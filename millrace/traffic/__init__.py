"""Traffic: a use declares what is sent and what it must set off; pace, tokens, tapes and replays are the library's."""

from millrace.rules.canaries import CANARY, Canaries
from millrace.rules.tokens import Secrets, Tokens
from millrace.rules.traffic import (
    CLOSING,
    Columns,
    Label,
    Message,
    Row,
    Share,
    Size,
    Traffic,
    TrafficPlan,
    message,
    plan_for,
)

__all__ = [
    "CANARY",
    "CLOSING",
    "Canaries",
    "Columns",
    "Label",
    "Message",
    "Row",
    "Secrets",
    "Share",
    "Size",
    "Tokens",
    "Traffic",
    "TrafficPlan",
    "message",
    "plan_for",
]
