"""A job continues from a savepoint that an earlier build took: tests/flink/savepoint holds one.

A rule that was declared since then starts without a memory. A rule or window whose version changed on purpose needs a
new savepoint, taken by the build before the change:
pytest tests/flink/test_savepoint.py --write-golden
"""

from __future__ import annotations

import io
import json
import re
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from hdfs import InsecureClient

from millrace.machine import processes
from millrace.patterns import EnginePlan, load
from millrace.rules import ALERTS
from millrace.stores import topics
from millrace.stores.topics import Tail
from millrace.target import Target
from pipelines.fraud import FRAUD
from tests.flink.test_arrivals import committed, ends_of
from tests.flink.test_losses import delete_before
from tests.flink.test_recovery import HOUR_MS, SHOPS, pays, phone
from tests.player import PROBE, Player, ensure_topics, own_plan

VARIANT = load("flink")
NAME = "kept-savepoint"
KEPT = Path(__file__).with_name("savepoint")
FILES, MADE = KEPT / "savepoint.tar.xz", KEPT / "made.json"
MINUTE_MS = 60_000
PHONE_LATITUDE, HIGHEST_CENTS = 48.5, 500
READ_WITHIN_S = 60

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


@pytest.fixture
def plan(target: Target) -> Iterator[EnginePlan]:
    """The whole Flink job of the pattern, on topics whose names are those in the savepoint."""
    own = own_plan(target, VARIANT, NAME, options={"execution.checkpointing.interval": "1 s"})
    names = {kind: topic.replace(own.pattern, NAME) for kind, topic in own.topics.items()}
    checkpoints = own.checkpoints.replace(own.pattern, NAME)
    plan = replace(own, pattern=NAME, generation=int(time.time()), topics=names, checkpoints=checkpoints)
    topics.remove(plan.bootstrap, list(names.values()))
    ensure_topics(plan, VARIANT)
    yield plan
    flink = target.engine("flink")
    for each in (plan, fresh(plan), maker(plan)):
        if flink.job(each).is_up:
            flink.stop(each)


@pytest.fixture
def made(request: pytest.FixtureRequest, target: Target, plan: EnginePlan) -> dict[str, Any]:
    """What is known of the kept savepoint; with --write-golden it is taken first, by the build that runs this."""
    if request.config.getoption("--write-golden"):
        take_savepoint(target, maker(plan))
        topics.remove(plan.bootstrap, list(plan.topics.values()))
        ensure_topics(plan, VARIANT)
    found: dict[str, Any] = json.loads(MADE.read_text(encoding="utf-8"))
    return found


def test_a_job_continues_from_a_savepoint_of_an_earlier_build(
    target: Target, plan: EnginePlan, made: dict[str, Any]
) -> None:
    assert made["versions"].items() <= plan.versions.items(), f"the savepoint is of other rules; {__doc__}"
    topics.publish(plan.bootstrap, ((topic, b"x", b"{}") for topic in raw(plan) for _ in range(made["offsets"][topic])))
    delete_before(plan, {kind.name: made["offsets"][plan.topics[kind.name]] for kind in FRAUD.raw})
    player = with_references(plan)
    assert offsets(plan) == made["offsets"]

    flink, now_ms = target.engine("flink"), int(time.time() * 1000) - 2 * HOUR_MS
    higher = pays("a2", "anna", HIGHEST_CENTS + 1, now_ms, latitude=PHONE_LATITUDE)
    again = pays("a1", "anna", HIGHEST_CENTS, now_ms + MINUTE_MS)
    flink.start(fresh(plan), None)
    player.play([higher, again], now_ms - HOUR_MS)
    flink.stop(fresh(plan))
    assert alerts(plan) == [], "without the savepoint these purchases are nothing"

    flink.start(plan, put(target, plan, made))
    player.settle()
    player.close(now_ms + HOUR_MS)
    found = player.outcome()
    assert {(a["rule"], *a["event_ids"], a["operands"].get("before_highest_cents")) for a in found.alerts} == {
        ("above-previous-max", "a2", str(HIGHEST_CENTS)),
        ("burst", "b1", "b2", None),
    }
    assert [(letter["reason"], letter["offset"]) for letter in found.dead_letters] == [
        ("duplicate", made["offsets"][plan.topics[FRAUD.judged.name]] + 1)
    ]
    phones = [event["phone_latitude"] for event in found.enriched if event["transaction_id"] == "a2"]
    assert phones == [None, PHONE_LATITUDE]
    minutes = sorted((row["window_start_ms"], row["purchases"], row["total_cents"]) for row in found.windows)
    assert minutes[0] == (made["minute_ms"], 3, HIGHEST_CENTS + 10)


def take_savepoint(target: Target, plan: EnginePlan) -> None:
    """Run a job until it remembers a customer, holds an open session and an open minute, and keep its savepoint."""
    flink, began_ms = target.engine("flink"), int(time.time() * 1000)
    minute_ms = (began_ms - 3 * HOUR_MS) // MINUTE_MS * MINUTE_MS
    player = with_references(plan)
    flink.start(plan, None)
    player.play([phone("anna", minute_ms - 1, latitude=PHONE_LATITUDE)], minute_ms - HOUR_MS)
    purchases = [
        pays("a1", "anna", HIGHEST_CENTS, minute_ms, latitude=PHONE_LATITUDE),
        pays("b1", "berta", 5, minute_ms + 1_000),
        pays("b2", "berta", 5, minute_ms + 6_000),
    ]
    player.play(purchases, minute_ms - HOUR_MS)
    places = [(topic, 0) for topic in read(plan)]
    assert processes.wait_until(lambda: committed(plan, places) == ends_of(plan, places), READ_WITHIN_S)
    ids = topic_ids(plan)
    state = flink.stop(plan)
    assert state
    folder = urlsplit(state).path
    KEPT.mkdir(exist_ok=True)
    with tarfile.open(FILES, "w:xz", preset=9) as packed:
        for file in sorted(target.hdfs.files(folder), key=lambda file: file.path):
            content = target.hdfs.read(file.path)
            entry = tarfile.TarInfo(str(Path(file.path).relative_to(folder)))
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    known = {
        "versions": dict(plan.versions),
        "minute_ms": minute_ms,
        "offsets": offsets(plan),
        "topic_ids": ids,
        "ids_seen_ms": [began_ms, int(time.time() * 1000)],
    }
    MADE.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def put(target: Target, plan: EnginePlan, made: Mapping[str, Any]) -> str:
    """Put the savepoint on the stack's HDFS, as if this stack's topics were its own and its ids were seen just now."""
    ids = topic_ids(plan)
    folder = f"{plan.checkpoints}/kept"
    hdfs = InsecureClient(target.hdfs.url, user=target.hdfs.user)
    with tarfile.open(FILES) as packed:
        for entry in packed:
            part = packed.extractfile(entry)
            assert part
            content = seen_at(part.read(), made["ids_seen_ms"], int(time.time() * 1000))
            for topic, was in made["topic_ids"].items():
                content = content.replace(was.encode(), ids[topic].encode())
            hdfs.write(f"{urlsplit(folder).path}/{entry.name}", data=content, overwrite=True)
    return folder


def seen_at(content: bytes, between_ms: tuple[int, int], now_ms: int) -> bytes:
    """The same state with each time of a seen id replaced: ids are remembered for a week of the machine's clock."""
    first, last = (each.to_bytes(8, "big") for each in between_ms)
    same = next(n for n in range(8) if first[n] != last[n])
    changed = bytearray(content)
    for found in re.finditer(rb"(?=" + re.escape(first[:same]) + rb")", content):
        place = slice(found.start(), found.start() + 8)
        if first <= content[place] <= last:
            changed[place] = now_ms.to_bytes(8, "big")
    return bytes(changed)


def fresh(plan: EnginePlan) -> EnginePlan:
    """The job that starts from nothing."""
    return replace(plan, generation=plan.generation + 1)


def maker(plan: EnginePlan) -> EnginePlan:
    """The job that the savepoint is taken of."""
    return replace(plan, generation=plan.generation + 2)


def raw(plan: EnginePlan) -> list[str]:
    return [plan.topics[kind.name] for kind in FRAUD.raw]


def read(plan: EnginePlan) -> list[str]:
    """The topics whose offsets are in the savepoint."""
    return [*raw(plan), *(plan.topics[kind.name] for kind in FRAUD.references)]


def with_references(plan: EnginePlan) -> Player:
    player = Player(plan)
    customers = [("customers", {"customer": name, "segment": "private"}) for name in ("anna", "berta")]
    player.references([*customers, ("merchants", {"merchant": SHOPS[0], "category": "food", "place": "Ulm"})])
    return player


def offsets(plan: EnginePlan) -> dict[str, int]:
    return {topic: end for (topic, _), end in ends_of(plan, [(topic, 0) for topic in read(plan)]).items()}


def topic_ids(plan: EnginePlan) -> dict[str, str]:
    """The ids in the text form of Java's clients: librdkafka has the other alphabet of base64."""
    admin = AdminClient({"bootstrap.servers": plan.bootstrap})
    found = admin.describe_topics(TopicCollection(read(plan)), request_timeout=READ_WITHIN_S)
    texts = {topic: str(described.result().topic_id) for topic, described in found.items()}
    return {topic: text.replace("+", "-").replace("/", "_") for topic, text in texts.items()}


def alerts(plan: EnginePlan) -> list[dict[str, Any]]:
    with closing(Tail(plan.bootstrap, {ALERTS.name: plan.topics[ALERTS.name]})) as tail:
        found = [json.loads(record.value or b"") for record in tail.new()]
    return [alert for alert in found if alert["subject"] != PROBE]
