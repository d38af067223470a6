"""`validate` judges all outputs of a pattern against all its inputs, and keeps the verdict as a record and a page."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from millrace import deployments, records
from millrace.charts import PACKAGES
from millrace.errors import InfraError
from millrace.machine import npm
from millrace.patterns import load
from millrace.settings import EVERY_S, SETTLE_S, SETTLED_AFTER_S, VALIDATE_WITHIN_S
from millrace.target import Target
from millrace.verbs import ledger, lineage, traffic, validation
from millrace.verify import Verdict
from millrace.verify.ledger.chain import Span, verdict_of
from millrace.verify.ledger.step import Limits
from millrace.verify.report import html
from millrace.verify.verdict import unchecked
from millrace.whole_files import write_whole


@dataclass(frozen=True)
class Validation:
    """A verdict, and the files that keep it."""

    verdict: Verdict
    record: Path
    page: Path


def validate(
    target: Target,
    name: str,
    *,
    within_s: float = VALIDATE_WITHIN_S,
    settled_after_s: float = SETTLED_AFTER_S,
    report: Callable[[str], None] = lambda line: None,
) -> Validation:
    """Judge the pattern once its outputs have settled."""
    variant = load(name)
    with lineage.verdict(target, variant, report) as outcome:
        try:
            in_force, away_ms = deployments.in_force(target, name), deployments.away_ms(target, name)
            lost = [loss for each in deployments.losses(target, name).values() for loss in each]
        except InfraError as error:
            outcome.verdict = _without_records(name, str(error))
        else:
            tapes, counted = traffic.recorded(target.settings, variant, in_force)
            outcome.verdict = validation.verdict(
                target,
                variant,
                within_s=within_s,
                settled_after_s=settled_after_s,
                in_force=in_force,
                away_ms=away_ms,
                lost=lost,
                in_flight=lambda: deployments.in_flight(target, variant),
                counted=counted,
                tapes=tapes,
                report=report,
            )
    return _kept(target, name, outcome.verdict)


def validate_by_ledger(
    target: Target,
    name: str,
    *,
    within_s: float = VALIDATE_WITHIN_S,
    report: Callable[[str], None] = lambda line: None,
) -> Validation:
    """Judge the segments of the pattern's ledger since its last entry, until all that is there now is judged.

    `within_s` begins when the first segment that may show it has ended and settled.
    """
    now_ms, within_s = int(time.time() * 1000), within_s + EVERY_S + SETTLE_S + Limits().grace_ms / 1000
    with lineage.verdict(target, load(name), report) as outcome:
        found = ledger.until(target, name, now_ms, within_s=within_s, report=report)
        outcome.verdict = verdict_of(name, found.entries, found.breaks, now_ms)
    return _kept(target, name, outcome.verdict, found.spans())


def _without_records(name: str, why: str) -> Verdict:
    """The verdict without the records of deployments: held against the present rules, right outputs might be red."""
    asks = "Are the records of deployments, of memories and of accepted losses readable?"
    return Verdict(name, (unchecked("deployments", asks, why),), (), (), {}, {})


def _kept(target: Target, name: str, found: Verdict, timeline: Sequence[Span] = ()) -> Validation:
    """The verdict as a record and a page."""
    restarts = {engine: job.restarts for engine, (_, job) in deployments.jobs(target, name).items()}
    generations = {engine: plan.generation for engine, plan in deployments.deployed(target, name).items()}
    figures = found.record() | {"restarts": restarts, "generations": generations}
    if (gap_ms := deployments.upgrade_gap_ms(target, name)) is not None:
        figures["upgrade_gap_ms"] = gap_ms
    path = records.append(target.settings, f"verdict-{name}", figures)
    write_whole(deployments.verdict_file(target, name), path.name)
    page = path.with_suffix(".html")
    assets = npm.folder(target.settings, PACKAGES) / "assets"
    page.write_text(html(found, _about(path), assets if assets.exists() else None, timeline), encoding="utf-8")
    return Validation(found, path, page)


def _about(record: Path) -> dict[str, str | float | None]:
    """What identifies the run on its page: time, commit, generations and machine."""
    kept = json.loads(record.read_text(encoding="utf-8"))
    generations = ", ".join(f"{engine} {number}" for engine, number in kept["figures"]["generations"].items())
    gap_ms = kept["figures"].get("upgrade_gap_ms")
    return {
        "at": kept["at"],
        "commit": kept["commit"],
        "generations": generations,
        **({} if gap_ms is None else {"gap of the upgrade": f"{gap_ms} ms"}),
        "cpus": kept["machine"]["cpus"],
        "load before": round(kept["load_average"][0], 1),
    }
