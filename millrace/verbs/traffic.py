"""`traffic` sends labelled events to a pattern while a listener times its outputs, and records the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from millrace.patterns import load
from millrace.patterns import topics as topics_of
from millrace.settings import Settings
from millrace.target import Target
from millrace.verbs import cost
from millrace.verbs.listening import listening
from millrace.verbs.sending import Digest, Load, Run, TrafficError, send
from millrace.verify import Bounds
from pipelines.fraud.rules import FRAUD, burst
from pipelines.fraud.tokens import Tokens, ensure_key
from pipelines.fraud.traffic import Message, TrafficPlan, closing, references
from pipelines.fraud.traffic import traffic as generate
from pipelines.fraud.traffic.replay import Replay, read_replay
from pipelines.fraud.traffic.stage import PHONE_LEAD_MS

CLOSING_MS = burst.window.closes_after_ms + FRAUD.disorder_ms + Bounds().closing_ms + 3_000
"""How long small purchases continue after the traffic: without them the last bursts would never be complete."""


def traffic(target: Target, name: str, wanted: Load, *, report: Callable[[str], None] = lambda line: None) -> Run:
    """Send a load to a pattern and record the run for its verdict.

    Ctrl-C ends it early, and the run is then marked as incomplete.
    """
    target.require_traffic_allowed()
    settings, topics = target.settings, topics_of(load(name))
    before = cost.cpu_seconds(settings, name)
    with listening(target.bootstrap, topics, arrivals(settings, name)):
        run = send(target.bootstrap, topics, wanted, report=report)
    cpu_s = cost.spent(before, cost.cpu_seconds(settings, name))
    run = replace(run, about={**run.about, "cpu_s": cpu_s})
    keep(settings, name, run)
    return run


def wanted_load(settings: Settings, plan: TrafficPlan, file: Path | None = None, speed: float = 1.0) -> Load:
    """The load of a plan, or of a file, which is read and checked whole before any of it is sent."""
    tokens = card_tokens(settings)
    return replayed(read_replay(file, tokens), file, speed) if file else generated(plan, tokens)


def generated(plan: TrafficPlan, tokens: Tokens, closing_ms: int = CLOSING_MS) -> Load:
    """Traffic generated from a plan."""

    def messages(start_ms: int, names: Sequence[str]) -> Iterator[Message]:
        yield from generate(plan, tokens, start_ms)
        yield from closing(plan, tokens, start_ms, names, closing_ms)

    return Load(plan.name, {"plan": asdict(plan)}, lambda names: references(plan, names), messages)


def replayed(replay: Replay, source: Path, speed: float = 1.0) -> Load:
    """Traffic that was recorded in a file."""
    return Load(
        source.stem,
        {"file": source.name, "speed": speed},
        lambda names: replay.references,
        lambda start_ms, names: replay.messages(start_ms, speed),
    )


def card_tokens(settings: Settings) -> Tokens:
    """The tokens of this stack, under a key that is made when it is first needed."""
    return ensure_key(settings.state / "conf" / "card.key")


def keep(settings: Settings, pattern: str, run: Run) -> None:
    """Record a run of traffic for the pattern's verdict."""
    path = _runs(settings, pattern)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as opened:
        opened.write(json.dumps(asdict(run)) + "\n")


def runs(settings: Settings, pattern: str) -> list[Run]:
    """The runs of traffic that a pattern's topics hold, oldest first."""
    path = _runs(settings, pattern)
    try:
        return [Run(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError) as error:
        raise TrafficError(f"{path} is damaged ({error}); remove the line, or delete the file") from None


def forget(settings: Settings, pattern: str) -> None:
    """Remove the runs of traffic, when the topics that hold them are removed."""
    _runs(settings, pattern).unlink(missing_ok=True)
    arrivals(settings, pattern).unlink(missing_ok=True)


def arrivals(settings: Settings, pattern: str) -> Path:
    """The file in which the listener records when each alert and hop arrived."""
    return settings.state / "patterns" / f"{pattern}.heard.jsonl"


def is_punctual(run: Run) -> bool:
    """Whether everything was sent early enough for its labels to hold."""
    worst = run.behind_ms.get("max_ms")
    return run.is_complete and isinstance(worst, int | float) and worst < PHONE_LEAD_MS / 2


def labels(found: Iterable[Run]) -> dict[str, tuple[str, ...]] | None:
    """The expected alerts of all runs that were punctual; None if none of them has labels."""
    made = [labels_of(run) for run in found if is_punctual(run)]
    return {identity: rules for each in made for identity, rules in each.items()} if any(made) else None


def labels_of(run: Run) -> dict[str, tuple[str, ...]]:
    """Transaction id -> the rules that it was made to set off; empty where the traffic cannot be generated again."""
    if "plan" not in run.about:
        return {}
    digest, found = Digest(), {}
    # Any key will do: a card is no part of a label.
    for message in generate(TrafficPlan(**run.about["plan"]), Tokens(b"labels"), run.start_ms):
        digest.add(message)
        if message.label.alerts and message.value:
            found[json.loads(message.value)["transaction_id"]] = message.label.alerts
    # Another version of the generator makes other traffic of the same plan.
    return found if digest.hex == run.digest else {}


def _runs(settings: Settings, pattern: str) -> Path:
    return settings.state / "patterns" / f"{pattern}.traffic.jsonl"
