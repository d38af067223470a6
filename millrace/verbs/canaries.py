"""`canaries` sends a pattern its canaries, round by round, and records which rules they set off and how long that took.

A rule is alive while the canary of each partition sets it off. What was found is in two files of the state folder: the
newest of each rule and key, for `--status` and `/metrics`, and a line for each round, which stays.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from heapq import merge
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from millrace import deployments
from millrace.alerts import rules_of
from millrace.errors import InfraError, UsageError
from millrace.oracle import Record
from millrace.patterns import Variant
from millrace.patterns import topics as topics_of
from millrace.rules import ALERTS, WindowRule
from millrace.rules.canaries import Canaries
from millrace.settings import CANARIES_EVERY_S, Settings
from millrace.stores.topics import Publisher, Tail
from millrace.target import Target
from millrace.traffic import Message
from millrace.verbs import companions, traffic
from millrace.verbs.provision import require_provisioned
from millrace.verbs.sending import closing_keys
from millrace.verify import Bounds
from millrace.whole_files import write_whole

SILENT_AFTER_ROUNDS = 2
STARTS_AFTER_S = 3.0
"""The reference data of a canary has so long to reach the jobs before its first event."""
READS_EVERY_S = 2.0
UNDISTURBED_MS = 1_500
"""So long before a message is due nothing is read, which could delay it."""
RETRIED_AFTER_S = 5.0


@dataclass(frozen=True)
class Answer:
    """The newest alert of one rule on one canary."""

    arrived_ms: int
    at_ms: int
    latency_ms: int
    """From the intended send of its event, or from the end of its window."""


@dataclass(frozen=True)
class State:
    """What is known of the canaries of a pattern."""

    every_s: float
    since_ms: int
    """Since when they are sent without a gap: no rule is silent for longer."""
    keys: tuple[str, ...]
    sent_ms: int = 0
    """The start of the newest round that Kafka has acknowledged."""
    problem: str = ""
    """Why the round after it was not sent whole."""
    answers: Mapping[str, Mapping[str, Answer]] = field(default_factory=dict)
    """Rule -> key -> its newest alert."""
    began_ms: Mapping[str, int] = field(default_factory=dict)
    """Since when the keys of partitions that were added are sent."""


@dataclass(frozen=True)
class RuleStatus:
    """Whether a rule is alive, by the canary that has not set it off for the longest."""

    rule: str
    status: Literal["alive", "awaited", "silent", "unwatched"]
    """`awaited`: sent for less than two rounds, and it was not set off yet; `unwatched`: no canary of the use does."""
    key: str = ""
    silent_s: float | None = None
    latency_ms: int | None = None
    """The longest of the newest alerts of all keys."""


@dataclass(frozen=True)
class Status:
    """Whether a pattern without alerts is quiet or broken."""

    status: Literal["alive", "silent", "unknown"]
    why: str
    rules: tuple[RuleStatus, ...] = ()
    counting: tuple[str, ...] = ()
    """Summaries of the pattern that count canaries beside others."""
    limit_s: float = 0
    """For longer than this no rule may be silent."""


def declared(variant: Variant) -> Canaries:
    """The canaries of a pattern's use."""
    if variant.use.canaries is None:
        raise UsageError(f"the use '{variant.use.name}' declares no canaries; see docs/declarations.md")
    return variant.use.canaries


def send(
    target: Target,
    name: str,
    *,
    every_s: float = CANARIES_EVERY_S,
    until: Callable[[], bool] = lambda: False,
    report: Callable[[str], None] = lambda line: None,
) -> None:
    """Send rounds until `until` holds after one; a server that is away is awaited."""
    variant = deployments.as_deployed(target, name)
    declared(variant)
    lock = companions.lock_of(target, name, deployments.CANARIES)
    with companions.only_one(lock, f"{name}: canaries are sent already; see `millrace canaries {name} --status`"):
        if read(target.settings, name) is None:
            # From here on the silence grows, though the first round may never be sent.
            _write(target.settings, name, State(every_s, _now_ms(), _keys(variant)))
        try:
            _send(target, variant, every_s, until, report)
        except KeyboardInterrupt:
            stopped(target.settings, name)
            raise


def _send(
    target: Target, variant: Variant, every_s: float, until: Callable[[], bool], report: Callable[[str], None]
) -> None:
    name, problem = variant.name, ""
    while True:
        try:
            with closing(_Sender(target, variant, every_s)) as sender:
                problem = ""
                report(f"canaries of {name}: {', '.join(sender.state.keys)}, every {every_s:g} s")
                while True:
                    sender.round()
                    if until():
                        return
        except InfraError as error:
            if str(error) != problem:
                report(str(error))
            problem = str(error)
            if (state := read(target.settings, name)) is not None:
                _write(target.settings, name, replace(state, problem=problem))
            time.sleep(RETRIED_AFTER_S)


def status(settings: Settings, variant: Variant, now_ms: int | None = None) -> Status:
    """Whether each rule of a pattern was set off by its canaries within two rounds."""
    canaries, state = declared(variant), read(settings, variant.name)
    counting = tuple(
        each.name for each in variant.use.counting_canaries if each.name in variant.pattern.stages.windowing.summaries
    )
    if state is None:
        return Status("unknown", f"no canaries are sent; `millrace deploy {variant.name} --canaries` starts them")
    now_ms = _now_ms() if now_ms is None else now_ms
    limit_s = SILENT_AFTER_ROUNDS * state.every_s
    rules = tuple(_status_of(rule, canaries, state, now_ms, limit_s) for rule in rules_of(variant))
    if (newest_ms := _newest_ms(state)) > now_ms + Bounds.clocks_ms:
        why = f"{_file(settings, variant.name)} names {newest_ms} as a moment, which is still to come"
        return Status("unknown", why, rules, counting, limit_s)
    silent = [each for each in rules if each.status == "silent"]
    sent_s = (now_ms - max(state.sent_ms, state.since_ms)) / 1000
    if sent_s > limit_s:
        log = settings.state / "logs" / f"{deployments.CANARIES.of(variant.name)}.log"
        why = state.problem or f"see `millrace status` for the watcher, and {log}"
        return Status("unknown", f"no canary was sent for {sent_s:.0f} s: {why}", rules, counting, limit_s)
    if silent:
        named = ", ".join(f"{each.rule} ({each.key}, {each.silent_s:.0f} s)" for each in silent)
        return Status("silent", f"broken: canaries were sent, and did not set off {named}", rules, counting, limit_s)
    if awaited := [each.rule for each in rules if each.status == "awaited"]:
        return Status("unknown", f"canaries have yet to set off {', '.join(awaited)}", rules, counting, limit_s)
    unwatched = [each.rule for each in rules if each.status == "unwatched"]
    if len(unwatched) == len(rules):
        return Status("unknown", "no canary sets off a rule of this pattern", rules, counting, limit_s)
    of = f"each rule but {', '.join(unwatched)}, which no canary sets off," if unwatched else "each rule"
    return Status("alive", f"{of} was set off in each partition within {limit_s:g} s", rules, counting, limit_s)


def read(settings: Settings, name: str) -> State | None:
    """What is known of a pattern's canaries; None if none are sent."""
    try:
        content = json.loads(_file(settings, name).read_text(encoding="utf-8"))
        answers = {rule: {key: Answer(**each) for key, each in own.items()} for rule, own in content["answers"].items()}
        return State(**{**content, "keys": tuple(content["keys"]), "answers": answers})
    except (FileNotFoundError, ValueError, TypeError, LookupError):
        return None  # a file that was damaged is written anew with the next round


def stopped(settings: Settings, name: str) -> None:
    """Forget the state of canaries that are no longer sent; what their rounds found stays."""
    _file(settings, name).unlink(missing_ok=True)


def forget(settings: Settings, name: str) -> None:
    """Remove all that is recorded of a pattern's canaries."""
    stopped(settings, name)
    for series in _folder(settings).glob(f"{name}.*.jsonl"):
        series.unlink()


def written_as(mark: str) -> bytes:
    """The beginning of a mark that all writers of JSON leave as it is: most alerts lack it, and are not parsed."""
    found = re.match(r"[A-Za-z0-9 _.:-]*", mark)
    return found[0].encode() if found else b""


class _Sender:
    """Sends rounds to the topics of a pattern, and reads its alerts meanwhile."""

    def __init__(self, target: Target, variant: Variant, every_s: float) -> None:
        require_provisioned(target, variant)
        self._settings, self._variant, self._canaries = target.settings, variant, declared(variant)
        self._every_ms = round(every_s * 1000)
        self._rules = rules_of(variant)
        self._topics = topics_of(variant)
        self._secrets = traffic.secrets_of(target.settings, variant.use)
        keys = _keys(variant)
        self._mark = written_as(self._canaries.marks[variant.use.judged.key])
        self._publisher = Publisher(target.bootstrap)
        self._publish(message for key in keys for message in self._canaries.references(key))
        self.state = self._continued(State(every_s, _now_ms(), keys))
        self._tail = Tail(target.bootstrap, {ALERTS.name: self._topics[ALERTS.name]})
        self._latest = {rule: dict(own) for rule, own in self.state.answers.items()}
        self._of_round: dict[str, list[int]] = {}
        self._tail.skip_to(_now_ms() - round(SILENT_AFTER_ROUNDS * self._every_ms))
        self._read()
        self._starts = time.monotonic() + STARTS_AFTER_S

    def close(self) -> None:
        self._tail.close()

    def round(self) -> None:
        """Send one round, read alerts until the next one is due, and write down what came."""
        self._await(self._starts)
        # Not from when it was due: after a pause of this process no rounds are made up for.
        began, start_ms, self._of_round = time.monotonic(), _now_ms(), {}
        self._starts = began + self._every_ms / 1000
        rounds = (self._canaries.messages(key, self._secrets, start_ms, self._every_ms) for key in self.state.keys)
        for due_ms, messages in groupby(merge(*rounds, key=lambda each: each.due_ms), key=lambda each: each.due_ms):
            self._await(began + due_ms / 1000)
            self._publish(messages)
            if self.state.sent_ms < start_ms:
                self._write(replace(self.state, sent_ms=start_ms, problem=""))
        self._await(self._starts)
        line = {rule: {"alerts": len(own), "latency_ms": max(own, default=None)} for rule, own in self._counted()}
        with _series(self._settings, self._variant.name, start_ms).open("a", encoding="utf-8") as opened:
            opened.write(json.dumps({"at_ms": start_ms, "rules": line}) + "\n")

    def _counted(self) -> Iterator[tuple[str, list[int]]]:
        yield from ((rule, self._of_round.get(rule, [])) for rule in self._rules if rule in self._canaries.rules)

    def _await(self, moment: float) -> None:
        while (left_s := moment - time.monotonic()) > 0:
            if left_s * 1000 > UNDISTURBED_MS:
                self._read()
                left_s = min(moment - time.monotonic(), READS_EVERY_S)
            time.sleep(max(0.0, left_s))

    def _publish(self, messages: Iterable[Message]) -> None:
        self._publisher.publish((self._topics[each.topic], each.key, each.value) for each in messages)

    def _read(self) -> None:
        """Take in the alerts that came; a copy of an older one is no sign of life."""
        is_new = False
        for record in self._tail.new():
            is_new |= self._take(record)
        if is_new:
            self._write(replace(self.state, answers=self._latest))

    def _take(self, record: Record) -> bool:
        if self._mark not in (record.value or b""):
            return False
        try:
            alert = json.loads(record.value or b"")
            rule, key, at_ms = alert["rule"], alert["subject"], alert["at_ms"]
            if key not in self.state.keys or rule not in self._rules:
                return False
            # A forged one would hide all later ones.
            if at_ms > record.ingest_ms + SILENT_AFTER_ROUNDS * self._every_ms + Bounds.clocks_ms:
                return False
            own = self._latest.setdefault(rule, {})
            if key in own and at_ms <= own[key].at_ms:
                return False
            latency_ms = self._latency_ms(record.ingest_ms, alert)
            own[key] = Answer(record.ingest_ms, at_ms, latency_ms)
        except (ValueError, TypeError, LookupError):
            return False  # `verify` reports messages that are no alerts
        self._of_round.setdefault(rule, []).append(latency_ms)
        return True

    def _latency_ms(self, arrived_ms: int, alert: Mapping[str, Any]) -> int:
        rule = self._rules[alert["rule"]]
        if isinstance(rule, WindowRule):
            return arrived_ms - rule.window.end_ms(alert["window_start_ms"], alert["at_ms"])
        return int(arrived_ms - (alert["ingest_ms"] if alert.get("sent_ms") is None else alert["sent_ms"]))

    def _continued(self, state: State) -> State:
        """The state of a sender that follows another one without a gap: a rule that is silent stays so."""
        before = read(self._settings, self._variant.name)
        if before is None or _newest_ms(before) > state.since_ms + Bounds.clocks_ms:
            return state
        if state.since_ms - before.sent_ms > SILENT_AFTER_ROUNDS * state.every_s * 1000:
            return state
        began_ms = {key: before.began_ms.get(key, 0) if key in before.keys else state.since_ms for key in state.keys}
        return replace(before, every_s=state.every_s, keys=state.keys, began_ms=began_ms)

    def _write(self, state: State) -> None:
        self.state = state
        _write(self._settings, self._variant.name, state)


def _keys(variant: Variant) -> tuple[str, ...]:
    """A key of a canary for each partition."""
    mark = declared(variant).marks[variant.use.judged.key]
    return tuple(closing_keys(lambda number: f"{mark}{number}", variant.pattern.partitions))


def _newest_ms(state: State) -> int:
    """The newest moment that a state names."""
    arrived_ms = (each.arrived_ms for own in state.answers.values() for each in own.values())
    return max(state.since_ms, state.sent_ms, *arrived_ms)


def _status_of(rule: str, canaries: Canaries, state: State, now_ms: int, limit_s: float) -> RuleStatus:
    if rule not in canaries.rules:
        return RuleStatus(rule, "unwatched")
    own = state.answers.get(rule, {})
    signs_ms = {key: _sign_ms(own[key], limit_s) if key in own else 0 for key in state.keys}
    since_ms = {key: max(state.since_ms, state.began_ms.get(key, 0)) for key in state.keys}
    last_ms = {key: max(sign_ms, since_ms[key]) for key, sign_ms in signs_ms.items()}
    key = min(last_ms, key=last_ms.__getitem__)
    silent_s = round((now_ms - last_ms[key]) / 1000, 1)
    latency_ms = max((each.latency_ms for each in own.values()), default=None)
    is_set_off = all(sign_ms >= since_ms[key] for key, sign_ms in signs_ms.items())
    within: Literal["alive", "awaited"] = "alive" if is_set_off else "awaited"
    return RuleStatus(rule, "silent" if silent_s > limit_s else within, key, silent_s, latency_ms)


def _sign_ms(answer: Answer, limit_s: float) -> int:
    """Of when an alert is a sign of life: one that comes later than two rounds shows what was alive when it was due."""
    is_late = answer.latency_ms > limit_s * 1000
    return answer.arrived_ms - answer.latency_ms if is_late else answer.arrived_ms


def _write(settings: Settings, name: str, state: State) -> None:
    write_whole(_file(settings, name), json.dumps(asdict(state)))


def _folder(settings: Settings) -> Path:
    return settings.state / "canaries"


def _file(settings: Settings, name: str) -> Path:
    return _folder(settings) / f"{name}.json"


def _series(settings: Settings, name: str, at_ms: int) -> Path:
    """The file of a month's rounds."""
    _folder(settings).mkdir(parents=True, exist_ok=True)
    return _folder(settings) / f"{name}.{time.strftime('%Y-%m', time.gmtime(at_ms / 1000))}.jsonl"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
