"""Services, the groups of servers that a command names, and the profiles that change their form."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from millrace import registry
from millrace.errors import UsageError
from millrace.rules.nearest import nearest
from millrace.servers.airflow import Airflow
from millrace.servers.dashboard import Dashboard
from millrace.servers.hbase import Master, RegionServer, Thrift, ZooKeeper
from millrace.servers.hdfs import DataNode, NameNode
from millrace.servers.kafka import Kafka
from millrace.servers.postgres import Postgres
from millrace.servers.server import Server
from millrace.settings import Settings

NEEDED = ("kafka", "hdfs", "hbase", *(engine.name for engine in registry.manifests() if engine.is_default))
"""The services that a pattern may need."""
PAGE = "dashboard"
"""The live page; no job needs it."""
DEFAULT = (*NEEDED, PAGE)

# What each profile changes; they combine.
PROFILES: Mapping[str, Mapping[str, Any]] = {
    "three-brokers": {"brokers": 3},
    "durable": {"brokers": 3, "durable": True},
    **{profile: {} for engine in registry.manifests() for profile in engine.profiles},
    "airflow-postgres": {"on_postgres": True},
}


@dataclass(frozen=True)
class Service:
    """Servers under one name, what they run on, and the services that they need."""

    name: str
    servers: tuple[Server, ...]
    needs: tuple[str, ...] = ()
    # For a service that runs inside jobs and has no server.
    components: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()


def services(settings: Settings, profiles: Iterable[str] = ()) -> dict[str, Service]:
    """Every service, in the form that the profiles give it."""
    form: dict[str, Any] = {"brokers": 1, "durable": False, "on_postgres": False}
    for profile in (profiles := tuple(profiles)):
        if profile not in PROFILES:
            raise UsageError(f"no profile '{profile}'; {nearest(profile, PROFILES)}")
        form |= PROFILES[profile]
    brokers, durable = form["brokers"], form["durable"]
    kafka = tuple(Kafka(settings, node=node, brokers=brokers) for node in range(1, brokers + 1))
    hdfs = (NameNode(settings), DataNode(settings, node=1), DataNode(settings, node=2))
    together = (Master(settings), Thrift(settings))
    apart = (
        ZooKeeper(settings),
        Master(settings, durable=True),
        RegionServer(settings),
        Thrift(settings, durable=True),
    )
    parts = ("api-server", "scheduler", "dag-processor", "triggerer")
    airflow = tuple(Airflow(settings, part=part, on_postgres=form["on_postgres"]) for part in parts)
    database = (Postgres(settings),) if form["on_postgres"] else ()
    found = (
        Service("kafka", kafka),
        Service("hdfs", hdfs),
        Service("hbase", apart if durable else together, needs=("hdfs",) if durable else ()),
        *(_of_engine(engine, settings, profiles) for engine in registry.manifests()),
        Service("airflow", (*database, *airflow)),
        Service(PAGE, (Dashboard(settings),)),
    )
    return {service.name: service for service in found}


def _of_engine(engine: registry.Manifest, settings: Settings, profiles: Collection[str]) -> Service:
    return Service(
        engine.name,
        engine.module("servers").servers(settings, profiles),
        needs=engine.needs,
        components=engine.components,
        environments=(engine.name,) if engine.has_environment else (),
    )


def with_needs(known: Mapping[str, Service], names: Iterable[str]) -> list[Service]:
    """The named services after those that they need."""
    found: dict[str, Service] = {}

    def add(name: str) -> None:
        service = known[require_known(name, known)]
        for need in service.needs:
            add(need)
        found.setdefault(name, service)

    for name in names:
        add(name)
    return list(found.values())


def needed(engines: Iterable[str], stores: Iterable[str]) -> list[str]:
    """The services of jobs on these engines that persist to these stores; all jobs keep their checkpoints on HDFS."""
    return list(dict.fromkeys(("kafka", "hdfs", *stores, *engines)))


def servers_named(known: Mapping[str, Service], names: Iterable[str]) -> list[Server]:
    """The servers with these names, or of the services with these names; each service has at least one."""
    by_name = {server.name: [server] for service in known.values() for server in service.servers}
    by_name |= {name: list(service.servers) for name, service in known.items()}
    found = {name: by_name[require_known(name, by_name)] for name in names}
    if without := [name for name, servers in found.items() if not servers]:
        raise UsageError(
            f"{without[0]} has no server here, only jobs; `millrace jobs` lists them, `deploy` starts them"
        )
    return list(dict.fromkeys(server for servers in found.values() for server in servers))


def require_known(name: str, known: Iterable[str]) -> str:
    """The name, or an error that lists the valid names."""
    if name not in (names := list(known)):
        raise UsageError(f"no service or server '{name}'; {nearest(name, names)}")
    return name
