"""Every engine that claims windows satisfies the scenarios of flood, in tumbling windows, and those in sliding ones.

All runs have the oracle's findings and numbers. The rules are those of `moving`: flood's, and one on sliding windows,
which no use of the project has. The guarantee is the one that all engines give: that of outputs is shown by fraud.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from millrace import kept, oracle, registry
from millrace.job import Engine
from millrace.machine.processes import wait_until
from millrace.oracle import Record
from millrace.patterns import EnginePlan, Variant, load_all
from millrace.patterns.model import AT_LEAST_ONCE, shape_of
from millrace.rules import ALERTS, DEAD_LETTERS, WindowRule
from millrace.rules.outputs import WINDOWS_TOPIC
from millrace.settings import PROJECT, Settings
from millrace.stores import topics
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.testing import MIDNIGHT_MS, Scenario
from tests.conformance.moving import MOVING
from tests.conformance.played import OF_WINDOWS
from tests.player import engine_for, ensure_topics, own_plan

SEED = int(os.environ.get("MILLRACE_SEED", "20261127"))
MINUTE_MS, DAY_MS = 60_000, 86_400_000
REQUESTS = 600
"""Of the random tape: about three minutes of event time."""
GROUPS = {"1": ["10.0.0.aaa", "10.0.0.bbb"], "2": ["10.0.1.aaa"]}
CLOSER_GROUP, CLOSER = "0", "1.1.1.zzz"
STARTED_WITHIN_S, CLOSED_WITHIN_S, SETTLED_AFTER_S = 600, 360, 2

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800)]

Event = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One engine with all windows that it claims."""

    engine: str
    variant: Variant

    def __str__(self) -> str:
        return f"{self.engine}/{AT_LEAST_ONCE}/{self.variant.name}"

    @property
    def rules(self) -> tuple[str, ...]:
        can = registry.manifest(self.engine).can
        return tuple(rule.name for rule in MOVING.rules if shape_of(rule) in can)

    @property
    def summaries(self) -> tuple[str, ...]:
        return tuple(each.name for each in MOVING.summaries) if "summary" in registry.manifest(self.engine).can else ()


@dataclass
class Outcome:
    """What is in the topics of a run, without the closing requests."""

    raw: list[Record] = field(default_factory=list)
    enriched: list[Event] = field(default_factory=list)
    alerts: list[Event] = field(default_factory=list)
    dead_letters: list[Event] = field(default_factory=list)
    windows: list[Event] = field(default_factory=list)


def runs() -> Iterator[Run]:
    """Of each engine one: the windows behind a stage in real time are the same query."""
    for variant in load_all():
        stages = variant.pattern.stages
        run = Run(stages.events.engine, variant)
        has_windows = stages.windowing.engine == run.engine and run.rules
        if variant.pattern.use == MOVING.name and has_windows and not stages.events.real_time:
            yield run


RUNS = tuple(runs())
assert {run.engine for run in RUNS} == set(registry.able_to(shape_of(rule) for rule in MOVING.rules))


@pytest.fixture(scope="module")
def start_ms() -> int:
    """Two days ago, at a whole minute: every window is aligned to it."""
    return int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 2 * DAY_MS


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of declarations as a deployment has one: jobs read the use `moving` there."""
    at = tmp_path_factory.mktemp("declared")
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "pipelines", at / "pipelines", ignore=skipped)
    shutil.copytree(Path(__file__).parent / "moving", at / "moving", ignore=skipped)
    (at / kept.USE).write_text(json.dumps({"module": "moving"}), encoding="utf-8")
    return at


@pytest.fixture(scope="module")
def outcomes(stack: Settings, declared: Path, start_ms: int) -> Mapping[Run, Outcome]:
    """What came of the scenarios and of a random tape, on all engines at once."""
    print(f"MILLRACE_SEED={SEED}")
    target = Target.read(stack, {})
    plans = {run: plan_of(target, run, declared) for run in RUNS}
    for run, plan in plans.items():
        ensure_topics(plan, run.variant)  # one after the other: a broker creates all at once in more time than it has
    with ThreadPoolExecutor(len(RUNS)) as all_at_once:
        found = all_at_once.map(partial(outcome_of, target, start_ms=start_ms), plans.keys(), plans.values())
        return dict(zip(plans, found, strict=True))


@pytest.fixture(params=RUNS, ids=str)
def run(request: pytest.FixtureRequest) -> Run:
    made: Run = request.param
    return made


@pytest.fixture
def played(run: Run, outcomes: Mapping[Run, Outcome]) -> Outcome:
    return outcomes[run]


def plan_of(target: Target, run: Run, declared: Path) -> EnginePlan:
    windows = run.variant.pattern.stages.windowing.model_copy(
        update={"rules": run.rules, "summaries": run.summaries},
    )
    stages = run.variant.pattern.stages.model_copy(update={"windows": windows, "persist": None})
    pattern = run.variant.pattern.model_copy(update={"stages": stages})
    variant = Variant(run.variant.name, pattern, declared=str(declared))
    return own_plan(target, variant, f"windows-{run.variant.name}", delivery=AT_LEAST_ONCE, declared=str(declared))


def outcome_of(target: Target, run: Run, plan: EnginePlan, start_ms: int) -> Outcome:
    with engine_for(target, plan) as engine:
        return play(engine, run, plan, start_ms)


def play(engine: Engine, run: Run, plan: EnginePlan, start_ms: int) -> Outcome:
    topic = plan.topics[MOVING.judged.name]
    engine.start(plan, None)
    wait_until(lambda: engine.job(plan).state in ("running", "failed"), STARTED_WITHIN_S)
    assert engine.job(plan).state == "running", engine.job(plan)
    tape_ms, ends_ms = start_ms + len(OF_WINDOWS) * MINUTE_MS, start_ms + (len(OF_WINDOWS) + 5) * MINUTE_MS
    sent = [event for scenario, at_ms in placed(start_ms) for event in events_of(scenario, at_ms)]
    publisher = topics.Publisher(plan.bootstrap)

    def send(events: list[Event]) -> None:
        publisher.publish((topic, event["group_id"].encode(), json.dumps(event).encode()) for event in events)

    send([*sent, *tape(tape_ms)])
    with closing(Tail(plan.bootstrap, {kind: plan.topics[kind] for kind in (ALERTS.name, WINDOWS_TOPIC)})) as tail:
        send([request(CLOSER_GROUP, CLOSER, ends_ms)] * 31)
        send([request(CLOSER_GROUP, CLOSER, ends_ms + MINUTE_MS)])
        await_closed(tail, plan, ends_ms)
    return outcome(plan)


def await_closed(tail: Tail, plan: EnginePlan, flood_ms: int) -> None:
    """Wait until each rule and each summary has the closing flood, and what closes with it is written, too."""
    wanted, found = {*plan.windows, *plan.summaries}, set[str]()

    def is_closed() -> bool:
        for record in tail.new():
            each = json.loads(record.value or b"{}")
            if flood_ms <= each.get("window_end_ms", each.get("at_ms", 0)) <= flood_ms + 5_000:
                found.add(each.get("rule") or each["summary"])
        return wanted <= found

    def is_settled() -> bool:
        time.sleep(SETTLED_AFTER_S)
        return not [*tail.new()]

    assert wait_until(is_closed, CLOSED_WITHIN_S, every_s=0.2), wanted - found
    assert wait_until(is_settled, CLOSED_WITHIN_S)


def outcome(plan: EnginePlan) -> Outcome:
    kinds = (MOVING.judged.name, MOVING.enriched.name, ALERTS.name, DEAD_LETTERS.name, WINDOWS_TOPIC)
    records: dict[str, list[Record]] = {kind: [] for kind in kinds}
    with closing(Tail(plan.bootstrap, {kind: plan.topics[kind] for kind in kinds})) as reader:
        for record in reader.new():
            records[record.topic].append(record)
    raw, *others = records.values()
    enriched, alerts, dead_letters, windows = ([json.loads(each.value or b"") for each in one] for one in others)
    return Outcome(
        [each for each in raw if each.key != CLOSER_GROUP.encode()],
        [each for each in enriched if each["group_id"] != CLOSER_GROUP],
        [each for each in alerts if each["subject"] != CLOSER_GROUP],
        dead_letters,
        [each for each in windows if each["group_id"] != CLOSER_GROUP],
    )


def placed(start_ms: int) -> Iterator[tuple[Scenario, int]]:
    """Each scenario with its time zero: a minute for each, more than any of them lasts."""
    return ((scenario, start_ms + number * MINUTE_MS) for number, scenario in enumerate(OF_WINDOWS))


def events_of(scenario: Scenario, start_ms: int) -> Iterator[Event]:
    for each in scenario.arrivals:
        assert not isinstance(each.content, str)
        assert 0 <= each.at_ms - MIDNIGHT_MS < MINUTE_MS / 2
        yield {**each.content, "at_ms": each.content["at_ms"] - MIDNIGHT_MS + start_ms}


def tape(start_ms: int) -> Iterator[Event]:
    """Random requests of a few ips, most of them refused, in no order within the disorder that flood allows."""
    random_ = random.Random(SEED)
    for number in range(REQUESTS):
        group = random_.choice([*GROUPS])
        at_ms = start_ms + number // 100 * 20_000 + number % 100 * 50 - random_.choice((0, 0, 1, 500, 999))
        yield request(group, random_.choice(GROUPS[group]), at_ms, 200 if random_.random() < 0.01 else 401)


def request(group: str, ip: str, at_ms: int, code: int = 403) -> Event:
    fields = {"zone": 0, "cik": 0, "accession": "0001193125-16-635197", "extention": ".txt", "size": 7}
    flags = dict.fromkeys(("idx", "norefer", "noagent", "find", "crawler"), 0)
    return {"ip": ip, "group_id": group, "at_ms": at_ms, "code": code, **fields, **flags}


@pytest.mark.parametrize("number", range(len(OF_WINDOWS)), ids=lambda number: OF_WINDOWS[number].title)
def test_it_satisfies(run: Run, number: int, played: Outcome, start_ms: int) -> None:
    scenario, begins_ms = [*placed(start_ms)][number]
    rules = {rule.name: rule.key for rule in scenario.use.rules if rule.name in run.rules}
    content = {each.line: each.content for each in scenario.arrivals}
    expected = Counter(
        (each.subject, dict(content[each.words[0]])[rules[each.subject]], frozenset(each.operands.items()))
        for each in scenario.outcome
        if each.subject in rules
    )
    named = {each.subject: each.operands.keys() for each in scenario.outcome}
    found = Counter(
        (
            alert["rule"],
            alert["key"],
            frozenset((name, alert["operands"][name]) for name in named.get(alert["rule"], ())),
        )
        for alert in played.alerts
        if alert["rule"] in rules and begins_ms <= alert["at_ms"] < begins_ms + MINUTE_MS
    )
    assert found == expected


def test_every_request_is_accepted_once_and_none_is_refused_or_late(played: Outcome) -> None:
    assert played.dead_letters == []
    assert [each["source_offset"] for each in played.enriched] == [record.offset for record in played.raw]


def test_every_alert_is_the_oracles_and_every_finding_has_one(run: Run, played: Outcome) -> None:
    accepted = [each.event for each in oracle.judge(MOVING, MOVING.rules, played.raw, {}) if each.event]
    events = [{**event, "source_topic": played.enriched[0]["source_topic"]} for event in accepted]
    rules = [rule for rule in MOVING.rules if isinstance(rule, WindowRule) and rule.name in run.rules]
    meant = {found.alert_id: found for rule in rules for found in oracle.window_findings(rule, events)}
    found = {alert["alert_id"]: alert for alert in played.alerts}
    assert found.keys() == meant.keys()
    for identity, alert in found.items():
        each = meant[identity]
        assert (alert["rule"], alert["key"], alert["subject"]) == (each.rule, each.key, each.subject)
        assert (alert["at_ms"], alert["window_start_ms"]) == (each.at_ms, each.window_start_ms)
        assert alert["operands"] == {name: str(value) for name, value in each.operands.items()}
    assert {alert["rule"] for alert in found.values()} == {*run.rules}


def test_the_last_numbers_of_each_window_are_those_of_the_oracle(run: Run, played: Outcome) -> None:
    for summary in (each for each in MOVING.summaries if each.name in run.summaries):
        rows = [row for row in played.windows if row["summary"] == summary.name]
        found = {
            (row["window_start_ms"], *(row[key] for key in summary.keys)): {
                name: row[name] for name in summary.measures
            }
            for row in rows
        }
        assert found == oracle.summary_rows(summary, played.enriched)
        assert {row["window_end_ms"] - row["window_start_ms"] for row in rows} == {summary.window.size_ms}
