"""Spark's stand-alone cluster: a master and a worker. By default Spark runs inside each job, and nothing is started."""

import json
import urllib.request
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from millrace.engines.spark import ENGINE
from millrace.engines.spark.libraries import package
from millrace.engines.spark.tuning import LOCAL
from millrace.machine.environments import python
from millrace.registry import PROMETHEUS
from millrace.servers.server import LOOPBACK, Server, java, log4j2
from millrace.settings import Settings

PROMETHEUS_PATH = "metrics/prometheus"
"""On the page of each driver, which has its figures."""
CLUSTER = "spark-cluster"
"""The profile with servers."""
WORKER_CORES = 2
WORKER_MEMORY = "2g"

# What Spark's own launcher opens on Java 17.
OPENS = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in (
        *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
        *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
        *("sun.security.action", "sun.util.calendar"),
    )
)


def servers(settings: Settings, profiles: Collection[str]) -> tuple[Server, ...]:
    """Spark's servers, if the profile has them."""
    return (SparkMaster(settings), SparkWorker(settings)) if CLUSTER in profiles else ()


def addresses(settings: Settings, profiles: Collection[str]) -> dict[str, str]:
    """The master that drivers take their cores from, and where on their pages Prometheus reads their figures."""
    return {
        "SPARK_MASTER": master_url(settings) if CLUSTER in profiles else LOCAL,
        **({"SPARK_PROMETHEUS": PROMETHEUS_PATH} if PROMETHEUS in profiles else {}),
    }


@dataclass(frozen=True)
class Spark(Server):
    """What master and worker share."""

    components: ClassVar[tuple[str, ...]] = ENGINE.components
    environments: ClassVar[tuple[str, ...]] = (ENGINE.name,)

    def files(self) -> dict[str, str]:
        return {"log4j2.properties": log4j2(self.log)}

    def environment(self) -> dict[str, str]:
        return super().environment() | {
            "SPARK_HOME": str(package(self.settings)),
            # Without it the web pages listen on every address.
            "SPARK_LOCAL_IP": LOOPBACK,
            "PYSPARK_PYTHON": str(python(self.settings, "spark")),
        }

    def _java(self, main: str, *arguments: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={(self.conf / 'log4j2.properties').as_uri()}"
        # Off: the master's second API, on another port, and the kill buttons, which any local web page could press.
        start = java(256, flags=(*OPENS, logging, "-Dspark.master.rest.enabled=false", "-Dspark.ui.killEnabled=false"))
        return [*start, "-cp", f"{package(self.settings) / 'jars'}/*", main, "--host", LOOPBACK, *arguments]


@dataclass(frozen=True)
class SparkMaster(Spark):
    """The process that gives the workers' cores to jobs."""

    @property
    def name(self) -> str:
        return "spark-master"

    @property
    def doors(self) -> Mapping[str, int]:
        return {"clients": self.settings.port("spark"), "http": self.settings.port("spark-http")}

    @property
    def web(self) -> str:
        return f"http://{LOOPBACK}:{self.settings.port('spark-http')}"

    def command(self) -> list[str]:
        ports = ("--port", str(self.settings.port("spark")), "--webui-port", str(self.settings.port("spark-http")))
        return self._java("org.apache.spark.deploy.master.Master", *ports)

    def is_ready(self, since: float) -> bool:
        state = master_state(self.settings)
        return state is not None and state["status"] == "ALIVE"


@dataclass(frozen=True)
class SparkWorker(Spark):
    """The process that starts the jobs' executors."""

    @property
    def name(self) -> str:
        return "spark-worker"

    @property
    def needs(self) -> tuple[str, ...]:
        return ("spark-master",)

    @property
    def doors(self) -> Mapping[str, int]:
        return {"rpc": self.settings.port("spark-worker"), "http": self.settings.port("spark-worker-http")}

    @property
    def web(self) -> str:
        return f"http://{LOOPBACK}:{self.settings.port('spark-worker-http')}"

    def command(self) -> list[str]:
        return self._java(
            "org.apache.spark.deploy.worker.Worker",
            *("--port", str(self.settings.port("spark-worker"))),
            *("--webui-port", str(self.settings.port("spark-worker-http"))),
            *("--cores", str(WORKER_CORES), "--memory", WORKER_MEMORY, "--work-dir", str(self.data)),
            master_url(self.settings),
        )

    def is_ready(self, since: float) -> bool:
        state = master_state(self.settings)
        port = self.settings.port("spark-worker")
        return state is not None and any(
            worker["port"] == port and worker["state"] == "ALIVE" and worker["lastheartbeat"] > since * 1000
            for worker in state["workers"]
        )


def master_url(settings: Settings) -> str:
    return f"spark://{LOOPBACK}:{settings.port('spark')}"


def master_state(settings: Settings) -> dict[str, Any] | None:
    """The state of the master and its workers, from the master; None while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{settings.port('spark-http')}/json/", timeout=2) as answer:
            return dict(json.load(answer))
    except (OSError, ValueError):
        return None
