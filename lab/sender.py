"""Measure the sender: how punctually one process sends a fast tape to one broker.

`python -m lab.sender` measures on a stack of its own, with Kafka alone, and leaves a record.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from millrace import records, stack
from millrace.patterns import load, names
from millrace.patterns import topics as topics_of
from millrace.settings import PORTS_PER_STACK, Settings
from millrace.stores import topics
from millrace.traffic import plan_for
from millrace.traffic.tokens import secrets_under
from millrace.verbs.provision import wanted_topics
from millrace.verbs.sending import send
from millrace.verbs.traffic import declared, generated


def main(argv: Sequence[str]) -> int:
    given = _arguments(argv)
    own = Settings.read(os.environ)
    settings = replace(own, state=own.state / "bench", port_base=own.port_base + PORTS_PER_STACK)
    variant = load(given.pattern)
    plan = plan_for(declared(variant.use), given.events, given.rate, given.seed, name=f"s{time.time_ns():x}")
    try:
        stack.up(settings, ["kafka"], report=_report)
        bootstrap = stack.addresses(settings)["KAFKA_BOOTSTRAP"]
        topics.ensure(bootstrap, wanted_topics(variant))
        wanted = generated(variant.use, plan, secrets_under(variant.use, b"lab"), for_ms=0)
        run = send(bootstrap, topics_of(variant), wanted, folder=settings.state, report=_report)
    finally:
        stack.down(settings, purge=True, report=_report)
    used = resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "run": asdict(run),
        "cpu_us_per_message": round((used.ru_utime + used.ru_stime) * 1e6 / run.sent, 1),
        "memory_mb": round(used.ru_maxrss / 1024),
        "counts_for_nothing": run.lateness,
    }
    path = records.append(own, "sender", figures, given.seed)
    print(f"{run.rate_per_s:,.0f}/s, behind {run.behind_ms}, {figures['memory_mb']} MB; record {path}")
    return 1 if run.lateness else 0


def _report(*words: str) -> None:
    print(*words, file=sys.stderr, flush=True)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.sender", description=__doc__)
    parser.add_argument("pattern", nargs="?", default=names()[0])
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--rate", type=float, default=50_000, help="events per second")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
