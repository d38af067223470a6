"""Kafka topics and the contracts of what they carry."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from millrace.errors import InfraError
from millrace.machine.processes import wait_until
from millrace.oracle import Record
from millrace.stores.changes import Change

# kafka-python is imported where it is used: it takes longer to import than the rest of what a verb reads Kafka with.
if TYPE_CHECKING:
    from kafka import KafkaAdminClient

# The broker's clock, not the sender's: arrival order and latency rest on it, and no sender can forge it.
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
# A backfill writes recorded events with their own times, which are its arrival times.
CREATE_TIME = {"message.timestamp.type": "CreateTime"}
KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}
PRODUCER: Mapping[str, str | int | bool] = {
    "acks": "all",
    "enable.idempotence": True,  # a retry neither repeats nor overtakes: the order of a partition is what was sent
    "partitioner": "murmur2_random",  # as every Java client: the same key goes to the same partition from any sender
    "log_level": 0,
}
Message = tuple[str, bytes | None, bytes | None]
"""Topic, key and value."""
TimedMessage = tuple[str, bytes | None, bytes | None, int]
"""The same, and the time of its arrival, for a topic with CREATE_TIME."""
Offsets = Mapping[str, Mapping[int, int]]
"""Kind -> partition -> offset."""
CONTRACTS_TOPIC = "millrace.contracts"
READ_WITHIN_S = 30
BUFFERED_KB = 65_536
REMOVED_WITHIN_S = 30
ANSWERS_WITHIN_S = 10.0
ACKNOWLEDGED_WITHIN_S = 60
UNREACHABLE = (
    "timedout",
    "timeout",
    "transport",
    "allbrokersdown",
    "connection",
    "nobrokers",
    "nodenotready",
    "emptybroker",
)
"""Parts of error names that mean unreachable, of librdkafka and of kafka-python."""
CONNECTS_WITHIN_S = 2  # a restarting broker often listens again by then


# Errors that no retry repairs.
FINAL = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
# A broker that is back elects the leaders of its partitions anew; librdkafka leaves waiting for them to its caller.
ELECTING = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)


DRAIN = (
    "stop the senders, wait until the jobs have read all, tear the pattern down (its state stays), provision and "
    "deploy it, then start the senders again; or give the pattern a new name"
)
"""How a pattern gets more partitions."""


@dataclass(frozen=True)
class Topic:
    """A topic as declared."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    is_state: bool = False
    """Whether it holds state by key: with other partitions each key would lose its own."""
    is_in_use: bool = False
    """Whether deployed jobs read or write it by key: with more partitions its keys would move under them."""


class TopicError(InfraError):
    """A topic that is missing, unreachable or differs from its declaration; names the topic and the remedy."""


class NoTopicError(TopicError):
    """A topic that is not there."""


@contextmanager
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    """An admin client whose errors name the address and the remedy."""
    require_connection(bootstrap)
    with named(bootstrap), closing(opened_admin(bootstrap)) as client:
        yield client


def opened_admin(bootstrap: str, answers_within_s: float | None = None) -> KafkaAdminClient:
    """An admin client to be closed by the caller; it connects again by itself after a broker was away."""
    from kafka import KafkaAdminClient

    timeout_ms = round((answers_within_s or ANSWERS_WITHIN_S) * 1_000)
    return KafkaAdminClient(
        bootstrap_servers=bootstrap.split(","), request_timeout_ms=timeout_ms, bootstrap_timeout_ms=timeout_ms
    )


@contextmanager
def named(bootstrap: str) -> Iterator[None]:
    """Add the address and the remedy to the errors of a Kafka client."""
    try:
        yield
    except KafkaException as error:
        raise TopicError(refusal(bootstrap, error.args[0].name(), error.args[0].str())) from None
    except Exception as error:
        from kafka.errors import KafkaError as AdminError

        if not isinstance(error, AdminError):
            raise
        raise TopicError(refusal(bootstrap, type(error).__name__, str(error))) from None


def refusal(bootstrap: str, code: str, why: str) -> str:
    """A message with what Kafka refused, the address and the remedy; `code` is the error name of either client."""
    name, why = code.replace("_", "").lower(), next(iter(why.splitlines()), "")[:200]
    if "authorization" in name or "authentication" in name:
        return f"Kafka at {bootstrap} denies access: {why}; grant this client's principal the ACL"
    if "policyviolation" in name:
        return f"Kafka at {bootstrap}: a policy forbids this: {why}; change the pattern file, or the brokers' policy"
    if "unknowntopic" in name:
        return f"no such topic at {bootstrap}: {why}; provision the pattern first"
    if any(part in name for part in UNREACHABLE):
        return _unreachable(bootstrap, why or code)
    return f"Kafka at {bootstrap} refused the request: {why or code}; see `millrace logs kafka`"


def unacknowledged(bootstrap: str, failures: Sequence[KafkaError]) -> str:
    """Why messages were not acknowledged, with the remedy: the first failure, or no answer in time."""
    if failures:
        return refusal(bootstrap, failures[0].name(), failures[0].str())
    return _unreachable(bootstrap, f"no answer within {ACKNOWLEDGED_WITHIN_S} s")


def listed(client: Producer | Consumer, bootstrap: str) -> Mapping[str, Any]:
    """All topics by name; raises with the address when Kafka is unreachable."""
    require_connection(bootstrap)
    with named(bootstrap):
        found: Mapping[str, Any] = client.list_topics(timeout=ANSWERS_WITHIN_S).topics
        return found


def require_connection(bootstrap: str) -> None:
    """Fail fast when the connection is refused; clients retry for 10 s."""
    if not wait_until(lambda: not _is_refused(bootstrap), CONNECTS_WITHIN_S):
        raise TopicError(_unreachable(bootstrap, "connection refused"))


def _is_refused(bootstrap: str) -> bool:
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=2).close()
        except ConnectionRefusedError:
            continue
        except (OSError, ValueError):
            return False  # any other error: the client reports it better
        return False
    return True


def _unreachable(bootstrap: str, why: object) -> str:
    return f"Kafka does not answer at {bootstrap} ({why}); see `millrace status`, start it with `millrace up kafka`"


def ensure(bootstrap: str, wanted: Sequence[Topic], *, plan: bool = False) -> list[Change]:
    """Create the topics that are missing and change those that differ; with `plan` only list the changes."""
    with admin(bootstrap) as client:
        there = _described(client, [topic.name for topic in wanted])
        changes = [_change(topic, there.get(topic.name)) for topic in wanted]
        if plan:
            return changes
        missing = [topic for topic, change in zip(wanted, changes, strict=True) if change.action == "create"]
        if missing:
            _create(client, missing)
        for topic, change in zip(wanted, changes, strict=True):
            if change.action == "change":
                _alter(client, topic, there[topic.name])
        return changes


def remove(bootstrap: str, names: Sequence[str], *, plan: bool = False) -> list[Change]:
    """Delete topics and all they hold."""
    with admin(bootstrap) as client:
        there = set(client.list_topics()) & set(names)
        changes = [Change("topic", name, "remove" if name in there else "keep") for name in names]
        if there and not plan:
            client.delete_topics(sorted(there))
            if not wait_until(lambda: not set(client.list_topics()) & there, REMOVED_WITHIN_S):
                raise TopicError(
                    f"{', '.join(sorted(there))} were still there {REMOVED_WITHIN_S} s after their removal"
                )
        return changes


def publish(
    bootstrap: str, messages: Iterable[Message | TimedMessage], places: dict[int, tuple[int, int]] | None = None
) -> int:
    """Write messages, wait until all are acknowledged, and return their number.

    `places` takes the partition and the offset of each, by its number.
    """
    return Publisher(bootstrap).publish(messages, places)


class Publisher:
    """Writes messages batch by batch; only the first waits half a second for the id of the producer."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producer = Producer({**PRODUCER, "bootstrap.servers": bootstrap, "linger.ms": 5})

    def publish(
        self, messages: Iterable[Message | TimedMessage], places: dict[int, tuple[int, int]] | None = None
    ) -> int:
        """The same with the same producer."""
        count, failures = 0, []

        def delivered(number: int, error: KafkaError | None, message: Any) -> None:
            if error is not None:
                failures.append(error)
            elif places is not None:
                places[number] = message.partition(), message.offset()

        for topic, key, value, *time_ms in messages:
            while True:
                try:
                    self._producer.produce(
                        topic, value, key, on_delivery=partial(delivered, count), timestamp=next(iter(time_ms), 0)
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
            count += 1
            self._producer.poll(0)
        left = self._producer.flush(ACKNOWLEDGED_WITHIN_S)
        if failures or left:
            why = unacknowledged(self._bootstrap, failures)
            raise TopicError(f"{len(failures) + left} of {count} messages were not acknowledged: {why}")
        return count


def group(topics: Mapping[str, str], purpose: str) -> str:
    """The consumer group of a reader; it begins with the name of the pattern, as an ACL may require."""
    return f"{next(iter(topics.values())).partition('.')[0]}.{purpose}"


def lengths(bootstrap: str, topics: Mapping[str, str]) -> dict[str, int]:
    """How many messages the topics hold, by the kind that maps to each."""
    with closing(
        Consumer({"bootstrap.servers": bootstrap, "group.id": group(topics, "lengths"), "log_level": 0})
    ) as reader:
        ends = _ends(reader, bootstrap, topics.values())
    return {kind: sum(end for (name, _), end in ends.items() if name == topic) for kind, topic in topics.items()}


def ends(bootstrap: str, topics: Mapping[str, str]) -> Offsets:
    """The offset behind the last message of each partition, by the kind that maps to each topic."""
    with closing(
        Consumer({"bootstrap.servers": bootstrap, "group.id": group(topics, "ends"), "log_level": 0})
    ) as reader:
        found = _ends(reader, bootstrap, topics.values())
    return {
        kind: {number: end for (name, number), end in found.items() if name == topic} for kind, topic in topics.items()
    }


def topic_ids(bootstrap: str, topics: Mapping[str, str]) -> dict[str, str]:
    """The id of each topic, by the kind that maps to it; one that is deleted and created anew has another."""
    with admin(bootstrap) as client:
        there = {each["name"]: str(each["topic_id"]) for each in client.describe_topics()}
    if missing := sorted(topic for topic in topics.values() if topic not in there):
        raise NoTopicError(f"no topic {', '.join(missing)} at {bootstrap}; provision the pattern first")
    return {kind: there[topic] for kind, topic in topics.items()}


def members(bootstrap: str, group: str) -> list[str]:
    """Who reads as a consumer group now: client and host of each. Kafka makes its topic of groups at the first use."""
    from kafka.errors import CoordinatorNotAvailableError

    described: list[dict[str, Any]] = []

    def is_described() -> bool:
        with suppress(CoordinatorNotAvailableError):
            described.append(client.describe_groups([group])[group])
        return bool(described)

    with admin(bootstrap) as client:
        if not wait_until(is_described, ANSWERS_WITHIN_S):
            raise TopicError(
                f"Kafka at {bootstrap} has no coordinator for the group {group}; see `millrace logs kafka`"
            )
    return sorted(f"{each['client_id']} at {each['client_host'].lstrip('/')}" for each in described[0]["members"])


def unread(bootstrap: str, group: str, topics: Iterable[str]) -> int:
    """How many messages of topics lie behind the offsets that a consumer group has committed."""
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})) as reader:
        ends = _ends(reader, bootstrap, topics)
        with named(bootstrap):
            reached = reader.committed([TopicPartition(*place) for place in ends], timeout=ANSWERS_WITHIN_S)
    return sum(max(0, ends[each.topic, each.partition] - max(each.offset, 0)) for each in reached)


def committed(bootstrap: str, group: str, topics: Iterable[str]) -> dict[str, dict[int, int]]:
    """The offsets that a consumer group has committed: topic -> partition -> the next message."""
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})) as reader:
        there = listed(reader, bootstrap)
        places = [TopicPartition(each, number) for each in topics if each in there for number in there[each].partitions]
        with named(bootstrap):
            reached = reader.committed(places, timeout=ANSWERS_WITHIN_S) if places else []
    found: dict[str, dict[int, int]] = {}
    for each in reached:
        if each.offset >= 0:
            found.setdefault(each.topic, {})[each.partition] = each.offset
    return found


def _ends(reader: Consumer, bootstrap: str, topics: Iterable[str]) -> dict[tuple[str, int], int]:
    there = listed(reader, bootstrap)
    places = [(topic, number) for topic in topics if topic in there for number in there[topic].partitions]
    return {place: span(reader, bootstrap, place)[1] for place in places}


def span(reader: Consumer, bootstrap: str, place: tuple[str, int]) -> tuple[int, int]:
    """The first offset of a partition, and the one behind its last; a partition without a leader gets time for one."""
    found: list[tuple[int, int]] = []
    refused: list[KafkaException] = []

    def has_leader() -> bool:
        try:
            found.append(reader.get_watermark_offsets(TopicPartition(*place), timeout=ANSWERS_WITHIN_S))
        except KafkaException as error:
            refused.append(error)
            return error.args[0].code() not in ELECTING
        return True

    with named(bootstrap):
        if not wait_until(has_leader, ANSWERS_WITHIN_S) or not found:
            raise refused[-1]
    return found[0]


class Tail:
    """Reads topics from their beginning; each call of `new` continues where the last one ended."""

    def __init__(
        self,
        bootstrap: str,
        topics: Mapping[str, str],
        since: Offsets | None = None,
        buffered_kb: int = BUFFERED_KB,
    ) -> None:
        """`topics` maps a kind of event to its topic; records carry the kind. Reading begins at `since`, if given."""
        self._bootstrap, self._kinds = bootstrap, {topic: kind for kind, topic in topics.items()}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group(topics, "tail"),  # the client requires one; no offset is ever committed under it
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",  # what was deleted meanwhile is skipped, and not what follows it
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
                "queued.max.messages.kbytes": buffered_kb,
                "log_level": 0,
            }
        )
        try:
            there = listed(self._consumer, bootstrap)
        except TopicError:
            self.close()
            raise
        if missing := sorted(topic for topic in self._kinds if topic not in there):
            self.close()
            raise NoTopicError(f"no topic {', '.join(missing)} at {bootstrap}; provision the pattern first")
        begin = {(topics[kind], number): at for kind, own in (since or {}).items() for number, at in own.items()}
        places = [(topic, number) for topic in self._kinds for number in there[topic].partitions]
        self._next = {place: begin.get(place, 0) for place in places}
        self._ends = dict.fromkeys(self._next, 0)
        self._firsts = dict.fromkeys(self._next, 0)

    def new(self, cut_ms: int | None = None) -> Iterator[Record]:
        """Every record written since the last call, up to the ends as they are now, in order within a partition.

        With a cut only those before the first of each partition that its topic had later.
        """
        cuts = {} if cut_ms is None else self._cuts(cut_ms)
        for place in self._next:
            first, end = span(self._consumer, self._bootstrap, place)
            self._next[place], self._ends[place] = max(self._next[place], first), min(end, cuts.get(place, end))
            self._firsts[place] = first
        yield from self._unread()

    def between(
        self, kind: str, since: Mapping[int, int], until: Mapping[int, int], spans: Mapping[int, tuple[int, int]]
    ) -> Iterator[Record]:
        """The records of a kind that are left from one offset of each partition up to another one, without it.

        `spans` are those of the kind: reading them takes two requests for each partition.
        """
        for topic, number in self._next:
            if self._kinds[topic] == kind:
                first, end = spans[number]
                self._next[topic, number] = max(first, since.get(number, 0))
                self._ends[topic, number] = min(end, until.get(number, 0))
        yield from self._unread()

    def _unread(self) -> Iterator[Record]:
        """The records up to the ends that were found."""
        behind = {place for place in self._next if self._next[place] < self._ends[place]}
        self._consumer.assign([TopicPartition(*place, self._next[place]) for place in sorted(behind)])
        deadline = time.monotonic() + READ_WITHIN_S
        while behind:
            for message in self._consumer.consume(5_000, 0.5):
                place = (str(message.topic()), message.partition() or 0)
                offset = message.offset() or 0
                if error := message.error():
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise TopicError(f"{place[0]}: {refusal(self._bootstrap, error.name(), error.str())}")
                    # Past its last message, even where the last offsets are a transaction's marker or compacted away;
                    # not past what was written meanwhile, which the next call reads.
                    self._next[place] = max(self._next[place], min(offset, self._ends[place]))
                elif offset < self._ends[place]:
                    self._next[place] = offset + 1
                    yield self._record(message)
                else:
                    # The last offsets before the cut hold no message.
                    self._next[place] = self._ends[place]
                if self._next[place] >= self._ends[place]:
                    behind.discard(place)
                deadline = time.monotonic() + READ_WITHIN_S
            if time.monotonic() > deadline:
                raise TopicError(f"no messages from {sorted(behind)} for {READ_WITHIN_S} s; see `millrace status`")

    def skip_to(self, at_ms: int) -> None:
        """Continue with the first message of each partition that its topic had at this moment or later."""
        found = self._cuts(at_ms - 1)
        for place in self._next:
            self._next[place] = found.get(place, span(self._consumer, self._bootstrap, place)[1])

    def offsets_at(self, kind: str, at_ms: int) -> dict[int, int]:
        """The offset of the first message that a topic had at a moment or later, of each partition with one."""
        cuts = self._cuts(at_ms - 1)
        return {number: at for (topic, number), at in cuts.items() if self._kinds[topic] == kind}

    def after(self, at_ms: int) -> dict[str, dict[int, int]]:
        """The offset of the first message that each partition had after a moment, by kind."""
        found: dict[str, dict[int, int]] = {}
        for (topic, number), at in self._cuts(at_ms).items():
            found.setdefault(self._kinds[topic], {})[number] = at
        return found

    def _cuts(self, cut_ms: int) -> dict[tuple[str, int], int]:
        """The offset of the first message after a moment, for each partition that has one."""
        with named(self._bootstrap):
            wanted = [TopicPartition(*place, cut_ms + 1) for place in self._next]
            found = self._consumer.offsets_for_times(wanted, timeout=ANSWERS_WITHIN_S)
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    @property
    def positions(self) -> dict[str, dict[int, int]]:
        """The next offset of each partition, by kind."""
        found: dict[str, dict[int, int]] = {}
        for (topic, number), at in self._next.items():
            found.setdefault(self._kinds[topic], {})[number] = at
        return found

    def spans(self) -> dict[str, dict[int, tuple[int, int]]]:
        """The first offset that each partition still has, and the one behind its last, by kind."""
        found: dict[str, dict[int, tuple[int, int]]] = {}
        for topic, number in self._next:
            found.setdefault(self._kinds[topic], {})[number] = span(self._consumer, self._bootstrap, (topic, number))
        return found

    def deleted(self) -> set[str]:
        """The kinds of event whose topics no longer hold their beginning, as of the last call of `new`."""
        return {self._kinds[topic] for (topic, _), first in self._firsts.items() if first > 0}

    def follow(self) -> Iterator[Record | None]:
        """Every new record, and None after each 0.1 s without one; never ends."""
        self._consumer.assign([TopicPartition(*place, OFFSET_END) for place in self._next])
        while True:
            batch = self._consumer.consume(500, 0.1)
            for error in filter(None, (message.error() for message in batch)):
                if error.code() in FINAL:
                    raise TopicError(refusal(self._bootstrap, error.name(), error.str()))
            yield from (self._record(message) for message in batch if not message.error())
            if not batch:
                yield None

    def close(self) -> None:
        self._consumer.close()

    def _record(self, message: Any) -> Record:
        return Record(
            self._kinds[message.topic()],
            message.partition(),
            message.offset(),
            message.timestamp()[1],
            message.key(),
            message.value(),
        )


def contracts(bootstrap: str) -> dict[str, dict[str, Any]]:
    """The contract with which each topic was provisioned."""
    with admin(bootstrap) as client:
        if CONTRACTS_TOPIC not in client.list_topics():
            return {}
    with closing(Tail(bootstrap, {"contract": CONTRACTS_TOPIC})) as tail:
        latest = {record.key: record.value for record in tail.new()}
    return {key.decode(): json.loads(value) for key, value in latest.items() if key and value}


def keep_contracts(bootstrap: str, agreed: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Record the contracts of topics; None removes one."""
    ensure(bootstrap, [Topic(CONTRACTS_TOPIC, 1, COMPACTED)])
    publish(
        bootstrap,
        (
            (CONTRACTS_TOPIC, topic.encode(), None if schema is None else json.dumps(schema, sort_keys=True).encode())
            for topic, schema in agreed.items()
        ),
    )


@dataclass(frozen=True)
class _Existing:
    partitions: int
    configs: Mapping[str, str]


def _described(client: KafkaAdminClient, names: Sequence[str]) -> dict[str, _Existing]:
    from kafka.admin import ConfigResource, ConfigResourceType

    present = sorted(set(client.list_topics()) & set(names))
    if not present:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in present]
    described = client.describe_configs(resources)
    configs: dict[str, Any] = next(iter(described.values()), {}) if described else {}
    return {
        topic["name"]: _Existing(
            len(topic["partitions"]),
            {key: str(_value(value)) for key, value in configs.get(topic["name"], {}).items()},
        )
        for topic in client.describe_topics(present)
    }


def _value(config: Any) -> Any:
    return config["value"] if isinstance(config, dict) else config


def _change(wanted: Topic, there: _Existing | None) -> Change:
    if there is None:
        return Change("topic", wanted.name, "create", f"{wanted.partitions} partition(s)")
    if there.partitions > wanted.partitions:
        raise TopicError(
            f"topic {wanted.name} has {there.partitions} partitions, more than the {wanted.partitions} declared: Kafka "
            "cannot remove partitions; raise the number in the pattern file, or tear the pattern down with its data"
        )
    if there.partitions < wanted.partitions and wanted.is_state:
        raise TopicError(
            f"topic {wanted.name} holds the state of {there.partitions} partition(s), which cannot be spread over "
            f"{wanted.partitions}; keep the number in the pattern file, or tear the pattern down with its data"
        )
    if there.partitions < wanted.partitions and wanted.is_in_use:
        raise TopicError(
            f"topic {wanted.name} has {there.partitions} partition(s), and deployed jobs read or write it by key: with "
            f"{wanted.partitions} keys move to other partitions, and their new messages overtake those that are still "
            f"to be read; {DRAIN}"
        )
    differing = [
        f"{key}: {there.configs.get(key)} -> {value}"
        for key, value in wanted.configs.items()
        if there.configs.get(key) != value
    ]
    if there.partitions < wanted.partitions:
        differing.insert(0, f"partitions: {there.partitions} -> {wanted.partitions}")
    return Change("topic", wanted.name, "change" if differing else "keep", ", ".join(differing))


def _create(client: KafkaAdminClient, missing: Sequence[Topic]) -> None:
    from kafka.errors import TopicAlreadyExistsError

    # Another process may provision the same pattern at this moment; the next call finds what differs.
    with suppress(TopicAlreadyExistsError):
        client.create_topics(
            {topic.name: {"num_partitions": topic.partitions, "configs": dict(topic.configs)} for topic in missing},
            wait_for_metadata=True,
        )


def _alter(client: KafkaAdminClient, wanted: Topic, there: _Existing) -> None:
    from kafka.admin import ConfigResource, ConfigResourceType

    if there.partitions < wanted.partitions:
        client.create_partitions({wanted.name: wanted.partitions})
    differing = {key: value for key, value in wanted.configs.items() if there.configs.get(key) != value}
    if differing:
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, wanted.name, configs=differing)])
