"""Traffic: a use declares what is sent and what it must set off; pace, tokens, tapes and replays are the library's."""

from millrace.traffic.columns import Columns
from millrace.traffic.declared import Share, Size, Traffic, plan_for
from millrace.traffic.plan import Label, Message, TrafficPlan, message
from millrace.traffic.tokens import Secrets, Tokens

__all__ = [
    "Columns",
    "Label",
    "Message",
    "Secrets",
    "Share",
    "Size",
    "Tokens",
    "Traffic",
    "TrafficPlan",
    "message",
    "plan_for",
]
