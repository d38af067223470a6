"""HDFS: a NameNode and DataNodes, each a process, with WebHDFS for clients over HTTP."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from millrace.servers.server import LOOPBACK, Preparation, Server, hadoop_xml, java, log4j1, management_bean
from millrace.settings import Settings

# What Hadoop reflects into, on Java 17.
OPENS = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.util", "java.util.concurrent", "java.net", "java.nio")
)

DATASET = "org.apache.hadoop.hdfs.server.datanode.fsdataset.impl"

# A form on any web page in a local browser could change files: the user is a parameter of the URL.
NO_WEB_PAGES = {"dfs.webhdfs.rest-csrf.enabled": "true"}

# The jars from the package registry hold no web pages, and the servers refuse to start without these folders.
EMPTY_WEB_APPLICATION = '<?xml version="1.0" encoding="UTF-8"?>\n<web-app xmlns="http://java.sun.com/xml/ns/j2ee"/>\n'


@dataclass(frozen=True)
class NameNode(Server):
    """The NameNode: it holds the names of files and the places of their blocks."""

    datanodes: int = 2

    components: ClassVar[tuple[str, ...]] = ("hdfs",)

    @property
    def name(self) -> str:
        return "namenode"

    @property
    def doors(self) -> Mapping[str, int]:
        return {"clients": self.settings.port("hdfs"), "http": self.settings.port("hdfs-http")}

    @property
    def web(self) -> str:
        return f"http://{LOOPBACK}:{self.settings.port('hdfs-http')}/index.html"

    def files(self) -> dict[str, str]:
        site = client_site(self.datanodes) | {
            "dfs.namenode.name.dir": self.data.as_uri(),
            "dfs.namenode.rpc-address": f"{LOOPBACK}:{self.settings.port('hdfs')}",
            "dfs.namenode.http-address": f"{LOOPBACK}:{self.settings.port('hdfs-http')}",
            "dfs.namenode.replication.min": 1,
            "dfs.namenode.handler.count": 4,
            "dfs.namenode.service.handler.count": 2,
            "dfs.namenode.safemode.extension": 0,
            "dfs.namenode.safemode.threshold-pct": 0.999,
            # A DataNode counts as dead after 2 * recheck + 10 * heartbeat: 16 s instead of ten minutes.
            "dfs.heartbeat.interval": 1,
            "dfs.namenode.heartbeat.recheck-interval": 3000,
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.namenode.fs-limits.min-block-size": 4096,
            # Between two looks for deleted blocks. The default, 10 ms, is nearly half of what an idle NameNode uses.
            "dfs.namenode.block.deletion.unlock.interval.ms": 500,
            "dfs.webhdfs.enabled": "true",
            **NO_WEB_PAGES,
            # The user who starts the NameNode is the superuser; all others have permissions as in a real cluster.
            "dfs.permissions.enabled": "true",
        }
        return {
            "core-site.xml": core_site(self.settings),
            "hdfs-site.xml": hadoop_xml(site),
            "log4j.properties": log4j1(self.log),
            "webapps/hdfs/WEB-INF/web.xml": EMPTY_WEB_APPLICATION,
            "webapps/hdfs/index.html": INDEX,
            "webapps/static/README": "The NameNode looks for this folder when it starts.\n",
        }

    def preparation(self) -> Preparation:
        arguments = ("-format", "-nonInteractive", "-force", "-clusterId", "millrace")
        # VERSION is written first and the image of the names last, by a rename.
        whole = {"current/VERSION": b"clusterID=", f"current/fsimage_{'[0-9]' * 19}": b"HDFSIMG"}
        return Preparation(self.data, ((*self._java(128), *arguments),), whole)

    def command(self) -> list[str]:
        return self._java(256)

    def is_ready(self, since: float) -> bool:
        # In safe mode it answers too; the blocks it waits for are the DataNodes' to report.
        return namenode_bean(self.settings, "FSNamesystemState") is not None

    def _java(self, heap_mb: int) -> list[str]:
        main = "org.apache.hadoop.hdfs.server.namenode.NameNode"
        return [*java(heap_mb, flags=OPENS), "-cp", f"{self.jars('hdfs')}:{self.conf}", main]


@dataclass(frozen=True)
class DataNode(Server):
    """A DataNode: it stores blocks."""

    node: int = 1
    datanodes: int = 2

    components: ClassVar[tuple[str, ...]] = ("hdfs",)

    @property
    def name(self) -> str:
        return f"datanode-{self.node}"

    @property
    def needs(self) -> tuple[str, ...]:
        return ("namenode",)

    @property
    def folder(self) -> Path:
        return self.data

    @property
    def doors(self) -> Mapping[str, int]:
        port = self.settings.port
        return {"data": port(self.name), "http": port(f"{self.name}-http"), "ipc": port(f"{self.name}-ipc")}

    def files(self) -> dict[str, str]:
        port = self.settings.port
        site = client_site(self.datanodes) | {
            "dfs.namenode.rpc-address": f"{LOOPBACK}:{port('hdfs')}",
            # The folder it stands in, by a name without "%20": Hadoop takes a thread's name for a format and would die
            # of a space or an umlaut in it.
            "dfs.datanode.data.dir": "file:///proc/self/cwd",
            "dfs.datanode.hostname": LOOPBACK,
            "dfs.datanode.address": f"{LOOPBACK}:{port(self.name)}",
            "dfs.datanode.http.address": f"{LOOPBACK}:{port(f'{self.name}-http')}",
            "dfs.datanode.ipc.address": f"{LOOPBACK}:{port(f'{self.name}-ipc')}",
            "dfs.datanode.handler.count": 3,
            "dfs.datanode.du.reserved": 0,
            "dfs.heartbeat.interval": 1,
            **NO_WEB_PAGES,
            # It answers WebHDFS as a client of the NameNode. Its connection may be to one that is dead, and a new one
            # may be on its way.
            "dfs.client.retry.policy.enabled": "true",
            "dfs.client.retry.policy.spec": "500,40",
        }
        return {
            "core-site.xml": core_site(self.settings),
            "hdfs-site.xml": hadoop_xml(site),
            # It logs a thousand locks at each start.
            "log4j.properties": log4j1(self.log, quiet=(f"{DATASET}.FsDatasetImpl",)),
            "webapps/datanode/WEB-INF/web.xml": EMPTY_WEB_APPLICATION,
            "webapps/static/README": "The DataNode looks for this folder when it starts.\n",
        }

    def command(self) -> list[str]:
        main = "org.apache.hadoop.hdfs.server.datanode.DataNode"
        return [*java(192, flags=OPENS), "-cp", f"{self.jars('hdfs')}:{self.conf}", main]

    def is_ready(self, since: float) -> bool:
        own = management_bean(self.doors["http"], "Hadoop:service=DataNode,name=DataNodeInfo")
        state = namenode_bean(self.settings, "FSNamesystemState")
        info = namenode_bean(self.settings, "NameNodeInfo")
        if own is None or state is None or info is None or state.get("FSState") != "Operational":
            return False
        # Both are probed: the NameNode lists a killed one until it misses its heartbeats. One that came back lists it a
        # second before it has its report of blocks, and with fewer than a thousand the safe mode may end before that.
        up_s = time.time() - info["NNStartedTimeInMillis"] / 1000
        has_reported = any(
            actor["ActorState"] == "RUNNING" and int(actor["LastBlockReport"]) + 1 < up_s
            for actor in part(own, "BPServiceActorInfo")
        )
        return has_reported and any(node["xferaddr"] == self.address for node in part(info, "LiveNodes").values())


def client_site(datanodes: int) -> dict[str, object]:
    """The settings that a client needs besides the NameNode's address."""
    return {
        "dfs.replication": min(2, datanodes),
        "dfs.blocksize": 8388608,
        "dfs.client.use.datanode.hostname": "false",
        # With two DataNodes there is no third to replace one that fails during a write.
        "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
    }


def core_site(settings: Settings) -> str:
    return hadoop_xml(
        {
            "fs.defaultFS": uri(settings),
            "hadoop.tmp.dir": settings.state / "data" / "hadoop-tmp",
            "ipc.client.connect.max.retries": 3,
        }
    )


def uri(settings: Settings) -> str:
    """Where Hadoop's clients find the file system."""
    return f"hdfs://{LOOPBACK}:{settings.port('hdfs')}"


def part(bean: Mapping[str, Any], name: str) -> Any:
    """A part of a bean, which is JSON in its JSON; empty while its server is still being built."""
    return json.loads(bean.get(name) or "{}")


def namenode_bean(settings: Settings, name: str) -> dict[str, Any] | None:
    return management_bean(settings.port("hdfs-http"), f"Hadoop:service=NameNode,name={name}")


INDEX = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>HDFS</title></head>
<body>
<h1>HDFS</h1>
<ul>
<li><a href="/webhdfs/v1/?op=LISTSTATUS">files of /</a></li>
<li><a href="/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo">space, blocks, live and dead DataNodes</a></li>
<li><a href="/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState">state of the name system</a></li>
<li><a href="/conf">configuration</a>, <a href="/stacks">threads</a>, <a href="/prom">metrics</a></li>
</ul>
</body>
</html>
"""
