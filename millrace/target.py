"""The servers that the verbs work on: the local stack's, or others that are already there."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from millrace import kernel, stack
from millrace.engines.flink.engine import Flink
from millrace.engines.job import Engine
from millrace.engines.spark.engine import Spark
from millrace.errors import InfraError, UsageError
from millrace.patterns import Stores, Variant
from millrace.settings import Settings
from millrace.stores.files import Hdfs
from millrace.stores.tables import HBase

ROOT = "/millrace"


@dataclass(frozen=True)
class Target:
    """Addresses of servers, and where on them a pattern keeps its things."""

    settings: Settings
    addresses: Mapping[str, str]
    allow_traffic: bool = False
    """Whether events that never happened may be sent there."""

    @classmethod
    def read(cls, settings: Settings, environ: Mapping[str, str] = os.environ) -> Target:
        """The stack of the settings, unless MILLRACE_TARGET gives other addresses.

        It is JSON as `millrace env --json` prints it, or only its addresses, or the name of a file of either. Servers
        that are not this stack's get no traffic unless it says `"allow_traffic": true`.
        """
        given = environ.get("MILLRACE_TARGET")
        if not given:
            return cls(settings, stack.addresses(settings), allow_traffic=True)
        try:
            text = given if given.lstrip().startswith("{") else Path(given).read_text(encoding="utf-8")
            answer = json.loads(text)
            addresses: dict[str, str] = dict(answer.get("addresses", answer))
            allow_traffic = answer.get("allow_traffic", addresses.pop("allow_traffic", False))
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise InfraError(
                f"MILLRACE_TARGET={given} cannot be read ({error}); write it with `millrace env --json`"
            ) from None
        if not isinstance(allow_traffic, bool):
            raise InfraError(
                f"MILLRACE_TARGET={given}: allow_traffic is {json.dumps(allow_traffic)}; give true or false"
            )
        return cls(settings, addresses, allow_traffic)

    def require_traffic_allowed(self) -> None:
        """Refuse to send events that never happened, or not at these times, to servers that others may read."""
        if not self.allow_traffic:
            raise UsageError(
                f"MILLRACE_TARGET does not allow traffic to Kafka at {self.bootstrap}: others may take it for real "
                'events; add "allow_traffic": true to the target if nobody does'
            )

    @property
    def bootstrap(self) -> str:
        return self._address("KAFKA_BOOTSTRAP")

    @property
    def hdfs_uri(self) -> str:
        return self._address("HDFS_URI")

    @property
    def hdfs(self) -> Hdfs:
        return Hdfs(self._address("WEBHDFS_URL"), self.addresses.get("HDFS_USER", getpass.getuser()))

    @property
    def hbase(self) -> HBase:
        return HBase(self._address("HBASE_THRIFT_HOST"), int(self._address("HBASE_THRIFT_PORT")))

    @property
    def checkpoints(self) -> str:
        return f"{self.hdfs_uri}{ROOT}/checkpoints"

    def folder(self, variant: Variant) -> str:
        """The folder of a pattern's Parquet on HDFS."""
        return f"{ROOT}/data/{variant.name}"

    def stores(self, variant: Variant) -> Stores:
        """Where the persisting stage of a pattern writes."""
        hbase = self.hbase
        return Stores(f"{self.hdfs_uri}{self.folder(variant)}", hbase.host, hbase.port, variant.name)

    def engine(self, name: str) -> Engine:
        """The engine of that name."""
        match name:
            case "flink":
                logs, own = self.settings.state / "logs", self.settings.state / "conf" / "flink"
                rest, home = self._address("FLINK_REST_URL"), Path(self.addresses.get("FLINK_HOME", own))
                warm = Path(self.addresses["FLINK_GATEWAY"]) if "FLINK_GATEWAY" in self.addresses else None
                return Flink(self.settings, rest, self.hdfs, logs, home, partial(kernel.ensure, self.settings), warm)
            case "spark":
                return Spark(self.settings, self._address("SPARK_MASTER"))
        raise InfraError(f"there is no engine '{name}'")

    def _address(self, name: str) -> str:
        if name not in self.addresses:
            raise InfraError(f"the address {name} is not known; see `millrace env`, or the file in MILLRACE_TARGET")
        return self.addresses[name]
