"""Engines agree with the oracle on invented rules: in each round one use of many rules, on all engines at once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from millrace import registry
from millrace.settings import Settings
from tests.beside import beside
from tests.second.invented import Invented
from tests.uses.invented_tape import invent, only, plan, source
from tests.uses.team import Team

SEED = 20261125
SECONDS = 8.0
TRIES = 4
ENGINES = ("flink", "streams", "spark", "storm")
KEPT: Sequence[Invented] = (
    # Numbers that leave their kinds, and windows that read what the enrichment adds.
    Invented(
        "wide",
        has_ids=False,
        alert_when=("((now.whole + 9223372036854775807) > 0)", "((now.latitude * 1e300) > 0.0)"),
        adds=(("x0", "(now.latitude * 1e300)"), ("x1", "(now.whole * -1)")),
        windows=(("key", "Tumbling(200)", (("m0", "Max('x0')"), ("m1", "Sum('source_partition')")), "(w.m0 > 1.0)"),),
        summaries=((("whole",), "Tumbling(200)", (("m0", "Last('x0')"), ("m1", "Sum('x1')"))),),
    ),
    # Many events of one window have the same id: those of other keys.
    Invented(
        looks_up=True,
        windows=(("label", "Tumbling(4000)", (("n", "Count()"),), "(w.n > 0)"),),
    ),
)
"""Uses on which an engine once differed; the first rounds try them."""

pytestmark = [pytest.mark.stack, pytest.mark.drill, pytest.mark.timeout(3600)]

Red = Mapping[str, Mapping[str, Any]]
"""The checks that are not ok, by engine and name."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        seed = int(os.environ.get("MILLRACE_SEED", SEED))
        metafunc.parametrize("case", [*KEPT, *range(seed, seed + metafunc.config.getoption("--rounds"))])


def test_engines_agree_with_the_oracle_on_invented_rules(stack: Settings, tmp_path: Path, case: Invented | int) -> None:
    invented, seed = (case, SEED) if isinstance(case, Invented) else (invent(case), case)
    red = differing(stack, tmp_path / "all", invented, seed, SECONDS, ENGINES)
    lines = [line for engine in red for line in reduced(stack, tmp_path / engine, invented, seed, engine, red[engine])]
    if lines:  # an assertion would repeat them
        raise AssertionError("\n".join(lines))


def test_a_rule_that_differs_on_the_engines_is_found(stack: Settings, tmp_path: Path) -> None:
    """The engines run another condition under the same version."""
    invented = Invented(alert_when=("(now.whole > 0)", "(now.whole > 1)"))
    fixed = "class Fixed(EventRule):\n    version = 'fixed'\n"
    judged = source(invented).replace("RULES =", f"{fixed}RULES =").replace("    EventRule", "    Fixed")
    run = judged.replace("(now.whole > 0)", "(now.whole >= 0)")
    red = differing(stack, tmp_path, invented, SEED, 2.0, ENGINES, (run, judged))
    assert {engine: [*checks] for engine, checks in red.items()} == {
        engine: ["enrichment", "alerts: event-0"]  # an enriched event has the names of the rules that it set off
        for engine in ENGINES
    }


def differing(
    stack: Settings,
    folder: Path,
    invented: Invented,
    seed: int,
    seconds: float,
    engines: Sequence[str],
    sources: tuple[str, str] | None = None,
) -> Red:
    """The checks that are not ok of a use on engines; `sources` are what they run and what is judged."""
    run, judged = sources or (source(invented),) * 2
    use = folder / "pipelines/invented"
    (use / "patterns").mkdir(parents=True)
    (use / "rules.py").write_text(run)
    (use / "__init__.py").write_text("from .rules import INVENTED\n\n__all__ = ['INVENTED']\n")
    for engine in engines:
        (use / f"patterns/invented-{engine}.yaml").write_text(pattern(invented, engine))
    names = {f"invented-{engine}": engine for engine in engines}
    extra = [engine for engine in engines if not registry.manifest(engine).is_default]
    with (
        beside(stack, extra),
        Team(stack, folder).proven(
            names,
            lambda name: plan(name, invented, seed, seconds),
            exits=(0, 1),
            before_verdict=lambda: (use / "rules.py").write_text(judged),
        ) as verdicts,
    ):
        for name, verdict in verdicts.items():
            for each in verdict["checks"]:
                print(names[name], each["name"], each["status"], each["figures"], *each["offenders"][:3])
        red = {
            names[name]: {each["name"]: each for each in verdict["checks"] if each["status"] != "ok"}
            for name, verdict in verdicts.items()
        }
    return {engine: checks for engine, checks in red.items() if checks}


def pattern(invented: Invented, engine: str) -> str:
    """The file of a pattern in which one engine runs everything; without windows, where it has none."""
    on_windows = [name for name in invented.names if name.startswith("window-")]
    summaries = [name for name in invented.names if name.startswith("summary-")]
    on_events = [name for name in invented.names if name.startswith("event-")]
    stages: dict[str, Any] = {"events": {"engine": engine, "rules": on_events}}
    if (on_windows or summaries) and engine in registry.able_to(registry.WINDOWS):
        stages["windows"] = {"engine": engine, "rules": on_windows, "summaries": summaries}
    promises = {"delivery": "at-least-once-with-ids", "alert_latency_ms_p99": 30_000}
    about = {"title": f"Invented rules on {engine}", "doc": "For tests.", "use": "invented", "partitions": 2}
    return json.dumps({**about, "stages": stages, "promises": promises})


def reduced(
    stack: Settings, folder: Path, invented: Invented, seed: int, engine: str, checks: Mapping[str, Any]
) -> Iterator[str]:
    """Lines on the fewest rules and the shortest tape on which the engine still differs."""
    seconds = SECONDS
    for number in range(TRIES):
        names = {name.rpartition(" ")[2] for name in checks} & {*invented.names}
        smaller = only(invented, names) if names else invented
        fewer_s = seconds if smaller != invented else seconds / 2
        red = differing(stack, folder / str(number), smaller, seed, fewer_s, (engine,))
        if engine not in red:
            yield f"# it agrees on {smaller!r} and {fewer_s} s"
            break
        invented, seconds, checks = smaller, fewer_s, red[engine]
    yield f"MILLRACE_SEED={seed} {engine} {seconds} s: {invented!r}"
    for name, check in checks.items():
        yield f"    {name}: {check['status']} {check.get('why', '')} {check['figures']} {check['offenders'][:3]}"
