"""Measure variants: labelled traffic at a stated rate, the verdict, and latencies beside a bare hop.

`python -m lab.bench` (or `make bench`) measures on a stack of its own and leaves one record for each variant.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any

from millrace import deployments, records, stack
from millrace.oracle import Record
from millrace.patterns import Variant, load, names
from millrace.patterns import topics as topics_of
from millrace.patterns.plan import HOP
from millrace.rules import ALERTS, UseCase
from millrace.settings import PORTS_PER_STACK, Settings
from millrace.stack.services import needed
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.traffic import TrafficPlan, plan_for
from millrace.traffic.runs import Run
from millrace.verbs import cost
from millrace.verbs.deploy import deploy
from millrace.verbs.provision import provision
from millrace.verbs.teardown import teardown
from millrace.verbs.traffic import declared, generated, secrets_of, traffic
from millrace.verbs.validate import validate
from millrace.verify.latency import latency

WINDOWS = "windows"
"""Alerts of rules on windows, from the end of the window."""


def main(argv: Sequence[str]) -> int:
    arguments = _arguments(argv)
    own = Settings.read(os.environ)
    # A stack of its own: it starts empty, and no other data disturbs the measurement.
    settings = replace(own, state=own.state / "bench", port_base=own.port_base + PORTS_PER_STACK)
    statuses = []
    stack.down(settings, purge=True)  # what a run that was not ok has left
    try:
        variants = [load(name) for name in arguments.patterns or names()]
        # Without the live page: it follows every topic, which is no part of what a pattern costs.
        services = needed(
            (engine for each in variants for engine in each.engines),
            (store for each in variants for store in each.stores),
        )
        stack.up(settings, services, report=_report)
        target = Target.read(settings, {})
        for variant in variants:
            figures = measured(target, variant, arguments.events, arguments.rate, arguments.seed)
            path = records.append(own, f"bench-{variant.name}", figures, arguments.seed)
            statuses.append(figures["verdict"])
            print(f"{variant.name}: {figures['verdict']}, {described(figures)}; record {path}", flush=True)
    finally:
        is_ok = set(statuses) == {"ok"}
        stack.down(settings, purge=is_ok, report=_report)
        if not is_ok:
            _report("data and logs", f"in {settings.state} until the next benchmark")
    return 0 if is_ok else 1


def measured(target: Target, variant: Variant, events: int, rate_per_s: float, seed: int) -> dict[str, Any]:
    """Measure one variant, from provisioning to its verdict."""
    name = variant.name
    provision(target, name)
    status = "unknown"
    try:
        began = time.monotonic()
        deploy(target, name, report=lambda line: _report(name, line))
        deployed_s = time.monotonic() - began
        cold = round(variant.pattern.promises.warm_after_s * rate_per_s)  # events before the promises hold
        made = declared(variant.use)
        warm_up = _sent(target, variant, plan_for(made, max(cold, 1), rate_per_s, seed + 1, name=f"w{seed}"))
        run = _sent(target, variant, plan_for(made, events, rate_per_s, seed, name=f"b{seed}"))
        changed = deploy(target, name)
        found = validate(target, name, within_s=900, report=lambda line: _report(name, line))
        jobs = {engine: asdict(job) for engine, (_, job) in deployments.jobs(target, name).items()}
        status = "unknown" if run.lateness else found.verdict.status
        return {
            "verdict": status,
            "notes": found.verdict.notes,
            "promises": found.verdict.promises_status,
            "warm_up": asdict(warm_up),
            "run": asdict(run),
            "latencies": [] if run.lateness else latencies(target, variant, run),
            "seconds": {"deploy": round(deployed_s, 1)},
            "events_per_cpu_s": {engine: round(run.sent / used) for engine, used in run.about["cpu_s"].items() if used},
            "memory_mb": cost.memory_mb(target.settings, name),
            "second_deploy": [change.action for change in changed],
            "restarts": {engine: job["restarts"] for engine, job in jobs.items()},
            "checks": {check.name: {"status": check.status, **check.figures} for check in found.verdict.checks},
        }
    finally:
        teardown(target, name, data=status == "ok")


def latencies(target: Target, variant: Variant, run: Run) -> list[dict[str, Any]]:
    """Of the measured run alone: per-event alerts, alerts of windows, enriched events, and the bare hop beside them."""
    windows = {rule.name: rule.window for rule in variant.window_rules}
    kinds = {kind: topics_of(variant)[kind] for kind in (ALERTS.name, variant.use.enriched.name, HOP)}
    times: dict[str, dict[str, float]] = {kind: {} for kind in (*kinds, WINDOWS)}
    with closing(Tail(target.bootstrap, kinds)) as tail:
        for record in tail.new():
            content = json.loads(record.value or b"{}")
            sent_ms = content.get("sent_ms")
            if not isinstance(sent_ms, int) or sent_ms < run.start_ms:
                continue
            kind, since_ms = record.topic, sent_ms
            if kind == ALERTS.name and (window := windows.get(content["rule"])):
                kind, since_ms = WINDOWS, window.end_ms(content["window_start_ms"], content["at_ms"])
            times[kind].setdefault(_identity(variant.use, record, content), record.ingest_ms - since_ms)
    return [latency(kind, own.values()).record() for kind, own in times.items()]


def described(figures: dict[str, Any]) -> str:
    """The main figures."""
    if not figures["latencies"]:
        return "; ".join(figures["notes"])
    shown = {each["name"]: f"{each['p50_ms']} / {each['p99_ms']} ms" for each in figures["latencies"] if each["count"]}
    return f"{figures['run']['rate_per_s']:.0f} events/s, p50 / p99: {', '.join(f'{k} {v}' for k, v in shown.items())}"


def _sent(target: Target, variant: Variant, plan: TrafficPlan) -> Run:
    wanted = generated(variant.use, plan, secrets_of(target.settings, variant.use))
    return traffic(target, variant.name, wanted, report=lambda line: _report(variant.name, line))


def _identity(use: UseCase, record: Record, content: dict[str, Any]) -> str:
    named = content.get("alert_id") or content.get(use.judged.id or "")
    return str(named or f"{record.partition}/{record.offset}")


def _report(subject: str, what: str) -> None:
    print(f"{subject:<20} {what}", file=sys.stderr, flush=True)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.bench", description=__doc__)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="default: all of them, one after the other")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=1_000, help="events per second")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
