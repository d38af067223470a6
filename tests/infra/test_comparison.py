"""`compare` shows what was measured of two patterns on one tape, and refuses tapes that differ."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from millrace import records
from millrace.cli.compare import figures
from millrace.errors import InfraError, UsageError
from millrace.settings import PROJECT, Settings
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.traffic.runs import Run
from millrace.verbs import traffic
from millrace.verbs.comparison import compare, shared
from pipelines.fraud.traffic import TRAFFIC


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target.read(Settings(PROJECT, tmp_path / "home", tmp_path / "state", 28200), {})


def sent(target: Target, pattern: str, seed: int = 3, **shares: float) -> None:
    plan = plan_for(TRAFFIC, events=1_000, rate_per_s=100, seed=seed, name="tape-1", **shares)
    about = {"plan": asdict(plan), "cpu_s": {"flink": 12.0}}
    traffic.keep(target.settings, pattern, Run(about, 0, 1_000, {}, 10.0, 100.0, {}, True))


def judged(target: Target, pattern: str, p99_ms: float) -> None:
    latencies = [{"name": "bare hop", "count": 9, "p50_ms": 1.0, "p99_ms": p99_ms}]
    records.append(target.settings, f"verdict-{pattern}", {"status": "ok", "latencies": latencies})


def test_the_figures_of_both_stand_side_by_side(target: Target) -> None:
    for pattern, p99_ms in (("flink", 9.0), ("spark", 1_200.0)):
        sent(target, pattern)
        judged(target, pattern, p99_ms)
    assert list(figures(compare(target, "flink", "spark", "tape-1"))) == [
        ("tape tape-1", "flink", "spark"),
        ("verdict", "ok", "ok"),
        ("events", "1,000", "1,000"),
        ("processor time of flink in s", "12", "12"),
        ("bare hop, p50 / p99 in ms", "1 / 9", "1 / 1,200"),
    ]


def test_a_pattern_without_a_verdict_is_shown_as_unknown(target: Target) -> None:
    for pattern in ("flink", "spark"):
        sent(target, pattern)
    judged(target, "flink", 9.0)
    shown = list(figures(compare(target, "flink", "spark", "tape-1")))
    assert ("verdict", "ok", "unknown") in shown
    assert ("bare hop, p50 / p99 in ms", "1 / 9", "- / -") in shown


def test_tapes_that_differ_or_are_missing_are_refused(target: Target) -> None:
    sent(target, "flink", seed=3)
    with pytest.raises(InfraError, match="spark was not sent the tape 'tape-1'; `millrace traffic spark"):
        compare(target, "flink", "spark", "tape-1")
    sent(target, "spark", seed=4)
    with pytest.raises(InfraError, match="not the same tape: seed was 3 for flink and 4 for spark"):
        compare(target, "flink", "spark", "tape-1")
    sent(target, "spark", poison=0.2)
    with pytest.raises(InfraError, match=r"not the same tape: poison was 0\.01 for flink and 0\.2 for spark"):
        compare(target, "flink", "spark", "tape-1")
    with pytest.raises(UsageError, match="flink was named twice"):
        compare(target, "flink", "flink", "tape-1")


def test_the_tapes_that_several_patterns_were_sent_are_found(target: Target) -> None:
    sent(target, "flink", seed=3)
    assert shared(target.settings, ["flink", "spark", "streams"]) == []
    sent(target, "spark", seed=4)
    assert shared(target.settings, ["flink", "spark", "streams"]) == [], (
        "under the name of the tape another one was sent"
    )
    sent(target, "streams", seed=3)
    ((tape, runs),) = shared(target.settings, ["flink", "spark", "streams"])
    assert (tape, list(runs)) == ("tape-1", ["flink", "streams"])


def test_a_tape_of_before_plans_had_shares_is_refused_with_the_remedy(target: Target) -> None:
    plan = {"events": 1_000, "rate_per_s": 100, "seed": 3, "name": "tape-1", "customers": 0, "poison_share": 0.01}
    for pattern in ("flink", "spark"):
        traffic.keep(target.settings, pattern, Run({"plan": plan}, 0, 1_000, {}, 10.0, 100.0, {}, True))
    with pytest.raises(InfraError, match="the tape 'tape-1' by another version of millrace; send it again under a new"):
        compare(target, "flink", "spark", "tape-1")
