"""Every variant under traffic for two minutes on real servers, its worker killed in the middle: the verdict is ok."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from millrace import deployments, records, registry
from millrace import stack as stacks
from millrace.machine import processes
from millrace.machine.processes import wait_until
from millrace.patterns import Variant, load, names
from millrace.patterns import topics as topics_of
from millrace.settings import Settings
from millrace.stack.services import NEEDED
from millrace.stores import topics
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.verbs import sending, traffic
from millrace.verbs.deploy import await_healthy
from millrace.verbs.reconcile import reconcile
from millrace.verbs.teardown import teardown
from millrace.verbs.validate import validate
from millrace.verify.verdict import together
from tests.beside import beside, extra_services
from tests.patterns import counts
from tests.test_variants import deployed

pytestmark = [pytest.mark.stack, pytest.mark.drill, pytest.mark.timeout(1800)]

EVENTS, RATE_PER_S = 100_000, 1_000
KILLED_AFTER, KILLED_WITHIN_S = EVENTS // 4, 300
"""Accepted events: of `fraud`, half of what is sent may be places of phones."""


@pytest.fixture(scope="module")
def judged() -> Iterator[dict[str, dict[str, Any]]]:
    """What the verdict of each variant counted; a record of those that were run."""
    found: dict[str, dict[str, Any]] = {}
    yield found
    verdict = together(each["verdict"] for each in found.values())
    figures = {"verdict": verdict, "sent": EVENTS, "rate_per_s": RATE_PER_S, "variants": found}
    # Where lab/records.py looks for it, not in the folder of the tests' stack.
    records.append(Settings.read(os.environ), "long-runs", figures)


@pytest.fixture(params=[name for name in names() if load(name).use.traffic])
def running(stack: Settings, request: pytest.FixtureRequest) -> Iterator[tuple[Target, Variant]]:
    variant = load(request.param)
    with beside(stack, extra_services(variant)):
        target = Target.read(stack, {})
        try:
            deployed(target, variant.name)
            yield target, variant
        finally:
            teardown(target, variant.name, data=True)


def test_the_verdict_is_ok_though_the_worker_was_killed_in_the_middle(
    running: tuple[Target, Variant], judged: dict[str, dict[str, Any]]
) -> None:
    target, variant = running
    use = variant.use
    plan = plan_for(traffic.declared(use), EVENTS, RATE_PER_S, name=f"{variant.name}-long")
    load_ = traffic.generated(use, plan, traffic.secrets_of(target.settings, use))
    with ThreadPoolExecutor() as pool:
        sent = pool.submit(sending.send, target.bootstrap, topics_of(variant), load_)
        judged = {"judged": variant.topic(use.enriched.name)}
        assert wait_until(
            lambda: topics.lengths(target.bootstrap, judged)["judged"] > KILLED_AFTER, KILLED_WITHIN_S, every_s=1
        )
        kill_the_worker(target, variant)
        reconcile(target, report=print)  # as the watcher does
        await_healthy(target, variant.name)
        traffic.keep(target.settings, variant.name, sent.result())
    ended = time.monotonic()
    verdict = validate(target, variant.name, within_s=900, report=print).verdict
    judged[variant.name] = {
        "verdict": verdict.status,
        **counts(verdict),
        "judged_after_s": round(time.monotonic() - ended, 1),
    }
    assert verdict.status == "ok", [check for check in verdict.checks if check.status != "ok"]


def kill_the_worker(target: Target, variant: Variant) -> None:
    """Kill what judges the events."""
    plan = deployments.deployed(target, variant.name)[variant.pattern.stages.events.engine]
    if plan.engine == "storm":  # whose recorded process is the supervisor of all workers
        target.engine(plan.engine).end_stalled(plan)
        return
    process = registry.manifest(plan.engine).process_of(variant.name)
    processes.kill(processes.records(target.settings.run)[process])
    stacks.up(target.settings, NEEDED)
