"""Alerts on the terminal while traffic is sent."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from millrace.rules import ALERTS

if TYPE_CHECKING:
    from millrace.patterns import Variant
    from millrace.stores.topics import Tail
    from millrace.target import Target

SHOWN_EVERY_S = 0.3  # alerts come faster than anybody reads


@contextmanager
def alerts_shown(target: Target, variant: Variant, console: Console) -> Iterator[None]:
    """Print a pattern's alerts as they come while the block runs, and then how many came."""
    from millrace.stores.topics import Tail

    ended = threading.Event()
    with closing(Tail(target.bootstrap, {ALERTS.name: variant.topic(ALERTS)})) as tail:
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="alerts") as pool:
            shown = pool.submit(_show, tail, console, ended)
            try:
                yield
            finally:
                ended.set()
        console.print(f"{shown.result()} alerts arrived while the traffic ran", style="bold")


def _show(tail: Tail, console: Console, ended: threading.Event) -> int:
    shown_at, count = 0.0, 0
    for record in tail.follow():
        if ended.is_set():
            break
        if record is None or record.value is None:
            continue
        count += 1
        if time.monotonic() - shown_at > SHOWN_EVERY_S:
            shown_at = time.monotonic()
            console.print(_line(json.loads(record.value), record.ingest_ms), markup=False)
    return count


def _line(alert: dict[str, object], arrived_ms: int) -> str:
    operands = alert["operands"]
    assert isinstance(operands, dict)
    reason = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in operands.items())
    sent_ms = alert["sent_ms"]
    after = f"{arrived_ms - sent_ms:>6} ms" if isinstance(sent_ms, int) else ""
    return f"  {alert['rule']:<20} {after}  {alert['subject']}: {reason}"
