"""Measure what the declaration costs: rules of fraud, declared and written by hand, side by side.

`python -m lab.cost` plays one backlog to both on a stack of its own, several times in turn, lets the oracle judge both
outputs, and leaves a record: processor time per message of the backlog, and the ratio. Every run has JVMs of its own.
The rules are two per-event ones; with `--burst` the one on windows, too.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from confluent_kafka import Producer

from lab import handwritten, profile
from millrace import oracle, records, stack
from millrace.engines.flink.servers import configuration
from millrace.engines.flink.submission import remote
from millrace.engines.spark.servers import OPENS
from millrace.engines.spark.tuning import EVENTS_EVERY, SPARK_SETTINGS, master_for
from millrace.engines.streams.job import declaration
from millrace.engines.streams.tuning import HEAP_MB
from millrace.errors import InfraError
from millrace.machine import processes
from millrace.patterns import EnginePlan, Variant, engine_plans, load
from millrace.rules import ALERTS, DEAD_LETTERS, UseCase, WindowRule
from millrace.rules.outputs import LATE
from millrace.servers.server import java, log4j2, properties
from millrace.settings import PORTS_PER_STACK, Settings
from millrace.stack.services import needed
from millrace.stores import topics
from millrace.stores.topics import Tail, Topic
from millrace.target import Target
from millrace.traffic import Message, plan_for
from millrace.traffic.tokens import secrets_under
from millrace.verbs.provision import wanted_topics
from millrace.verbs.traffic import declared as traffic_of
from pipelines.fraud.traffic.poison import POISON

RULES = ("above-previous-max", "away-from-phone")
BURST = "burst"
"""The rule on windows, which `--burst` adds."""
TAPE = "cost"
"""The topics of the backlog, which all runs read."""
RATE_PER_S = 1_000
CLOSING_MS = 30_000
"""How long single purchases follow, which close the last windows."""
POISON_EVERY = 100
POISONS = (
    *("cut off", "no amount", "amount as text", "negative amount", "latitude 91", "empty merchant"),
    *("unknown merchant", "a month ahead", "cvv", "phone: no place", "phone: cut off"),
)
"""How messages are spoilt: what a program by hand refuses, too."""
WARM_SHARE = 0.3
"""Of the events, until a JVM has compiled what it runs; none of them is measured."""
IN_BATCHES = ("spark",)
"""Engines that make one batch of all they find: what is measured is a batch of its own."""
RUN_WITHIN_S = 480
SUBMIT_WITHIN_S = 120
TASKMANAGER = "flink-taskmanager"
POLL_S = 0.5
COMPILERS = ("C1 ", "C2 ")
"""How the threads of Java's compilers are named."""
PRODUCER = {**topics.PRODUCER, "queue.buffering.max.messages": 1_000_000}
DECLARED, BY_HAND = SIDES = ("declared", "by hand")

Event = dict[str, Any]
Refused = tuple[str, int, str]
"""Kind, offset and reason."""


@dataclass(frozen=True)
class Expected:
    """What the oracle makes of the backlog."""

    raw: Sequence[oracle.Record]
    """In the order of their arrival."""
    enriched: Mapping[int, Mapping[str, Any]]
    """By offset."""
    alerts: Mapping[str, oracle.Finding]
    refused: Counter[Refused]
    either: frozenset[Refused] = frozenset()
    """Late events that may be counted, too, of which nothing shows: time moves in steps, and these come first."""
    rules: Sequence[str] = RULES

    def in_batches(self) -> Expected:
        """The same for an engine that makes batches: which events are late depends on where the batch before ended."""
        late = {each for each in self.refused if each[2] == LATE}
        return replace(self, refused=self.refused - Counter(late), either=self.either | late)


@dataclass
class Found:
    """What a run has written."""

    enriched: list[Event] = field(default_factory=list)
    alerts: list[Event] = field(default_factory=list)
    letters: list[Event] = field(default_factory=list)


@dataclass(frozen=True)
class Side:
    """A program while it runs: the process whose time counts, and how to end it."""

    record: processes.ProcessRecord
    stop: Callable[[], object]


Start = Callable[[Target, EnginePlan], Side]
Starts = Mapping[tuple[str, str], Start]
"""By engine and side; of an engine, what is measured first, and then what it is measured against."""


def main(argv: Sequence[str], starts: Starts | None = None, kind: str = "cost") -> int:
    """Measures the declaration, or other starts, which leave a record of their own kind."""
    starts = starts or STARTS
    given = arguments(argv, starts)
    own = Settings.read(os.environ)
    settings = replace(own, state=own.state / "cost", port_base=own.port_base + PORTS_PER_STACK)
    stack.down(settings, purge=True)
    try:
        stack.up(settings, needed(given.engines, ()), report=_report)
        target = Target.read(settings, {})
        send_backlog(target.bootstrap, given.events, given.seed)
        expected = expected_of(target.bootstrap, (*RULES, BURST) if given.burst else RULES)
        figures = {
            engine: measured(target, engine, expected, given.repeats, starts, is_profiled=given.profile)
            | {"messages": len(expected.raw)}
            for engine in given.engines
        }
    finally:
        stack.down(settings, purge=True, report=_report)
    path = records.append(own, kind_of(given, kind), figures, given.seed)
    for engine, found in figures.items():
        _, against = sides_of(engine, starts)
        print(f"{engine}: {found['ratio']['median']} times {against} ({found['ratio']['of']}); record {path}")
    return 0 if all(found["verdicts"] == ["ok"] for found in figures.values()) else 1


def measured(
    target: Target, engine: str, expected: Expected, repeats: int, starts: Starts, *, is_profiled: bool = False
) -> dict[str, Any]:
    """Both sides in turn, so many times."""
    sides = sides_of(engine, starts)
    used: dict[str, list[float]] = {side: [] for side in sides}
    samples: dict[str, Counter[str]] = {side: Counter() for side in sides}
    verdicts = set()
    for number in range(repeats):
        for side in sides if number % 2 == 0 else reversed(sides):
            start, sampled = starts[engine, side], samples[side] if is_profiled else None
            us_per_message, problems = run(target, engine, side, expected, sampled, start)
            used[side].append(us_per_message)
            verdicts.add(problems or "ok")
            _report(f"{engine} {side}: {us_per_message} us per message, {problems or 'ok'}")
    if is_profiled and not all(samples.values()):
        raise InfraError(f"{engine}: the run was too short for a sample; give it more --events")
    ratios = [round(a / b, 2) for a, b in zip(*used.values(), strict=True)]
    return {
        "cpu_us_per_message": {side: {"median": median(of), "of": of} for side, of in used.items()},
        "ratio": {"median": round(median(ratios), 2), "least": min(ratios), "most": max(ratios), "of": ratios},
        "verdicts": sorted(verdicts),
    } | ({"samples": samples} if is_profiled else {})


def sides_of(engine: str, starts: Starts) -> tuple[str, str]:
    first, second = (side for each, side in starts if each == engine)
    return first, second


def run(
    target: Target,
    engine: str,
    side: str,
    expected: Expected,
    samples: Counter[str] | None = None,
    start: Start | None = None,
) -> tuple[float, str]:
    """One run over the whole backlog: microseconds of processor time per message, and what is wrong with its output."""
    plan = plan_of(target, engine, side, expected.rules)
    expected = expected.in_batches() if engine in IN_BATCHES else expected
    outputs = (plan.use.enriched.name, ALERTS.name, DEAD_LETTERS.name)
    variant = load(engine)
    wanted = [
        replace(t, name=plan.pattern + t.name.removeprefix(variant.name), partitions=1) for t in wanted_topics(variant)
    ]
    topics.ensure(
        target.bootstrap, [t for t in wanted if t.is_state or t.name in {plan.topics[kind] for kind in outputs}]
    )
    add_rest = in_two(target.bootstrap, plan, expected) if engine in IN_BATCHES else lambda: None
    begun = (start or STARTS[engine, side])(target, plan)
    try:
        with _profiled(begun.record, target.settings.state, samples) as is_warm:
            marks = _watch(target.bootstrap, plan, begun.record, expected, lambda: (is_warm(), add_rest()))
    finally:
        begun.stop()
    (cpu_before_s, done_before), (cpu_s, done) = marks
    problems = judged(read(target.bootstrap, plan), expected)
    messages = (done - done_before) / len(expected.enriched) * len(expected.raw)
    return round((cpu_s - cpu_before_s) * 1e6 / messages, 2), problems


@contextmanager
def _profiled(
    record: processes.ProcessRecord, folder: Path, samples: Counter[str] | None
) -> Iterator[Callable[[], None]]:
    """Samples the stacks of the JVM from the call on that it yields, if they are wanted."""
    begun = []

    def is_warm() -> None:
        if samples is not None:
            (pid,) = (each.pid for each in processes.family(record) if each.name() == "java")
            profile.begin(pid, folder)
            begun.append(pid)

    yield is_warm
    for pid in begun:
        assert samples is not None
        samples.update(profile.end(pid, folder / f"{pid}.jfr"))


def _watch(
    bootstrap: str,
    plan: EnginePlan,
    record: processes.ProcessRecord,
    expected: Expected,
    when_warm: Callable[[], object],
) -> tuple[tuple[float, int], tuple[float, int]]:
    """Processor time and enriched events, once the program is warm and at its end.

    The end is when all outputs are there, or when some are certainly lost. A batch may write what it refuses last.
    """
    kind, total = plan.use.enriched.name, len(expected.enriched)
    awaited = {kind: total, ALERTS.name: len(expected.alerts), DEAD_LETTERS.name: expected.refused.total()}
    outputs = {each: plan.topics[each] for each in awaited}
    warm: tuple[float, int] | None = None
    deadline, meter = time.monotonic() + RUN_WITHIN_S, Meter(record)
    while any((there := topics.lengths(bootstrap, outputs))[each] < least for each, least in awaited.items()):
        done = there[kind]
        meter.look()
        if time.monotonic() > deadline and done >= total:
            break
        if time.monotonic() > deadline or not processes.alive(record):
            raise InfraError(f"{plan.pattern}: {done} of {total} events came out; see {record.log}")
        if warm is None and done >= WARM_SHARE * total:
            when_warm()
            warm = (meter.used_s(), topics.lengths(bootstrap, outputs)[kind])
        time.sleep(POLL_S)
    return warm or (0.0, 0), (meter.used_s(), there[kind])  # of a short backlog all counts


def in_two(bootstrap: str, plan: EnginePlan, expected: Expected) -> Callable[[], None]:
    """Write the part of the backlog that warms to the plan's own topics; gives what adds the rest in one moment."""
    enriched = (
        number
        for number, each in enumerate(expected.raw, 1)
        if each.topic == plan.use.judged.name and each.offset in expected.enriched
    )
    first = next(islice(enriched, math.ceil(WARM_SHARE * len(expected.enriched)) - 1, None))
    topics.ensure(bootstrap, [Topic(plan.topics[kind.name], 1, topics.CREATE_TIME) for kind in plan.use.raw])

    def written(records: Iterable[oracle.Record]) -> Iterator[topics.TimedMessage]:
        return ((plan.topics[each.topic], each.key, each.value, each.ingest_ms) for each in records)

    def add_rest() -> None:
        producer = Producer({**PRODUCER, "bootstrap.servers": bootstrap, "transactional.id": plan.pattern})
        producer.init_transactions()
        producer.begin_transaction()
        for topic, key, value, at_ms in written(expected.raw[first:]):
            producer.produce(topic, value, key, timestamp=at_ms)
        producer.commit_transaction()

    topics.publish(bootstrap, written(expected.raw[:first]))
    return add_rest


class Meter:
    """The processor time of a process and its descendants: a declared job of Spark is Python, and its JVM a child.

    Without Java's compilers: they end their work within minutes, and are half of a run that ends before.
    """

    def __init__(self, record: processes.ProcessRecord) -> None:
        self._record = record
        self._compilers: dict[tuple[int, int], float] = {}

    def look(self) -> None:
        """To be called often: a compiler without work ends, and its time stays in that of its process."""
        for process in processes.family(self._record):
            with suppress(psutil.NoSuchProcess):
                self._compilers |= {
                    (process.pid, each.id): each.user_time + each.system_time
                    for each in process.threads()
                    if _thread_name(process.pid, each.id).startswith(COMPILERS)
                }

    def used_s(self) -> float:
        self.look()
        times = [process.cpu_times() for process in processes.family(self._record)]
        own = sum(each.user + each.system for each in times)
        ended = sum(each.children_user + each.children_system for each in times)  # workers in Python
        return own + ended - sum(self._compilers.values())


def send_backlog(bootstrap: str, events: int, seed: int) -> None:
    """Write the backlog with the times of its arrival: each message has one of its own, so their order is certain."""
    variant = load("streams")
    use, sent = variant.use, {}
    for kind in (*use.raw, *use.references):
        sent[kind.name] = f"{TAPE}.{kind.name}"
    topics.ensure(bootstrap, [Topic(name, 1, topics.CREATE_TIME) for name in sent.values()])
    plan = plan_for(traffic_of(use), events, RATE_PER_S, seed, TAPE, poison=0)
    producer = Producer({**PRODUCER, "bootstrap.servers": bootstrap})
    start_ms = int(time.time() * 1000) - events * 1000 // RATE_PER_S - 60_000
    secrets, keys = secrets_under(use, b"lab"), [traffic_of(use).closing_key(plan, 0)]
    for each in traffic_of(use).references(plan, keys):
        producer.produce(sent[each.topic], each.value, each.key, timestamp=start_ms - 1_000)
    arrived_ms = 0
    messages = spoilt(traffic_of(use).messages(plan, secrets, start_ms), seed)
    for each in chain(messages, traffic_of(use).closing(plan, secrets, start_ms, keys, CLOSING_MS)):
        arrived_ms = max(arrived_ms + 1, start_ms + each.due_ms)
        producer.produce(sent[each.topic], each.value, each.key, timestamp=arrived_ms)
        producer.poll(0)
    if producer.flush(120):
        raise InfraError("the backlog was not acknowledged")


def spoilt(messages: Iterator[Message], seed: int) -> Iterator[Message]:
    """Some of them damaged."""
    chosen, random_ = {each.name: each for each in POISON}, random.Random(seed)
    by_topic = {topic: [chosen[n] for n in POISONS if chosen[n].topic == topic] for topic in {p.topic for p in POISON}}
    for number, each in enumerate(messages):
        if number % POISON_EVERY == 0 and each.value and by_topic.get(each.topic):
            poison = random_.choice(by_topic[each.topic])
            yield each._replace(value=poison.spoil(json.loads(each.value)))
        else:
            yield each


def expected_of(bootstrap: str, rules: Sequence[str] = RULES) -> Expected:
    """The oracle's outcome of the backlog."""
    use = load("streams").use
    kinds = {kind.name: f"{TAPE}.{kind.name}" for kind in (*use.raw, *use.references)}
    with closing(Tail(bootstrap, kinds)) as tail:
        read = list(tail.new())
    known: dict[str, dict[str, oracle.Event]] = {kind.name: {} for kind in use.references}
    for kind in use.references:
        for record in read:
            if record.topic == kind.name:
                oracle.refer(kind, known[kind.name], record)
    raw = sorted(
        (record for record in read if record.topic not in known),
        key=lambda each: (each.ingest_ms, each.topic, each.offset),
    )
    enriched: dict[int, Mapping[str, Any]] = {}
    alerts: dict[str, oracle.Finding] = {}
    refused: Counter[Refused] = Counter()
    for each in oracle.judge(use, [use.rule(name) for name in RULES], raw, known):
        if each.reason is not None:
            refused[each.record.topic, each.record.offset, each.reason] += 1
        elif each.record.topic == use.judged.name and each.event is not None:
            enriched[each.record.offset] = each.event
            alerts |= {finding.alert_id: finding for finding in each.findings}
    expected = Expected(raw, enriched, alerts, refused)
    return with_burst(expected, use) if BURST in rules else expected


def with_burst(expected: Expected, use: UseCase) -> Expected:
    """The same with the alerts of the rule on windows, and with the events that are late for it."""
    rule = use.rule(BURST)
    assert isinstance(rule, WindowRule)
    late, newest_ms = [], -math.inf
    for offset, event in expected.enriched.items():
        if event["at_ms"] < newest_ms - use.disorder_ms:
            late.append(offset)
        newest_ms = max(newest_ms, min(event["at_ms"], event["ingest_ms"]))
    in_time = [event for offset, event in expected.enriched.items() if offset not in late]
    found = {finding.alert_id: finding for finding in oracle.window_findings(rule, in_time)}
    warm = set(islice(expected.enriched, math.ceil(WARM_SHARE * len(expected.enriched))))
    return replace(
        expected,
        alerts={**expected.alerts, **found},
        refused=expected.refused + Counter((use.judged.name, offset, LATE) for offset in late if offset not in warm),
        either=frozenset((use.judged.name, offset, LATE) for offset in late if offset in warm),
        rules=(*expected.rules, BURST),
    )


def read(bootstrap: str, plan: EnginePlan) -> Found:
    """All that a run has written."""
    found = Found()
    kinds = {plan.use.enriched.name: found.enriched, ALERTS.name: found.alerts, DEAD_LETTERS.name: found.letters}
    with closing(Tail(bootstrap, {kind: plan.topics[kind] for kind in kinds})) as tail:
        for record in tail.new():
            kinds[record.topic].append(json.loads(record.value or b""))
    return found


def judged(found: Found, expected: Expected) -> str:
    """What is lost, doubled or wrong, or nothing."""
    problems = []
    offsets = [event["source_offset"] for event in found.enriched]
    wrong = [event["source_offset"] for event in found.enriched if not _is_same(event, expected.enriched)]
    if sorted(offsets) != sorted(expected.enriched) or wrong:
        lost = expected.enriched.keys() - set(offsets)
        problems.append(
            f"of {len(expected.enriched)} enriched events {len(lost)} are lost, {len(wrong)} wrong {wrong[:3]}"
        )
    ids = Counter(alert["alert_id"] for alert in found.alerts)
    if ids != Counter(expected.alerts.keys()):
        missing, more = expected.alerts.keys() - ids.keys(), ids - Counter(expected.alerts.keys())
        problems.append(f"of {len(expected.alerts)} alerts {len(missing)} are lost, {more.total()} are too many")
    odd = [a["alert_id"] for a in found.alerts if a["alert_id"] in expected.alerts and not _is_alert(a, expected)]
    if odd:
        problems.append(f"{len(odd)} alerts are wrong: {odd[:3]}")
    refused = Counter((each["topic"].rpartition(".")[2], each["offset"], each["reason"]) for each in found.letters)
    refused -= Counter(expected.either & refused.keys())
    if refused != expected.refused:
        differing = list((refused - expected.refused) + (expected.refused - refused))
        problems.append(f"of {expected.refused.total()} refusals {len(differing)} differ: {differing[:3]}")
    return "; ".join(problems)


def _is_same(event: Event, expected: Mapping[int, Mapping[str, Any]]) -> bool:
    meant = expected.get(event["source_offset"])
    if meant is None:
        return False
    km, meant_km = event["km_from_phone"], meant["km_from_phone"]
    is_as_far = km == meant_km if km is None or meant_km is None else abs(km - meant_km) <= 1e-9 * max(1.0, meant_km)
    own = {**event, "km_from_phone": meant_km, "source_topic": meant["source_topic"]}
    return is_as_far and own == meant


def _is_alert(alert: Event, expected: Expected) -> bool:
    meant = expected.alerts[alert["alert_id"]]
    operands = {name: float(value) for name, value in alert["operands"].items()}
    own = (alert["rule"], alert["subject"], alert["window_start_ms"], tuple(alert["event_ids"]), alert["at_ms"])
    return (*own, operands) == (
        *(meant.rule, meant.subject, meant.window_start_ms, meant.event_ids, meant.at_ms),
        {name: float(str(value)) for name, value in meant.operands.items()},
    )


def plan_of(target: Target, engine: str, side: str, rules: Sequence[str] = RULES) -> EnginePlan:
    """The rules over the backlog, with outputs of this run's own."""
    variant = only(load(engine), rules)
    (plan,) = engine_plans(variant, 1, target.bootstrap, target.checkpoints, target.stores(variant))
    own = f"{TAPE}-{side.replace(' ', '-')}-{time.time_ns() // 1_000_000}"
    taped = plan.use.references if engine in IN_BATCHES else (*plan.use.raw, *plan.use.references)
    raw = {each.name: f"{TAPE}.{each.name}" for each in taped}
    written = {kind: own + topic.removeprefix(variant.name) for kind, topic in plan.topics.items()}
    checkpoints = plan.checkpoints.replace(f"/{variant.name}/", f"/{own}/")
    return replace(plan, pattern=own, topics=written | raw, checkpoints=checkpoints, partitions=1)


def only(variant: Variant, rules: Sequence[str]) -> Variant:
    """A variant with these rules and nothing behind them."""
    stages = variant.pattern.stages
    events = stages.events.model_copy(update={"rules": RULES, "parallelism": 1})
    windows = stages.windowing.model_copy(update={"rules": (BURST,), "summaries": ()}) if BURST in rules else None
    kept = stages.model_copy(update={"events": events, "windows": windows, "persist": None})
    return replace(variant, pattern=variant.pattern.model_copy(update={"stages": kept, "partitions": 1}))


def declared_on_streams(target: Target, plan: EnginePlan) -> Side:
    engine = target.engine(plan.engine)
    engine.start(plan, None)
    return Side(processes.records(target.settings.run)[f"job-{plan.pattern}-streams"], lambda: engine.stop(plan))


def by_hand_on_streams(target: Target, plan: EnginePlan) -> Side:
    """With the settings of the declared job."""
    settings = target.settings
    declared = declaration(plan, settings.state / "data" / "by-hand" / plan.pattern)
    given = {
        name: value
        for name, value in declared["settings"].items()
        if not name.endswith(("auto.offset.reset", "instance.id"))  # the library's own, for what it adds to a restart
    }
    given |= {"application.id": plan.pattern, "state.dir": declared["folder"], "num.stream.threads": "1"}
    given["kind.card-uses"] = f"{plan.pattern}-dealt"  # the declared job has it, too
    job = _properties(settings, plan, given)
    start = java(HEAP_MB, quick_start=False)
    return in_a_jvm(settings, plan, start, by_hand(settings, plan.engine), "handwritten.FraudStreams", job)


def declared_on_flink(target: Target, plan: EnginePlan) -> Side:
    record = _fresh_taskmanager(target)
    engine = target.engine(plan.engine)
    engine.start(plan, None)
    return Side(record, lambda: engine.stop(plan))


def by_hand_on_flink(target: Target, plan: EnginePlan) -> Side:
    """With the settings of the declared job, and under its id, so that it is stopped as that one is."""
    job = _properties(target.settings, plan, {"name": f"{plan.pattern} (generation {plan.generation})"})
    return submitted_to_flink(
        target, plan, "handwritten.FraudFlink", handwritten.ensure(target.settings, plan.engine), job
    )


def submitted_to_flink(
    target: Target, plan: EnginePlan, main: str, jar: Path, job: Path, class_path: Iterable[Path] = ()
) -> Side:
    """A program in a jar of its own, with the file that it reads, on a TaskManager that has run nothing yet."""
    record = _fresh_taskmanager(target)
    settings, engine, home = target.settings, target.engine(plan.engine), Path(target.addresses["FLINK_HOME"])
    command = [
        *("java", *configuration(settings)["env.java.opts.all"].split()),
        *("-cp", f"{home}/lib/*{os.pathsep}{home}/conf", "org.apache.flink.client.cli.CliFrontend"),
        *("run", "--target", "remote", "--detached", "--class", main),
        *(word for each in class_path for word in ("--classpath", each.as_uri())),
        *(f"-D{name}={value}" for name, value in remote(plan, target.address("FLINK_REST_URL"), None).items()),
        *(str(jar), str(job)),
    ]
    env = processes.environment({"FLINK_CONF_DIR": str(home / "conf")})
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=SUBMIT_WITHIN_S)
    if done.returncode:
        raise InfraError(f"{plan.pattern} was not submitted:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return Side(record, lambda: engine.stop(plan))


def _fresh_taskmanager(target: Target) -> processes.ProcessRecord:
    stack.restart(target.settings, [TASKMANAGER])
    return processes.records(target.settings.run)[TASKMANAGER]


def declared_on_spark(target: Target, plan: EnginePlan) -> Side:
    engine = target.engine(plan.engine)
    engine.start(plan, None)
    return Side(processes.records(target.settings.run)[f"job-{plan.pattern}-spark"], lambda: engine.stop(plan))


def by_hand_on_spark(target: Target, plan: EnginePlan) -> Side:
    """With the settings of the declared job."""
    given = {
        **SPARK_SETTINGS,
        **plan.options,
        "spark.master": master_for(target.address("SPARK_MASTER"), plan),
        "spark.app.name": plan.pattern,
        "checkpoint": f"{plan.checkpoints}/events",
        "every": EVENTS_EVERY,
    }
    job = _properties(target.settings, plan, given)
    options = SPARK_SETTINGS["spark.driver.extraJavaOptions"].split()
    start = ["java", f"-Xmx{SPARK_SETTINGS['spark.driver.memory']}", *options, *OPENS]
    class_path = by_hand(target.settings, plan.engine)
    return in_a_jvm(target.settings, plan, start, class_path, "handwritten.FraudSpark", job)


def by_hand(settings: Settings, engine: str) -> list[Path]:
    """The class path of a program by hand."""
    return [*handwritten.libraries(settings, engine), handwritten.ensure(settings, engine)]


def in_a_jvm(
    settings: Settings, plan: EnginePlan, start: Sequence[str], class_path: Iterable[Path], main: str, job: Path
) -> Side:
    """A program, with the file that it reads, in a JVM of its own."""
    logging, log = settings.state / "by-hand-log4j2.properties", settings.state / "logs" / plan.pattern
    logging.write_text(log4j2(log.with_suffix(".log")), encoding="utf-8")
    words = [f"-Dlog4j2.configurationFile={logging.as_uri()}", "-cp", os.pathsep.join(map(str, class_path))]
    run = settings.run
    command = [*start, *words, main, str(job)]
    record = processes.start(plan.pattern, command, {}, log.with_suffix(".out"), run, folder=run)

    def stop() -> None:
        processes.stop(record, within_s=40)
        processes.forget(record, run)

    return Side(record, stop)


def _properties(settings: Settings, plan: EnginePlan, more: Mapping[str, str]) -> Path:
    """What a program by hand reads."""
    given = {
        "bootstrap.servers": plan.bootstrap,
        **{f"kind.{kind}": topic for kind, topic in plan.topics.items()},
        "version.above": plan.use.rule(RULES[0]).version,
        "version.away": plan.use.rule(RULES[1]).version,
        **({"version.burst": plan.use.rule(BURST).version} if plan.windows else {}),
        **more,
    }
    path = settings.state / f"{plan.pattern}.properties"
    path.write_text(properties(given), encoding="utf-8")
    return path


STARTS: Starts = {
    ("streams", DECLARED): declared_on_streams,
    ("streams", BY_HAND): by_hand_on_streams,
    ("flink", DECLARED): declared_on_flink,
    ("flink", BY_HAND): by_hand_on_flink,
    ("spark", DECLARED): declared_on_spark,
    ("spark", BY_HAND): by_hand_on_spark,
}


def _thread_name(pid: int, thread: int) -> str:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text(encoding="utf-8")
    return ""


def _report(*words: str) -> None:
    print(*words, file=sys.stderr, flush=True)


def kind_of(given: argparse.Namespace, kind: str = "cost") -> str:
    """What a record of this measurement is called."""
    return (kind.replace("cost", "profile") if given.profile else kind) + ("-burst" if given.burst else "")


def arguments(argv: Sequence[str], starts: Starts = STARTS) -> argparse.Namespace:
    measurable = sorted({engine for engine, _ in starts})
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engines", nargs="*", default=measurable, metavar="ENGINE", help=f"of {', '.join(measurable)}")
    parser.add_argument("--events", type=int, default=800_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", action="store_true", help="sample the stacks as well: a record of its own")
    parser.add_argument("--burst", action="store_true", help=f"with the rule {BURST} as well: a record of its own")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
