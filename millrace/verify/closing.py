"""How long events follow the traffic of a use, so that the verdict can judge the last windows of its rules."""

from __future__ import annotations

from millrace.rules import UseCase, WindowRule
from millrace.verify.evidence import Bounds

AFTER_CLOSING_MS = 3_000
"""How long the closing continues after the last window's result is due."""


def closing_ms(use: UseCase) -> int:
    """How long harmless events continue after the traffic: without them its rules' last windows would stay open.

    Longer ones of summaries are not waited for: a note of the verdict counts those that lack a row.
    """
    longest_ms = max((rule.window.closes_after_ms for rule in use.rules if isinstance(rule, WindowRule)), default=0)
    return longest_ms + use.disorder_ms + Bounds().closing_ms + AFTER_CLOSING_MS
