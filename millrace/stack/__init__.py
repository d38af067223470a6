"""One stack of real servers, on this machine, for one state folder."""

from collections.abc import Sequence

from millrace import registry
from millrace.servers import airflow, hdfs
from millrace.servers.server import LOOPBACK
from millrace.settings import Settings
from millrace.stack.form import profiles_of, remember, servers, servers_of
from millrace.stack.life import down, kill, purged, restart, restart_dead, up
from millrace.stack.lock import only_one
from millrace.stack.marks import given_up_file, left_dead_file
from millrace.stack.services import services
from millrace.stack.states import WATCH, ServerStatus, WatchStatus, logs, status, watch_status

__all__ = [
    "WATCH",
    "ServerStatus",
    "WatchStatus",
    "addresses",
    "down",
    "given_up_file",
    "kill",
    "left_dead_file",
    "logs",
    "only_one",
    "profiles_of",
    "purged",
    "remember",
    "restart",
    "restart_dead",
    "servers",
    "servers_of",
    "status",
    "up",
    "watch_status",
]


def addresses(settings: Settings, profiles: Sequence[str] | None = None) -> dict[str, str]:
    """Where clients find everything, as environment variables; profiles, unless given, are those of the last start."""
    profiles = profiles_of(settings) if profiles is None else profiles
    known = services(settings, profiles)
    of_engines: dict[str, str] = {}
    for engine in registry.manifests():
        of_engines |= engine.module("servers").addresses(settings, profiles)
    return settings.environment() | {
        "KAFKA_BOOTSTRAP": ",".join(broker.address for broker in known["kafka"].servers),
        "HDFS_URI": hdfs.uri(settings),
        "WEBHDFS_URL": f"http://{LOOPBACK}:{settings.port('webhdfs')}",
        "HADOOP_CONF_DIR": str(settings.state / "conf" / "namenode"),
        "HBASE_THRIFT_HOST": LOOPBACK,
        "HBASE_THRIFT_PORT": str(settings.port("hbase-thrift")),
        **of_engines,
        "AIRFLOW_URL": airflow.url(settings),
        "AIRFLOW_HOME": str(settings.state / "data" / "airflow"),
    }
