"""Every variant under traffic for two minutes on real servers, its worker killed in the middle: the verdict is ok.

All variants of a use get the same tape, and raise the same alerts.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from millrace import deployments, records, registry
from millrace import stack as stacks
from millrace.machine import processes
from millrace.machine.processes import wait_until
from millrace.patterns import Variant, load, names
from millrace.patterns import topics as topics_of
from millrace.rules import Tumbling, UseCase, WindowRule
from millrace.settings import Settings
from millrace.stack.services import NEEDED
from millrace.stores import topics
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.traffic.runs import Run
from millrace.verbs import sending, traffic
from millrace.verbs.alerts import alerts
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
"""Messages to judge that came: of `fraud`, half of what is sent may be places of phones."""


RACES = "races"
"""Events of two topics that arrive together are judged in the order of their arrival, which no tape decides."""

Alert = tuple[Any, ...]
"""What an alert has of the tape: its rule, its key, and the events that it rests on."""


@dataclass
class Runs:
    """What was found of each variant."""

    counted: dict[str, dict[str, Any]] = field(default_factory=dict)
    raised: dict[str, set[Alert]] = field(default_factory=dict)

    def lacking(self) -> dict[str, set[Alert]]:
        """By variant: the alerts of its rules that another variant of its use raised, and it did not."""
        every: dict[str, set[Alert]] = defaultdict(set)
        for name, own in self.raised.items():
            every[load(name).use.name] |= own
        return {name: of_rules(load(name), every[load(name).use.name]) - own for name, own in self.raised.items()}


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    """All runs, of which a record remains."""
    runs = Runs()
    yield runs
    lacking = runs.lacking()
    found = {name: own | {"alerts of others": len(lacking[name])} for name, own in runs.counted.items()}
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
    running: tuple[Target, Variant], runs: Runs
) -> None:
    target, variant = running
    use = variant.use
    shape = traffic.declared(use)
    ordered = {RACES: 0.0} if RACES in shape.shares else {}
    plan = plan_for(shape, EVENTS, RATE_PER_S, name=f"{use.name}-long", **ordered)
    every_ms = repeats_ms(use)
    load_ = on_grid(every_ms, traffic.generated(use, plan, traffic.secrets_of(target.settings, use)))
    enriched = {use.enriched.name: variant.topic(use.enriched.name)}
    with ThreadPoolExecutor() as pool:
        # No bare hops: each has the time at which it is sent, which is not the load's.
        sent = pool.submit(sending.send, target.bootstrap, topics_of(variant), load_, hop_per_s=0)
        # So many that came, not so many that are judged: of an engine that lags, the traffic would be over by then.
        assert wait_until(lambda: held(target, variant.topic(use.judged)) > KILLED_AFTER, KILLED_WITHIN_S)
        assert wait_until(lambda: held(target, variant.topic(use.enriched)) > 0, KILLED_WITHIN_S)
        assert not sent.done(), "the traffic was over before the first event was judged"
        kill_the_worker(target, variant)
        killed_ms = time.time() * 1000
        reconcile(target, report=print)  # as the watcher does
        await_healthy(target, variant.name)
        run = run_on_grid(every_ms, sent.result())
        traffic.keep(target.settings, variant.name, run)
    ended = time.monotonic()
    verdict = validate(target, variant.name, within_s=900, report=print).verdict
    runs.counted[variant.name] = {
        "verdict": verdict.status,
        **counts(verdict),
        "back after s": round((first_output_ms(target, enriched, killed_ms) - killed_ms) / 1000, 1),
        "judged_after_s": round(time.monotonic() - ended, 1),
    }
    runs.raised[variant.name] = raised(target, variant, run.start_ms)
    assert verdict.status == "ok", [check for check in verdict.checks if check.status != "ok"]


def test_all_variants_of_a_use_raise_the_same_alerts(runs: Runs) -> None:
    assert runs.raised
    lacking = {name: own for name, own in runs.lacking().items() if own and not is_lossy(name)}
    assert not lacking, "; ".join(f"{name} lacks {len(own)}, {sorted(own)[:3]}" for name, own in lacking.items())


def repeats_ms(use: UseCase) -> int:
    """The tape is the same from starts that are so far apart: where events have no ids, windows go by the clock."""
    windows = () if use.judged.id else (rule.window for rule in use.rules if isinstance(rule, WindowRule))
    return math.lcm(*(window.size_ms for window in windows if isinstance(window, Tumbling)))


def on_grid(every_ms: int, load_: sending.Load) -> sending.Load:
    """The load as if it had begun at the last multiple of this time."""
    return replace(load_, messages=lambda start_ms, keys: load_.messages(start_ms // every_ms * every_ms, keys))


def run_on_grid(every_ms: int, run: Run) -> Run:
    """The run of such a load, as its plan has it: each message was due that much earlier."""
    before_ms = run.start_ms % every_ms
    return replace(run, start_ms=run.start_ms - before_ms, until_ms=run.until_ms - before_ms)


def held(target: Target, topic: str) -> int:
    return topics.lengths(target.bootstrap, {topic: topic})[topic]


def is_lossy(name: str) -> bool:
    return load(name).pattern.promises.delivery == "at-most-once"


def of_rules(variant: Variant, found: set[Alert]) -> set[Alert]:
    rules = {rule.name for rule in (*variant.event_rules, *variant.window_rules)}
    return {each for each in found if each[0] in rules}


def first_output_ms(target: Target, enriched: Mapping[str, str], killed_ms: float) -> float:
    """When the first event was written that arrived after the kill."""
    with closing(Tail(target.bootstrap, enriched)) as tail:
        return min(each.ingest_ms for each in tail.new() if json.loads(each.value or b"{}")["ingest_ms"] > killed_ms)


def raised(target: Target, variant: Variant, start_ms: int) -> set[Alert]:
    """The alerts of the run; events without ids are the same ones if they come as long after its start."""
    has_ids = variant.use.judged.id is not None
    return {
        (each["rule"], each["key"], tuple(sorted(each["event_ids"])) if has_ids else each["at_ms"] - start_ms)
        for each in (found.alert for found in alerts(target, variant, since_ms=start_ms, no_canaries=True))
    }


def kill_the_worker(target: Target, variant: Variant) -> None:
    """Kill what judges the events."""
    plan = deployments.deployed(target, variant.name)[variant.pattern.stages.events.engine]
    if plan.engine == "storm":  # whose recorded process is the supervisor of all workers
        target.engine(plan.engine).end_stalled(plan)
        return
    process = registry.manifest(plan.engine).process_of(variant.name)
    processes.kill(processes.records(target.settings.run)[process])
    stacks.up(target.settings, NEEDED)
