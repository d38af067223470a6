"""For the tests of a use: scenarios, and the labels of its traffic, both without servers.

A scenario is events and the expected outcome as text, played to the oracle.

    == A tenth of a degree above the limit
         0.000  r1  readings  sensor=hall celsius=80.0
         1.000  r2  readings  sensor=hall celsius=80.1
         2.000  r3  again r2
         3.000  r4  readings  sensor=hall
         4.000  r5  readings  is '{"sensor":'
      => overheated r2  celsius=80.1
      => refused r3 duplicate
      => refused r4 missing:celsius
      => refused r5 json

Lines are in order of arrival: SECONDS LINE STREAM FIELD=VALUE..., where STREAM is an event type of the use, reference
data included. SECONDS is the event's time; second 0 is midnight UTC, so windows aligned to 1970 start there. The
event's id is LINE, unless a value is given. A value is text for a text field and JSON for others; a field that is not
given is absent. `token:NAME` is the token of a name. A `#` after a space begins a comment.

    given readings  sensor=hall
         0.000  r1  31 times  readings  celsius=80.0

`given STREAM FIELD=VALUE...` sets the fields that later lines leave out. `N times` makes the events LINE.1 to LINE.N;
in the outcome, LINE stands for all of them. Lines above the first title belong to every scenario of the file. A line
that ends in `spoilt by NAME` is damaged by a function of the test: `scenarios(use, spoiling={NAME: function})`.

The outcome is complete: `=> RULE LINE... [OPERAND=VALUE...]` is an alert on these lines, of a window on all its lines,
and no other alert or refusal occurs. `=> nothing` expects neither. An operand is a field that the rule compares, as in
`celsius=80.1`; a remembered value has `before_` in front, as in `before_most=20`; of a window it is a measure.

A rule on sliding windows alerts once for each window that fulfils it, so a line of the outcome may be repeated. No
event of a scenario is too late for its window: the disorder that a use allows is not played.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import accumulate, product
from pathlib import Path
from typing import Any

from millrace import oracle, project
from millrace.oracle import Event, Finding, Record
from millrace.rules import EventType, RuleError, UseCase, WindowRule
from millrace.rules.nearest import nearest
from millrace.traffic import plan_for
from millrace.traffic.labels import alert_places, labels_of, places_left_out
from millrace.traffic.tokens import secrets_under

MIDNIGHT_MS = 20_718 * 86_400_000

Spoiling = Callable[[Mapping[str, Any]], bytes | None]
"""Turns an event into an invalid message."""

_LINE = re.compile(r"(-?\d+(?:\.\d{1,3})?)\s+(\S+)\s+(?:(\d+)\s+times\s+)?(\S+)\s*(.*)")
_SPOILT = re.compile(r"(|.*\s)spoilt by\s+(.+)")


class ScenarioError(RuleError):
    """A scenario that cannot be read; names the file, the line and the remedy."""


@dataclass(frozen=True)
class Arrival:
    """One message of a scenario."""

    line: str
    stream: EventType
    at_ms: int
    content: Mapping[str, Any] | str
    """The event, or the text of a message that is none."""
    spoil: Spoiling | None = None

    @property
    def key(self) -> bytes:
        return b"" if isinstance(self.content, str) else str(self.content.get(self.stream.key)).encode()

    @property
    def value(self) -> bytes | None:
        if isinstance(self.content, str):
            return self.content.encode()
        return self.spoil(self.content) if self.spoil else json.dumps(self.content).encode()


@dataclass(frozen=True)
class Expected:
    """One outcome: an alert, or a refusal with its reason."""

    subject: str
    """The rule, or `refused`."""
    words: tuple[str, ...]
    operands: Mapping[str, str]


@dataclass(frozen=True)
class Scenario:
    """Some messages and what they must lead to."""

    use: UseCase
    title: str
    arrivals: tuple[Arrival, ...]
    outcome: tuple[Expected, ...]

    def __str__(self) -> str:
        return self.title

    @property
    def expected(self) -> list[str]:
        """The outcome, as `played` gives it."""
        return sorted(_text(each.subject, each.words, each.operands) for each in self.outcome)


def scenarios(use: str, spoiling: Mapping[str, Spoiling] | None = None) -> list[Scenario]:
    """The scenarios in scenarios/*.scenario of a use's folder, for `pytest.mark.parametrize`."""
    declared, folder = _declared(use), project.use_folder(use) / "scenarios"
    found = [each for path in sorted(folder.glob("*.scenario")) for each in read(declared, path, spoiling)]
    if not found:
        raise ScenarioError(f"{folder} has no scenario; write one, as `millrace.testing` describes")
    return found


def read(use: UseCase, path: Path, spoiling: Mapping[str, Spoiling] | None = None) -> list[Scenario]:
    """The scenarios of one file."""
    return list(_Reader(use, path.name, spoiling or {}).scenarios(path.read_text(encoding="utf-8").splitlines()))


def token(name: str) -> str:
    """The token that `token:NAME` stands for."""
    return f"5cea1a10.{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def played(scenario: Scenario) -> list[str]:
    """What the oracle makes of a scenario, with the operands that the scenario names."""
    reasons, findings, _ = _judged(scenario.use, _records(scenario))
    lines = [each.line for each in scenario.arrivals]
    found = [_text("refused", (lines[offset], reason), {}) for offset, reason in reasons.items() if reason is not None]
    found += [_alert(scenario, each, tuple(lines[offset] for _, _, offset in each.origins)) for each in findings]
    return sorted(found)


def has_traffic(use: str) -> bool:
    """Whether a use declares traffic: without it there are no labels to check."""
    return _declared(use).traffic is not None


def untrue_labels(use: str, events: int = 2_000, rate_per_s: float = 100) -> list[str]:
    """The labels of a use's generated traffic that the oracle does not share: with one, no verdict is ok."""
    declared = _declared(use)
    if declared.traffic is None:
        raise ScenarioError(f"use '{use}' has no traffic to be labelled; declare `traffic`")
    plan, secrets = plan_for(declared.traffic, events, rate_per_s), secrets_under(declared, b"labels")
    closing_keys = (declared.traffic.closing_key(plan, 0),)
    references = declared.traffic.references(plan, closing_keys)
    closing = declared.traffic.closing(plan, secrets, MIDNIGHT_MS, closing_keys, 1_000)
    sent = [*references, *declared.traffic.messages(plan, secrets, MIDNIGHT_MS), *closing]
    meant = labels_of(declared, sent, (0, 0)).meant
    reasons, findings, accepted = _judged(
        declared, [Record(m.topic, 0, n, MIDNIGHT_MS + m.due_ms, m.key, m.value) for n, m in enumerate(sent)]
    )
    alerted = {
        (each.rule, place)
        for each in findings
        for places in (
            alert_places(declared, declared.rule(each.rule), vars(each)),
            places_left_out(declared, declared.rule(each.rule), vars(each), lambda: accepted),
        )
        for place in places
    }
    untrue = [
        f"{key} {fact} ({kind}) does not set off {rule}"
        for (rule, (key, fact)), kind in meant.items()
        if (rule, (key, fact)) not in alerted
    ]
    return untrue + [
        f"a message to {each.topic} ({each.label.kind}) is {_fate(reasons[n])}, not {_fate(each.label.refusal)}"
        for n, each in enumerate(sent)
        if reasons[n] != each.label.refusal
    ]


def mute_canaries(use: str, every_s: int = 60, rounds: int = 4) -> list[str]:
    """What two canaries of a use do not set off in a round after the first, and what of them is refused or unmarked."""
    declared = _declared(use)
    if declared.canaries is None:
        raise ScenarioError(f"use '{use}' has no canaries; declare `canaries`")
    mark, secrets = declared.canaries.marks[declared.judged.key], secrets_under(declared, b"canaries")
    keys = [f"{mark}{number}" for number in range(2)]
    starts_ms = [MIDNIGHT_MS + number * every_s * 1_000 for number in range(rounds)]
    sent = [(MIDNIGHT_MS, each) for key in keys for each in declared.canaries.references(key)]
    for start_ms in starts_ms:
        tapes = (declared.canaries.messages(key, secrets, start_ms, every_s * 1_000) for key in keys)
        sent += [(start_ms + each.due_ms, each) for each in merge(*tapes, key=lambda each: each.due_ms)]
    records = [Record(each.topic, 0, n, at_ms, each.key, each.value) for n, (at_ms, each) in enumerate(sent)]
    reasons, findings, _ = _judged(declared, records)
    found = [
        f"a message to {each.topic} is {_fate(reasons[n])}"
        for n, (_, each) in enumerate(sent)
        if reasons[n] is not None
    ]
    found += [f"an alert of {each.rule} has no mark" for each in findings if not declared.is_of_canary(vars(each))]
    for rule in declared.canaries.rules:
        alerted = {
            (each.subject, (each.at_ms - MIDNIGHT_MS) // (every_s * 1_000)) for each in findings if each.rule == rule
        }
        for key, number in product(keys, range(1, rounds)):
            found += [f"round {number} of {key} does not set off {rule}"] if (key, number) not in alerted else []
    return found


def _fate(reason: str | None) -> str:
    return f"refused as {reason}" if reason else "accepted"


def _declared(use: str) -> UseCase:
    if project.FOLDER not in sys.modules:
        project.make_importable()
    if use not in project.uses():
        raise ScenarioError(f"{project.root()} has no use '{use}'; {nearest(use, project.uses())}")
    return project.uses()[use]


def _judged(use: UseCase, records: Sequence[Record]) -> tuple[dict[int, str | None], list[Finding], list[Event]]:
    """The reason of each refusal by offset, None for what is accepted; what all rules find; the enriched events."""
    references: dict[str, dict[str, Event]] = {each.name: {} for each in use.references}
    types = {each.name: each for each in use.references}
    reasons: dict[int, str | None] = {}
    findings: list[Finding] = []
    accepted: list[Event] = []

    def tape() -> Iterator[Record]:
        for record in records:
            if record.topic not in types:
                yield record
            else:
                reasons[record.offset] = oracle.refer(types[record.topic], references[record.topic], record)

    for judged in oracle.judge(use, use.rules, tape(), references):
        reasons[judged.record.offset] = judged.reason
        findings += judged.findings
        if judged.event is not None and judged.record.topic == use.judged.name:
            accepted.append(judged.event)
    for rule in use.rules:
        if isinstance(rule, WindowRule):
            findings += oracle.window_findings(rule, accepted)
    return reasons, findings, accepted


def _records(scenario: Scenario) -> list[Record]:
    # A message arrives when it happens, but never before the line above it.
    arrives_ms = accumulate((each.at_ms for each in scenario.arrivals), max)
    return [
        Record(each.stream.name, 0, offset, now_ms, each.key, each.value)
        for offset, (each, now_ms) in enumerate(zip(scenario.arrivals, arrives_ms, strict=True))
    ]


def _alert(scenario: Scenario, finding: Finding, lines: tuple[str, ...]) -> str:
    named = {
        name
        for each in scenario.outcome
        if each.subject == finding.rule and set(each.words) == set(lines)
        for name in each.operands
    }
    shown = {
        name: str(finding.operands[name]) if name in finding.operands else f"(none; {nearest(name, finding.operands)})"
        for name in named
    }
    return _text(finding.rule, lines, shown)


def _text(subject: str, words: Sequence[str], operands: Mapping[str, str]) -> str:
    shown = [f"{name}={value}" for name, value in sorted(operands.items())]
    ordered = words if subject == "refused" else sorted(words)
    return " ".join((subject, *ordered, *shown))


def _copies(name: str, lines: Iterable[str]) -> list[str]:
    """The lines that a line with `times` has made."""
    return [line for line in lines if re.fullmatch(rf"{re.escape(name)}\.\d+", line)]


class _Reader:
    """Reads a file line by line."""

    def __init__(self, use: UseCase, file: str, spoiling: Mapping[str, Spoiling]) -> None:
        self.use, self.file, self.spoiling, self.number, self.text = use, file, spoiling, 0, ""
        self.streams = {each.name: each for each in (*use.raw, *use.references)}
        self.given: dict[str, dict[str, Any]] = {}

    def scenarios(self, lines: Sequence[str]) -> Iterator[Scenario]:
        title = ""
        shared: list[Arrival] = []
        arrivals: list[Arrival] = shared
        outcome: list[Expected] = []
        for self.number, line in enumerate(lines, start=1):
            self.text = re.sub(r"(^|\s)#.*", "", line).strip()
            if self.text.startswith("=="):
                if title:
                    yield self.scenario(title, arrivals, outcome)
                else:
                    given = self.given
                self.given = {stream: dict(fields) for stream, fields in given.items()}
                title, arrivals, outcome = self.text.removeprefix("==").strip(), [*shared], []
            elif self.text.startswith("=>"):
                outcome.append(self.expected(arrivals))
            elif self.text.split()[:1] == ["given"]:
                self.give(self.words(self.text)[1:])
            elif self.text:
                arrivals.extend(self.arrivals(arrivals))
        if not title:
            raise self.error("there is no scenario; begin one with == and its title")
        yield self.scenario(title, arrivals, outcome)

    def give(self, words: Sequence[str]) -> None:
        """Set fields that later lines leave out."""
        if not words:
            raise self.error("this line gives nothing; write given STREAM FIELD=VALUE...")
        event_type = self.stream(words[0])
        self.given.setdefault(event_type.name, {}).update(self.value(event_type, word) for word in words[1:])

    def scenario(self, title: str, arrivals: Sequence[Arrival], outcome: Sequence[Expected]) -> Scenario:
        if not arrivals or not outcome:
            raise self.error(f"'{title}' needs an event and an outcome; write `=> nothing` if none is expected")
        return Scenario(self.use, title, tuple(arrivals), tuple(each for each in outcome if each.subject != "nothing"))

    def expected(self, arrivals: Sequence[Arrival]) -> Expected:
        subject, *words = self.words(self.text.removeprefix("=>")) or [""]
        known, rules = [each.line for each in arrivals], [rule.name for rule in self.use.rules]
        named = [word for word in words if "=" not in word]
        lines = tuple(line for word in named for line in _copies(word, known) or (word,))
        operands = dict(word.split("=", 1) for word in words if "=" in word)
        match subject:
            case "nothing" if not words:
                return Expected(subject, (), {})
            case "refused" if len(words) == 2 and words[0] in known:
                return Expected(subject, tuple(words), {})
            case _ if subject in rules and lines and set(known).issuperset(lines):
                return Expected(subject, lines, operands)
        raise self.error(
            f"'{self.text}' is not an outcome; write => RULE LINE..., => refused LINE REASON or => nothing; "
            f"rules: {', '.join(rules)}; lines: {', '.join(sorted(known))}"
        )

    def arrivals(self, before: Sequence[Arrival]) -> Iterator[Arrival]:
        """One event, or its copies."""
        match = _LINE.fullmatch(self.text)
        if match is None:
            raise self.error(f"'{self.text}' is not an event; write SECONDS LINE STREAM FIELD=VALUE...")
        seconds, line, times, stream, rest = match.groups()
        known = {each.line: each for each in before}
        at_ms = MIDNIGHT_MS + round(float(seconds) * 1000)
        rest, spoil = self.spoilt(rest)
        for name in [f"{line}.{number}" for number in range(1, int(times) + 1)] if times else [line]:
            if name in known:
                raise self.error(f"there is a line '{name}' above; give this one another name")
            if stream == "again":
                if rest not in known:
                    raise self.error(f"there is no line '{rest}' above; `again` repeats an earlier one")
                yield replace(known[rest], line=name, at_ms=at_ms, spoil=spoil)
            else:
                event_type = self.stream(stream)
                yield Arrival(name, event_type, at_ms, self.content(event_type, name, at_ms, self.words(rest)), spoil)

    def stream(self, name: str) -> EventType:
        if name not in self.streams:
            raise self.error(f"use '{self.use.name}' has no stream '{name}'; {nearest(name, self.streams)}")
        return self.streams[name]

    def spoilt(self, text: str) -> tuple[str, Spoiling | None]:
        """The rest of a line, and what damages its event."""
        match = _SPOILT.fullmatch(text)
        if match is None:
            return text, None
        if match[2] not in self.spoiling:
            raise self.error(f"the test names no way to spoil '{match[2]}'; {nearest(match[2], self.spoiling)}")
        return match[1].strip(), self.spoiling[match[2]]

    def content(self, event_type: EventType, line: str, at_ms: int, words: Sequence[str]) -> dict[str, Any] | str:
        if len(words) == 2 and words[0] == "is":
            return words[1]
        own = {name: value for name, value in ((event_type.id, line), (event_type.time, at_ms)) if name is not None}
        return {**own, **self.given.get(event_type.name, {}), **dict(self.value(event_type, word) for word in words)}

    def value(self, event_type: EventType, word: str) -> tuple[str, Any]:
        name, equals, text = word.partition("=")
        if not equals:
            raise self.error(f"'{word}' is not a field; write FIELD=VALUE, with quotes around a value with spaces")
        try:
            kind = event_type.kind(name)
        except RuleError as error:
            raise self.error(str(error)) from None
        if kind == "text" and text != "null":
            return name, token(text.removeprefix("token:")) if text.startswith("token:") else text
        try:
            return name, json.loads(text)
        except ValueError:
            raise self.error(f"'{word}' is not JSON; '{name}' is a {kind}, so write a number, or null") from None

    def words(self, text: str) -> list[str]:
        try:
            return shlex.split(text)
        except ValueError as error:
            raise self.error(f"'{text}' cannot be split into words: {error}") from None

    def error(self, complaint: str) -> ScenarioError:
        return ScenarioError(f"{self.file}, line {self.number}: {complaint}")
