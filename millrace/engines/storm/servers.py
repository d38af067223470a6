"""Storm: ZooKeeper, Nimbus and a supervisor, from its jars alone; workers are children of the supervisor."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from xml.sax.saxutils import quoteattr

import yaml

from millrace import kernel
from millrace.engines.storm import ENGINE, SLOTS
from millrace.engines.storm.libraries import compiled_against
from millrace.engines.storm.nimbus import Cluster, Nimbus
from millrace.engines.storm.tuning import HEAP_MB
from millrace.errors import InfraError
from millrace.machine import jars
from millrace.servers.hbase import zookeeper_says
from millrace.servers.server import LOOPBACK, Server, accepts, java, log4j2, properties
from millrace.settings import Settings

ZOOKEEPER_HEAP_MB, NIMBUS_HEAP_MB, SUPERVISOR_HEAP_MB = 96, 256, 192
UPTIME_WITHIN_S = 2
"""Nimbus has a supervisor's uptime in whole seconds."""


def servers(settings: Settings, profiles: Collection[str]) -> tuple[Server, ...]:
    """Storm's servers, the same in all forms of the stack."""
    return ZooKeeper(settings), NimbusServer(settings), Supervisor(settings)


def addresses(settings: Settings, profiles: Collection[str]) -> dict[str, str]:
    """Where clients find the cluster, as environment variables."""
    return {
        "STORM_NIMBUS": f"{LOOPBACK}:{settings.port('storm')}",
        "STORM_ZOOKEEPER": f"{LOOPBACK}:{settings.port('storm-zookeeper')}",
    }


def home(settings: Settings) -> Path:
    """storm.home: the servers find their configuration in it, and workers their jars."""
    return settings.state / "conf" / ENGINE.name


@dataclass(frozen=True)
class ZooKeeper(Server):
    """The ZooKeeper in Storm's own jars."""

    components: ClassVar[tuple[str, ...]] = ENGINE.components

    @property
    def name(self) -> str:
        return "storm-zookeeper"

    @property
    def doors(self) -> Mapping[str, int]:
        return {"clients": self.settings.port("storm-zookeeper")}

    def files(self) -> dict[str, str]:
        configuration = {
            "dataDir": self.data,
            "clientPort": self.settings.port("storm-zookeeper"),
            "clientPortAddress": LOOPBACK,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr",
            "autopurge.purgeInterval": 1,
        }
        return {"zoo.cfg": properties(configuration), "log4j2.properties": log4j2(self.log)}

    def command(self) -> list[str]:
        logging = f"-Dlog4j.configurationFile={(self.conf / 'log4j2.properties').as_uri()}"
        # ZooKeeperServerMain alone never purges.
        main = "org.apache.storm.shade.org.apache.zookeeper.server.quorum.QuorumPeerMain"
        start = java(ZOOKEEPER_HEAP_MB, flags=(logging,))
        return [*start, "-cp", self.jars("storm"), main, str(self.conf / "zoo.cfg")]

    def is_ready(self, since: float) -> bool:
        return zookeeper_says(self.settings.port("storm-zookeeper"), "srvr").startswith("Zookeeper version")


@dataclass(frozen=True)
class Daemon(Server):
    """What Nimbus and the supervisor share: one storm.home of this stack."""

    components: ClassVar[tuple[str, ...]] = ENGINE.components

    @property
    def conf(self) -> Path:
        return home(self.settings)

    def files(self) -> dict[str, str]:
        logs = self.settings.state / "logs"
        return {
            "conf/storm.yaml": yaml.safe_dump(configuration(self.settings), width=1000),
            "log4j2/worker.xml": worker_log(logs),
            "log4j2/submit.xml": CONSOLE_LOG,
            **{
                f"log4j2/{name}.properties": log4j2(logs / f"{name}.log")
                for name in ("storm-nimbus", "storm-supervisor")
            },
        }

    def links(self) -> dict[str, Path]:
        return {"lib-worker": jars.folder(self.settings, ENGINE.name)}

    def java(self, heap_mb: int, main: str) -> list[str]:
        """The command of a daemon."""
        kernel_jar = kernel.ensure(self.settings, ENGINE.name)  # it has the transport that listens on loopback
        class_path = [*compiled_against(self.settings), kernel_jar, self.conf / "conf"]
        flags = (
            f"-Dstorm.home={self.conf}",
            "-Dstorm.conf.file=storm.yaml",
            "-Dstorm.options=",
            f"-Dstorm.log.dir={self.settings.state / 'logs'}",
            f"-Dlog4j.configurationFile={(self.conf / 'log4j2' / f'{self.name}.properties').as_uri()}",
        )
        return [*java(heap_mb, flags=flags), "-cp", os.pathsep.join(map(str, class_path)), main]

    def cluster(self) -> Cluster | None:
        """What Nimbus has; None while it does not answer."""
        port = self.settings.port("storm")
        if not accepts(port):
            return None
        try:
            return Nimbus(LOOPBACK, port).cluster()
        except InfraError:
            return None


@dataclass(frozen=True)
class NimbusServer(Daemon):
    """The process that takes topologies and gives them to supervisors."""

    @property
    def name(self) -> str:
        return "storm-nimbus"

    @property
    def needs(self) -> tuple[str, ...]:
        return ("storm-zookeeper",)

    @property
    def doors(self) -> Mapping[str, int]:
        return {"thrift": self.settings.port("storm")}

    def command(self) -> list[str]:
        return self.java(NIMBUS_HEAP_MB, "org.apache.storm.daemon.nimbus.Nimbus")

    def is_ready(self, since: float) -> bool:
        found = self.cluster()
        return found is not None and found.has_leader


@dataclass(frozen=True)
class Supervisor(Daemon):
    """The process that starts a worker for each topology, and again when it dies."""

    @property
    def name(self) -> str:
        return "storm-supervisor"

    @property
    def needs(self) -> tuple[str, ...]:
        return ("storm-nimbus",)

    @property
    def doors(self) -> Mapping[str, int]:
        return {"thrift": self.settings.port("storm-supervisor")}

    def command(self) -> list[str]:
        return self.java(SUPERVISOR_HEAP_MB, "org.apache.storm.daemon.supervisor.Supervisor")

    def is_ready(self, since: float) -> bool:
        # Nimbus has one that was killed until its session ends.
        found = self.cluster()
        up_s = time.time() - since + UPTIME_WITHIN_S
        return found is not None and any(each <= up_s for each in found.supervisors_up_s)


def configuration(settings: Settings) -> dict[str, Any]:
    """storm.yaml of the servers, the submitter and the workers."""
    port, data = settings.port, settings.state / "data" / ENGINE.name
    return {
        "storm.zookeeper.servers": [LOOPBACK],
        "storm.zookeeper.port": port("storm-zookeeper"),
        "storm.zookeeper.session.timeout": 10_000,  # a Nimbus that is started again waits for its own to end
        "storm.local.dir": str(data / "local"),
        "storm.workers.artifacts.dir": str(data / "workers"),
        "storm.local.hostname": LOOPBACK,
        "storm.log4j2.conf.dir": str(home(settings) / "log4j2"),
        "nimbus.seeds": [LOOPBACK],
        "nimbus.thrift.port": port("storm"),
        "supervisor.thrift.port": port("storm-supervisor"),
        "supervisor.slots.ports": [port(f"storm-worker-{number}") for number in range(1, SLOTS + 1)],
        # Storm's own transports listen on every address: for Thrift there is ours, and a worker, alone with its
        # topology, needs no server (decision 0048).
        "storm.thrift.transport": "millrace.storm.LoopbackTransport",
        "storm.messaging.transport": "org.apache.storm.messaging.local.Context",
        # How soon a dead worker is noticed, and how long one may take to end.
        "supervisor.monitor.frequency.secs": 1,
        "supervisor.worker.shutdown.sleep.secs": 1,
        "nimbus.monitor.freq.secs": 3,
        "topology.worker.logwriter.childopts": "-Xmx32m -XX:+UseSerialGC -Dof.writer=-output",
        "worker.childopts": f"-Xmx{HEAP_MB}m -XX:+ExitOnOutOfMemoryError -Djava.net.preferIPv4Stack=true",
    }


def worker_log(logs: Path) -> str:
    """Log4j 2 as a worker reads it, and the process that writes what the worker prints: a file of each by its slot."""
    file = logs / "storm-worker-${sys:worker.port}${sys:of.writer:-}.log"
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="warn">
  <Appenders>
    <RollingFile name="FILE" fileName={quoteattr(str(file))} filePattern={quoteattr(f"{file}.%i")}>
      <PatternLayout pattern="%d{{yyyy-MM-dd HH:mm:ss,SSS}} %-5p %c{{1.}} - %m%n"/>
      <SizeBasedTriggeringPolicy size="10MB"/>
      <DefaultRolloverStrategy fileIndex="min" max="2"/>
    </RollingFile>
  </Appenders>
  <Loggers>
    <Root level="INFO"><AppenderRef ref="FILE"/></Root>
  </Loggers>
</Configuration>
"""


CONSOLE_LOG = """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="warn">
  <Appenders>
    <Console name="OUT"><PatternLayout pattern="%d{HH:mm:ss,SSS} %-5p %c{1.} - %m%n"/></Console>
  </Appenders>
  <Loggers>
    <Root level="INFO"><AppenderRef ref="OUT"/></Root>
  </Loggers>
</Configuration>
"""
