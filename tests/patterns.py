"""Patterns of the tests' own, beside those of the project: smaller, so that a deploy takes seconds."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from millrace.patterns import load, model
from millrace.patterns import topics as topics_of
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.traffic.runs import Run
from millrace.verbs import sending, traffic
from millrace.verify import Verdict


@contextmanager
def own_patterns(folder: Path, patterns: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """In place of the project's patterns, these: a name, and the keys in which its file differs from that of `of`."""
    for name, changes in patterns.items():
        said = yaml.safe_load(model.files()[changes["of"]].read_text(encoding="utf-8"))
        for key, value in changes.items():
            if key != "of":
                said[key] = said[key] | value if isinstance(value, dict) else value
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(said), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(model, "folders", lambda: [folder])
        yield


SETTLED_AFTER_S = 300.0
"""On a busy machine a batch of one of three drivers has taken two minutes, in which nothing new comes to its stores."""
HELD_UP = "after it was due, and labels hold for less than"
"""A machine that is busy or paused holds a sender up, and the verdict then rests on the oracle without labels."""


def counts(verdict: Verdict) -> dict[str, Any]:
    """What a verdict counts of losses and copies; one that is ok without the check of absences has no loss."""
    conserved = verdict.check("conservation").figures
    absent = next((check.figures for check in verdict.checks if check.name == "absences"), {})
    of_state = ("alerts absent for lost state", "alerts that rest on lost state")
    return {
        **{name: conserved[name] for name in ("accepted", "copies")},
        **{name: absent.get(name, 0) for name in ("events lost", "refusals lost", "alerts lost", *of_state)},
    }


def problems(verdict: Verdict) -> list[str]:
    """What is not ok, but for labels that are unused because the machine held the sender up."""
    return [
        f"{check.name} {check.status}: {check.why} {check.offenders[:3]}"
        for check in verdict.checks
        if check.status != "ok" and not (check.name == "labels" and check.status == "unknown" and HELD_UP in check.why)
    ]


class Sender(threading.Thread):
    """Labelled traffic for a pattern, sent meanwhile and remembered for its verdict."""

    def __init__(self, target: Target, pattern: str, tape: str, seconds: float, closing_ms: int = 0) -> None:
        super().__init__(name=f"traffic {tape}", daemon=True)
        self._target, self._pattern, self._closing_ms = target, pattern, closing_ms
        shape = traffic.declared(load(pattern).use)
        self._plan = plan_for(shape, events=int(100 * seconds), rate_per_s=100, name=tape)
        self._run: Run | None = None
        self.start()

    def run(self) -> None:
        variant = load(self._pattern)
        secrets = traffic.secrets_of(self._target.settings, variant.use)
        load_ = traffic.generated(variant.use, self._plan, secrets, self._closing_ms)
        self._run = sending.send(self._target.bootstrap, topics_of(variant), load_, hop_per_s=0)

    def end(self, within_s: float = 300) -> None:
        """Return when all is sent."""
        self.join(within_s)
        assert self._run is not None, f"{self.name} was not sent within {within_s} s"
        assert self._run.is_complete
        traffic.keep(self._target.settings, self._pattern, self._run)
