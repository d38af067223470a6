"""Measure how Spark's per-event stage keeps up with live traffic, with its memory in Java and in Python.

`python -m lab.choices.spark_at_pace` sends the same labelled traffic to each, one after the other, and leaves a record:
the verdict, latencies, and what the batches took meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from lab.bench import described, measured
from lab.choices.spark_in_python import DRIVERS, memory
from lab.cost import DECLARED
from millrace import records, stack
from millrace.patterns import load
from millrace.settings import PORTS_PER_STACK, Settings
from millrace.stack.services import needed
from millrace.target import Target
from millrace.verify.latency import latency

PATTERN = "spark-events"
QUERY = "events"
LOOK_EVERY_S = 0.25
SIDES = (DECLARED, *DRIVERS)

Batches = dict[int, dict[str, Any]]
"""What the driver has reported of its batches, by their ids: of short ones it reports a part."""


def main(argv: Sequence[str]) -> int:
    given = _arguments(argv)
    os.environ["MILLRACE_PATTERNS"] = str(Path(__file__).parent / "patterns")
    own = Settings.read(os.environ)
    settings = replace(own, state=own.state / "pace", port_base=own.port_base + PORTS_PER_STACK)
    stack.down(settings, purge=True)
    figures = {}
    try:
        variant = load(PATTERN)
        stack.up(settings, needed(variant.engines, variant.stores), report=_report)
        target = Target.read(settings, {})
        for side in SIDES:
            with memory(side) if side in DRIVERS else nullcontext(), looking(settings) as batches:
                found = measured(target, variant, given.events, given.rate, given.seed)
            figures[side] = found | {"batches": summary(batches, found["run"])}
            _report(
                side,
                f"{'right' if is_right(found) else found['checks']}, {described(found)}; {figures[side]['batches']}",
            )
    finally:
        stack.down(settings, purge=len(figures) == len(SIDES), report=_report)
    path = records.append(own, "pace-spark-in-python", figures, given.seed)
    print(f"at {given.rate:.0f} events/s: record {path}")
    return 0 if all(map(is_right, figures.values())) else 1


def is_right(found: Mapping[str, Any]) -> bool:
    """Whether all that came out is right, however late it, or its sender, was."""
    return all(check["status"] == "ok" for check in found["checks"].values())


@contextmanager
def looking(settings: Settings) -> Iterator[Batches]:
    """Collects what the driver reports of its batches meanwhile."""
    found: Batches = {}
    progress, ended = settings.state / "patterns" / f"{PATTERN}-spark-progress.json", threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_EVERY_S):
            with suppress(FileNotFoundError, KeyError):
                reported = json.loads(progress.read_text(encoding="utf-8"))["queries"][QUERY]
                if reported["batch_id"] is not None:
                    found[reported["batch_id"]] = reported

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def summary(batches: Batches, run: Mapping[str, Any]) -> dict[str, Any]:
    """Of the batches with rows that began since a run began: how long they took, and the rows of all of them."""
    own = [each for each in batches.values() if each["rows"] and _began_ms(each) >= run["start_ms"]]
    took = latency("batch", [each["batch_ms"] for each in own])
    rows, took_ms = sum(each["rows"] for each in own), sum(each["batch_ms"] for each in own)
    return took.record() | {"rows": rows, "rows_per_s": round(rows / took_ms * 1000) if took_ms else 0}


def _began_ms(batch: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(batch["last_batch"]).timestamp() * 1000


def _report(subject: str, what: str) -> None:
    print(f"{subject:<20} {what}", file=sys.stderr, flush=True)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=150_000)
    parser.add_argument("--rate", type=float, default=5_000, help="events per second")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
