"""Each alert fires on a real stack, for a real cause, and its page is followed step by step until it is over."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from playwright.sync_api import Page

from millrace import deployments, records, registry
from millrace import stack as stacks
from millrace.machine import processes
from millrace.machine.processes import wait_until
from millrace.patterns import load
from millrace.rules import ALERTS, UseCase
from millrace.servers.dashboard import url
from millrace.settings import PROJECT, Settings
from millrace.stack import WATCH
from millrace.stack.services import NEEDED
from millrace.stack.startup import stop_all
from millrace.stores.topics import publish
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.verbs import alerts, ledger, letters, traffic
from millrace.verify.ledger.chain import Entry
from tests.browser import browser
from tests.dashboard.scraping import RULES, firing, lasting, prometheus, results
from tests.dashboard.test_prometheus import free_port
from tests.patterns import own_patterns

RUNBOOK = PROJECT / "docs" / "runbook"
PAGES = {Path(rule["annotations"]["runbook"]).stem: rule["alert"] for rule in RULES if "alert" in rule}
PATTERN, PROMISED_MS = "drilled", 2_000
BEHIND = "drilled-behind"
"""Its windows are in a job of their own."""
JUDGED = "drilled-judged"
"""It has a ledger, whose verdicts count for an hour: no other row waits for that."""
OWN = {"stages": {"persist": None}, "partitions": 1, "promises": {"alert_latency_ms_p99": PROMISED_MS}}
PATTERNS = {PATTERN: {"of": "flink", **OWN}, BEHIND: {"of": "flink-spark", **OWN}, JUDGED: {"of": "flink", **OWN}}
MINUTE_S = 6
FIRES_WITHIN_S = CLEAR_WITHIN_S = 300
SHOWN_WITHIN_S = 120
ENDS_WITHIN_S = 60
MOVED_WITHIN_S = 300
"""On a busy machine the first batch of a driver has taken 108 s, and the second one shows its moment."""
COMMAND = re.compile(r"`(millrace [^`]+|top)`")
STEP, REMEDY = re.compile(r"^\d+\. (.+)$", re.MULTILINE), re.compile(r"^- (.+)$", re.MULTILINE)


class Drill:
    """A stack with its watcher, its live page, Prometheus and a deployed pattern."""

    def __init__(self, settings: Settings, port: int, window: Page, folder: Path) -> None:
        self.settings, self.port, self.window, self.folder = settings, port, window, folder
        self.target = Target.read(settings, {})
        self.cause, self.senders = ExitStack(), ExitStack()
        self.placed = {"PATTERN": PATTERN}
        """What stands for the words in capitals of the pages."""
        self.commands: list[tuple[str, int]] = []
        self.followed: dict[str, dict[str, Any]] = {}

    def run(self, *words: str) -> tuple[int, str]:
        """A command, as a person runs it: its exit code and all that it prints."""
        done = subprocess.run(self._words(words), env=self._environment(), capture_output=True, text=True, timeout=600)
        self.commands.append((shlex.join(words), done.returncode))
        return done.returncode, done.stdout + done.stderr

    def shown(self) -> str:
        """The text of the live page of the pattern."""
        self.window.goto(f"{url(self.settings)}#/{self.placed['PATTERN']}")
        return self.window.locator("body").inner_text()

    def deploy(self, pattern: str) -> None:
        for verb in ("provision", "deploy"):
            code, said = self.run("millrace", verb, pattern)
            assert code == 0, said

    def end_cause(self) -> None:
        self.cause.close()

    def end_senders(self) -> None:
        self.senders.close()

    @contextmanager
    def meanwhile(self, *words: str) -> Iterator[None]:
        """A command that runs during the block, and then gets a Ctrl-C."""
        with (self.folder / f"{words[0]}.log").open("a") as log:
            process = subprocess.Popen(
                self._words(("millrace", *words)),
                env=self._environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                yield
            finally:
                os.killpg(process.pid, signal.SIGINT)
                try:
                    process.wait(ENDS_WITHIN_S)
                except subprocess.TimeoutExpired:  # it waits for a server that a failed test has left dead
                    os.killpg(process.pid, signal.SIGKILL)
                    raise

    def _words(self, words: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "millrace.cli", *words[1:]] if words[0] == "millrace" else [*words]

    def _environment(self) -> dict[str, str]:
        return os.environ | self.settings.environment()


Act = Callable[[Drill], object]


def nothing(_: Drill) -> None:
    """Its command does all."""


@dataclass(frozen=True)
class Look:
    """What a step under "How to look" shows, as a regular expression, and how its last command may end."""

    text: str
    exits: Container[int] = (0,)


@dataclass(frozen=True)
class Remedy:
    """A line under "What to do", by its beginning; before its commands, what a person does by hand."""

    begins: str
    by_hand: Act = nothing
    exits: Container[int] = (0,)
    page: str = ""
    """Where a line of the alert's own page leads to another one."""


@dataclass(frozen=True)
class Recorded:
    """Traffic from a file. It has no labels, so a verdict is ok though a Ctrl-C has ended it."""

    rate_per_s: int = 40
    seconds: int = 900
    frauds: float = 0.2
    lacking: int = 0
    """Each so many-th transaction has no amount; 0: none."""


@dataclass(frozen=True)
class Row:
    """How an alert is caused, and how its page is followed."""

    cause: Act
    looks: Sequence[Look | None]
    """One for each step; None for a step that is for another cause."""
    remedies: Sequence[Remedy]
    after: Sequence[Remedy] = ()
    """Lines that are followed once the alert no longer fires."""
    page: str = ""
    """Where another row of the same page has its name."""
    traffic: Recorded | None = Recorded()
    """While the alert is caused and its page followed."""
    pattern: str = PATTERN


def poison(drill: Drill) -> None:
    send(drill, Recorded(lacking=3))


def correct(drill: Drill) -> None:
    """The sender is fixed, and what lacks an amount gets one."""
    drill.end_senders()
    lacking = letters.read(drill.target, load(PATTERN), "missing:amount_cents")
    values = [json.loads(base64.b64decode(each.value_base64 or "")) | {"amount_cents": 1250} for each in lacking]
    places = [{"topic": each.topic, "partition": each.partition, "offset": each.offset} for each in lacking]
    file = drill.folder / "corrected.jsonl"
    file.write_text("".join(json.dumps(p | {"value": v}) + "\n" for p, v in zip(places, values, strict=True)))
    drill.placed["FILE"] = str(file)


@contextmanager
def stalled(settings: Settings, server: str, stopped_s: float, runs_s: float) -> Iterator[None]:
    """A process and its descendants get processor time for moments only, as on a machine that is too busy."""
    slowed, is_over = processes.family(processes.records(settings.run)[server]), threading.Event()

    def stall() -> None:
        while not is_over.is_set():
            for each in slowed:
                each.suspend()
            is_over.wait(stopped_s)
            for each in slowed:
                each.resume()
            is_over.wait(runs_s)

    thread = threading.Thread(target=stall, name=f"stalls {server}")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def stall(server: str, stopped_s: float, runs_s: float) -> Act:
    return lambda drill: drill.cause.enter_context(stalled(drill.settings, server, stopped_s, runs_s))


def slow_windows(drill: Drill) -> None:
    """The windows have moved once; then their driver is slower than the traffic."""
    query = f'millrace_job_watermark_timestamp_seconds{{pattern="{BEHIND}"}}'
    assert wait_until(lambda: bool(results(drill.port, query)), MOVED_WITHIN_S, every_s=1)
    stall(registry.manifest("spark").process_of(BEHIND), 2, 0.05)(drill)


def refused_by_the_broker(drill: Drill) -> None:
    """Somebody has limited the messages of a topic to fewer bytes than the job writes."""
    variant = load(PATTERN)

    def change(how: str) -> None:
        limit = {"max.message.bytes": (how, "100")}
        with closing(KafkaAdminClient(bootstrap_servers=drill.target.bootstrap)) as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, variant.topic(variant.use.enriched), limit)])

    change("SET")
    drill.cause.callback(change, "DELETE")


def left_dead(service: str) -> Act:
    return lambda drill: stacks.kill(drill.settings, [service], stay_dead=True)


def port_in_use(drill: Drill) -> None:
    """The broker ends, and another process takes its port before the watcher starts it again."""
    stacks.kill(drill.settings, ["kafka"])
    place = ("127.0.0.1", drill.settings.port("kafka"))

    def held() -> bool:
        with suppress(OSError):
            drill.cause.enter_context(closing(socket.create_server(place)))
            return True
        return False

    assert wait_until(held, SHOWN_WITHIN_S, every_s=0.01)


def forged(drill: Drill) -> None:
    """An alert that no event has caused, and the verdict on it."""
    variant = load(PATTERN)
    assert wait_until(lambda: bool(alerts.alerts(drill.target, variant)), SHOWN_WITHIN_S)
    drill.end_senders()
    alert = {**alerts.alerts(drill.target, variant)[-1].alert, "alert_id": "f" * 32}
    publish(drill.target.bootstrap, [(variant.topic(ALERTS), alert["key"].encode(), json.dumps(alert).encode())])
    drill.placed["ALERT_ID"] = alert["alert_id"]
    code, said = drill.run("millrace", "validate", PATTERN)
    assert code == 1, said


def canaries_without_job(drill: Drill) -> None:
    """Canaries have set off every rule; then the job loses its TaskManager."""
    sending = drill.meanwhile("canaries", PATTERN, "--every", "10")
    drill.cause.enter_context(sending)
    status = ("millrace", "canaries", PATTERN, "--status")
    assert wait_until(lambda: drill.run(*status)[0] == 0, FIRES_WITHIN_S, every_s=2)
    # In their first rounds rules are silent, too: the alert must be of what comes now.
    limit = "on (pattern) group_left millrace_canary_silence_limit_seconds"
    heard, silent = (f"millrace_canary_silence_seconds {sign} {limit}" for sign in ("<=", ">"))

    def is_known() -> bool:
        return bool(results(drill.port, heard)) and not results(drill.port, silent) and not firing(drill.port)

    assert wait_until(is_known, CLEAR_WITHIN_S, every_s=1), firing(drill.port)
    left_dead("flink-taskmanager")(drill)


def hanging_validator(drill: Drill) -> None:
    """The ledger has begun; then its validator hangs, which the watcher does not notice."""
    code, said = drill.run("millrace", "deploy", JUDGED, "--verdicts")
    assert code == 0, said
    assert wait_until(lambda: bool(judged(drill)), CLEAR_WITHIN_S, every_s=1)
    # The first entry comes minutes after the deployment, which are too many of the shortened ones.
    assert wait_until(lambda: not lasting(drill.port), CLEAR_WITHIN_S, every_s=1), lasting(drill.port)
    os.kill(validator(drill).pid, signal.SIGSTOP)


def judged(drill: Drill) -> Sequence[Entry]:
    return ledger.latest(drill.target, JUDGED).entries


def validator(drill: Drill) -> processes.ProcessRecord:
    return processes.records(drill.settings.run)[deployments.VALIDATOR.of(JUDGED)]


def end_validator(drill: Drill) -> None:
    """Its pid is in the file that the page names."""
    (named,) = re.findall(r"`(run/[^`]+)`", (RUNBOOK / "ledger-stale.md").read_text(encoding="utf-8"))
    file = drill.settings.state / named.replace("PATTERN", JUDGED)
    os.kill(json.loads(file.read_text(encoding="utf-8"))["pid"], signal.SIGKILL)


def lag_is_gone(drill: Drill) -> None:
    drill.end_senders()
    query = f'millrace_lag_messages{{pattern="{PATTERN}"}} == 0'
    assert wait_until(lambda: bool(results(drill.port, query)), CLEAR_WITHIN_S, every_s=1)


def exported(drill: Drill) -> None:
    drill.placed["FILE"] = str(drill.folder / "alerts.csv")


def new_events(drill: Drill) -> None:
    send(drill, Recorded())
    drill.end_senders()


RESTARTS = r"drilled[\w-]*/\w+ generation \d+\s+[\w-]+\s+\d+\s+\d+\s"
BUSY = "Something else keeps the processors busy"
ROWS = {
    "dead-letters": Row(
        poison,
        (Look("missing:amount_cents"), Look(r"missing:amount_cents.*drilled\.transactions")),
        (Remedy("`missing:`", correct),),
        traffic=None,
    ),
    "page-away": Row(
        left_dead("dashboard"),
        (Look(r"dashboard\s+dead"), Look("^$")),
        (Remedy("`millrace up dashboard`"),),
    ),
    "kafka-down": Row(
        port_in_use,
        (
            Look(r"kafka-1\s+(dead|unready|starting|given-up)"),
            Look("Address already in use"),
            Look(r"kafka-1\s+restarted"),
        ),
        (Remedy("Remove the cause", Drill.end_cause), Remedy("`millrace up kafka`")),
        after=(Remedy("Jobs continue", Drill.end_senders),),
    ),
    "job-sick": Row(
        left_dead("flink-jobmanager"),
        (Look("Flink does not answer", exits=(1,)), Look(rf"{PATTERN}\s+unknown"), Look(r"flink-jobmanager\s+dead")),
        (Remedy("`unknown`: "),),
    ),
    "crash-loop": Row(
        refused_by_the_broker,
        (Look("crash-looping.*RecordTooLarge", exits=(1,)), Look("crash-looping"), Look(r"kafka-1\s+running")),
        (Remedy("Otherwise remove the cause", Drill.end_cause),),
        page="job-sick",
    ),
    "nothing-judged": Row(
        left_dead("flink-taskmanager"),
        (
            Look("nothing was judged since|wait for a TaskManager"),
            Look("wait for a TaskManager|no checkpoint was completed", exits=(0, 1)),
            Look(r"flink-taskmanager\s+dead"),
        ),
        (Remedy("A job that runs and reads nothing, on Flink"),),
        after=(Remedy("When the lag is gone", lag_is_gone),),
    ),
    "no-checkpoint": Row(
        left_dead("hdfs"),
        (Look("no checkpoint was completed for", exits=(1,)), Look(r"namenode\s+dead")),
        (Remedy("Bring HDFS back"),),
    ),
    "lag-grows": Row(
        stall("flink-taskmanager", 0.95, 0.05),
        (Look(r"Behind the last checkpoint: \d+,\d+ events"), Look(RESTARTS, exits=(0, 1)), Look("load average")),
        (Remedy(BUSY, Drill.end_cause),),
        traffic=Recorded(rate_per_s=1000, seconds=300, frauds=0.02),
    ),
    "windows-behind": Row(
        slow_windows,
        (
            Look(r"spark running[^\n]*windows judged up to \S+ \([1-9]\d* min ago"),
            Look(RESTARTS, exits=(0, 1)),
            Look("load average"),
        ),
        (Remedy(BUSY, Drill.end_cause),),
        traffic=Recorded(rate_per_s=200),
        pattern=BEHIND,
    ),
    "promise-broken": Row(
        stall("kafka-1", 4, 0.5),
        (Look(r"hop[\s\S]*✗ promised"), Look(RESTARTS, exits=(0, 1))),
        (Remedy("Slow until Kafka has the event", Drill.end_cause),),
        after=(Remedy("`millrace validate PATTERN`", Drill.end_senders),),
    ),
    "canary-silent": Row(
        canaries_without_job,
        (Look("silent", exits=(1,)), Look("canaries silent", exits=(0, 1)), None, None),
        (Remedy("A job is down"), Remedy("A server of the engine is", page="job-sick")),
    ),
    "ledger-stale": Row(
        hanging_validator,
        (
            Look(r"judged [1-9]\d* min ago"),
            Look(f"{JUDGED} is judged until"),
            Look("watcher: running"),
            None,
        ),
        (Remedy("The process `validator-PATTERN` runs", end_validator),),
        pattern=JUDGED,
    ),
    "verdict-not-ok": Row(
        forged,
        (Look("verdict failed .* report"), Look("f" * 32)),
        (
            Remedy("`failed` without a change", exits=(1,)),
            Remedy("The failure is reported", exported),
            Remedy("The alert lasts", new_events),
        ),
    ),
}
"""In this order: the last one removes the pattern's data."""


def page_of(name: str) -> str:
    return ROWS[name].page or name


def lines(page: str, title: str, kind: re.Pattern[str]) -> list[str]:
    """The steps or remedies of a page, in their order."""
    text = (RUNBOOK / f"{page}.md").read_text(encoding="utf-8")
    return kind.findall(re.split(r"^## .+$", text.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0])


def line_of(name: str, remedy: Remedy) -> str:
    page = remedy.page or page_of(name)
    found = [each for each in lines(page, "What to do", REMEDY) if each.startswith(remedy.begins)]
    assert len(found) == 1, f"{page}.md: {len(found)} lines begin with {remedy.begins}"
    return found[0]


def test_every_alert_has_a_row() -> None:
    assert set(map(page_of, ROWS)) == PAGES.keys()


@pytest.mark.parametrize("name", ROWS)
def test_what_is_followed_stands_in_the_page(name: str) -> None:
    row = ROWS[name]
    assert len(lines(page_of(name), "How to look", STEP)) == len(row.looks)
    assert all(line_of(name, each) for each in (*row.remedies, *row.after))


@pytest.fixture(scope="module")
def drill(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    folder, port = tmp_path_factory.mktemp("runbook"), free_port()
    settings = replace(stack, patterns=folder)
    with own_patterns(folder, PATTERNS), browser(1500, 1000) as window, ExitStack() as ends:
        drill = Drill(settings, port, window, tmp_path_factory.mktemp("drill"))
        stacks.restart(settings, ["dashboard"])
        ends.callback(as_it_was, stack)
        code, said = drill.run("millrace", "up")
        assert code == 0, said
        drill.deploy(PATTERN)
        ends.callback(drill.run, "millrace", "teardown", PATTERN, "--data", "--yes")
        ends.enter_context(prometheus(port, settings.port("dashboard"), tmp_path_factory.mktemp("scraped"), MINUTE_S))
        ends.enter_context(drill.senders)
        ends.enter_context(drill.cause)
        yield drill
    if drill.followed.keys() == ROWS.keys():
        named = {"fired after": "fired", "was clear": "clear"}
        seconds = {f"{name} {text}": each[of] for name, each in drill.followed.items() for text, of in named.items()}
        # Where lab/records.py looks for it, not in the folder of the tests' stack.
        records.append(Settings.read(os.environ), "runbook", {"seconds": seconds, "alerts": drill.followed})


def as_it_was(stack: Settings) -> None:
    """The stack without its watcher and its page."""
    recorded = processes.records(stack.run)
    for name in (WATCH, "dashboard"):
        if name in recorded:
            stop_all(stack, {name: recorded[name]}, (), lambda *_: None)
    stacks.up(stack, NEEDED)


@pytest.fixture
def ended() -> Iterator[ExitStack]:
    """What ends with a test, whether it passes or not."""
    with ExitStack() as stack:
        yield stack


@pytest.mark.stack
@pytest.mark.drill
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ROWS)
def test_a_page_is_followed_while_its_alert_fires_until_it_is_over(drill: Drill, name: str, ended: ExitStack) -> None:
    row, alert, others = ROWS[name], PAGES[page_of(name)], set[str]()
    ended.callback(drill.run, "millrace", "up")  # after a failure, too, the next one begins with all servers
    ended.callback(drill.end_cause)
    ended.callback(drill.end_senders)
    assert wait_until(lambda: firing(drill.port) == set(), CLEAR_WITHIN_S), firing(drill.port)
    drill.placed["PATTERN"] = row.pattern
    if row.pattern != PATTERN:
        drill.deploy(row.pattern)
        ended.callback(drill.run, "millrace", "teardown", row.pattern, "--data", "--yes")
    if row.traffic:
        send(drill, row.traffic)
    row.cause(drill)
    began = time.monotonic()

    def fires() -> bool:
        others.update(firing(drill.port) - {alert})
        return alert in firing(drill.port)

    assert wait_until(fires, FIRES_WITHIN_S, every_s=0.5), firing(drill.port)
    fired_s, drill.commands = time.monotonic() - began, []
    for step, look in zip(lines(page_of(name), "How to look", STEP), row.looks, strict=True):
        if look:
            see(drill, step, look)
    remedied = time.monotonic()
    for each in row.remedies:
        act(drill, name, each)

    def is_clear() -> bool:
        return not fires() and alert not in lasting(drill.port)

    assert wait_until(is_clear, CLEAR_WITHIN_S, every_s=0.5), firing(drill.port)
    clear_s = time.monotonic() - remedied
    for each in row.after:
        act(drill, name, each)
    drill.followed[name] = {
        **{"fired": round(fired_s, 1), "clear": round(clear_s, 1), "others": sorted(others)},
        **{"remedies": [line_of(name, each) for each in row.remedies], "commands": drill.commands},
    }
    print(json.dumps({name: drill.followed[name]}, indent=1))


def send(drill: Drill, recorded: Recorded) -> None:
    """Traffic from here on."""
    pattern = drill.placed["PATTERN"]
    file = drill.folder / f"{time.time_ns()}.jsonl"
    file.write_text("".join(lines_of(drill.settings, load(pattern).use, recorded, file.stem)), encoding="utf-8")
    drill.senders.callback(file.unlink)
    drill.senders.enter_context(drill.meanwhile("traffic", pattern, "--from", str(file)))
    assert wait_until(lambda: bool(results(drill.port, "millrace:in:rate1m > 0")), SHOWN_WITHIN_S)


def lines_of(settings: Settings, use: UseCase, recorded: Recorded, name: str) -> Iterator[str]:
    shape, events = traffic.declared(use), recorded.rate_per_s * recorded.seconds
    plan = plan_for(shape, events, recorded.rate_per_s, name=name, frauds=recorded.frauds, poison=0)
    messages = shape.messages(plan, traffic.secrets_of(settings, use), int(time.time() * 1000))
    for number, each in enumerate(chain(shape.references(plan, ()), messages)):
        event = json.loads(each.value or b"") | {"topic": each.topic}
        if recorded.lacking and number % recorded.lacking == 0:
            event.pop("amount_cents", None)
        yield json.dumps(event) + "\n"


def see(drill: Drill, step: str, look: Look) -> None:
    """Follow a step: run its commands, or read the live page."""
    done = follow(drill, step)
    said = "\n".join(said for _, said in done)
    assert not done or done[-1][0] in look.exits, f"{step}\n{done[-1]}"
    if "live page" in step:
        assert wait_until(lambda: re.search(look.text, drill.shown()) is not None, SHOWN_WITHIN_S), drill.shown()
    else:
        assert re.search(look.text, said), f"{step}\n{said}"


def act(drill: Drill, name: str, remedy: Remedy) -> None:
    """Follow a line under "What to do"."""
    remedy.by_hand(drill)
    for code, said in follow(drill, line_of(name, remedy)):
        assert code in remedy.exits, said


def follow(drill: Drill, line: str) -> list[tuple[int, str]]:
    """Run the commands of a line, with names in place of the words in capitals."""
    done = []
    for words in COMMAND.findall(line):
        for name, placed in drill.placed.items():
            words = words.replace(name, shlex.quote(placed))
        done.append(drill.run(*(shlex.split(words) if words != "top" else ("top", "-b", "-n", "1"))))
    return done
