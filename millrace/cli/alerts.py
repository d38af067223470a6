"""Alerts on the terminal: each as the sentence of its rule, with the values in it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console

from millrace.rules import ALERTS

if TYPE_CHECKING:
    from millrace.patterns import Variant
    from millrace.rules.rules import Rule
    from millrace.stores.topics import Tail
    from millrace.target import Target

SHOWN_EVERY_S = 0.3  # alerts arrive faster than a person reads


def rules_of(variant: Variant) -> dict[str, Rule]:
    """The rules of a pattern by name."""
    return {rule.name: rule for rule in (*variant.event_rules, *variant.window_rules)}


def alert_line(value: bytes, rules: Mapping[str, Rule]) -> str:
    """One alert as a line: rule, key, time, and the rule's sentence with the values in it; other messages unchanged."""
    try:
        return _sentence(json.loads(value), rules)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        return value.decode("utf-8", errors="replace")


def _sentence(alert: Mapping[str, Any], rules: Mapping[str, Rule]) -> str:
    rule, operands = rules.get(alert["rule"]), alert["operands"] or {}
    if rule is None or rule.version != alert["rule_version"]:
        why = ", ".join(f"{name} {each}" for name, each in operands.items())  # another generation's sentence
    else:
        why = rule.explained(operands)
    at = datetime.fromtimestamp(alert["at_ms"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return f"{alert['rule']:<20} {alert['key']}  {at}: {why}"


@contextmanager
def alerts_shown(target: Target, variant: Variant, console: Console) -> Iterator[None]:
    """Print a pattern's alerts as they arrive while the block runs, then their number."""
    from millrace.stores.topics import Tail

    ended = threading.Event()
    with closing(Tail(target.bootstrap, {ALERTS.name: variant.topic(ALERTS)})) as tail:
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="alerts") as pool:
            shown = pool.submit(_show, tail, rules_of(variant), console, ended)
            try:
                yield
            finally:
                ended.set()
        console.print(f"{shown.result()} alerts arrived while the traffic ran", style="bold")


def _show(tail: Tail, rules: Mapping[str, Rule], console: Console, ended: threading.Event) -> int:
    shown_at, count = 0.0, 0
    for record in tail.follow():
        if ended.is_set():
            break
        if record is None or record.value is None:
            continue
        count += 1
        if time.monotonic() - shown_at > SHOWN_EVERY_S:
            shown_at = time.monotonic()
            console.print(alert_line(record.value, rules), markup=False)
    return count
