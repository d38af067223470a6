"""Measure what open pages cost the stream: an hour of traffic, in turn without a page and with twenty.

`python -m lab.pages` runs `flink` without stores on a stack of its own and leaves a record: the p99 of the alerts of
each stretch, what pages change of it, the noise, and the memory of the page's server. The record is ok if the pattern's
verdict is, if pages change less than the noise, and if the last quarter of the hour needs no more memory than the
third, but for a twentieth: until the end of the second the server fills its bounded list of the ids of alerts. A page
is a connection that reads as a browser does (`lab/readers.py`); it draws nothing. With stores that grow over the hour,
alerts came seconds later in the end on two cores, with pages or without.

Four stretches are a block: without, with, with, without. What changes slowly falls on both alike.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from millrace import records, stack
from millrace.machine import processes
from millrace.patterns import Variant, load, model
from millrace.patterns import topics as topics_of
from millrace.patterns.plan import HOP
from millrace.rules import ALERTS
from millrace.servers.dashboard import url
from millrace.settings import PORTS_PER_STACK, PROJECT, Settings
from millrace.stack.services import needed
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.verbs.deploy import deploy
from millrace.verbs.provision import provision
from millrace.verbs.teardown import teardown
from millrace.verbs.traffic import declared, generated, secrets_of, traffic
from millrace.verbs.validate import validate
from millrace.verify.latency import latency

OF, PATTERN = "flink", "without-stores"
BLOCK = (0, 1, 1, 0)
"""Whether each stretch of a block has pages."""
SAMPLE_EVERY_S = 10
GROWS_MOST = 1.05
"""From the third quarter to the last. Of 100 MB that is six bytes of each event."""


def main(argv: Sequence[str]) -> int:
    given = _arguments(argv)
    own = Settings.read(os.environ)
    with TemporaryDirectory() as folder:
        os.environ["MILLRACE_PATTERNS"] = str(without_stores(Path(folder)))
        settings = Settings.read(os.environ)
        settings = replace(settings, state=own.state / "pages", port_base=own.port_base + PORTS_PER_STACK)
        variant = load(PATTERN)
        stack.down(settings, purge=True)
        try:
            stack.up(settings, [*needed(variant.engines, variant.stores), "dashboard"], report=_report)
            figures = measured(Target.read(settings, {}), variant, given)
        finally:
            stack.down(settings, purge=True, report=_report)
    path = records.append(own, "pages", figures, given.seed)
    change, noise = figures["change_ms"], figures["noise_ms"]
    print(f"{given.pages} pages change p99 by {change} ms, noise is {noise} ms; {figures['memory_mb']}; record {path}")
    return 0 if figures["verdict"] == "ok" else 1


def without_stores(folder: Path) -> Path:
    """A folder of patterns with the one that is measured."""
    pattern = yaml.safe_load(model.files()[OF].read_text(encoding="utf-8"))
    pattern["stages"].pop("persist")
    (folder / f"{PATTERN}.yaml").write_text(yaml.safe_dump(pattern), encoding="utf-8")
    return folder


def measured(target: Target, variant: Variant, given: argparse.Namespace) -> dict[str, Any]:
    """Stretches of traffic, each with its own run, with pages or without."""
    name = variant.name
    provision(target, name)
    try:
        deploy(target, name, report=_report)
        kinds = {kind: topics_of(variant)[kind] for kind in (ALERTS.name, HOP)}
        with closing(Tail(target.bootstrap, kinds)) as tail, sampled(target.settings) as samples_mb:
            stretch(target, variant, tail, given, 0, 0)  # until the jobs are warm
            del samples_mb[:-1]
            began = time.monotonic()
            wanted = [given.pages * is_with for _ in range(given.blocks) for is_with in BLOCK]
            stretches = [
                stretch(target, variant, tail, given, number, pages) | {"memory_mb": samples_mb[-1]}
                for number, pages in enumerate(wanted, 1)
            ]
            seconds = time.monotonic() - began
        found = validate(target, name, within_s=900, report=lambda line: _report(name, line))
        p99_ms = [each["p99_ms"] for each in stretches]
        blocks = [p99_ms[at : at + len(BLOCK)] for at in range(0, len(p99_ms), len(BLOCK))]
        is_valid = all(not each["is_late"] and all(each["read_kb"]) for each in stretches)
        change, memory_mb = compared(blocks), quarters(samples_mb)
        verdict = outcome(found.verdict.status, change, memory_mb) if is_valid else "unknown"
        measured_on = {"pages": given.pages, "rate_per_s": given.rate, "seconds": round(seconds)}
        return {"verdict": verdict, **measured_on, **change, "memory_mb": memory_mb, "stretches": stretches}
    finally:
        teardown(target, name, data=True)


def outcome(verdict: str, change: Mapping[str, Any], memory_mb: Mapping[str, float]) -> str:
    """The verdict on the pattern, or `failed` where pages cost the stream more than the noise, or the server grows."""
    is_flat = memory_mb["last quarter"] <= GROWS_MOST * memory_mb["third quarter"]
    return verdict if change["change_ms"] < change["noise_ms"] and is_flat else "failed"


def quarters(samples_mb: Sequence[int]) -> dict[str, float]:
    """Of the memory over the time: until the end of the second quarter the server fills what it keeps."""
    quarter = max(len(samples_mb) // 4, 1)
    return {
        "second quarter": median(samples_mb[quarter : 2 * quarter] or samples_mb),
        "third quarter": median(samples_mb[2 * quarter : 3 * quarter] or samples_mb),
        "last quarter": median(samples_mb[-quarter:]),
        "most": max(samples_mb),
    }


def compared(blocks: Sequence[Sequence[float]]) -> dict[str, Any]:
    """What pages change in a block, and how far its two stretches without them are apart: the medians of all blocks."""
    return {
        "p99_ms": {
            "without": median(each for block in blocks for each in (block[0], block[3])),
            "with": median(each for block in blocks for each in block[1:3]),
        },
        "change_ms": round(median(mean(block[1:3]) - mean((block[0], block[3])) for block in blocks), 1),
        "noise_ms": round(median(abs(block[0] - block[3]) for block in blocks), 1),
    }


def stretch(
    target: Target, variant: Variant, tail: Tail, given: argparse.Namespace, number: int, pages: int
) -> dict[str, Any]:
    """One run of traffic beside so many open pages: the latency of its alerts, and of the bare hop."""
    plan = plan_for(
        declared(variant.use), given.rate * given.seconds, given.rate, given.seed + number, name=f"p{number}"
    )
    wanted = generated(variant.use, plan, secrets_of(target.settings, variant.use))
    with opened(url(target.settings), pages) as read_kb:
        run = traffic(target, variant.name, wanted, report=lambda line: _report(variant.name, line))
    if not run.is_complete:
        raise KeyboardInterrupt
    per_event = {rule.name for rule in variant.event_rules}
    times: dict[str, list[float]] = {ALERTS.name: [], HOP: []}
    for record in tail.new():
        content = json.loads(record.value or b"{}")
        is_own = isinstance(sent_ms := content.get("sent_ms"), int) and sent_ms >= run.start_ms
        if is_own and content.get("rule", HOP) in (*per_event, HOP):
            times[record.topic].append(record.ingest_ms - sent_ms)
    alerts, hop = (latency(kind, own).record() for kind, own in times.items())
    found: dict[str, Any] = {
        "pages": pages,
        "p50_ms": alerts["p50_ms"],
        "p99_ms": alerts["p99_ms"],
        "alerts": alerts["count"],
    }
    found |= {"hop_p99_ms": hop["p99_ms"], "is_late": bool(run.lateness), "read_kb": read_kb}
    _report(f"stretch {number}", json.dumps(found))
    return found


@contextmanager
def opened(address: str, pages: int) -> Iterator[list[int]]:
    """So many open pages; what each has read, in kB, is there at the end."""
    read: list[int] = []
    words = [sys.executable, "-m", "lab.readers", address, str(pages)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as readers:
        assert readers.stdin is not None
        assert readers.stdout is not None
        assert readers.stdout.readline() == "open\n"
        yield read
        readers.stdin.close()
        read += json.loads(readers.stdout.readline())


@contextmanager
def sampled(settings: Settings) -> Iterator[list[int]]:
    """The memory of the page's server, in MB, time after time."""
    ended, samples_mb = threading.Event(), list[int]()

    def sample() -> None:
        while True:
            samples_mb.append(processes.memory_bytes(processes.records(settings.run)["dashboard"]) >> 20)
            if ended.wait(SAMPLE_EVERY_S):
                return

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples_mb
    finally:
        ended.set()
        thread.join()


def _report(subject: str, what: str = "") -> None:
    print(f"{subject:<20} {what}", file=sys.stderr, flush=True)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.pages", description=__doc__)
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=7, help="of four stretches of traffic, two of them with pages")
    parser.add_argument("--seconds", type=int, default=120, help="of each stretch")
    parser.add_argument("--rate", type=int, default=1_000, help="events per second")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
