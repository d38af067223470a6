"""The verdict as one self-contained page: for a browser, an attachment, an archive."""

from __future__ import annotations

from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined

from millrace.verify import plots
from millrace.verify.timing import FROM_INGEST, FROM_SENT, HOP, HOP_RECEIVED, PROMISED, RECEIVED
from millrace.verify.verdict import Check, Figure, Verdict

SUMMARIES = {
    "ok": "Every check ran, and all of them are ok.",
    "failed": "The checks in red failed; each lists its first offenders.",
    "unknown": "The checks in yellow could not run; each names what was missing.",
}
DRAWN = (FROM_SENT, FROM_INGEST, HOP, RECEIVED, HOP_RECEIVED, PROMISED)
ORDER = {"failed": 0, "unknown": 1, "ok": 2}


def html(verdict: Verdict, about: Mapping[str, Figure] | None = None) -> str:
    """The page; `about` identifies the run."""
    environment = Environment(loader=PackageLoader("millrace.verify", ""), autoescape=True, undefined=StrictUndefined)
    promised = next((p.promised for p in verdict.promises if p.name == "alert_latency_ms_p99"), None)
    drawn = [each for each in verdict.latencies if each.name in DRAWN]
    return environment.get_template("report.html.jinja").render(
        verdict=verdict,
        about=dict(about or {}),
        summary=SUMMARIES[verdict.status],
        checks=sorted(verdict.checks, key=lambda check: ORDER[check.status]),
        figures=figures,
        number=number,
        latency_plot=plots.latencies(drawn, promised),
        alerts_plot=plots.alerts_over_time(verdict.alerts_by_rule),
        letters_plot=plots.dead_letters(verdict.dead_letters_by_reason),
    )


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
