"""The verdict as one self-contained page: for a browser, an attachment, an archive."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from millrace.charts import inlined
from millrace.verify.latency import Latency
from millrace.verify.ledger.chain import Span
from millrace.verify.timing import FROM_INGEST, FROM_SENT, HOP, HOP_RECEIVED, PROMISED, RECEIVED
from millrace.verify.verdict import Check, Figure, Verdict

SUMMARIES = {
    "ok": "Every check ran, and all of them are ok.",
    "failed": "The checks in red failed; each lists its first offenders.",
    "unknown": "The checks in yellow could not run; each names what was missing.",
}
DRAWN = (FROM_SENT, FROM_INGEST, HOP, RECEIVED, HOP_RECEIVED, PROMISED)
ORDER = {"failed": 0, "unknown": 1, "ok": 2}


WINDOWS_MOST = 90
WINDOW_MS = (1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000)
LEAST_MS = 0.5  # no logarithm is less
STEPS_OF_A_NINE = 60


def html(
    verdict: Verdict,
    about: Mapping[str, Figure] | None = None,
    assets: Path | None = None,
    timeline: Sequence[Span] = (),
) -> str:
    """The page; `about` identifies the run. Without the library of the charts, in `assets`, it has tables alone.

    A verdict that was found in segments has a timeline.
    """
    environment = Environment(loader=PackageLoader("millrace.verify", ""), autoescape=True, undefined=StrictUndefined)
    promised = next((p.promised for p in verdict.promises if p.name == "alert_latency_ms_p99"), None)
    return environment.get_template("report.html.jinja").render(
        verdict=verdict,
        about=dict(about or {}),
        summary=SUMMARIES[verdict.status],
        checks=sorted(verdict.checks, key=lambda check: ORDER[check.status]),
        figures=figures,
        number=number,
        moment=moment,
        timeline=timeline,
        letters=sorted(verdict.dead_letters_by_reason.items(), key=lambda row: (-row[1], row[0])),
        drawn={
            "latencies": by_nines([each for each in verdict.latencies if each.name in DRAWN and each.count], promised),
            "alerts": by_time(verdict.alerts_by_rule),
        },
        charts=inlined("report.js", assets),
    )


def by_nines(measured: Sequence[Latency], promised_ms: float | None) -> dict[str, Any] | None:
    """The latency that so many nines of the messages did not exceed, as far as each has that many messages."""
    if not measured:
        return None
    most = math.log10(max(each.count for each in measured))
    nines = [step / STEPS_OF_A_NINE for step in range(math.floor(most * STEPS_OF_A_NINE) + 1)]
    values = [
        [max(each.quantile(1 - 10**-nine) or 0, LEAST_MS) if nine <= math.log10(each.count) else None for nine in nines]
        for each in measured
    ]
    return {"names": [each.name for each in measured], "nines": nines, "values": values, "promised_ms": promised_ms}


def by_time(alerts: Mapping[str, Sequence[int]]) -> dict[str, Any] | None:
    """Alerts of each rule in windows of equal length, the empty ones included."""
    times = [at_ms for own in alerts.values() for at_ms in own]
    if not times:
        return None
    span_ms = max(times) - min(times) + 1
    window_ms = next((ms for ms in WINDOW_MS if span_ms <= ms * WINDOWS_MOST), math.ceil(span_ms / WINDOWS_MOST))
    first = min(times) // window_ms
    values = {rule: [0] * (max(times) // window_ms - first + 1) for rule in alerts}
    for rule, own in alerts.items():
        for at_ms in own:
            values[rule][at_ms // window_ms - first] += 1
    starts = [(first + n) * window_ms for n in range(max(map(len, values.values())))]
    return {"window_ms": window_ms, "groups": list(values), "starts": starts, "values": list(values.values())}


def figures(check: Check) -> str:
    """A check's figures on one line."""
    shown = ((name, value) for name, value in check.figures.items() if name != "offenders")
    return " · ".join(f"{name} {number(value)}" for name, value in shown)


def number(value: Figure) -> str:
    """A figure as people read it."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:,.1f}".removesuffix(".0")
    return f"{value:,}" if isinstance(value, int) else value


def moment(ms: int) -> str:
    """Date and time, to the second."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
