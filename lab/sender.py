"""Measure the sender: how punctually one process sends a fast tape, or a long recorded file, to one broker.

`python -m lab.sender` measures on a stack of its own, with Kafka alone, and leaves a record `sender`. With `--lines` it
replays a made log of the use flood, and leaves a record `replay`.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from millrace import records, stack
from millrace.patterns import load as pattern_of
from millrace.patterns import names
from millrace.patterns import topics as topics_of
from millrace.settings import PORTS_PER_STACK, Settings
from millrace.stores import topics
from millrace.traffic import plan_for
from millrace.traffic.tokens import secrets_under
from millrace.verbs.provision import wanted_topics
from millrace.verbs.sending import send
from millrace.verbs.traffic import declared, from_file, generated

OF_LINES = "flood-flink"
"""The pattern whose recorded files have the format of the made log."""


def main(argv: Sequence[str]) -> int:
    given = _arguments(argv)
    own = Settings.read(os.environ)
    settings = replace(own, state=own.state / "bench", port_base=own.port_base + PORTS_PER_STACK)
    variant = pattern_of(OF_LINES if given.lines else given.pattern)
    secrets = secrets_under(variant.use, b"lab")
    with TemporaryDirectory() as folder:
        try:
            stack.up(settings, ["kafka"], report=_report)
            bootstrap = stack.addresses(settings)["KAFKA_BOOTSTRAP"]
            topics.ensure(bootstrap, wanted_topics(variant))
            name = f"s{time.time_ns():x}"
            plan = plan_for(declared(variant.use), given.events, given.rate, given.seed, name=name)
            if given.lines:
                load = from_file(variant.use, _made_log(Path(folder), given), secrets, given.speed, plan)
            else:
                load = generated(variant.use, plan, secrets, for_ms=0)
            run = send(bootstrap, topics_of(variant), load, folder=settings.state, report=_report)
        finally:
            stack.down(settings, purge=True, report=_report)
    used = resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "run": asdict(run),
        "cpu_us_per_message": round((used.ru_utime + used.ru_stime) * 1e6 / run.sent, 1),
        "memory_mb": round(used.ru_maxrss / 1024),
        "counts_for_nothing": None if given.lines else run.lateness,
    }
    path = records.append(own, "replay" if given.lines else "sender", figures, given.seed)
    print(f"{run.rate_per_s:,.0f}/s, behind {run.behind_ms}, {figures['memory_mb']} MB; record {path}")
    return 1 if figures["counts_for_nothing"] else 0


def _made_log(folder: Path, given: argparse.Namespace) -> Path:
    """Made by another process, so that this one's memory is the sender's."""
    log = folder / "log.csv"
    words = ["--lines", str(given.lines), "--seed", str(given.seed), str(log)]
    _report(f"makes a log of {given.lines:,} lines")
    subprocess.run([sys.executable, "-m", "pipelines.flood.made_log", *words], check=True)
    return log


def _report(*words: str) -> None:
    print(*words, file=sys.stderr, flush=True)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.sender", description=__doc__)
    parser.add_argument("pattern", nargs="?", default=names()[0])
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--rate", type=float, default=50_000, help="events per second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", type=int, default=0, help=f"replay a made log of so many lines with {OF_LINES}")
    parser.add_argument("--speed", type=float, default=1440.0, help="of the replay; default: a day takes a minute")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
