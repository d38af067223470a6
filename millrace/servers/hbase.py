"""HBase: one process on local files, or ZooKeeper, master and region server apart on HDFS; and its Thrift server."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from millrace.servers import hdfs
from millrace.servers.server import LOOPBACK, Server, accepts, hadoop_xml, java, log4j1, management_bean, properties
from millrace.settings import Settings

# What HBase's own start script opens on Java 17.
OPENS = (
    "-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true",
    "--add-modules=jdk.unsupported",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
)

SESSION_MS = 120_000
"""Of a process on local files with its own ZooKeeper, which bounds a session by 20 ticks."""


@dataclass(frozen=True)
class HBase(Server):
    """What all processes of one HBase share: with `durable`, data on HDFS and each part a process of its own."""

    durable: bool = False

    components: ClassVar[tuple[str, ...]] = ("hbase",)
    main: ClassVar[str]
    heap_mb: ClassVar[int]

    def files(self) -> dict[str, str]:
        return {
            "hbase-site.xml": hadoop_xml(self._site()),
            "log4j.properties": log4j1(self.log, quiet=("http.requests",)),
            # Its management beans are ten seconds old otherwise, and so would be its state here.
            "hadoop-metrics2-hbase.properties": properties({"*.period": 1}),
            "hbase-webapps/master/WEB-INF/web.xml": hdfs.EMPTY_WEB_APPLICATION,
            "hbase-webapps/regionserver/WEB-INF/web.xml": hdfs.EMPTY_WEB_APPLICATION,
            "hbase-webapps/static/README": "The servers look for this folder when they start.\n",
        }

    def command(self) -> list[str]:
        start = java(self.heap_mb, flags=OPENS)
        return [*start, "-cp", f"{self.jars('hbase')}:{self.conf}", self.main, "start"]

    def _site(self) -> dict[str, object]:
        port = self.settings.port
        data = self.settings.state / "data"
        where = (
            {
                "hbase.rootdir": f"{hdfs.uri(self.settings)}/hbase",
                "dfs.replication": 2,
                # How long it waits for HDFS to close the log of a server that died, before it looks again.
                "hbase.lease.recovery.first.pause": 1000,
                "hbase.lease.recovery.pause": 500,
                "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
                "zookeeper.session.timeout": 10000,
            }
            if self.durable
            else {
                # Not as_uri(): Hadoop takes a path as it is written and would look for a folder named "a%20b".
                "hbase.rootdir": f"file://{data / 'hbase'}",
                # The default local file system keeps a log's last bytes in memory: kill -9 would lose them.
                "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
                # ZooKeeper, in the same process, ends first: without these the region server retries it for 20 s.
                "zookeeper.recovery.retry": 1,
                "zookeeper.recovery.retry.intervalmill": 200,
                # The process may stand still, as its ZooKeeper then does: nobody takes over from it.
                "zookeeper.session.timeout.localHBaseCluster": SESSION_MS,
                "hbase.zookeeper.property.tickTime": SESSION_MS // 20,
            }
        )
        return {
            "hbase.cluster.distributed": str(self.durable).lower(),
            **where,
            "hbase.tmp.dir": data / "hbase-tmp",
            "hbase.unsafe.stream.capability.enforce": "false",
            "hbase.wal.provider": "filesystem",
            "hbase.zookeeper.quorum": LOOPBACK,
            "hbase.zookeeper.property.clientPort": port("zookeeper"),
            "hbase.zookeeper.property.clientPortAddress": LOOPBACK,
            "hbase.zookeeper.property.dataDir": data / ("zookeeper" if self.durable else "hbase-zookeeper"),
            "hbase.zookeeper.property.admin.enableServer": "false",
            "hbase.master.hostname": LOOPBACK,
            "hbase.master.ipc.address": LOOPBACK,
            "hbase.master.port": port("hbase-master"),
            "hbase.master.info.bindAddress": LOOPBACK,
            "hbase.master.ui.readonly": "true",  # any web page in a local browser could press its buttons
            "hbase.master.info.port": port("hbase-master-http"),
            "hbase.regionserver.hostname": LOOPBACK,
            "hbase.regionserver.ipc.address": LOOPBACK,
            "hbase.regionserver.port": port("hbase-regionserver"),
            "hbase.regionserver.info.bindAddress": LOOPBACK,
            "hbase.regionserver.info.port": port("hbase-regionserver-http"),
            "hbase.regionserver.handler.count": 5,
            "hbase.regionserver.metahandler.count": 3,
            "hbase.master.wait.on.regionservers.mintostart": 1,
            "hbase.master.wait.on.regionservers.timeout": 500,
            "hbase.master.wait.on.regionservers.interval": 200,
            "hfile.block.cache.size": 0.1,
            "hbase.procedure.store.region.wal.max.size": 4194304,
        }


@dataclass(frozen=True)
class ZooKeeper(HBase):
    """HBase's own ZooKeeper as a process."""

    durable: bool = True

    main: ClassVar[str] = "org.apache.hadoop.hbase.zookeeper.HQuorumPeer"
    heap_mb: ClassVar[int] = 128

    @property
    def name(self) -> str:
        return "zookeeper"

    @property
    def doors(self) -> Mapping[str, int]:
        return {"clients": self.settings.port("zookeeper")}

    def is_ready(self, since: float) -> bool:
        return zookeeper_says(self.settings.port("zookeeper"), "srvr").startswith("Zookeeper version")


@dataclass(frozen=True)
class Master(HBase):
    """The master; when not durable also the region server and ZooKeeper, in one process."""

    main: ClassVar[str] = "org.apache.hadoop.hbase.master.HMaster"
    heap_mb: ClassVar[int] = 512

    @property
    def name(self) -> str:
        return "hbase-master"

    @property
    def needs(self) -> tuple[str, ...]:
        return ("zookeeper", "datanode-1", "datanode-2") if self.durable else ()

    @property
    def doors(self) -> Mapping[str, int]:
        port = self.settings.port
        own = {"master": port("hbase-master"), "http": port("hbase-master-http")}
        inside = {
            "region server": port("hbase-regionserver"),
            "region server http": port("hbase-regionserver-http"),
            "zookeeper": port("zookeeper"),
        }
        return own if self.durable else own | inside

    @property
    def web(self) -> str:
        return f"http://{LOOPBACK}:{self.settings.port('hbase-master-http')}/master-status"

    def is_ready(self, since: float) -> bool:
        master = master_bean(self.settings)
        if master is None:
            return False
        if self.durable:  # it is not initialized before a region server is there, which waits for it
            return master.get("tag.isActiveMaster") == "true"
        return int(master.get("masterFinishedInitializationTime", 0)) > since * 1000


@dataclass(frozen=True)
class RegionServer(HBase):
    """The region server, as a process of its own."""

    durable: bool = True

    main: ClassVar[str] = "org.apache.hadoop.hbase.regionserver.HRegionServer"
    heap_mb: ClassVar[int] = 384

    @property
    def name(self) -> str:
        return "hbase-regionserver"

    @property
    def needs(self) -> tuple[str, ...]:
        return ("hbase-master",)

    @property
    def doors(self) -> Mapping[str, int]:
        port = self.settings.port
        return {"region server": port("hbase-regionserver"), "http": port("hbase-regionserver-http")}

    def is_ready(self, since: float) -> bool:
        master = master_bean(self.settings)
        # Names like "127.0.0.1,20023,1795251622335;...": the last part is when that life began.
        living = (master or {}).get("tag.liveRegionServers", "").split(";")
        return any(int(name.split(",")[2]) > since * 1000 for name in living if name)


@dataclass(frozen=True)
class Thrift(Server):
    """The Thrift server, for clients that are not Java. Its class path has an older Hadoop."""

    durable: bool = False

    components: ClassVar[tuple[str, ...]] = ("hbase-thrift",)

    @property
    def name(self) -> str:
        return "hbase-thrift"

    @property
    def needs(self) -> tuple[str, ...]:
        return ("hbase-regionserver",) if self.durable else ("hbase-master",)

    @property
    def doors(self) -> Mapping[str, int]:
        return {"clients": self.settings.port("hbase-thrift")}

    def files(self) -> dict[str, str]:
        site = {
            "hbase.zookeeper.quorum": LOOPBACK,
            "hbase.zookeeper.property.clientPort": self.settings.port("zookeeper"),
            "hbase.thrift.info.port": -1,
            "hbase.regionserver.thrift.ipaddress": LOOPBACK,
            # The whole of a region's recovery fits in these tries, so a client sees a pause and no error.
            "hbase.client.retries.number": 12,
        }
        return {"hbase-site.xml": hadoop_xml(site), "log4j.properties": log4j1(self.log)}

    def command(self) -> list[str]:
        main = "org.apache.hadoop.hbase.thrift.ThriftServer"
        arguments = ("start", "-p", str(self.settings.port("hbase-thrift")), "-b", LOOPBACK, "-threadpool")
        return [*java(192, flags=OPENS), "-cp", f"{self.jars('hbase-thrift')}:{self.conf}", main, *arguments]

    def is_ready(self, since: float) -> bool:
        import happybase
        from thriftpy2.thrift import TException

        if not accepts(self.settings.port("hbase-thrift")):
            return False
        try:
            connection = happybase.Connection(LOOPBACK, self.settings.port("hbase-thrift"), timeout=5000)
            try:
                connection.tables()
            finally:
                connection.close()
        except (TException, OSError):
            return False
        return True


def master_bean(settings: Settings) -> dict[str, Any] | None:
    return management_bean(settings.port("hbase-master-http"), "Hadoop:service=HBase,name=Master,sub=Server")


def zookeeper_says(port: int, word: str, host: str = LOOPBACK) -> str:
    """ZooKeeper's answer to one of its four-letter words; nothing while it does not answer."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(4096), b"")).decode(errors="replace")
    except OSError:
        return ""
