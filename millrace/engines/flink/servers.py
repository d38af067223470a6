"""Flink: a session cluster, JobManager and TaskManager, from the wheel of Flink's own environment."""

import json
import os
import urllib.request
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml

from millrace import kernel
from millrace.engines.flink import ENGINE, gateway
from millrace.engines.flink.libraries import package
from millrace.engines.flink.tuning import FAILURES_KEPT
from millrace.machine import jars
from millrace.machine.environments import python, python_path
from millrace.registry import PROMETHEUS
from millrace.servers import hdfs
from millrace.servers.server import LOOPBACK, Server, hadoop_xml, java, log4j2
from millrace.settings import Settings

SLOTS = 8

# Given in full, since only Flink's shell scripts can work them out from one total. Together 1.8 GB at most;
# what RocksDB may take (managed) is taken only when a job's state needs it.
TASKMANAGER_MB = {"task heap": 512, "framework heap": 128, "managed": 512, "network": 128, "off heap": 128}
TASKMANAGER_METASPACE_MB = 320
JOBMANAGER_HEAP_MB = 512
GATEWAY_HEAP_MB = 160
GATEWAY_METASPACE_MB = 128

REPORTING = ("jobmanager", "taskmanager")
REPORTER = "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
REPORTER_ON_LOOPBACK = (
    "-Dcom.sun.net.httpserver.HttpServerProvider=millrace.flink.rest.OnLoopback",
    "--add-exports=jdk.httpserver/sun.net.httpserver=ALL-UNNAMED",
)


def servers(settings: Settings, profiles: Collection[str]) -> tuple[Server, ...]:
    """Flink's servers, with its reporter for Prometheus where the profile has it."""
    reports = PROMETHEUS in profiles
    return JobManager(settings, reports=reports), TaskManager(settings, reports=reports), Gateway(settings)


def addresses(settings: Settings, profiles: Collection[str]) -> dict[str, str]:
    """Where clients find the cluster, as environment variables."""
    home = settings.state / "conf" / "flink"
    return {
        "FLINK_REST_URL": rest_url(settings),
        "FLINK_GATEWAY": str(gateway_socket(settings)),
        "FLINK_HOME": str(home),
        "FLINK_CONF_DIR": str(home / "conf"),
        **({"FLINK_PROMETHEUS": " ".join(reporters(settings))} if PROMETHEUS in profiles else {}),
    }


def reporters(settings: Settings) -> list[str]:
    """Where Prometheus reads Flink's own figures."""
    return [f"http://{LOOPBACK}:{settings.port(f'flink-{each}-prometheus')}/metrics" for each in REPORTING]


@dataclass(frozen=True)
class Flink(Server):
    """What JobManager and TaskManager share: one FLINK_HOME of this stack, made of links into the wheel."""

    reports: bool = False
    """Whether Prometheus can read its figures."""

    components: ClassVar[tuple[str, ...]] = ENGINE.components
    environments: ClassVar[tuple[str, ...]] = (ENGINE.name,)

    @property
    def needs(self) -> tuple[str, ...]:
        # Checkpoints go to HDFS.
        return ("datanode-1", "datanode-2")

    @property
    def conf(self) -> Path:
        return self.settings.state / "conf" / "flink"

    def files(self) -> dict[str, str]:
        log_file = Path("${sys:log.file}")
        return {
            "conf/config.yaml": yaml.safe_dump(configuration(self.settings), width=1000),
            "conf/log4j.properties": log4j2(log_file),
            # What `flink run` and PyFlink's gateway log with.
            "conf/log4j-cli.properties": log4j2(log_file),
            "conf/core-site.xml": hdfs.core_site(self.settings),
            "conf/hdfs-site.xml": hadoop_xml(hdfs.client_site(2)),
        }

    def links(self) -> dict[str, Path]:
        wheel, plugin = package(self.settings), "plugins/metrics-prometheus"
        library = {f"lib/{jar.name}": jar for jar in self._library()}
        return {"opt": wheel / "opt", **library, **({plugin: wheel / plugin} if self.reports else {})}

    def _library(self) -> list[Path]:
        wheel = package(self.settings)
        folders = [jars.folder(self.settings, component) for component in self.components]
        library = [jar for folder in (*folders, wheel / "lib") for jar in sorted(folder.glob("*.jar"))]
        # flink-python too, to be loaded once for all jobs: the second job in thread mode dies when each loads pemja
        # anew (FLINK-37727).
        return [*library, *(wheel / "opt").glob("flink-python-*.jar"), kernel.ensure(self.settings, ENGINE.name)]

    def environment(self) -> dict[str, str]:
        return super().environment() | {
            "FLINK_HOME": str(self.conf),
            "FLINK_CONF_DIR": str(self.conf / "conf"),
            "HADOOP_CONF_DIR": str(self.conf / "conf"),
            **({"FLINK_PLUGINS_DIR": str(self.conf / "plugins")} if self.reports else {}),
        }

    @property
    def _reporter_door(self) -> dict[str, int]:
        return {"prometheus": self.settings.port(f"{self.name}-prometheus")} if self.reports else {}

    @property
    def _reporter(self) -> list[str]:
        """Options of the server, which stand behind those of its JVM."""
        if not self.reports:
            return []
        port = self._reporter_door["prometheus"]
        options = {"reporters": "prom", "reporter.prom.factory.class": REPORTER, "reporter.prom.port": port}
        return [f"-Dmetrics.{name}={value}" for name, value in options.items()]

    def _java(self, heap_mb: int, main: str, *flags: str, quick: bool = False) -> list[str]:
        conf = self.conf / "conf"
        logging = (f"-Dlog.file={self.log}", f"-Dlog4j.configurationFile={(conf / 'log4j.properties').as_uri()}")
        opens = tuple(configuration(self.settings)["env.java.opts.all"].split())
        on_loopback = REPORTER_ON_LOOPBACK if self.reports else ()
        start = java(heap_mb, flags=(*opens, *logging, *on_loopback, *flags), quick_start=quick)
        # The jars where they are, not the links to them: an archive of their classes serves every stack.
        return [*start, "-cp", os.pathsep.join(map(str, [*self._library(), conf])), main]

    @property
    def _config_dir(self) -> tuple[str, str]:
        return ("--configDir", str(self.conf / "conf"))


@dataclass(frozen=True)
class JobManager(Flink):
    """The process that schedules jobs, triggers checkpoints and answers REST calls."""

    @property
    def name(self) -> str:
        return "flink-jobmanager"

    @property
    def doors(self) -> Mapping[str, int]:
        port = self.settings.port
        return {
            "rest": port("flink"),
            "rpc": port("flink-jobmanager"),
            "blob": port("flink-jobmanager-blob"),
            "metrics": port("flink-jobmanager-metrics"),
            **self._reporter_door,
        }

    @property
    def web(self) -> str:
        return rest_url(self.settings)

    def command(self) -> list[str]:
        main = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        return [
            *self._java(JOBMANAGER_HEAP_MB, main, "-XX:MaxMetaspaceSize=256m", quick=True),
            *self._config_dir,
            f"-Dmetrics.internal.query-service.port={self.settings.port('flink-jobmanager-metrics')}",
            *self._reporter,
            *("--executionMode", "cluster"),
        ]

    def is_ready(self, since: float) -> bool:
        return rest(self.settings, "/overview") is not None


@dataclass(frozen=True)
class TaskManager(Flink):
    """The process that runs the jobs' tasks."""

    @property
    def name(self) -> str:
        return "flink-taskmanager"

    @property
    def needs(self) -> tuple[str, ...]:
        return ("flink-jobmanager",)

    @property
    def doors(self) -> Mapping[str, int]:
        port = self.settings.port
        return {
            "rpc": port("flink-taskmanager"),
            "data": port("flink-taskmanager-data"),
            "metrics": port("flink-taskmanager-metrics"),
            **self._reporter_door,
        }

    def command(self) -> list[str]:
        heap = TASKMANAGER_MB["task heap"] + TASKMANAGER_MB["framework heap"]
        direct = TASKMANAGER_MB["network"] + TASKMANAGER_MB["off heap"]
        return [
            *self._java(
                heap,
                "org.apache.flink.runtime.taskexecutor.TaskManagerRunner",
                f"-XX:MaxDirectMemorySize={direct}m",
                f"-XX:MaxMetaspaceSize={TASKMANAGER_METASPACE_MB}m",
            ),
            *self._config_dir,
            f"-Dmetrics.internal.query-service.port={self.settings.port('flink-taskmanager-metrics')}",
            *self._reporter,
        ]

    def is_ready(self, since: float) -> bool:
        answer = rest(self.settings, "/taskmanagers")
        # The JobManager lists a killed one until its heartbeats are missed.
        return answer is not None and any(
            one["slotsNumber"] == SLOTS and one["timeSinceLastHeartbeat"] > since * 1000
            for one in answer["taskmanagers"]
        )


@dataclass(frozen=True)
class Gateway(Flink):
    """The process that plans and submits jobs, kept warm; it listens on a socket that is a file, and on no port.

    It has a home of its own: restarted alone it may have newer jars than the cluster, and then refuses its jobs.
    """

    @property
    def name(self) -> str:
        return "flink-gateway"

    @property
    def needs(self) -> tuple[str, ...]:
        # Not required, but a warm-up takes 4 s of processor time, by which all others would start later.
        return ("flink-taskmanager",)

    @property
    def conf(self) -> Path:
        return self.settings.state / "conf" / self.name

    @property
    def doors(self) -> Mapping[str, int]:
        return {}

    @property
    def address(self) -> str:
        return str(gateway_socket(self.settings))

    def files(self) -> dict[str, str]:
        return {name: text for name, text in super().files().items() if not name.endswith((".xml", "-cli.properties"))}

    def environment(self) -> dict[str, str]:
        return super().environment() | {"PYTHONPATH": str(python_path(self.settings))}

    def command(self) -> list[str]:
        main = "millrace.flink.submission.Gateway"
        return [
            *(str(python(self.settings, "flink")), "-m", "millrace.engines.flink.warm_up"),
            *self._java(GATEWAY_HEAP_MB, main, f"-XX:MaxMetaspaceSize={GATEWAY_METASPACE_MB}m", quick=True),
            # Relative to where it stands: the path of a socket holds 107 bytes at most.
            *(gateway_socket(self.settings).parent.name, str(self.conf / "lib")),
        ]

    def is_ready(self, since: float) -> bool:
        return bool(gateway.is_ready(gateway_socket(self.settings)))


def gateway_socket(settings: Settings) -> Path:
    return settings.run / "flink-gateway" / "socket"


def configuration(settings: Settings) -> dict[str, Any]:
    """The cluster's config.yaml."""
    port = settings.port
    mb = {part: f"{size}m" for part, size in TASKMANAGER_MB.items()}
    return {
        # What the wheel's own configuration opens for Java 17.
        "env.java.opts.all": " ".join([*(f"--add-exports={one}=ALL-UNNAMED" for one in EXPORTS), *OPENS]),
        "jobmanager.rpc.address": LOOPBACK,
        "jobmanager.rpc.port": port("flink-jobmanager"),
        "jobmanager.bind-host": LOOPBACK,
        "blob.server.port": str(port("flink-jobmanager-blob")),
        "rest.address": LOOPBACK,
        "rest.port": port("flink"),
        "rest.bind-address": LOOPBACK,
        "rest.bind-port": str(port("flink")),
        "taskmanager.host": LOOPBACK,
        "taskmanager.bind-host": LOOPBACK,
        "taskmanager.rpc.port": str(port("flink-taskmanager")),
        "taskmanager.data.port": port("flink-taskmanager-data"),
        # A fixed name: one that is started again takes the place of the one that died.
        "taskmanager.resource-id": "taskmanager-1",
        "taskmanager.numberOfTaskSlots": SLOTS,
        "taskmanager.cpu.cores": 2.0,
        "taskmanager.memory.framework.heap.size": mb["framework heap"],
        "taskmanager.memory.task.heap.size": mb["task heap"],
        "taskmanager.memory.framework.off-heap.size": mb["off heap"],
        "taskmanager.memory.task.off-heap.size": "0m",
        "taskmanager.memory.network.min": mb["network"],
        "taskmanager.memory.network.max": mb["network"],
        "taskmanager.memory.managed.size": mb["managed"],
        "taskmanager.memory.jvm-metaspace.size": f"{TASKMANAGER_METASPACE_MB}m",
        "taskmanager.memory.jvm-overhead.min": "192m",
        "taskmanager.memory.jvm-overhead.max": "192m",
        "io.tmp.dirs": str(settings.state / "data" / "flink-tmp"),
        # Jobs come as graphs by our own client; what other web pages send is refused by OwnPagesOnly.java.
        "web.submit.enable": False,
        "web.access-control-allow-origin": rest_url(settings),
        "web.upload.dir": str(settings.state / "data" / "flink-upload"),
        "state.backend.type": "rocksdb",
        # A lookup in a cache that is smaller than an index would read the whole index (decision 0070).
        "state.backend.rocksdb.memory.partitioned-index-filters": True,
        "state.backend.rocksdb.use-bloom-filter": True,
        "execution.checkpointing.incremental": True,
        "execution.checkpointing.dir": f"{hdfs.uri(settings)}/flink/checkpoints",
        "execution.checkpointing.savepoint-dir": f"{hdfs.uri(settings)}/flink/savepoints",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.num-retained": 3,  # the newest may be damaged
        # A dead TaskManager is detected by two refused calls, after 2 s; a busy one has 30 s.
        "heartbeat.interval": "1 s",
        "heartbeat.timeout": "30 s",
        "heartbeat.rpc-failure-threshold": 2,
        # A task fails if its report to the coordinator is not acknowledged (decision 0059): as long as a heartbeat.
        "pekko.ask.timeout": "30 s",
        # The default is the one above: the slots of a JobManager that died would be free so much later.
        "taskmanager.slot.timeout": "10 s",
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.initial-backoff": "500 ms",
        # While a TaskManager is away each attempt fails at once: the last pause is lost time when it is back, and an
        # earlier failure within the hour would make that pause the longest.
        "restart-strategy.exponential-delay.max-backoff": "2 s",
        "restart-strategy.exponential-delay.reset-backoff-threshold": "1 min",
        "web.exception-history-size": FAILURES_KEPT,
        # A TaskManager whose JobManager died tries again this long after a refused registration; the default is 10 s.
        "cluster.registration.error-delay": "1 s",
        "cluster.registration.max-timeout": "2 s",
        "classloader.parent-first-patterns.additional": "pemja.",
        "classloader.check-leaked-classloader": False,
        "env.hadoop.conf.dir": str(settings.state / "conf" / "flink" / "conf"),
        "fs.hdfs.hadoopconf": str(settings.state / "conf" / "flink" / "conf"),
    }


def rest_url(settings: Settings) -> str:
    return f"http://{LOOPBACK}:{settings.port('flink')}"


def rest(settings: Settings, path: str) -> Any:
    """What the cluster answers to a GET; None while it does not answer."""
    try:
        with urllib.request.urlopen(rest_url(settings) + path, timeout=2) as answer:
            return json.load(answer)
    except (OSError, ValueError):
        return None


EXPORTS = (
    "java.rmi/sun.rmi.registry",
    *(f"jdk.compiler/com.sun.tools.javac.{part}" for part in ("api", "file", "parser", "tree", "util")),
    "java.security.jgss/sun.security.krb5",
)
OPENS = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in (
        *("java.lang", "java.net", "java.io", "java.nio", "sun.nio.ch", "java.lang.reflect", "java.text", "java.time"),
        *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks"),
    )
)
