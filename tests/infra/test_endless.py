"""A pattern runs for hours: upgraded, changed and hit on the way, judged in segments, in memory that does not grow.

`--endless-s` is for how long traffic is sent; the start and the last segments take some minutes more. The pattern runs
from a copy of the project, whose rules are edited meanwhile.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import time
import urllib.request
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, takewhile
from pathlib import Path
from statistics import median
from threading import Event

import psutil
import pytest

from millrace import deployments, records
from millrace import stack as stacks
from millrace.deployments import CANARIES, VALIDATOR
from millrace.machine import processes
from millrace.machine.archives import beside
from millrace.machine.processes import ProcessRecord, wait_until
from millrace.patterns import load
from millrace.patterns import topics as topics_of
from millrace.rules.outputs import VERDICTS_TOPIC
from millrace.servers.dashboard import url
from millrace.settings import EVERY_S, PROJECT, SETTLE_S, Settings
from millrace.stack import WATCH
from millrace.stack.services import DEFAULT
from millrace.stores import topics
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.verbs import ledger, traffic, watch
from millrace.verbs.provision import wanted_topics
from millrace.verbs.watch.journal import Journal
from tests.conftest import settings_for_tests
from tests.infra.test_watch import Watched, seconds_until_back
from tests.uses.team import Team

PATTERN = "flink-spark"
SEED, RATE_PER_S = 1, 500
CUSTOMERS = 700
"""Of each run, which has customers of its own: what is remembered of keys grows with their number, and in two hours it
is about ten thousand, as many as decision 0046 names."""
JUDGED_WITHIN_S = SETTLE_S + 2 * EVERY_S
"""The labels of a run are judged so long after its end: its closing, the rest of a segment, the time to settle."""
KEPT_SHARE, KEPT_S_LEAST = 1 / 6, JUDGED_WITHIN_S + 2 * EVERY_S
"""For how long topics keep messages: a share of the time of the traffic."""
SAMPLED_EVERY_S = 10
CHANGED = "before.other_merchants >= 4", "before.other_merchants >= 3"
KILLED = ("kafka-1", "flink-taskmanager")
MEASURED = {VALIDATOR.of(PATTERN), CANARIES.of(PATTERN), "dashboard", WATCH, f"job-{PATTERN}-spark", *KILLED}
GROWS_MOST = 1.2
"""From the second quarter to the last: what leaks with each message doubles. What is killed in the second takes its
heap anew, and is held against the third. A JVM takes its heap in steps, up to its limit: it has grown if what it
uses after collections has, too, from half of the time to the end.
"""
COLLECTIONS = 4
"""The serial collector returns memory in four steps: 0, 10, 40 and 100 percent of what is free."""
FULL_AFTER_S = 1_800
"""By then all that has a limit has reached it: topics, 15 minutes of digests in the ledger, charts of the live page."""


@dataclass(frozen=True)
class Usage:
    """What a process and its descendants use at a moment."""

    at_ms: float
    name: str
    pid: int
    cpu_s: float
    memory_mb: float


@pytest.fixture
def settings(test_port_base: int, tmp_path: Path) -> Iterator[Settings]:
    """A stack with its watcher and its live page, and a project of its own."""
    shutil.copytree(PROJECT / "pipelines", tmp_path / "pipelines", ignore=shutil.ignore_patterns("__pycache__"))
    settings = replace(settings_for_tests("endless", test_port_base + 400), project=tmp_path)
    stacks.down(settings, purge=True)
    stacks.up(settings, DEFAULT, report=print)
    watch.ensure(settings)
    yield settings
    stacks.down(settings, report=print)


@pytest.mark.stack
@pytest.mark.drill
@pytest.mark.hours
@pytest.mark.timeout(4 * 3_600)
def test_what_runs_for_hours_is_ok_in_every_segment_and_grows_in_no_process(
    settings: Settings, request: pytest.FixtureRequest
) -> None:
    seconds = request.config.getoption("--endless-s")
    team, target, ended = Team(settings, settings.project), Target.read(settings, {}), Event()
    kept_s = max(seconds * KEPT_SHARE, KEPT_S_LEAST)
    team.millrace("provision", PATTERN)
    keep_for(target, kept_s)
    team.millrace("deploy", PATTERN, "--verdicts", "--canaries")
    began_s, back_s = time.time(), dict[str, float]()

    def await_share(share: float) -> None:
        assert wait_until(lambda: time.time() > began_s + share * seconds, seconds)

    with ThreadPoolExecutor() as beside:
        try:
            page = beside.submit(events_of_the_page, settings, ended)
            sampling = beside.submit(usages, settings, ended)
            sending = beside.submit(send, team, seconds, (kept_s - JUDGED_WITHIN_S) / 2, ended)
            # All in the first half: a process that is started again begins anew, and hides what grows in it.
            await_share(0.1)
            change_a_rule(settings.project)
            team.millrace("deploy", PATTERN)
            await_share(0.2)
            back_s["upgrade"] = team.millrace("upgrade", PATTERN)["gap_ms"] / 1000
            await_share(0.3)
            back_s["kafka-1"] = seconds_until_back(Watched(target), "kafka-1")
            await_share(0.4)
            back_s["flink-taskmanager"] = seconds_until_back(Watched(target), "flink-taskmanager")
            await_share(0.5)
            collected = [collected_mb(settings)]
            sending.result()
            collected.append(collected_mb(settings))
            await_verdict(settings, target)
            assert team.millrace("canaries", PATTERN, "--status")["status"] == "alive"
        finally:
            ended.set()
    sampled, chain, runs = sampling.result(), ledger.verdicts(target, PATTERN), traffic.runs(settings, PATTERN)
    costs = list(costs_of_segments(target, sampled))
    quarters = {name: of_quarters(sampled, name, began_s, seconds) for name in sorted({each.name for each in sampled})}
    in_memory = {name: mb for name, mb in quarters.items() if all(mb)}
    after_collections = {name: [each.get(name, 0) for each in collected] for name in collected[-1]}
    figures = {
        "verdict": chain.status,
        "seconds": back_s
        | {"traffic": seconds, "retention": kept_s}
        | {"a segment": median(cpu_s for cpu_s, _ in costs), "a segment at most": max(cpu_s for cpu_s, _ in costs)},
        "memory_mb": {
            "the validator": round(median(mb for _, mb in costs)),
            "the validator at most": round(max(mb for _, mb in costs)),
        },
        "quarters_mb": in_memory,
        "collected_mb": after_collections,
        "events": sum(run.sent for run in runs),
        "segments": Counter(entry.status for entry in chain.entries),
        "events of the page": page.result(),
    }
    print(json.dumps(figures, indent=1))
    assert not [each for each in Journal.of(settings).read() if each["event"] == "given-up"]
    assert team.millrace("verdicts", PATTERN, exits=(0, 1))["patterns"][PATTERN]["breaks"] == []
    # Nothing is `assumed`: topics keep messages for longer than the ledger needs to judge them.
    assert [(span.status, span.causes) for span in chain.spans()] == [("ok", ())]
    assert len(page.result()) == 2, "the page's server begins anew with a changed rule, and drops no client that reads"
    assert deployments.in_force(target, PATTERN).keys() == {"spree"}, "it was changed under way"
    assert chain.entries[0].since_ms <= min(run.start_ms for run in runs)
    use, judged = load(PATTERN).use, chain.entries[-1].offsets
    there = sum(to for each in (*use.raw, *use.references) for _, to in judged[each.name].values())
    assert sum(entry.messages for entry in chain.entries) == there
    assert has_deleted(target), "no topic has deleted what it no longer keeps"
    assert in_memory.keys() >= MEASURED
    grown = {name: mb for name, mb in in_memory.items() if mb[3] > GROWS_MOST * mb[2 if name in KILLED else 1]}
    for name, (half, whole) in after_collections.items():
        if whole <= GROWS_MOST * half:
            grown.pop(name, None)
    assert not grown or seconds / 4 < FULL_AFTER_S, grown
    # Where lab/records.py looks for it, not in the folder of the drill's stack.
    records.append(Settings.read(os.environ), "endless", figures, SEED)


def keep_for(target: Target, seconds: float) -> None:
    """Let topics keep messages for minutes, where a pattern declares hours."""
    kept = {"retention.ms": str(round(seconds * 1000)), "segment.ms": str(round(seconds * 1000 / 6))}
    wanted = [each for each in wanted_topics(load(PATTERN)) if int(each.configs.get("retention.ms", -1)) > 0]
    topics.ensure(target.bootstrap, [replace(each, configs={**each.configs, **kept}) for each in wanted])


def has_deleted(target: Target) -> bool:
    """Whether the first raw messages are gone."""
    judged = load(PATTERN).use.judged.name
    with closing(Tail(target.bootstrap, {judged: topics_of(load(PATTERN))[judged]})) as tail:
        return all(first > 0 for first, _ in tail.spans()[judged].values())


def send(team: Team, seconds: float, run_s: float, ended: Event) -> None:
    """Send labelled traffic in runs, each as the one before ends: a ledger judges the labels of a run when it has."""
    with ThreadPoolExecutor() as beside:
        runs = []
        for number in range(round(seconds / run_s)):
            words = {"rate": RATE_PER_S, "seconds": run_s, "seed": SEED + number, "customers": CUSTOMERS}
            options = [word for name, value in words.items() for word in (f"--{name}", str(value))]
            runs.append(beside.submit(team.millrace, "traffic", PATTERN, *options, "--name", f"endless-{number}"))
            if ended.wait(run_s):
                break
    for each in runs:
        each.result()


def change_a_rule(project: Path) -> None:
    """Let the rule `spree` alert one merchant earlier: what is labelled with it still sets it off."""
    path = project / "pipelines" / "fraud" / "rules.py"
    before = path.read_text(encoding="utf-8")
    assert before.count(CHANGED[0]) == 1
    path.write_text(before.replace(*CHANGED), encoding="utf-8")


def await_verdict(settings: Settings, target: Target) -> None:
    """Return when all traffic is judged, and its labels."""
    runs = traffic.runs(settings, PATTERN)
    names, until_ms = {f"{run.name}@{run.start_ms}" for run in runs}, max(run.span_ms[1] for run in runs)

    def is_judged() -> bool:
        last = ledger.latest(target, PATTERN).entries[-1]
        return last.whole_until_ms > until_ms and names <= labelled(target, last.number)

    assert wait_until(is_judged, 2 * JUDGED_WITHIN_S), ledger.latest(target, PATTERN).entries[-1]


def labelled(target: Target, number: int) -> set[str]:
    """The runs whose labels were judged up to a segment."""
    written = ledger.folder_of(target, load(PATTERN)).read(ledger._name(number))
    assert written is not None
    return set(json.loads(gzip.decompress(written).split(b"\n", 1)[0])["labelled"])


def events_of_the_page(settings: Settings, ended: Event) -> list[int]:
    """How many events the live page sends, by connection, to a client that reads them all and connects again."""
    found = []
    while not ended.wait(1):
        with suppress(OSError), urllib.request.urlopen(f"{url(settings)}live", timeout=60) as stream:
            found.append(sum(line.startswith(b"event:") for line in takewhile(lambda _: not ended.is_set(), stream)))
    return found


def usages(settings: Settings, ended: Event) -> list[Usage]:
    """What each process of the stack uses, again and again."""
    found: list[Usage] = []
    while not ended.wait(SAMPLED_EVERY_S):
        found += map(usage, processes.records(settings.run).values())
    return [each for each in found if each.memory_mb]


def usage(record: ProcessRecord) -> Usage:
    cpu_s = memory_mb = 0.0
    for member in processes.family(record):
        with suppress(psutil.Error):
            times = member.cpu_times()
            cpu_s += times.user + times.system
            memory_mb += member.memory_info().rss / (1 << 20)
    return Usage(time.time() * 1000, record.name, record.pid, cpu_s, memory_mb)


def collected_mb(settings: Settings) -> dict[str, int]:
    """What each process that is a JVM, and nothing else, uses once it has returned what its collections free."""
    found = {}
    for record in processes.records(settings.run).values():
        members = processes.family(record)
        if [each.name() for each in members] == ["java"]:
            command = [str(beside(members[0].exe(), "jcmd")), str(record.pid), "GC.run"]
            for _ in range(COLLECTIONS):
                subprocess.run(command, capture_output=True, check=True, timeout=60)
            found[record.name] = round(usage(record).memory_mb)
    return found


def of_quarters(sampled: Sequence[Usage], name: str, began_s: float, seconds: float) -> list[int]:
    """The median memory of a process in each quarter of the traffic; 0 where it did not run."""
    own = [(int(4 * (each.at_ms / 1000 - began_s) / seconds), each.memory_mb) for each in sampled if each.name == name]
    return [round(median([mb for at, mb in own if at == quarter] or [0])) for quarter in range(4)]


def costs_of_segments(target: Target, sampled: Sequence[Usage]) -> Iterator[tuple[float, float]]:
    """Seconds of processor time, and the most memory, of the validator from one entry to the next."""
    with closing(Tail(target.bootstrap, {VERDICTS_TOPIC: load(PATTERN).topic(VERDICTS_TOPIC)})) as tail:
        written_ms = [record.ingest_ms for record in tail.new()]
    own = [each for each in sampled if each.name == VALIDATOR.of(PATTERN)]
    segments = [list(group) for _, group in groupby(own, lambda each: (each.pid, bisect(written_ms, each.at_ms)))]
    for segment, following in pairwise(segments):
        if segment[0].pid == following[0].pid:
            yield round(following[0].cpu_s - segment[0].cpu_s, 1), max(each.memory_mb for each in segment)
