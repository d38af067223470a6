"""A ledger that is continued from what it has written down, on topics in memory."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millrace import deployments, kept
from millrace.cli.verdicts import is_well, print_chains
from millrace.errors import InfraError
from millrace.oracle import Record
from millrace.patterns import Variant, engine_plans, load
from millrace.patterns import topics as topics_of
from millrace.patterns.loss import Loss
from millrace.patterns.parquet import hour_of
from millrace.patterns.plan import Stores
from millrace.rules import alert_id
from millrace.rules.outputs import VERDICTS_TOPIC
from millrace.settings import SETTLE_S, Settings
from millrace.stores.files import File
from millrace.target import Target
from millrace.traffic.labels import Labels
from millrace.traffic.planned import partition_of
from millrace.traffic.runs import Run
from millrace.traffic.tape import Digest
from millrace.verbs import ledger, lineage, segment_files, traffic, validation
from millrace.verbs.validate import validate
from millrace.verify import Evidence, Question, Verdict, Versions, judge
from millrace.verify.ledger import chain, spoiling
from millrace.verify.ledger.chain import Chain, Entry, verdict_of
from millrace.verify.ledger.step import Limits
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines.pretend import RAW, SECRETS, START_MS, key_of, messages, ran, topics
from tests.pipelines.test_segments import PLAN, live

NAME = "flink"
LIMITS = Limits(outstanding_ms=60_000, grace_ms=15_000)
NOT_JUDGED = "of windows from before a change, not judged"
SEGMENTS = 9
"""Of ten seconds: the traffic of twenty, its closing, and then silence."""


class Topics:
    """What the topics of the pattern hold."""

    def __init__(self) -> None:
        self.records: dict[str, list[Record]] = defaultdict(list)
        self.firsts: dict[tuple[str, int], int] = {}
        self.made: dict[str, int] = defaultdict(int)
        """How often each was created anew."""
        self.now_ms: Callable[[], int] = lambda: START_MS
        """When what is published now comes."""

    def tail(self, bootstrap: str, kinds: Mapping[str, str], since: Any = None) -> Tail:
        return Tail(self, kinds, since or {})

    def publish(self, sent: Iterable[tuple[str, bytes, bytes]]) -> int:
        for topic, key, value in sent:
            own = self.records[topic]
            own.append(Record(VERDICTS_TOPIC, 0, len(own), self.now_ms(), key, value))
        return 1

    def span(self, topic: str, partition: int) -> tuple[int, int]:
        offsets = (record.offset + 1 for record in self.records[topic] if record.partition == partition)
        return self.firsts.get((topic, partition), 0), max(offsets, default=0)

    def delete(self, topic: str, partition: int, before: int) -> None:
        self.firsts[topic, partition] = before
        self.records[topic] = [
            each for each in self.records[topic] if each.partition != partition or each.offset >= before
        ]


class Tail:
    """Reads them as the one of Kafka does."""

    def __init__(self, topics: Topics, kinds: Mapping[str, str], since: Mapping[str, Mapping[int, int]]) -> None:
        self.topics, self.kinds = topics, kinds
        partitions = {kind: {each.partition for each in topics.records[topic]} | {0} for kind, topic in kinds.items()}
        self._next = {
            kind: {number: since.get(kind, {}).get(number, 0) for number in own} for kind, own in partitions.items()
        }

    @property
    def positions(self) -> dict[str, dict[int, int]]:
        return {kind: dict(own) for kind, own in self._next.items()}

    def new(self, cut_ms: float = float("inf")) -> Iterator[Record]:
        for kind, topic in self.kinds.items():
            ended = set()
            for record in self.topics.records[topic]:
                at = self._next[kind]
                if record.offset < at[record.partition] or record.partition in ended:
                    continue
                if record.ingest_ms > cut_ms:
                    ended.add(record.partition)
                    continue
                at[record.partition] = record.offset + 1
                yield replace(record, topic=kind)

    def after(self, at_ms: int) -> dict[str, dict[int, int]]:
        found: dict[str, dict[int, int]] = {kind: {} for kind in self.kinds}
        for kind, topic in self.kinds.items():
            for record in self.topics.records[topic]:
                if record.ingest_ms > at_ms:
                    found[kind].setdefault(record.partition, record.offset)
        return found

    def skip_to(self, at_ms: int) -> None:
        for kind, topic in self.kinds.items():
            for record in self.topics.records[topic]:
                at = self._next[kind]
                if record.ingest_ms < at_ms:
                    at[record.partition] = max(at[record.partition], record.offset + 1)

    def spans(self) -> dict[str, dict[int, tuple[int, int]]]:
        return {
            kind: {number: self.topics.span(self.kinds[kind], number) for number in own}
            for kind, own in self._next.items()
        }

    def deleted(self) -> set[str]:
        return set()

    def close(self) -> None: ...


def renamed(text: bytes | None) -> bytes | None:
    return text and text.replace(b"pretended.", b"flink.")


@pytest.fixture(scope="module")
def written() -> dict[str, list[Record]]:
    """What the pattern wrote, by topic."""
    evidence = live(ran(PLAN, topics(messages(PLAN))))
    names = topics_of(load(NAME))
    found = {names[kind]: list(records or ()) for kind, records in evidence.raw.items()}
    for kind, records in evidence.outputs.items():
        found[names[kind]] = [replace(each, key=renamed(each.key), value=renamed(each.value)) for each in records or ()]
    return found


@pytest.fixture
def kafka(written: dict[str, list[Record]], monkeypatch: pytest.MonkeyPatch) -> Topics:
    kafka = Topics()
    kafka.records.update({topic: list(records) for topic, records in written.items()})
    monkeypatch.setattr(ledger, "Tail", kafka.tail)
    monkeypatch.setattr(ledger, "Publisher", lambda bootstrap: kafka)
    monkeypatch.setattr(
        ledger, "lengths", lambda bootstrap, of: {kind: len(kafka.records[topic]) for kind, topic in of.items()}
    )
    # No test has both stores, and what most of them judge is in the topics.
    monkeypatch.setattr(ledger.Ledger, "unmade", lambda self: ())
    monkeypatch.setattr(
        ledger, "topic_ids", lambda bootstrap, of: {kind: f"{topic} {kafka.made[topic]}" for kind, topic in of.items()}
    )
    return kafka


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return target_in(tmp_path / "one")


def target_in(folder: Path) -> Target:
    return Target(Settings.read({"MILLRACE_STATE": str(folder)}), {"KAFKA_BOOTSTRAP": "nowhere"})


def opened(target: Target) -> ledger.Ledger:
    """A validator that begins with what is written down."""
    return ledger.Ledger(target, load(NAME), every_s=10, settle_s=0, limits=LIMITS)


def judged(validator: ledger.Ledger, segments: int) -> list[Entry]:
    found = [validator.judge_next() for _ in range(segments)]
    assert None not in found
    return [each for each in found if each is not None]


def followed(kafka: Topics) -> Chain:
    return chain.read(each.value for each in kafka.records[f"{NAME}.{VERDICTS_TOPIC}"])


def test_openlineage_gets_the_verdict_on_each_segment(
    kafka: Topics, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, config = tmp_path / "events.jsonl", tmp_path / "lineage.yml"
    config.write_text(f"transport: {{type: file, log_file_path: {events}, append: true}}")
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(config))
    monkeypatch.setattr(lineage, "_stores", lambda target, variant: [])
    (target.settings.state / "patterns").mkdir(parents=True)
    ledger.follow(
        target,
        NAME,
        every_s=10,
        settle_s=0,
        limits=LIMITS,
        until=lambda entry: entry.number == 2,
        within_s=30,
        report=print,
    )
    entries = followed(kafka).entries
    again = iter((*entries, None))
    monkeypatch.setattr(ledger.Ledger, "judge_next", lambda self: next(again))
    assert ledger.update(target, NAME) == entries
    sent = [json.loads(line) for line in events.read_text().splitlines()]
    assert {each["job"]["name"] for each in sent} == {f"{NAME}.validate"}
    facets = [each["run"]["facets"] for each in sent]
    assert [each["millrace_verdict"]["status"] for each in facets] == ["ok"] * 4
    runs = [each["run"]["runId"] for each in sent]
    assert (runs[:2], len(set(runs))) == (runs[2:], 2), "a segment is one run, whoever sends it"


UNMADE = ledger.Ledger.unmade


def test_a_store_that_the_target_has_no_address_of_is_unknown(
    kafka: Topics, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger.Ledger, "unmade", UNMADE)
    (entry,) = judged(opened(target), 1)
    assert entry.status == "unknown"
    tables = [f"table of {table.name}" for table in load(NAME).use.tables]
    assert entry.causes == (
        "files: the target has no WEBHDFS_URL",
        *(f"{name}: the target has no HBASE_THRIFT_HOST" for name in tables),
    )
    assert {name for name, own in entry.figures.items() if own.get("status")} == {"files", *tables}
    assert followed(kafka).breaks == ()


def test_a_run_is_an_unbroken_chain_that_is_ok(kafka: Topics, target: Target) -> None:
    entries = judged(opened(target), SEGMENTS)
    assert [(entry.status, entry.causes) for entry in entries] == [("ok", ())] * SEGMENTS
    raw = [kafka.records[f"{NAME}.{each.name}"] for each in (*load(NAME).use.raw, *load(NAME).use.references)]
    assert sum(entry.messages for entry in entries) == sum(map(len, raw))
    found = followed(kafka)
    assert (found.status, found.breaks, len(found.entries)) == ("ok", (), SEGMENTS)


def test_a_validator_that_is_killed_after_each_segment_writes_the_same_chain(
    kafka: Topics, target: Target, tmp_path: Path
) -> None:
    whole = [entry.digest for entry in judged(opened(target), SEGMENTS)]
    kafka.records[f"{NAME}.{VERDICTS_TOPIC}"].clear()
    again = target_in(tmp_path / "two")
    assert [entry.digest for _ in range(SEGMENTS) for entry in judged(opened(again), 1)] == whole


def test_a_validator_that_is_killed_before_it_wrote_its_entry_writes_the_same_one(
    kafka: Topics, target: Target
) -> None:
    entries = judged(opened(target), SEGMENTS)
    own = kafka.records[f"{NAME}.{VERDICTS_TOPIC}"]
    own.pop()
    assert judged(opened(target), 1) == entries[-1:]


@pytest.mark.parametrize("cut", [2, 3, 6])
def test_last_entries_that_were_cut_off_make_one_segment_unknown(kafka: Topics, target: Target, cut: int) -> None:
    judged(opened(target), 6)
    own = kafka.records[f"{NAME}.{VERDICTS_TOPIC}"]
    del own[-cut:]
    first, *others = [judged(opened(target), 1)[0] for _ in range(3)]
    missing = "the last entries are missing: their states are there, as far as state-00000006.jsonl.gz"
    assert (first.status, first.causes[0]) == ("unknown", missing)
    assert missing not in [cause for entry in others for cause in entry.causes], "named once"
    assert followed(kafka).status == "unknown"


ALTERED = [each.name for each in fields(Entry)]


@pytest.mark.parametrize("name", ALTERED)
def test_a_last_entry_that_was_altered_makes_one_segment_unknown(kafka: Topics, target: Target, name: str) -> None:
    judged(opened(target), 3)
    own = kafka.records[f"{NAME}.{VERDICTS_TOPIC}"]
    (altered,) = [
        messages[-1]
        for way, messages, _ in spoiling.spoilings([Entry.from_json(each.value or b"") for each in own], [b"{}"])
        if way == f"ledger: the last entry: {name} is altered"
    ]
    own[-1] = replace(own[-1], value=altered)
    (first,) = judged(opened(target), 1)
    assert first.status == "unknown"
    wanted = (
        "the state state-" if name in ("number", "state") else "entry 3 is not the one that its state was written with"
    )
    assert any(wanted in cause for cause in first.causes)


def chained_anew(own: list[Entry]) -> list[Entry]:
    """These entries, each with the digest of the one before."""
    found: list[Entry] = []
    for entry in own:
        found.append(replace(entry, before=found[-1].digest if found else ""))
    return found


def with_forged(own: list[Entry]) -> list[Entry]:
    last = own[-1]
    ends = {kind: {at: (end, end) for at, (_, end) in spans.items()} for kind, spans in last.offsets.items()}
    cut_ms = last.cut_ms + 10_000
    return [*own, replace(last, number=7, since_ms=last.cut_ms, cut_ms=cut_ms, messages=0, offsets=ends)]


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (
            lambda own: [replace(own[0], whole_until_ms=7), *own[1:]],
            "entry 6 is not the one that its state was written",
        ),
        (with_forged, "the state state-00000007.jsonl.gz is missing"),
        (lambda own: own[:-2], "the last entries are missing: their states are there, as far as state-00000006"),
        (lambda own: own[:-6], "the last entries are missing: their states are there, as far as state-00000006"),
    ],
)
def test_a_chain_that_was_forged_whole_is_broken_before_a_validator_continues_it(
    kafka: Topics, target: Target, spoil: Callable[[list[Entry]], list[Entry]], cause: str
) -> None:
    own = kafka.records[f"{NAME}.{VERDICTS_TOPIC}"]
    entries = judged(opened(target), 6)
    assert ledger.verdicts(target, NAME) == Chain(tuple(entries)), "it is ok as it was written"
    forged = chained_anew(spoil(entries))
    own[:] = [replace(own[0], offset=offset, value=entry.to_json().encode()) for offset, entry in enumerate(forged)]
    assert followed(kafka).breaks == (), "the chain alone shows nothing"
    (found,) = ledger.verdicts(target, NAME).breaks
    assert found.startswith(cause)


@pytest.mark.parametrize("is_away", [True, False])
def test_a_chain_without_its_state_is_shown_as_one_that_was_read_alone(
    kafka: Topics, target: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_away: bool
) -> None:
    judged(opened(target), 2)
    elsewhere = target_in(tmp_path / "two")
    if is_away:
        elsewhere = replace(elsewhere, addresses={**target.addresses, "WEBHDFS_URL": "http://127.0.0.1:1"})
    found = ledger.verdicts(elsewhere, NAME)
    assert (found.status, found.breaks) == ("ok", ())
    print_chains({NAME: found})
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{NAME}: the chain alone was read, and not the state behind its last entry: {found.uncompared}" in shown
    assert found.uncompared.startswith("HDFS" if is_away else "no state is there")


@pytest.mark.parametrize("is_on_hdfs", [True, False])
def test_a_chain_of_which_all_states_were_removed_is_broken(
    kafka: Topics, target: Target, monkeypatch: pytest.MonkeyPatch, is_on_hdfs: bool
) -> None:
    judged(opened(target), 2)
    if is_on_hdfs:
        monkeypatch.setattr(Target, "hdfs", Hdfs([]))
        target = replace(target, addresses={**target.addresses, "WEBHDFS_URL": "nowhere"})
    else:
        folder = ledger.folder_of(target, load(NAME))
        for name in folder.names():
            folder.remove(name)
        deployments.write_json(deployments.deployed_file(target, NAME), {})
    found = ledger.verdicts(target, NAME)
    assert (found.status, [each.partition(",")[0] for each in found.breaks]) == ("unknown", ["no state is there"])


class Hdfs:
    """It has these files."""

    def __init__(self, found: list[File]) -> None:
        self.found = found

    def files(self, path: str) -> list[File]:
        return self.found


def test_a_validator_that_goes_on_meanwhile_breaks_no_chain(
    kafka: Topics, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    validator = opened(target)
    judged(validator, 1)
    compared = ledger._compared

    def late(folder: ledger.Folder, found: Chain) -> Chain:
        if len(found.entries) < 5:
            judged(validator, 4)
        return compared(folder, found)

    monkeypatch.setattr(ledger, "_compared", late)
    found = ledger.verdicts(target, NAME)
    assert (found.breaks, len(found.entries)) == ((), 5)


def test_each_spoiling_of_a_ledger_is_noticed(kafka: Topics, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    validator = opened(target)
    judged(validator, 6)
    messages = [each.value for each in kafka.records[f"{NAME}.{VERDICTS_TOPIC}"]]
    found = ledger.self_test(target, NAME)
    assert [each.name for each in found if not each.is_noticed] == []
    assert len(found) > 40
    assert [each.value for each in kafka.records[f"{NAME}.{VERDICTS_TOPIC}"]] == messages, "nothing stored has changed"
    assert {each.status for each in judged(validator, 1)} == {"ok"}
    monkeypatch.setattr(chain, "broken", lambda *_, **__: ())
    missed = {each.name for each in ledger.self_test(target, NAME) if not each.is_noticed}
    assert missed > {"ledger: an entry is dropped", "ledger: an entry: status is altered"}


def test_only_an_unbroken_ledger_with_its_state_can_be_spoilt(kafka: Topics, target: Target) -> None:
    assert ledger.self_test(target, NAME) == ()
    judged(opened(target), 3)
    (target.settings.state / "ledger" / NAME / "state-00000003.jsonl.gz").unlink()
    with pytest.raises(InfraError, match=r"the state state-00000003\.jsonl\.gz is missing"):
        ledger.self_test(target, NAME)
    del kafka.records[f"{NAME}.{VERDICTS_TOPIC}"][1]
    with pytest.raises(InfraError, match="only an unbroken ledger can be spoilt: entry 3 does not carry"):
        ledger.self_test(target, NAME)


def test_another_machine_continues_with_the_same_digest(kafka: Topics, target: Target) -> None:
    """The database of ids is on the machine; the pieces that it is made of are with the states."""
    judged(opened(target), 3)
    for file in (target.settings.state / "ledger").glob(f"{NAME}.ids*"):
        file.unlink()
    entries = judged(opened(target), SEGMENTS - 3)
    assert {entry.status for entry in entries} == {"ok"}


def alter(file: Path) -> None:
    lines = gzip.decompress(file.read_bytes()).replace(b'"highest', b'"Highest').replace(b"max(", b"min(")
    file.write_bytes(gzip.compress(lines))


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (lambda folder: (folder / "state-00000003.jsonl.gz").unlink(), "the state state-00000003.jsonl.gz is missing"),
        (lambda folder: alter(folder / "state-00000003.jsonl.gz"), "is not the one that entry 3 was written with"),
        (lambda folder: (folder / "state-00000003.jsonl.gz").write_bytes(b"x"), "cannot be read"),
    ],
)
def test_a_state_that_is_not_there_makes_one_segment_unknown_and_the_next_ones_assumed(
    kafka: Topics, target: Target, spoil: Callable[[Path], object], cause: str
) -> None:
    judged(opened(target), 3)
    spoil(target.settings.state / "ledger" / NAME)
    entries = judged(opened(target), SEGMENTS - 3)
    assert entries[0].status == "unknown"
    assert cause in entries[0].causes[0]
    assert {entry.status for entry in entries[1:]} <= {"assumed", "unknown"}
    assert entries[-1].status == "assumed"
    assert followed(kafka).breaks == ()
    assert followed(kafka).status == "unknown"


def test_messages_that_were_deleted_before_they_were_judged_make_a_segment_unknown(
    kafka: Topics, target: Target
) -> None:
    validator = opened(target)
    judged(validator, 2)
    topic = f"{NAME}.transactions"
    assert validator.state is not None
    read = validator.state.read["transactions"][0]
    kafka.delete(topic, 0, read + 7)
    entries = judged(validator, SEGMENTS - 2)
    assert entries[0].status == "unknown"
    assert entries[0].causes == (f"7 messages of {topic} were deleted before they were judged",)
    assert {entry.status for entry in entries[1:]} <= {"assumed", "unknown"}, "never ok, and no engine is to blame"


def test_a_ledger_that_begins_behind_the_first_messages_is_assumed(kafka: Topics, target: Target) -> None:
    kafka.delete(f"{NAME}.transactions", 0, 5)
    entries = judged(opened(target), SEGMENTS)
    assert entries[0].causes[0] == "the first messages were deleted before the ledger began"
    assert "ok" not in {entry.status for entry in entries}
    assert "failed" not in {entry.status for entry in entries}


@pytest.mark.parametrize("topic", [f"{NAME}.transactions", f"{NAME}.alerts"])
@pytest.mark.parametrize("is_running", [True, False])
def test_a_topic_that_was_created_anew_is_named_and_read_from_its_beginning(
    kafka: Topics, target: Target, topic: str, is_running: bool
) -> None:
    """It has grown past the offsets that were read."""
    validator = opened(target)
    assert {each.status for each in judged(validator, 3)} == {"ok"}
    kafka.made[topic] += 1
    kafka.records[topic] = renumbered(each for each in kafka.records[topic] if each.ingest_ms > START_MS + 15_000)
    entries = judged(validator if is_running else opened(target), SEGMENTS - 3)
    first, *others = entries
    assert (first.status, first.causes) == ("unknown", (f"{topic} was deleted and created anew",))
    assert min(begins for begins, _ in first.offsets[topic.partition(".")[2]].values()) == 0
    assert {each.status for each in others} <= {"assumed", "unknown"}
    assert followed(kafka).breaks == ()


def spread(records: Iterable[Record], partitions: int) -> list[Record]:
    """The records of a topic in the partitions of their keys."""
    return renumbered(replace(each, partition=partition_of(each.key or b"", partitions)) for each in records)


@pytest.mark.parametrize("kind", ["enriched", "alerts", "dead-letters", "windows"])
def test_an_output_in_the_partition_of_another_key_makes_one_segment_unknown(
    kafka: Topics, target: Target, clock: Clock, kind: str
) -> None:
    topic = f"{NAME}.{kind}"
    kafka.records[topic] = own = spread(kafka.records[topic], 2)
    at = len(own) // 2
    kafka.records[topic] = renumbered([*own[:at], replace(own[at], partition=1 - own[at].partition), *own[at + 1 :]])
    (found,) = [each for each in judged(opened(target), SEGMENTS) if each.figures["partitions"].get("status")]
    assert found.status == "unknown"
    assert found.causes[0] == "partitions: outputs are in partitions of other keys: were some added by hand?"
    assert found.causes[1].startswith(f"partitions: {kind}[{1 - own[at].partition}]@")
    assert found.causes[1].endswith(f" is under the key {own[at].key!r}, of partition {own[at].partition}")


def test_where_partitions_are_added_a_writer_may_have_an_old_list_of_them(
    kafka: Topics, target: Target, clock: Clock
) -> None:
    topic = f"{NAME}.enriched"
    kafka.records[topic] = spread(kafka.records[topic], 2)
    before = judged(opened(target), 3)
    last = [replace(kafka.records[topic][-1], partition=2, offset=0)]
    kafka.records[topic] = [*kafka.records[topic], *last]
    after = judged(opened(target), SEGMENTS - 3)
    counted = [each.figures["partitions"].get("outputs", 0) for each in (*before, *after)]
    assert "unknown" not in {each.figures["partitions"].get("status") for each in after}
    cuts_ms = dict.fromkeys(("alerts", "dead-letters", "windows"), after[-1].cut_ms)
    cuts_ms["enriched"] = before[-1].cut_ms
    assert sum(counted) == sum(
        each.ingest_ms <= cut_ms for kind, cut_ms in cuts_ms.items() for each in kafka.records[f"{NAME}.{kind}"]
    )


def test_no_partition_is_judged_while_a_validator_catches_up(kafka: Topics, target: Target, clock: Clock) -> None:
    clock.sleep(3_600)
    kafka.records[f"{NAME}.enriched"] = renumbered(
        replace(each, partition=each.offset % 2) for each in kafka.records[f"{NAME}.enriched"]
    )
    assert all("partitions" not in each.figures for each in judged(opened(target), SEGMENTS))


LOSS = Loss(f"{NAME}.transactions", 0, wanted=50, first=57, end=400)


def accept(target: Target, accepted_ms: int) -> None:
    """Record the loss as `deploy --accept-loss` does, at this moment."""
    file = deployments.deployed_file(target, NAME).with_suffix(".losses")
    about = {"engine": "flink", "generation": 2, "accepted_ms": accepted_ms}
    deployments.write_json(file, [about | {"loss": LOSS.plain()}])


@pytest.mark.parametrize(("accepted_ms", "number"), [(START_MS - 3_600_000, 1), (START_MS + 25_000, 3)])
def test_an_accepted_loss_makes_one_segment_unknown_and_the_next_ones_assumed(
    kafka: Topics, target: Target, accepted_ms: int, number: int
) -> None:
    accept(target, accepted_ms)
    entries = judged(opened(target), SEGMENTS)
    assert [each.status for each in entries] == ["ok"] * (number - 1) + ["unknown"] + ["assumed"] * (SEGMENTS - number)
    (found,) = [each for each in entries if "loss" in each.figures]
    assert (found.number, found.figures["loss"]["messages at least"]) == (number, 7)
    assert f"loss: {LOSS.offsets} of {LOSS}" in found.causes
    assert entries[-1].causes == (f"{LOSS.offsets} of {LOSS}, which was accepted as lost",)


def test_what_an_accepted_loss_lacks_is_no_fault_of_the_engine(kafka: Topics, target: Target) -> None:
    def is_lost(record: Record) -> bool:
        place = [json.loads(record.value or b"").get(f"source_{name}") for name in ("partition", "offset")]
        return place[0] == LOSS.partition and LOSS.wanted <= (place[1] or 0) < LOSS.first

    own = kafka.records[f"{NAME}.enriched"]
    kept = [each for each in own if not is_lost(each)]
    assert len(kept) < len(own)
    kafka.records[f"{NAME}.enriched"] = renumbered(kept)
    accept(target, START_MS + 25_000)
    entries = judged(opened(target), SEGMENTS + 4)
    assert {each.status for each in entries[2:]} == {"unknown", "assumed"}
    (found,) = [each for each in entries if "status" in each.figures["conservation"]]
    assert found.causes[0].startswith("conservation: assumed: ")


def renumbered(records: Iterable[Record]) -> list[Record]:
    """The records of a topic without gaps."""
    ends: dict[int, int] = defaultdict(int)
    found = []
    for each in records:
        found.append(replace(each, offset=ends[each.partition]))
        ends[each.partition] += 1
    return found


def test_a_foreign_last_message_is_named_once(kafka: Topics, target: Target) -> None:
    judged(opened(target), 3)
    kafka.publish([(f"{NAME}.{VERDICTS_TOPIC}", b"x", b"{}")])
    first, second = judged(opened(target), 2)
    assert first.causes == ("the chain is broken: its last message is no entry of a segment that has ended",)
    (third,) = judged(opened(target), 1)
    assert [first.status, second.status] == ["unknown", "ok"]
    assert third.status == "ok"
    assert len(followed(kafka).breaks) == 1


def test_an_entry_of_a_segment_to_come_is_named_and_not_continued(kafka: Topics, target: Target) -> None:
    *_, last = judged(opened(target), 3)
    forged = replace(last, number=4, since_ms=last.cut_ms, before=last.digest, messages=0)
    own = {kind: {at: (end, end) for at, (_, end) in spans.items()} for kind, spans in last.offsets.items()}
    forged = replace(forged, offsets=own, cut_ms=int(time.time() * 1000) + 86_400_000)
    kafka.publish([(f"{NAME}.{VERDICTS_TOPIC}", NAME.encode(), forged.to_json().encode())])
    found = ledger.verdicts(target, NAME)
    assert found.breaks == (f"entry 4 ends at {forged.cut_ms}, which is still to come",)
    assert (found.status, found.entries[-1]) == ("unknown", last)
    first, *others = judged(opened(target), 3)
    assert (first.status, first.since_ms, first.before) == ("unknown", last.cut_ms, last.digest)
    assert first.causes == ("the chain is broken: its last message is no entry of a segment that has ended",)
    assert {each.status for each in others} == {"ok"}
    assert len(ledger.verdicts(target, NAME).breaks) == 1
    assert len(followed(kafka).breaks) == 1, "tomorrow as well"


def test_a_fault_is_red_in_the_ledger(kafka: Topics, target: Target) -> None:
    own = kafka.records[f"{NAME}.alerts"]
    del own[len(own) // 2]
    found = judged(opened(target), SEGMENTS)
    assert [entry.status for entry in found].count("failed") == 1
    (red,) = (entry for entry in found if entry.status == "failed")
    assert "missing: " in red.causes[0]


class Clock:
    """Time that passes only in sleep."""

    strftime, localtime, gmtime = map(staticmethod, (time.strftime, time.localtime, time.gmtime))

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def time(self) -> float:
        return self.now_s

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """When the first minute has ended and settled."""
    clock = Clock(START_MS // 60_000 * 60 + 60 + SETTLE_S)
    monkeypatch.setattr(ledger, "time", clock)
    return clock


def test_an_update_judges_what_has_ended_and_nothing_twice(kafka: Topics, target: Target, clock: Clock) -> None:
    assert [entry.status for entry in ledger.update(target, NAME)] == ["ok"]
    assert ledger.update(target, NAME) == ()
    clock.sleep(60)
    assert [entry.number for entry in ledger.update(target, NAME)] == [2]
    clock.sleep(60)
    with ledger.alone(target, NAME):
        assert ledger.update(target, NAME) == (), "another validator judges it"


def test_a_look_at_a_ledger_that_another_validator_continues_shows_each_entry_since_the_last(
    kafka: Topics, target: Target, clock: Clock
) -> None:
    own = kafka.records[f"{NAME}.alerts"]
    del own[len(own) // 2]
    kafka.now_ms = lambda: round(clock.now_s * 1000)
    beside, entries, segments = opened(target), list[Entry](), SEGMENTS + 3
    with ledger.alone(target, NAME):
        while len(entries) < segments:
            entries += judged(beside, 1)
            clock.sleep(60)
        assert ledger.update(target, NAME) == ()
    (red,) = [entry for entry in entries if entry.status == "failed"]
    look = ledger.written_since(target, NAME, kafka.now_ms() - segments * 60_000)
    assert look == tuple(entries)
    assert not is_well(ledger.verdicts(target, NAME), look)
    later = ledger.written_since(target, NAME, kafka.now_ms() - 60_000 * (segments - red.number))
    assert later == tuple(entries[red.number :])
    assert is_well(ledger.verdicts(target, NAME), later)
    assert ledger.written_since(target, NAME, kafka.now_ms()) == (entries[-1],)


def test_a_verdict_by_the_ledger_waits_until_all_that_is_there_is_judged(
    kafka: Topics, target: Target, clock: Clock
) -> None:
    now_ms = round(clock.now_s * 1000)
    entries = ledger.until(target, NAME, now_ms, within_s=600).entries
    assert [entry.number for entry in entries] == [1, 2, 3, 4]
    assert entries[-2].whole_until_ms < now_ms <= entries[-1].whole_until_ms
    later = ledger.until(target, NAME, round(clock.now_s * 1000), within_s=600).entries
    assert (later[0].number, later[0].messages > 0, later[-1].number) == (2, True, 7), "nothing came since the second"
    verdict = verdict_of(NAME, entries, until_ms=now_ms)
    assert (verdict.status, verdict.check("ledger").figures["segments"]) == ("ok", 4)


def lacks_bursts(kafka: Topics) -> None:
    own = kafka.records[f"{NAME}.alerts"]
    own[:] = [each for each in own if json.loads(each.value or b"")["rule"] != "burst"]
    own[:] = [replace(each, offset=offset) for offset, each in enumerate(own)]


def adds(topic: str, **changed: Any) -> Callable[[Topics], None]:
    """One more message, as the last one but for these fields."""

    def spoil(kafka: Topics) -> None:
        own = kafka.records[f"{NAME}.{topic}"]
        content = json.loads(own[-1].value or b"") | changed
        key = key_of(load(NAME).use, topic, content)
        own.append(replace(own[-1], offset=own[-1].offset + 1, key=key, value=json.dumps(content).encode()))

    return spoil


def burst_of_nothing(kafka: Topics) -> None:
    own = kafka.records[f"{NAME}.alerts"]
    found = next(alert for each in own if (alert := json.loads(each.value or b""))["rule"] == "burst")
    rule, start_ms = load(NAME).use.rule("burst"), found["window_start_ms"] + 1
    identity = alert_id("burst", rule.version, found["key"], str(start_ms))
    adds("alerts", **{**found, "window_start_ms": start_ms, "alert_id": identity})(kafka)


@pytest.mark.parametrize(
    ("spoil", "pending"),
    [
        (lacks_bursts, "windows overdue"),
        (lambda kafka: kafka.records[f"{NAME}.windows"].clear(), "windows overdue"),
        (burst_of_nothing, "1 alerts"),
        (adds("enriched", source_offset=1_000_000), "1 outputs"),
    ],
)
def test_a_verdict_by_the_ledger_is_not_ok_while_what_was_due_is_pending(
    kafka: Topics, target: Target, clock: Clock, spoil: Callable[[Topics], None], pending: str
) -> None:
    now_ms = round(clock.now_s * 1000)
    spoil(kafka)
    found = ledger.until(target, NAME, now_ms, within_s=500)
    verdict = verdict_of(NAME, found.entries, found.breaks, now_ms)
    assert verdict.status == "unknown"
    assert pending in verdict.check("ledger").why
    found = ledger.until(target, NAME, now_ms, within_s=1_200)
    assert verdict_of(NAME, found.entries, found.breaks, now_ms).status == "failed", "within the bound it could come"


def test_a_verdict_by_the_ledger_stands_until_something_new_is_judged(
    kafka: Topics, target: Target, clock: Clock
) -> None:
    lacks_bursts(kafka)
    for _ in range(2):
        now_ms = round(clock.now_s * 1000)
        found = ledger.until(target, NAME, now_ms, within_s=1_200)
        assert verdict_of(NAME, found.entries, found.breaks, now_ms).status == "failed"


@pytest.mark.parametrize("topic", ["transactions", "alerts"])
def test_a_topic_that_ends_before_what_was_judged_is_unknown(kafka: Topics, target: Target, topic: str) -> None:
    validator = opened(target)
    assert {entry.status for entry in judged(validator, SEGMENTS)} == {"ok"}
    del kafka.records[f"{NAME}.{topic}"][-3:]
    (entry,) = judged(validator, 1)
    assert entry.status == "unknown"
    assert entry.causes == (
        f"{NAME}.{topic} ends 3 messages before those that were judged: what comes there is not read",
    )


@pytest.mark.parametrize("topic", ["transactions", "device-locations", "alerts"])
def test_a_message_that_is_dated_ahead_is_named_while_it_hides_what_follows_it(
    kafka: Topics, target: Target, topic: str
) -> None:
    own = kafka.records[f"{NAME}.{topic}"]
    last = max((each for each in own if each.partition == 0), key=lambda each: each.offset)
    own += [replace(last, offset=last.offset + 1, ingest_ms=1 << 42), replace(last, offset=last.offset + 2)]
    entries = judged(opened(target), SEGMENTS)
    found = [entry.number for entry in entries if entry.status == "unknown"]
    assert found == [*range(found[0], SEGMENTS + 1)], "since all before it was read"
    assert {entry.status for entry in entries[: found[0] - 1]} <= {"ok"}
    (cause,) = {cause for entry in entries for cause in entry.causes}
    assert f"{NAME}.{topic}-0@{last.offset + 1} is dated more than " in cause


def test_a_verdict_by_the_ledger_is_not_ok_where_an_entry_was_altered(
    kafka: Topics, target: Target, clock: Clock
) -> None:
    def alter_first(line: str) -> None:
        own = kafka.records[f"{NAME}.{VERDICTS_TOPIC}"]
        altered = replace(Entry.from_json(own[0].value or b""), messages=7)
        own[0] = replace(own[0], value=altered.to_json().encode())

    now_ms = round(clock.now_s * 1000)
    found = ledger.until(target, NAME, now_ms, within_s=600, report=alter_first)
    assert found.breaks == ("entry 2 does not carry the digest of entry 1: one of them was altered",)
    assert verdict_of(NAME, found.entries, found.breaks, now_ms).status == "unknown"


def past(target: Target, *entries: tuple[str | None, int]) -> dict[str, Versions]:
    """What is in force where the rule had these versions until then."""
    plans = engine_plans(load(NAME), 1, "", "", Stores("", "", 0, ""))
    file = deployments.deployed_file(target, NAME)
    deployments.write_json(file, {plan.engine: json.loads(plan.to_json()) for plan in plans})
    own = [{"name": "spree", "version": version, "until_ms": until_ms} for version, until_ms in entries]
    deployments.write_json(file.with_suffix(".past"), own)
    return deployments.in_force(target, NAME)


def test_each_earlier_version_is_kept_with_its_end(target: Target) -> None:
    now = load(NAME).use.rule("spree").version
    assert past(target, ("old", 5)) == {"spree": Versions((("old", 5),))}
    assert past(target, (None, 5))["spree"].since_ms == 5
    found = past(target, (now, 5), ("old", 7), (now, 9))["spree"]
    assert (found.since_ms, [*found.spans_ms(now)], [*found.spans_ms("old")]) == (9, [(0, 5), (7, 9)], [(5, 7)])


@pytest.mark.parametrize("is_lost_first", [True, False])
def test_a_rule_that_moves_to_another_engine_has_had_no_other_version(target: Target, is_lost_first: bool) -> None:
    one, other = engine_plans(load("flink-spark"), 1, "", "", Stores("", "", 0, ""))
    for plan in (one, other):
        deployments.record(target, plan.pattern, plan)
    moved = {"spree": one.versions["spree"]}
    without = {name: version for name, version in one.versions.items() if name != "spree"}
    moves = [replace(one, versions=without), replace(other, versions={**other.versions, **moved})]
    for plan in moves if is_lost_first else reversed(moves):
        deployments.record(target, plan.pattern, plan)
    spans_ms = [*deployments.in_force(target, one.pattern).get("spree", Versions()).spans_ms(moved["spree"])]
    assert [since_ms for since_ms, _ in spans_ms] == ([0] if is_lost_first else [])


def test_no_version_is_in_force_since_a_moment_to_come(kafka: Topics, target: Target) -> None:
    with pytest.raises(InfraError, match="has its present version since"):
        past(target, ("old", round(time.time() * 1000) + 600_000))
    (entry,) = judged(opened(target), 1)
    assert (entry.status, "still to come" in entry.causes[0]) == ("unknown", True)


@pytest.mark.parametrize("suffix", [".past", ".replaced", ".losses", ".memories"])
def test_a_damaged_record_of_deployments_is_named_until_it_is_mended_and_stops_no_ledger(
    kafka: Topics, target: Target, suffix: str
) -> None:
    file = deployments.deployed_file(target, NAME).with_suffix(suffix)
    validator = opened(target)
    (before,) = judged(validator, 1)
    file.write_text('[{"na')
    for entry in judged(validator, 2):
        assert (entry.status, len(entry.causes)) == ("unknown", 1)
        assert entry.causes[0].startswith(f"{file} is damaged (")
    file.unlink()
    assert (before.status, {each.status for each in judged(validator, SEGMENTS - 3)}) == ("ok", {"assumed"})
    assert followed(kafka).breaks == ()


def of(variant: Variant) -> tuple[str, str]:
    return variant.pattern.use, variant.pattern.model_dump_json()


def edited(target: Target, now: Variant, least: int) -> Variant:
    """The pattern with a rule that alerts on bursts of so many purchases."""
    copy = target.settings.state / "edited" / f"{least}"
    whole = kept.place(copy.parent, *of(now))
    kept.make(whole, *of(now))
    shutil.copytree(whole, copy)
    rules = copy / "pipelines" / "fraud" / "rules.py"
    text = rules.read_text()
    assert text.count("w.n >= 2") == 1
    rules.write_text(text.replace("w.n >= 2", f"w.n >= {least}"))
    return replace(now, declared=str(copy))


@pytest.mark.parametrize("is_lost", [False, True])
def test_what_was_in_force_when_an_event_was_judged_judges_it_across_any_number_of_changes(
    kafka: Topics, target: Target, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """The validator is behind when the rule on bursts changes, and changes again."""
    now = load(NAME)
    first = kept.place(deployments._copies(target, NAME), *of(now))
    kept.make(first, *of(now))
    changes = [
        (replace(now, declared=str(first)), -3_600),
        (edited(target, now, 7), 125),
        (edited(target, now, 9), 127),
    ]
    for variant, second in changes:
        monkeypatch.setattr(deployments, "time", SimpleNamespace(time=lambda at_s=START_MS / 1000 + second: at_s))
        for plan in engine_plans(variant, 1, "", "", Stores("", "", 0, "")):
            deployments.record(target, NAME, replace(plan, declared=variant.declared))
    monkeypatch.setattr(deployments, "time", time)
    burst = [each for each in kafka.records[f"{NAME}.alerts"] if json.loads(each.value or b"")["rule"] == "burst"]
    if is_lost:
        others = [each for each in kafka.records[f"{NAME}.alerts"] if each is not burst[0]]
        kafka.records[f"{NAME}.alerts"] = renumbered(others)
    validator = ledger.Ledger(target, changes[-1][0], every_s=10, settle_s=0, limits=LIMITS)
    entries = judged(validator, 13)
    of_burst = [entry.figures["alerts: burst"] for entry in entries]
    assert sum(each.get("found", 0) for each in of_burst) >= len(burst) - is_lost
    assert [each.get(NOT_JUDGED) for each in of_burst if each.get(NOT_JUDGED)] == []
    red = [entry for entry in entries if entry.status != "ok"]
    assert [entry.status for entry in red] == ["failed"] * is_lost
    assert all("missing: burst" in cause for entry in red for cause in entry.causes)
    versions = [entry.versions["burst"] for entry in entries]
    assert set(versions[:-1]) == {now.use.rule("burst").version}
    assert followed(kafka).breaks == ()


def test_a_verdict_by_the_ledger_ends_where_nothing_is_judged_in_time(
    kafka: Topics, target: Target, clock: Clock
) -> None:
    with pytest.raises(InfraError, match="flink was not judged far enough within 5 s"):
        ledger.until(target, NAME, round(clock.now_s * 1000), within_s=5)
    with ledger.alone(target, NAME), pytest.raises(InfraError, match="flink was not judged far enough within 5 s"):
        ledger.until(target, NAME, round(clock.now_s * 1000), within_s=5)


def sent(target: Target, **changed: str) -> Run:
    """Record the traffic that the topics hold, made for the present versions of the rules but for these."""
    digest, use = Digest(), load(NAME).use
    for message in TRAFFIC.messages(PLAN, SECRETS, START_MS):
        digest.add(message)
    run = Run(
        {"plan": asdict(PLAN), traffic.RULES: {rule.name: changed.get(rule.name, rule.version) for rule in use.rules}},
        start_ms=START_MS,
        sent=PLAN.events,
        by_topic=dict(Counter(each.topic for each in messages(PLAN) if each.topic in RAW)),
        seconds=40.0,
        rate_per_s=PLAN.rate_per_s,
        behind_ms={"p99_ms": 1, "max_ms": 1},
        is_complete=True,
        digest=digest.hex,
        until_ms=START_MS + PLAN.due_ms(PLAN.events),
    )
    traffic.keep(target.settings, NAME, run)
    return run


def test_an_entry_under_the_key_of_another_pattern_is_named(kafka: Topics, target: Target) -> None:
    judged(opened(target), 2)
    own = kafka.records[load(NAME).topic("verdicts")]
    assert ledger.verdicts(target, NAME).breaks == ()
    own[1] = replace(own[1], key=b"spark")
    found = ledger.verdicts(target, NAME)
    assert (found.breaks, len(found.entries)) == (("message 1 has the key b'spark', not that of flink",), 2)
    assert found.status == "unknown"
    (entry,) = judged(opened(target), 1)
    assert (entry.status, "has the key b'spark'" in entry.causes[0]) == ("unknown", True)


def test_the_labels_of_a_run_are_judged_in_one_segment_after_its_end(kafka: Topics, target: Target) -> None:
    run = sent(target)
    entries = judged(opened(target), SEGMENTS)
    assert [entry.status for entry in entries] == ["ok"] * SEGMENTS
    (found,) = [entry for entry in entries if "labels" in entry.figures]
    assert found.cut_ms >= run.until_ms
    labelled = traffic.labels(load(NAME).use, run)
    assert isinstance(labelled, Labels)
    for rule in ("above-previous-max", "away-from-phone", "spree", "burst-at-once", "burst"):
        assert found.figures["labels"][rule] == sum(name == rule for name, _ in labelled.meant)
    assert [entry for entry in entries if "acknowledged" in entry.figures] == [found]
    assert found.figures["acknowledged"] == {"runs": 1, **run.by_topic}


@pytest.mark.parametrize("kind", RAW)
def test_a_message_that_was_acknowledged_and_did_not_come_is_missed_in_one_segment(
    kafka: Topics, target: Target, kind: str
) -> None:
    run = sent(target)
    traffic.forget(target.settings, NAME)
    traffic.keep(target.settings, NAME, replace(run, by_topic={**run.by_topic, kind: run.by_topic[kind] + 1}))
    entries = judged(opened(target), SEGMENTS + 4)
    (found,) = [entry for entry in entries if entry.status != "ok"]
    counts = f"{run.by_topic[kind] + 1} messages of the run 'p@{START_MS}' were acknowledged, {run.by_topic[kind]} came"
    assert (found.status, found.causes) == ("failed", (f"acknowledged: {kind}: {counts} since it began",))
    assert found.cut_ms >= run.until_ms + LIMITS.outstanding_ms, "it may come until then"


def test_the_messages_of_one_run_are_not_those_of_another(kafka: Topics, target: Target) -> None:
    """Both began at the same time, and one message is missing."""
    run = sent(target)
    traffic.keep(target.settings, NAME, replace(run, start_ms=START_MS + 1, by_topic={"transactions": 1}))
    entries = judged(opened(target), SEGMENTS + 4)
    (found,) = [entry for entry in entries if any("acknowledged" in cause for cause in entry.causes)]
    assert f"were acknowledged, {run.by_topic['transactions'] - 1} came since it began" in found.causes[0]


def test_a_run_from_before_the_ledger_makes_one_segment_unknown(kafka: Topics, target: Target) -> None:
    run = sent(target)
    kafka.delete(f"{NAME}.transactions", 0, 1)
    entries = judged(opened(target), SEGMENTS)
    found = [cause for entry in entries for cause in entry.causes if cause.startswith("acknowledged")]
    why = f"the run '{run.name}@{START_MS}' began before the first message that was counted"
    assert found == [f"acknowledged: {why}"]


def test_an_alert_that_a_label_lacks_is_missed_in_one_segment(
    kafka: Topics, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sent(target)
    made = traffic.labels(load(NAME).use, run)
    assert isinstance(made, Labels)
    more = Labels({**made.meant, ("spree", ("nobody", "1")): "foreign"}, made.ambiguous, made.spans_ms)
    monkeypatch.setattr(traffic, "labels", lambda use, run: more)
    entries = judged(opened(target), SEGMENTS + 4)
    (found,) = [entry for entry in entries if entry.status != "ok"]
    assert (found.status, found.causes) == ("failed", ("labels: nobody 1 (foreign) raised no alert of spree",))
    assert found.cut_ms >= run.until_ms + LIMITS.outstanding_ms, "it may come until then"


def test_labels_that_were_made_for_another_version_of_a_rule_are_named_and_no_fault(
    kafka: Topics, target: Target
) -> None:
    sent(target, spree="0000abcd")
    entries = judged(opened(target), SEGMENTS)
    assert [entry.status for entry in entries] == ["ok"] * SEGMENTS
    (found,) = [entry.figures["labels"] for entry in entries if "labels" in entry.figures]
    assert found["spree: runs"] == "labelled for another version"
    assert "spree" not in found
    assert found["burst"] > 0


def test_a_run_whose_labels_cannot_be_used_makes_one_segment_unknown(kafka: Topics, target: Target) -> None:
    run = sent(target)
    traffic.forget(target.settings, NAME)
    traffic.keep(target.settings, NAME, replace(run, is_complete=False))
    (found,) = [entry for entry in judged(opened(target), SEGMENTS) if entry.status != "ok"]
    assert (found.status, found.cut_ms >= run.until_ms) == ("unknown", True)
    assert "it was interrupted" in found.causes[0]


def test_a_run_that_ends_in_the_future_makes_one_segment_unknown(kafka: Topics, target: Target) -> None:
    """Until then, nobody would miss an alert of it."""
    run = sent(target)
    traffic.forget(target.settings, NAME)
    traffic.keep(target.settings, NAME, replace(run, until_ms=int(time.time() * 1000) + 3_600_000))
    (found,) = [entry for entry in judged(opened(target), SEGMENTS) if entry.status != "ok"]
    assert (found.number, found.status) == (1, "unknown")
    assert "it is recorded as complete, and ends at" in found.causes[0]


def test_a_run_that_is_longer_than_the_topics_keep_messages_makes_one_segment_unknown(
    kafka: Topics, target: Target
) -> None:
    run = sent(target)
    traffic.forget(target.settings, NAME)
    kept_ms = load(NAME).pattern.retention_hours * 3_600_000
    traffic.keep(target.settings, NAME, replace(run, start_ms=START_MS - kept_ms))
    (found,) = [entry for entry in judged(opened(target), SEGMENTS) if entry.status != "ok"]
    assert (found.status, found.cut_ms >= run.until_ms) == ("unknown", True)
    assert "it began before the oldest alert" in found.causes[0]


def test_a_record_of_runs_in_which_a_line_is_altered_is_named_until_it_is_restored(
    kafka: Topics, target: Target
) -> None:
    """Whoever lowers what a run was acknowledged would have a loss left out."""
    run = sent(target)
    file = target.settings.state / "patterns" / f"{NAME}.traffic.jsonl"
    written = file.read_bytes()
    counted = f'"transactions": {run.by_topic["transactions"]}'.encode()
    file.write_bytes(written.replace(counted, b'"transactions": 1'))
    validator = opened(target)
    for entry in judged(validator, SEGMENTS):
        assert (entry.status, len(entry.causes)) == ("unknown", 1)
        assert entry.causes[0].startswith(f"labels: no run is judged: {file}: line 1 is altered")
    file.write_bytes(written)
    found = judged(validator, 2)
    assert [entry.status for entry in found] == ["ok", "ok"]
    assert ["labels" in entry.figures for entry in found] == [True, False], f"{run.name} is judged once"


def test_a_record_that_contradicts_itself_makes_one_segment_unknown(kafka: Topics, target: Target) -> None:
    run = sent(target)
    traffic.forget(target.settings, NAME)
    traffic.keep(target.settings, NAME, replace(run, seconds=1e306))
    (found,) = [entry for entry in judged(opened(target), SEGMENTS) if entry.status != "ok"]
    assert (found.status, found.cut_ms >= run.until_ms) == ("unknown", True)
    assert "are unused: it took 1e+306 s" in found.causes[0]


@pytest.mark.parametrize("damage", [b'{"about": {', b"\xff\n", b"[]\n"])
def test_a_damaged_record_of_runs_is_named_until_it_is_mended_and_stops_no_ledger(
    kafka: Topics, target: Target, damage: bytes
) -> None:
    run = sent(target)
    file = target.settings.state / "patterns" / f"{NAME}.traffic.jsonl"
    file.write_bytes(file.read_bytes() + damage)
    validator = opened(target)
    for entry in judged(validator, SEGMENTS):
        assert entry.status == "unknown"
        assert entry.causes[0].startswith(f"labels: no run is judged: {file}: line 2 is damaged (")
        assert entry.causes[0].endswith("); remove this line")
    file.write_bytes(file.read_bytes().removesuffix(damage))
    found = judged(validator, 2)
    assert [entry.status for entry in found] == ["ok", "ok"]
    assert ["labels" in entry.figures for entry in found] == [True, False], f"{run.name} is judged once"


@pytest.mark.parametrize(
    ("name", "damage", "checks"),
    [
        (".traffic.jsonl", b'{"about": {', {"acknowledged", "labels"}),
        (".past", b'[{"na', {"deployments"}),
        (".losses", b"{}", {"deployments"}),
        (".memories", b"\xff", {"deployments"}),
    ],
)
def test_a_verdict_on_a_whole_run_names_a_damaged_record(
    kafka: Topics, target: Target, monkeypatch: pytest.MonkeyPatch, name: str, damage: bytes, checks: set[str]
) -> None:
    monkeypatch.setattr(validation, "Tail", kafka.tail)
    monkeypatch.setattr(Variant, "stores", ())
    sent(target)
    file = deployments.deployed_file(target, NAME).with_suffix(name)
    file.write_bytes((file.read_bytes() if file.exists() else b"") + damage)
    found = validate(target, NAME, within_s=0)
    unknown = {each.name: each.why for each in found.verdict.checks if str(file) in each.why}
    assert unknown.keys() == checks
    assert all(f"{file}: line 2 is damaged (" in why or f"{file} is damaged (" in why for why in unknown.values())
    assert found.verdict.status != "ok"
    assert str(file) in found.page.read_text()


@pytest.fixture
def verdict(kafka: Topics, target: Target, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Verdict]:
    """The verdict on the whole run, without its stores."""
    monkeypatch.setattr(validation, "Tail", kafka.tail)
    monkeypatch.setattr(Variant, "stores", ())
    monkeypatch.setattr(deployments, "jobs", lambda *_: {})
    return lambda: validate(target, NAME, within_s=0).verdict


def names_of(found: Verdict) -> set[str]:
    return {each.name for each in found.checks}


@pytest.mark.parametrize("name", ["enrichment", "spend-per-minute"])
def test_an_earlier_version_that_was_never_deployed_leaves_each_verdict_unknown(
    target: Target, verdict: Callable[[], Verdict], name: str
) -> None:
    past(target)
    assert "declarations" not in names_of(verdict())
    made_up = [{"name": name, "version": "x", "until_ms": round(time.time() * 1000)}]
    deployments.write_json(deployments.deployed_file(target, NAME).with_suffix(".past"), made_up)
    check = verdict().check("declarations")
    assert (check.status, check.why.startswith(f"version x of '{name}' is recorded until")) == ("unknown", True)
    for entry in judged(opened(target), 2):
        assert (entry.status, f"declarations: {check.why}" in entry.causes) == ("unknown", True)


@pytest.mark.parametrize("is_busy", [True, False])
def test_a_verdict_while_a_verb_changes_the_pattern_awaits_what_is_deployed(
    target: Target, verdict: Callable[[], Verdict], monkeypatch: pytest.MonkeyPatch, is_busy: bool
) -> None:
    """Between the jobs of two engines one of them has not been deployed yet."""
    past(target)
    of = [["a job is declared, and none is deployed"], list[str]()]
    monkeypatch.setattr(validation, "undeployed", lambda *_: of.pop(0))
    monkeypatch.setattr(deployments, "is_busy", lambda *_: is_busy)

    def judged(question: Question, evidence: Evidence) -> Verdict:
        found = judge(question, evidence)
        return replace(found, checks=tuple(each for each in found.checks if each.status == "ok" or each.is_settled))

    monkeypatch.setattr(validation, "judge", judged)
    found = validate(target, NAME, within_s=60, settled_after_s=2).verdict
    assert ("declarations" in names_of(found)) == (not is_busy)
    assert len(of) == (not is_busy)


def test_an_edit_that_is_not_deployed_leaves_the_verdict_unknown(
    target: Target, verdict: Callable[[], Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    past(target)
    variant = load(NAME)
    stages = variant.pattern.stages.model_copy(update={"persist": None})
    edited = replace(variant, pattern=variant.pattern.model_copy(update={"stages": stages}))
    assert "declarations" not in names_of(verdict())
    monkeypatch.setattr("millrace.verbs.validate.load", lambda name: edited)
    assert verdict().check("declarations").status == "unknown"
    assert {each.status for each in judged(opened(target), 2)} == {"ok"}, "a ledger judges by what is deployed"


HOUR = hour_of(START_MS)


@cache
def parquet(rows: bytes) -> bytes:
    """Each listing needs the size of each file again."""
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(pickle.loads(rows)), content)
    return content.getvalue()


class Files:
    """The folder of the pattern's Parquet, in memory: a file for each ten seconds."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.found: dict[File, list[dict[str, Any]]] = {}
        self.cut: set[str] = set()
        self.read_in_part: set[str] = set()
        """The next time."""
        for at_ms in range(START_MS, START_MS + 90_000, 10_000):
            own = [row for row in rows if at_ms <= row["ingest_ms"] < at_ms + 10_000]
            for hour in sorted({hour_of(row["at_ms"]) for row in own}):
                name = f"{hour}/part-{at_ms}.parquet"
                self.put(name, at_ms + 12_000, [row for row in own if hour_of(row["at_ms"]) == hour])

    def put(self, name: str, modified_ms: int, rows: list[dict[str, Any]]) -> None:
        self.found[File(f"/millrace/data/{NAME}/{name}", 0, modified_ms)] = rows

    def compact(self, modified_ms: int, rows: list[dict[str, Any]]) -> None:
        """A compaction that is under way: the files that it replaces are still there, and so is their list."""
        self.put(f"{HOUR}/compacted-1.parquet", modified_ms, rows)
        self.put(f"{HOUR}/_replaced-compacted-1.parquet", modified_ms, [])

    def files_since(self, path: str, since_ms: int, from_name: str) -> list[File]:
        return [
            file
            for file in self.files(path)
            if file.modified_ms >= since_ms and file.path.removeprefix(f"{path}/").split("/")[0] >= from_name
        ]

    def files(self, path: str) -> list[File]:
        return [self.sized(file) for file in self.found if f"{file.path}/".startswith(f"{path}/")]

    def outline(self, path: str) -> list[str]:
        names = (file.path.removeprefix(f"{path}/").split("/")[:2] for file in self.files(path))
        return list(dict.fromkeys(map("/".join, names)))

    def sized(self, file: File) -> File:
        return replace(file, size=len(self.content(file.path)))

    def content(self, path: str) -> bytes:
        rows = next(rows for file, rows in self.found.items() if file.path == path)
        return parquet(pickle.dumps(rows))[: -10 if path in self.cut else None]

    def read(self, path: str) -> bytes:
        is_whole = path not in self.read_in_part
        self.read_in_part.discard(path)
        return self.content(path)[: None if is_whole else -10]


@pytest.fixture
def files(kafka: Topics, monkeypatch: pytest.MonkeyPatch) -> Files:
    files = Files([json.loads(each.value or b"") for each in kafka.records[f"{NAME}.enriched"]])
    monkeypatch.setattr(Target, "hdfs", files)
    monkeypatch.setattr(
        ledger, "folder_of", lambda target, variant: ledger.LocalFolder(target.settings.state / "states")
    )
    return files


SOON = replace(LIMITS, copies_ms=20_000)


def stored(target: Target, limits: Limits = SOON) -> list[Entry]:
    return judged(following(target, limits), SEGMENTS)


def following(target: Target, limits: Limits = SOON) -> ledger.Ledger:
    target = replace(target, addresses={**target.addresses, "WEBHDFS_URL": "nowhere"})
    return ledger.Ledger(target, load(NAME), every_s=10, settle_s=0, limits=limits)


def test_the_rows_of_each_new_file_are_compared(target: Target, files: Files) -> None:
    entries = stored(target)
    assert [(entry.status, entry.causes) for entry in entries] == [("ok", ())] * SEGMENTS
    assert sum(entry.figures["files"].get("rows", 0) for entry in entries) == sum(map(len, files.found.values()))


@pytest.mark.parametrize(("lost", "status"), [(0, "ok"), (1, "unknown")])
def test_a_verdict_by_the_ledger_is_not_ok_while_files_lack_events(
    target: Target, files: Files, clock: Clock, lost: int, status: str
) -> None:
    target = replace(target, addresses={**target.addresses, "WEBHDFS_URL": "nowhere"})
    for file in list(files.found)[:lost]:
        del files.found[file]
    now_ms = round(clock.now_s * 1000)
    found = ledger.until(target, NAME, now_ms, within_s=600)
    verdict = verdict_of(NAME, found.entries, found.breaks, now_ms)
    assert verdict.status == status
    assert ("events not in files" in verdict.check("ledger").why) == bool(lost)


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (lambda rows: rows.pop(), "files: missing: "),
        (lambda rows: rows.append(rows[0]), "files: 2 times: "),
        (lambda rows: rows.append({**rows[0], "source_offset": 4_000}), "files: extra: "),
        (lambda rows: rows[0].update(amount_cents=1), "files: wrong: "),
    ],
)
def test_a_spoilt_file_is_red(target: Target, files: Files, spoil: Callable[[Any], object], cause: str) -> None:
    spoil(next(iter(files.found.values())))
    found = [entry for entry in stored(target) if entry.status != "ok"]
    assert len(found) == 1
    assert found[0].status == "failed"
    assert found[0].causes[0].startswith(cause)


def first_rows(files: Files) -> list[dict[str, Any]]:
    return [dict(row) for row in next(iter(files.found.values()))]


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        (lambda rows: rows, ""),
        (lambda rows: [{**row, "amount_cents": 1} for row in rows], "files: rewritten otherwise: "),
        (lambda rows: [*rows, rows[0]], "files: twice in a file: "),
        (lambda rows: [*rows, {**rows[0], "source_offset": 4_000}], "files: extra: "),
        (
            lambda rows: [{k: v for k, v in row.items() if k.startswith("source_") or k == "at_ms"} for row in rows],
            "files: rewritten otherwise: ",
        ),
        (lambda rows: [{**row, "pan": "4111111111111111"} for row in rows], "files: wrong: 'pan' is not declared, "),
    ],
)
def test_what_a_compaction_writes_is_compared(
    target: Target, files: Files, changed: Callable[[Any], Any], cause: str
) -> None:
    files.compact(START_MS + 25_000, changed(first_rows(files)))
    found = [entry for entry in stored(target) if entry.status != "ok"]
    assert [entry.status for entry in found] == (["failed"] if cause else [])
    assert all(entry.causes[0].startswith(cause) for entry in found)


def test_rows_that_only_a_compaction_names_are_missing(target: Target, files: Files) -> None:
    rows = files.found.pop(next(iter(files.found)))
    places = [{k: v for k, v in row.items() if k.startswith("source_") or k == "at_ms"} for row in rows]
    files.put(f"{HOUR}/compacted-1.parquet", START_MS + 25_000, places)
    (found,) = [entry for entry in stored(target) if entry.status != "ok"]
    assert (found.status, found.causes[0].startswith("files: wrong: ")) == ("failed", True)


@pytest.mark.parametrize("changed", [{}, {"amount_cents": 1}])
def test_a_row_of_an_event_that_is_no_longer_remembered_is_one_too_many(
    target: Target, files: Files, changed: dict[str, Any]
) -> None:
    again = [{**row, **changed} for row in first_rows(files)[:3]]
    files.put(f"{HOUR}/part-again.parquet", START_MS + 75_000, again)
    found = [entry for entry in stored(target) if entry.status != "ok"]
    assert [entry.status for entry in found] == ["failed"]
    assert found[0].causes[0].startswith("files: again, or of no event: ")


def test_a_row_that_was_missing_may_come_late_and_is_not_compared(target: Target, files: Files) -> None:
    first = next(iter(files.found))
    lost = files.found[first].pop()
    files.put(f"{HOUR}/part-late.parquet", START_MS + 85_000, [lost])
    missing, late = [entry for entry in stored(target) if entry.status != "ok"]
    assert (missing.status, missing.causes[0].startswith("files: missing: ")) == ("failed", True)
    assert (late.status, late.causes[0].endswith("came so late that it is not compared")) == ("unknown", True)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("date=2099-01-01/hour=00/part-1.parquet", f"files: in date=2099-01-01/hour=00, not in {HOUR}: "),
        ("part-1.parquet", f"files: in data/{NAME}, not in {HOUR}: "),
        (f"{HOUR}/part-1.parq", f"files: /millrace/data/{NAME}/{HOUR}/part-1.parq is no file of Parquet"),
    ],
)
def test_a_file_in_another_place_is_red_once(target: Target, files: Files, name: str, cause: str) -> None:
    first = next(iter(files.found))
    files.put(name, first.modified_ms, files.found.pop(first))
    found = [entry for entry in stored(target) if entry.status != "ok"]
    assert {entry.status for entry in found} == {"failed"}
    assert found[0].causes[0].startswith(cause)


def test_a_file_that_is_cut_is_red_and_named(target: Target, files: Files) -> None:
    first = next(iter(files.found))
    files.cut.add(first.path)
    found = [entry for entry in stored(target) if entry.status != "ok"]
    assert {entry.status for entry in found} == {"failed"}
    assert found[0].causes[0].startswith(f"files: {first.path} is not a complete Parquet file")


def test_a_file_that_is_read_in_part_is_read_again(target: Target, files: Files) -> None:
    validator, first = following(target), next(iter(files.found))
    files.read_in_part.add(first.path)
    with pytest.raises(InfraError, match=f" bytes of {first.path} were read"):
        judged(validator, SEGMENTS)
    validator.close()
    assert {entry.status for entry in judged(validator, SEGMENTS)} == {"ok"}


def test_a_file_that_grows_old_is_not_gone(target: Target, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_files, "FILES_LATE_MS", 30_000)
    validator = following(target, replace(SOON, audited_file_rows=1))
    judged(validator, SEGMENTS)
    assert validator.state is not None
    assert validator.state.audit.again == []


@pytest.mark.parametrize("limits", [SOON, replace(SOON, audited_file_rows=30)])
def test_the_rows_of_each_hour_are_read_again(target: Target, files: Files, limits: Limits) -> None:
    validator = following(target, limits)
    entries = judged(validator, SEGMENTS)
    first, *_ = files.found
    files.put(f"{HOUR}/compacted-1.parquet", START_MS + 95_000, files.found.pop(first))
    entries += judged(validator, 3 * SEGMENTS)
    assert {entry.status for entry in entries} == {"ok"}
    assert sum(entry.figures["files"].get("audited", 0) for entry in entries) > 2 * sum(map(len, files.found.values()))
    assert all(entry.figures["files"].get("audited", 0) <= limits.audited_file_rows for entry in entries)
    assert "taken over" not in entries[-1].figures["files"]


def overwrite(files: Files) -> None:
    first = next(iter(files.found))
    files.found[first] = [{**row, "amount_cents": 1} for row in files.found[first]]


def add_a_column(files: Files) -> None:
    for file, rows in files.found.items():
        files.found[file] = [{**row, "pan": "4111111111111111"} for row in rows]


def name_another_topic(files: Files) -> None:
    for file, rows in files.found.items():
        files.found[file] = [{**row, "source_topic": "another"} for row in rows]


def delete(files: Files) -> None:
    files.found.popitem()


def date_back(files: Files) -> None:
    files.put(f"{HOUR}/part-0.parquet", START_MS - 86_400_000, first_rows(files))


def compact_otherwise(files: Files) -> None:
    rows = [row for own in files.found.values() for row in own]
    files.found.clear()
    files.put(f"{HOUR}/compacted-1.parquet", START_MS + 95_000, [{**rows[0], "amount_cents": 1}, *rows[1:]])


@pytest.mark.parametrize(
    ("spoil", "status", "cause"),
    [
        (overwrite, "failed", "rows, but not those that it held"),
        (add_a_column, "failed", "rows, but not those that it held"),
        (name_another_topic, "failed", "rows, but not those that it held"),
        (delete, "failed", "rows, no longer "),
        (date_back, "unknown", "rows more than were read as they came"),
        (compact_otherwise, "failed", "rows, but not those that it held"),
    ],
)
def test_what_changes_in_files_that_were_read_is_found_once(
    target: Target, files: Files, spoil: Callable[[Files], None], status: str, cause: str
) -> None:
    validator = following(target)
    assert {entry.status for entry in judged(validator, SEGMENTS)} == {"ok"}
    spoil(files)
    found = [entry for entry in judged(validator, SEGMENTS) if entry.status != "ok"]
    assert [entry.status for entry in found] == [status]
    assert found[0].causes[0].startswith(f"files: {HOUR} holds ")
    assert cause in found[0].causes[0]


@pytest.mark.parametrize(("spoil", "causes"), [(lambda files: None, 0), (add_a_column, 1)])
def test_folders_whose_sums_have_another_form_are_taken_over(
    target: Target, files: Files, spoil: Callable[[Files], None], causes: int
) -> None:
    """As after an update of the library; what no declaration explains is red nevertheless, once."""
    validator = following(target)
    judged(validator, SEGMENTS)
    assert validator.state is not None
    validator.state.folders_version = "an earlier one"
    for folder in validator.state.folders.values():
        folder.total += 1
    spoil(files)
    entries = judged(validator, SEGMENTS)
    assert sum(entry.figures["files"].get("taken over", 0) for entry in entries) == 1
    found = [entry for entry in entries if entry.status != "ok"]
    assert [entry.status for entry in found] == ["failed"] * causes
    cause = "files: wrong: 'pan' is not declared, and holds a card number"
    assert all(each == cause for entry in found for each in entry.causes)


@pytest.mark.parametrize(
    "name",
    [
        "date=1999-01-01/hour=00/x.parquet",
        f"copy/{HOUR}/x.parquet",
        "a/b/c/x.parquet",
        "a/x.parquet",
        "a.parquet",
        "date=2026-09-21/hour=13/x.parquet",
        f"{HOUR}/sub/x.parquet",
        "a/b/x",
    ],
)
def test_files_that_are_never_listed_are_found_once(target: Target, files: Files, name: str) -> None:
    files.put(name, START_MS - 86_400_000, first_rows(files))
    found = [entry for entry in judged(following(target), 2 * SEGMENTS) if entry.status != "ok"]
    assert len(found) == 1
    assert found[0].causes[0].startswith("files: ")


@pytest.mark.parametrize(
    ("name", "modified_ms", "cause"),
    [
        ("_replaced-foo", START_MS - 2 * 86_400_000, "is of a compaction of more than a day ago"),
        ("_x", 1 << 42, "is dated 4398046511104, which is still to come"),
        ("x.parquet", 1 << 42, "is dated 4398046511104, which is still to come"),
    ],
)
def test_what_keeps_a_folder_from_being_read_again_is_named(
    target: Target, files: Files, name: str, modified_ms: int, cause: str
) -> None:
    validator = following(target)
    assert {entry.status for entry in judged(validator, SEGMENTS)} == {"ok"}
    files.put(f"{HOUR}/{name}", modified_ms, [])
    overwrite(files)
    found = [entry for entry in judged(validator, SEGMENTS) if entry.status != "ok"]
    assert {entry.status for entry in found} == {"unknown"}
    assert f"{HOUR}/{name} {cause}" in found[0].causes[0]


def test_a_compaction_that_is_under_way_keeps_no_segment_from_being_ok(target: Target, files: Files) -> None:
    validator = following(target)
    judged(validator, SEGMENTS)
    files.put(f"{HOUR}/_replaced-compacted-1.parquet", START_MS + 95_000, [])
    assert {entry.status for entry in judged(validator, SEGMENTS)} == {"ok"}


def test_a_new_file_in_a_folder_that_is_never_listed_is_found(target: Target, files: Files) -> None:
    files.put("date=1999-01-01/hour=00/x.parquet", START_MS + 30_000, first_rows(files))
    (found,) = [entry for entry in judged(following(target), 2 * SEGMENTS) if entry.status != "ok"]
    assert found.causes[0].endswith("rows more than were read as they came")


def test_what_a_writer_leaves_beside_the_folders_of_hours_is_not_looked_at(target: Target, files: Files) -> None:
    for name in ("_temporary/0/x.parquet", ".staging/x", "date=2026-09-21/_SUCCESS"):
        files.put(name, START_MS + 30_000, first_rows(files))
    assert {entry.status for entry in judged(following(target), 2 * SEGMENTS)} == {"ok"}


def test_the_files_of_a_ledger_that_began_later_are_taken_over(kafka: Topics, target: Target, files: Files) -> None:
    kafka.delete(f"{NAME}.transactions", 0, 5)
    entries = stored(target)
    assert "failed" not in {entry.status for entry in entries}
    assert sum(entry.figures.get("files", {}).get("taken over", 0) for entry in entries) == 1


def test_what_a_compaction_has_replaced_before_it_was_read_is_there(target: Target, files: Files) -> None:
    first, second, *_ = files.found
    rows = [*files.found.pop(first), *files.found[second]]
    files.compact(second.modified_ms + 1, rows)
    assert {entry.status for entry in stored(target)} == {"ok"}


def test_a_compaction_counts_the_rows_of_deleted_raw_messages_once(kafka: Topics, target: Target, files: Files) -> None:
    validator = following(target)
    judged(validator, 2)
    assert validator.state is not None
    kafka.delete(f"{NAME}.transactions", 0, validator.state.read["transactions"][0] + 7)
    entries = judged(validator, 2)
    old = [file for file in files.found if HOUR in file.path and file.modified_ms < START_MS + 35_000]
    rows = [row for file in old for row in files.found.pop(file)]
    files.put(f"{HOUR}/compacted-1.parquet", START_MS + 45_000, rows)
    entries += judged(validator, SEGMENTS)
    assert [cause for entry in entries for cause in entry.causes if " holds " in cause] == []
    assert entries[-1].figures["files"]["audited"] > 0
