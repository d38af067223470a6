"""Kafka: one broker, or three, each also a controller of the quorum (KRaft)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from millrace.servers.server import LOOPBACK, Preparation, Server, accepts, java, log4j2, properties

# Every node of a quorum must be formatted with the same id; any 16 bytes in base64 will do.
CLUSTER_ID = "bWlsbHJhY2UtbG9jYWwtMQ"
OFFSETS_RETENTION_MINUTES = (365 + 30) * 24 * 60
"""Longer than a pattern keeps messages: one without committed offsets would begin like its first job."""


@dataclass(frozen=True)
class Kafka(Server):
    """One broker in KRaft mode, alone or one of three."""

    node: int = 1
    brokers: int = 1

    components: ClassVar[tuple[str, ...]] = ("kafka",)

    @property
    def name(self) -> str:
        return f"kafka-{self.node}"

    @property
    def doors(self) -> Mapping[str, int]:
        return {"clients": self._port(), "controller": self._controller_port(self.node)}

    @property
    def data(self) -> Path:
        # One broker and three are different clusters: the data of one means nothing to the other.
        return self.settings.state / "data" / (self.name if self.brokers == 1 else f"{self.name}-of-{self.brokers}")

    def files(self) -> dict[str, str]:
        listener = f"PLAINTEXT://{LOOPBACK}:{self._port()}"
        voters = [f"{node}@{LOOPBACK}:{self._controller_port(node)}" for node in range(1, self.brokers + 1)]
        copies = self.brokers
        in_sync = max(1, copies - 1)
        server = {
            "process.roles": "broker,controller",
            "node.id": self.node,
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{listener},CONTROLLER://{LOOPBACK}:{self._controller_port(self.node)}",
            "advertised.listeners": listener,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self.data,
            # Topics are declared by patterns; a misspelt name must fail, not make a topic.
            "auto.create.topics.enable": "false",
            "num.partitions": 1,
            "default.replication.factor": copies,
            "min.insync.replicas": in_sync,
            "message.max.bytes": 1048576,
            "log.segment.bytes": 67108864,
            "log.retention.hours": 24,
            "log.retention.bytes": 1073741824,
            "log.retention.check.interval.ms": 60000,
            "log.cleaner.dedupe.buffer.size": 8388608,
            "offsets.retention.minutes": OFFSETS_RETENTION_MINUTES,
            "offsets.topic.num.partitions": 4,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.num.partitions": 4,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": in_sync,
            "group.initial.rebalance.delay.ms": 0,
            "num.network.threads": 2,
            "num.io.threads": 4,
            "num.recovery.threads.per.data.dir": 1,
            "background.threads": 2,
            "controlled.shutdown.enable": "true",
            # After kill -9 a broker may register again only when its old session is over.
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
            "controller.quorum.election.timeout.ms": 300,
            "controller.quorum.election.backoff.max.ms": 300,
            "initial.broker.registration.timeout.ms": 60000,
        }
        return {"server.properties": properties(server), "log4j2.properties": log4j2(self.log)}

    def preparation(self) -> Preparation:
        tool = [*java(128), "-cp", self.jars("kafka"), "kafka.tools.StorageTool", "format", "--ignore-formatted"]
        command = (*tool, "-t", CLUSTER_ID, "-c", str(self.conf / "server.properties"))
        return Preparation(self.data, (command,), whole={"meta.properties": b"cluster.id="})

    def command(self) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={(self.conf / 'log4j2.properties').as_uri()}"
        # Both compilers: a broker that only has the quick one is the slowest hop of a warm pipeline.
        start = java(384, flags=(logging,), quick_start=False)
        return [*start, "-cp", self.jars("kafka"), "kafka.Kafka", str(self.conf / "server.properties")]

    def is_ready(self, since: float) -> bool:
        from kafka import KafkaAdminClient
        from kafka.errors import KafkaError

        if not accepts(self._port()):
            return False
        try:
            with KafkaAdminClient(
                bootstrap_servers=self.address, bootstrap_timeout_ms=2000, request_timeout_ms=2000
            ) as admin:
                cluster = admin.describe_cluster()
        except KafkaError:
            return False
        return self.node in {broker["broker_id"] for broker in cluster["brokers"] if not broker["is_fenced"]}

    def _port(self) -> int:
        return self.settings.port(f"kafka-{self.node}")

    def _controller_port(self, node: int) -> int:
        return self.settings.port(f"kafka-{node}-controller")
