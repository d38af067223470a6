"""`traffic` sends labelled events to a pattern while a listener times its outputs, and records the run."""

from __future__ import annotations

import fcntl
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from millrace import shapes
from millrace.errors import UsageError
from millrace.patterns import Variant, load
from millrace.patterns import topics as topics_of
from millrace.rules import UseCase, WindowRule
from millrace.rules.tokens import TokenError
from millrace.rules.traffic import RATE_PER_S_LEAST
from millrace.settings import Settings
from millrace.target import Target
from millrace.traffic import Columns, Message, Secrets, Traffic, TrafficPlan, plan_for
from millrace.traffic.labels import Labels, labels_of, together
from millrace.traffic.planned import CLOSING_MS, RULES, is_closed, messages_of, misfit, plan_of
from millrace.traffic.replay import read_replay
from millrace.traffic.runs import Run, Span
from millrace.traffic.tape import Digest
from millrace.traffic.tokens import ensure_secrets, read_secrets, secrets_under
from millrace.verbs import cost, lineage
from millrace.verbs.listening import listening
from millrace.verbs.sending import Load, TrafficError, send
from millrace.verify import Versions
from millrace.verify.closing import closing_ms
from millrace.verify.planned import MADE_MOST

CHAIN = "chain"
"""What a line of the record has besides its run: a digest of it and of all lines before."""


@dataclass(frozen=True)
class Counted:
    """What the runs of traffic add to a verdict."""

    labels: Labels | None = None
    """None if no run has labels that hold."""
    began_ms: tuple[int, ...] = ()
    """When each began."""
    uncounted_ms: tuple[Span, ...] = ()
    """When the sender was late: no latency of that time counts."""
    notes: tuple[str, ...] = ()
    """A line for each run whose latencies do not count, or whose labels do not hold."""
    unlabelled: tuple[str, ...] = ()
    """Of these lines, those about labels."""
    unread: str = ""
    """Why the record of runs could not be read."""
    unrecorded: tuple[str, ...] = ()
    """Where lines of the record are missing."""


@dataclass(frozen=True)
class _Shareless:
    """A plan from before plans had shares, and their limits: its messages cannot be made again."""

    name: str
    shares: None = None


@dataclass(frozen=True)
class _About:
    """What is read of the load that a run records."""

    plan: TrafficPlan | _Shareless = field(default_factory=lambda: TrafficPlan(1, RATE_PER_S_LEAST))
    rules: Mapping[str, str] = field(default_factory=dict)
    closing_keys: Sequence[str] = ()
    closing_ms: int = 0
    references_ms: int = 0


_RUN, _ABOUT = TypeAdapter(Run), TypeAdapter(_About)


def traffic(target: Target, name: str, wanted: Load, *, report: Callable[[str], None] = lambda line: None) -> Run:
    """Send a load to a pattern and record the run for its verdict.

    Ctrl-C ends it early, and the run is then marked as incomplete.
    """
    target.require_traffic_allowed()
    require_new(target.settings, name, wanted)
    settings, variant = target.settings, load(name)
    topics = topics_of(variant)
    with lineage.traffic(target, variant, report) as outcome:
        before = cost.cpu_seconds(settings, name)
        with listening(target.bootstrap, topics, arrivals(settings, name)):
            begins = partial(_take_name, settings, name, wanted)
            run = send(target.bootstrap, topics, wanted, folder=settings.state, begins=begins, report=report)
        cpu_s = cost.spent(before, cost.cpu_seconds(settings, name))
        run = replace(run, about={**run.about, "cpu_s": cpu_s})
        keep(settings, name, run)
        outcome.rows = {topics[kind]: count for kind, count in run.by_topic.items()}
    for line in remarks(variant.use, run):
        report(line)
    return run


def remarks(use: UseCase, run: Run) -> Iterator[str]:
    """What of a run its verdict leaves out."""
    if run.lateness:
        yield f"no latency of this run counts: {run.lateness}"
    elif not run.is_complete:
        yield "sending was interrupted: no label of this run is used"
    if not is_closed(run) and (use.summaries or any(isinstance(rule, WindowRule) for rule in use.rules)):
        yield "no closing follows: the last windows are not judged until later events close them"


def new_name() -> str:
    """A name for generated traffic that no earlier traffic has."""
    return f"r{time.time_ns() // 1_000_000:x}"


def require_new(settings: Settings, pattern: str, wanted: Load) -> None:
    """Refuse generated traffic under a name that the pattern was sent before.

    The name is in each key and id: the events would be refused as duplicates, and the labels met by those of before.
    """
    name, begun = tape_of(wanted.about), _names(settings, pattern)
    taken = begun.read_text(encoding="utf-8").splitlines() if begun.exists() else []
    if name is not None and (name in taken or any(tape_of(run.about) == name for run in runs(settings, pattern))):
        raise UsageError(
            f"{pattern} was sent traffic with the name '{name}' before, and its events would have the same keys and "
            f"ids; give another --name, or remove the data first: `millrace teardown {pattern} --data`"
        )


def _take_name(settings: Settings, pattern: str, wanted: Load) -> None:
    """Keep the name of generated traffic before any of it is sent: a sender that is killed records no run."""
    if (name := tape_of(wanted.about)) is None:
        return
    path = _names(settings, pattern)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)  # of two senders that begin at once under one name, the second is refused
        require_new(settings, pattern, wanted)
        opened.write(f"{name}\n")


def tape_of(about: Mapping[str, Any]) -> str | None:
    """The name of generated traffic; None for that of a file, whose events have ids of their own."""
    name: str | None = about.get("plan", {}).get("name")
    return name


def declared(use: UseCase) -> Traffic:
    """The traffic that a use declares."""
    if use.traffic is None:
        raise TrafficError(
            f"the use '{use.name}' declares no traffic; declare it, or deploy a pattern of the use and send a "
            "file: `millrace traffic PATTERN --from FILE`"
        )
    return use.traffic


def generated(use: UseCase, plan: TrafficPlan, secrets: Secrets, for_ms: int | None = None) -> Load:
    """Traffic generated from a plan; `for_ms` is how long its closing lasts, unless as long as the use's windows."""
    made = declared(use)
    lasts_ms = closing_ms(use) if for_ms is None else for_ms

    return Load(
        plan.name,
        {"plan": asdict(plan), RULES: {rule.name: rule.version for rule in use.rules}, CLOSING_MS: lasts_ms},
        use.judged.name,
        plan.events,
        lambda keys: made.references(plan, keys),
        lambda start_ms, keys: messages_of(made, plan, secrets, start_ms, keys, lasts_ms),
        lambda number: made.closing_key(plan, number),
    )


def from_file(use: UseCase, file: Path, secrets: Secrets, speed: float = 1.0, plan: TrafficPlan | None = None) -> Load:
    """Traffic recorded in a file, which is read whole before any of it is sent; the plan gives the use's sizes."""
    columns = use.traffic.columns(plan) if use.traffic and plan else None
    replay = read_replay(file, use, secrets, columns)
    replay.require_replayable(speed)
    about = {
        "file": file.name,
        "speed": speed,
        "events": replay.events,
        "unparsed": replay.unparsed,
        "canaries": replay.canaries,
        "from_ms": replay.first_ms,
        "to_ms": replay.newest_ms,
    }
    return Load(
        file.stem,
        about | ({"sizes": dict(plan.sizes)} if plan else {}),
        use.judged.name,
        replay.events,
        lambda keys: replay.references(time.time_ns() // 1_000_000),
        lambda start_ms, keys: replay.messages(start_ms, speed),
    )


def columns_of(use: UseCase, sizes: Mapping[str, int]) -> Columns | None:
    """The column map of the use's recorded files, for these sizes of its traffic and the defaults of all others."""
    if use.traffic is None:
        return None
    plan = plan_for(use.traffic, 1, RATE_PER_S_LEAST, 1, "columns", **sizes)
    return use.traffic.columns(plan)


def secrets_of(settings: Settings, use: UseCase) -> Secrets:
    """The tokens of this stack, each under a key that is made when it is first needed."""
    return ensure_secrets(use, settings.state / "conf")


def known_secrets(settings: Settings, use: UseCase) -> Secrets | None:
    """The same, if each of them has its key already."""
    try:
        return read_secrets(use, settings.state / "conf")
    except TokenError:
        return None


def keep(settings: Settings, pattern: str, run: Run) -> None:
    """Record a run of traffic for the pattern's verdict."""
    path = _runs(settings, pattern)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b", buffering=0) as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)  # two senders may end at once
        opened.seek(0)
        there = opened.read()
        content = asdict(run)
        line = json.dumps(content | {CHAIN: _link(_chain_of(there.splitlines()), content)}).encode() + b"\n"
        # A line that a crash cut off must not take this one with it.
        opened.write(line if not there or there.endswith(b"\n") else b"\n" + line)


def runs(settings: Settings, pattern: str) -> list[Run]:
    """The runs of traffic that a pattern's topics hold, oldest first."""
    path = _runs(settings, pattern)
    return [_run(path, number, line) for number, line in enumerate(_lines(path), start=1)]


def gaps(settings: Settings, pattern: str) -> list[str]:
    """Where the record is not as it was written: a line is missing or altered, or has no chain to show it."""
    path, found = _runs(settings, pattern), []
    lines = _lines(path)
    for number, line in enumerate(lines, start=1):
        before, content = _chain_of(lines[: number - 1]), json.loads(line)
        chain = content.pop(CHAIN, None)
        if chain != _link(before, content):
            why = (
                "is altered, or a line before it is missing" if chain else "has no chain to show that it is as written"
            )
            remedy = "restore what was written, or delete this record: its runs have no labels then"
            found.append(f"{path}: line {number} {why}; {remedy}")
    return found


def recorded(
    settings: Settings, variant: Variant, in_force: Mapping[str, Versions] | None = None
) -> tuple[list[Run], Counted]:
    """The runs of traffic and what they add to a verdict; of a damaged record none of them, and why."""
    try:
        found = runs(settings, variant.name)
    except TrafficError as error:
        return [], Counted(unlabelled=(str(error),), unread=str(error))
    return found, counted(variant.use, found, in_force, gaps(settings, variant.name))


def forget(settings: Settings, pattern: str) -> None:
    """Remove the runs of traffic, when the topics that hold them are removed."""
    _runs(settings, pattern).unlink(missing_ok=True)
    _names(settings, pattern).unlink(missing_ok=True)
    arrivals(settings, pattern).unlink(missing_ok=True)


def arrivals(settings: Settings, pattern: str) -> Path:
    """The file in which the listener records when each alert and hop arrived."""
    return settings.state / "patterns" / f"{pattern}.heard.jsonl"


def counted(
    use: UseCase,
    tapes: Sequence[Run],
    in_force: Mapping[str, Versions] | None = None,
    unrecorded: Iterable[str] = (),
) -> Counted:
    """The labels of all runs whose labels hold, and what does not count.

    `unrecorded` are the gaps of the record. `in_force` has since when the jobs run the present version of a rule: of a
    run that began before, its labels do not hold, though traffic was made for them.
    """
    found, late, unlabelled = [], [], []
    for run in tapes:
        if run.lateness:
            late.append(f"no latency of the run '{run.name}' counts: {run.lateness}")
        if "plan" in run.about:
            labelled = labels_in_force(labels(use, run), run, in_force or {})
            if isinstance(labelled, Labels):
                found.append(labelled)
            else:
                unlabelled.append(f"the labels of the run '{run.name}' are unused: {labelled}")
    # A record of nothing, put there later, would excuse latencies of others.
    sent = [run for run in tapes if run.sent]
    return Counted(
        together(found) if found else None,
        tuple(run.start_ms for run in sent),
        tuple(run.span_ms for run in sent if run.lateness),
        (*late, *unlabelled),
        tuple(unlabelled),
        unrecorded=tuple(unrecorded),
    )


def labels_in_force(found: Labels | str, run: Run, in_force: Mapping[str, Versions]) -> Labels | str:
    """The labels of a run for the rules that the jobs ran as they are now, or why none holds."""
    if isinstance(found, str):
        return found
    later = {rule for rule, versions in in_force.items() if run.start_ms < versions.since_ms}
    return found.without(later & found.spans_ms.keys())


def labels(use: UseCase, run: Run) -> Labels | str:
    """The labels of a generated run, or why they do not hold."""
    plan = plan_of(run)
    pinned = run.about.get(RULES)
    if plan is None or pinned is None or use.traffic is None:
        return "it was recorded by another version of millrace; send it again"
    if why := misfit(use.traffic, plan):
        return f"{why}; send it again"
    if why := run.unlabelled(use.traffic.slack_ms):
        return why
    if plan.events > MADE_MOST * run.sent:
        return "its plan gives far more than it sent"
    digest = Digest()

    def messages() -> Iterator[Message]:
        # Any key will do: a secret is no part of a label.
        for message in declared(use).messages(plan, secrets_under(use, b"labels"), run.start_ms):
            digest.add(message)
            yield message

    made = labels_of(use, messages(), run.span_ms)
    if digest.hex != run.digest:
        return "this version generates other traffic from its plan; send it again"
    return made.without({rule.name for rule in use.rules if pinned.get(rule.name) != rule.version})


def _run(path: Path, number: int, line: bytes) -> Run:
    try:
        return Run(**_content(line))
    except (ValueError, TypeError) as error:
        why = str(error).replace("line 1 column", "column")
        raise TrafficError(f"{path}: line {number} is damaged ({why}); remove this line") from None


def _content(line: bytes) -> dict[str, Any]:
    """A line of the record without its chain."""
    content: dict[str, Any] = shapes.read(line, _RUN)
    content.pop(CHAIN, None)
    shapes.read(json.dumps(content["about"]).encode(), _ABOUT)
    return content


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


def _chain_of(lines: Sequence[bytes]) -> str:
    """The chain up to the last legible one of these lines; one of an earlier version has none.

    A damaged line is to be removed, and what follows it is as it was written then.
    """
    for line in reversed(lines):
        try:
            _content(line)
        except (ValueError, TypeError):
            continue
        return str(json.loads(line).get(CHAIN) or hashlib.sha256(line).hexdigest())
    return ""


def _link(before: str, content: Mapping[str, Any]) -> str:
    return hashlib.sha256(before.encode() + json.dumps(content).encode()).hexdigest()


def _runs(settings: Settings, pattern: str) -> Path:
    return settings.state / "patterns" / f"{pattern}.traffic.jsonl"


def _names(settings: Settings, pattern: str) -> Path:
    """The file of the names under which generated traffic has begun, a line each."""
    return settings.state / "patterns" / f"{pattern}.tapes"
