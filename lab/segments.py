"""What a ledger needs for a minute of traffic, from the first minute to the last of millions of events.

`python -m lab.segments` judges the segments of a pretended pipeline. Its messages are those that right engines write
for generated traffic; another process makes them, a minute at a time, so that the figures are those of the ledger:
judging, and writing the state and its ids down. Reading from Kafka is not in them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from millrace import oracle, records
from millrace.oracle import Record
from millrace.rules import ALERTS, DEAD_LETTERS, WindowRule
from millrace.rules.outputs import WINDOWS_TOPIC
from millrace.rules.traffic import TrafficPlan
from millrace.settings import EVERY_S, Settings
from millrace.traffic import Message, plan_for
from millrace.traffic.planned import partition_of
from millrace.verify.evidence import ENRICHED
from millrace.verify.ledger import state as states
from millrace.verify.ledger.ids import Ids
from millrace.verify.ledger.memory import IDS_LONGER_MS
from millrace.verify.ledger.segments import advance, anchored
from millrace.verify.ledger.step import Inputs
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines import pretend
from tests.pipelines.pretend import CLOSERS, KINDS, PARTITIONS, QUESTION, SECRETS, START_MS

MINUTE_MS = round(EVERY_S * 1000)
CUSTOMERS, SEED = 10_000, 1
OUTPUTS = (ENRICHED, ALERTS.name, DEAD_LETTERS.name, WINDOWS_TOPIC)
WINDOWS_KEPT_MS = 5 * 60_000
"""No window of the traffic is longer; behind it the pretended pipeline forgets events."""
SHOWN_EVERY = 10


Minute = tuple[dict[str, list[Record]], dict[str, list[Record]]]
"""Raw messages and outputs, by kind."""


class Pretended:
    """A pipeline that is always right, and never has more than the last minutes in memory."""

    def __init__(self, plan: TrafficPlan) -> None:
        self._messages = TRAFFIC.messages(plan, SECRETS, START_MS)
        self._held: Message | None = None
        self._offsets: Counter[tuple[str, int]] = Counter()
        self.references = self._records(TRAFFIC.references(plan, CLOSERS), lambda _: START_MS - 60_000)
        self._state = oracle.State({each.name: {} for each in FRAUD.references})
        self._coming: dict[str, list[tuple[int, Mapping[str, Any]]]] = defaultdict(list)
        for reference in FRAUD.references:
            for record in self.references[reference.name]:
                if reason := oracle.refer(reference, self._state.references[reference.name], record):
                    self._write("dead-letters", record.ingest_ms + 8, pretend.letter(record, reason))
        self._in_time: list[Mapping[str, Any]] = []
        self._newest_ms = 0
        self._done: dict[object, int] = {}
        """The windows that have their result, and their ends."""

    def until(self, cut_ms: int) -> Minute:
        """The raw messages and the outputs that Kafka has had since the last call."""
        raw = self._records(self._due(cut_ms), _arrival_ms)
        tape = sorted((each for own in raw.values() for each in own), key=lambda r: (r.ingest_ms, r.topic, r.offset))
        for each in oracle.advance(FRAUD, FRAUD.rules, self._state, tape):
            arrived_ms = each.record.ingest_ms
            if each.reason is not None:
                self._write("dead-letters", arrived_ms + 8, pretend.letter(each.record, each.reason))
            elif each.record.topic == FRAUD.judged.name and each.event is not None:
                event = dict(each.event) | {"source_topic": f"pretended.{each.record.topic}"}
                self._write(ENRICHED, arrived_ms + 8, event)
                for finding in each.findings:
                    found = pretend.alert(finding, event["sent_ms"], arrived_ms, arrived_ms + 9)
                    self._write(ALERTS.name, arrived_ms + 9, found)
                self._window(each.record, event)
        self._close(cut_ms)
        seen_since_ms = cut_ms - FRAUD.judged.remembered_ms
        seen_ms = self._state.seen_ms
        assert isinstance(seen_ms, dict)
        self._state.seen_ms = {identity: at_ms for identity, at_ms in seen_ms.items() if at_ms >= seen_since_ms}
        return raw, {kind: self._written(kind, cut_ms) for kind in OUTPUTS}

    def _due(self, cut_ms: int) -> Iterator[Message]:
        """The messages that arrive until the cut."""
        if self._held is not None:
            yield self._held
        self._held = None
        for message in self._messages:
            if _arrival_ms(message) > cut_ms:
                self._held = message
                return
            yield message

    def _records(self, sent: Iterable[Message], arrival_ms: Callable[[Message], int]) -> dict[str, list[Record]]:
        found: dict[str, list[Record]] = {kind: [] for kind in KINDS.values()}
        references = {each.name for each in FRAUD.references}
        for message in sent:
            partition = 0 if message.topic in references else partition_of(message.key or b"", PARTITIONS)
            offset = self._offset(message.topic, partition)
            found[message.topic].append(
                Record(message.topic, partition, offset, arrival_ms(message), message.key, message.value)
            )
        return found

    def _offset(self, topic: str, partition: int) -> int:
        self._offsets[topic, partition] += 1
        return self._offsets[topic, partition] - 1

    def _write(self, kind: str, arrives_ms: int, message: Mapping[str, Any]) -> None:
        self._coming[kind].append((arrives_ms, message))

    def _written(self, kind: str, cut_ms: int) -> list[Record]:
        ordered = sorted(self._coming[kind], key=lambda each: each[0])
        there = list(takewhile(lambda each: each[0] <= cut_ms, ordered))
        self._coming[kind] = ordered[len(there) :]
        return [
            Record(kind, 0, self._offset(kind, 0), at_ms, pretend.key_of(FRAUD, kind, own), json.dumps(own).encode())
            for at_ms, own in there
        ]

    def _window(self, record: Record, event: Mapping[str, Any]) -> None:
        """Let the windows count an event, if it is not too late for them."""
        self._newest_ms = max(self._newest_ms, min(event["at_ms"], event["ingest_ms"]))
        if self._newest_ms - event["at_ms"] > FRAUD.disorder_ms:
            letter = pretend.letter(record, "late") | {"stage": "windows"}
            self._write("dead-letters", record.ingest_ms + 8, letter)
        else:
            self._in_time.append(event)

    def _close(self, cut_ms: int) -> None:
        """Write the results of the windows that are over."""
        over_ms, begins_ms = self._newest_ms - FRAUD.disorder_ms, cut_ms - WINDOWS_KEPT_MS
        events = {(event["source_partition"], event["source_offset"]): event for event in self._in_time}
        for rule in (each for each in FRAUD.rules if isinstance(each, WindowRule)):
            for finding in oracle.window_findings(rule, self._in_time):
                among = [events[partition, offset] for _, partition, offset in finding.origins]
                ends_ms = max(event["at_ms"] for event in among) + rule.window.closes_after_ms
                is_whole = (finding.window_start_ms or 0) > begins_ms + rule.window.closes_after_ms
                if is_whole and ends_ms <= over_ms and self._is_first(finding.alert_id, ends_ms):
                    alert = pretend.window_alert(finding, rule, among)
                    self._write(ALERTS.name, alert["emit_ms"], alert)
        for row in pretend.summary_rows(self._in_time):
            ends_ms, key = row["window_end_ms"], pretend.key_of(FRAUD, WINDOWS_TOPIC, row)
            is_whole = row["window_start_ms"] >= begins_ms
            if is_whole and ends_ms <= over_ms and self._is_first((row["summary"], key), ends_ms):
                self._write(WINDOWS_TOPIC, ends_ms + 10_000, row | {"emit_ms": ends_ms + 10_000})
        self._in_time = [event for event in self._in_time if event["at_ms"] > begins_ms]
        self._done = {key: at_ms for key, at_ms in self._done.items() if at_ms > begins_ms}

    def _is_first(self, window: object, ends_ms: int) -> bool:
        is_first = window not in self._done
        self._done[window] = ends_ms
        return is_first


def _arrival_ms(message: Message) -> int:
    return START_MS + message.due_ms + 3


def minute_of(pipeline: Pretended, number: int) -> Minute:
    """The raw messages and the outputs of a minute; with the first one come all reference data."""
    raw, outputs = pipeline.until(START_MS + number * MINUTE_MS)
    if number == 1:
        raw |= {each.name: pipeline.references[each.name] for each in FRAUD.references}
    return raw, outputs


def pretend_to(ledger: Connection, plan: TrafficPlan, minutes: int) -> None:
    """Send the messages of each minute to the process that judges them."""
    pipeline = Pretended(plan)
    for number in range(1, minutes + 1):
        ledger.send(minute_of(pipeline, number))


def _inputs(raw: dict[str, list[Record]], outputs: dict[str, list[Record]]) -> Inputs:
    partitions = {kind: len({each.partition for each in own}) for kind, own in raw.items()}
    return Inputs(raw, outputs, KINDS, partitions=partitions)


def judged(messages: Iterator[Minute], minutes: int, folder: Path) -> Iterator[dict[str, Any]]:
    """What each segment took."""
    question, process = replace(QUESTION, stores=()), psutil.Process()
    ids = Ids(folder / "ids")
    state = anchored(question, START_MS, {}, ids)
    for number in range(1, minutes + 1):
        cut_ms = START_MS + number * MINUTE_MS
        inputs = [_inputs(*next(messages))]
        began_s = time.process_time()
        gc.disable()
        segment = advance(state, question, inputs.pop(), cut_ms)
        written, _ = states.packed(states.lines(state))
        gc.enable()
        memory_mb = process.memory_info().rss / (1 << 20)
        (folder / "state").write_bytes(written)
        (folder / "ids-of-one").write_bytes(states.packed(ids.added())[0])
        ids.keep(number)
        ids.forget(cut_ms - FRAUD.judged.remembered_ms - IDS_LONGER_MS)
        yield {
            "cpu_s": time.process_time() - began_s,
            "memory_mb": memory_mb,
            "messages": segment.messages,
            "written_kb": len(written) / 1024,
            "wrong": {each.name: each.why for each in segment.checks if each.status != "ok"},
        }


def figures_of(segments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a record has of all segments; those of the first half hour still fill what they remember."""
    quarters = [segments[n * len(segments) // 4 : (n + 1) * len(segments) // 4] for n in range(4)]
    memory_mb = [round(median(each["memory_mb"] for each in own)) for own in quarters]
    took_s = [each["cpu_s"] for each in segments]
    is_ok = not any(each["wrong"] for each in segments)
    return {
        "verdict": "ok" if is_ok else "failed",
        "seconds": {"a segment": round(median(took_s), 2), "a segment at most": round(max(took_s), 2)},
        "memory_mb": {"the ledger": memory_mb[3], "the ledger at most": round(max(e["memory_mb"] for e in segments))},
        "quarters_mb": memory_mb,
        "written_kb": round(segments[-1]["written_kb"]),
        "messages": sum(each["messages"] for each in segments),
    }


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.segments", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--minutes",
        type=int,
        default=170,
        choices=range(4, 10_000),
        metavar="N",
        help="of traffic; 170 are ten million messages",
    )
    parser.add_argument("--rate", type=int, default=1_000, help="messages a second")
    given = parser.parse_args(argv)
    plan = plan_for(TRAFFIC, given.minutes * 60 * given.rate, given.rate, seed=SEED, name="long", customers=CUSTOMERS)
    ours, theirs = Pipe(duplex=False)
    pretending = Process(target=pretend_to, args=(theirs, plan, given.minutes), daemon=True)
    pretending.start()
    theirs.close()
    segments = []
    with tempfile.TemporaryDirectory() as folder:
        for found in judged(iter(ours.recv, None), given.minutes, Path(folder)):
            segments.append(found)
            if found["wrong"] or len(segments) % SHOWN_EVERY == 0:
                shown = f"{found['cpu_s']:.1f} s of processor, {found['memory_mb']:.0f} MB"
                print(f"segment {len(segments)} of {given.minutes}: {shown} {found['wrong'] or ''}", flush=True)
    pretending.join()
    figures = figures_of(segments)
    print(json.dumps(figures, indent=1))
    print(records.append(Settings.read(os.environ), "segments", figures, SEED))
    return 0 if figures["verdict"] == "ok" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
