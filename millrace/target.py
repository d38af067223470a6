"""The servers that the verbs work on: the local stack's, or others that are already there."""

from __future__ import annotations

import getpass
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from millrace import project, registry, stack
from millrace.errors import InfraError, UsageError
from millrace.job import Engine
from millrace.patterns import Stores, Variant
from millrace.settings import Settings
from millrace.stores.files import Hdfs
from millrace.stores.tables import HBase
from millrace.yaml_text import read_yaml

ROOT = "/millrace"


@dataclass(frozen=True)
class Given:
    """The content of MILLRACE_TARGET: addresses of other servers, or profiles of the local stack."""

    addresses: Mapping[str, str] | None = None
    profiles: tuple[str, ...] | None = None
    allow_traffic: bool = True

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Given:
        """The target that MILLRACE_TARGET gives: a name in the project's infra/, another file, or its text.

        It is YAML or JSON: `stack` with profiles, or addresses as `millrace env --json` prints them.
        """
        given = environ.get("MILLRACE_TARGET")
        if not given:
            return cls()
        try:
            content = read_yaml(given if given.lstrip().startswith("{") else _file(given).read_text("utf-8"))
            found = dict(content.get("addresses", content))
            allow_traffic = content.get("allow_traffic", found.pop("allow_traffic", False))
            local = content.get("stack", found.pop("stack", None))
            profiles = None if local is None else tuple(local.get("profiles") or ())
        except (OSError, ValueError, TypeError, AttributeError) as error:
            why = str(error).replace("\n", " ")
            raise InfraError(
                f"MILLRACE_TARGET={given} cannot be read ({why}); write it with `millrace env --json`{_there_are()}"
            ) from None
        if not isinstance(allow_traffic, bool):
            raise InfraError(
                f"MILLRACE_TARGET={given}: allow_traffic is {json.dumps(allow_traffic)}; give true or false"
            )
        if profiles is not None and found:
            raise InfraError(
                f"MILLRACE_TARGET={given}: a stack has the addresses of its own servers; remove {', '.join(found)}"
            )
        addresses = None if profiles is not None else {name: str(value) for name, value in found.items()}
        return cls(addresses, profiles, allow_traffic)


def _file(given: str) -> Path:
    named = project.root() / "infra" / f"{given}.yaml"
    return named if re.fullmatch(r"[\w-]+", given) and named.exists() else Path(given)


def _there_are() -> str:
    names = sorted(path.stem for path in (project.root() / "infra").glob("*.yaml"))
    return f", or name one of the project's infra/: {', '.join(names)}" if names else ""


@dataclass(frozen=True)
class Target:
    """Addresses of servers, and where on them a pattern keeps its things."""

    settings: Settings
    addresses: Mapping[str, str]
    allow_traffic: bool = False
    """Whether generated events may be sent there."""

    @classmethod
    def read(cls, settings: Settings, environ: Mapping[str, str] = os.environ) -> Target:
        """The stack of the settings, unless MILLRACE_TARGET gives other addresses.

        Servers that are not this stack's get no traffic unless the target has `allow_traffic: true`.
        """
        given = Given.read(environ)
        addresses = stack.addresses(settings) if given.addresses is None else given.addresses
        return cls(settings, addresses, given.allow_traffic)

    def require_traffic_allowed(self) -> None:
        """Refuse to send generated or replayed events to servers whose consumers may take them for real ones."""
        if not self.allow_traffic:
            raise UsageError(
                f"MILLRACE_TARGET does not allow traffic to Kafka at {self.bootstrap}: a consumer may take it for real "
                'events; if none does, add "allow_traffic": true to the target'
            )

    @property
    def bootstrap(self) -> str:
        return self.address("KAFKA_BOOTSTRAP")

    @property
    def hdfs_uri(self) -> str:
        return self.address("HDFS_URI")

    @property
    def hdfs(self) -> Hdfs:
        return Hdfs(self.address("WEBHDFS_URL"), self.addresses.get("HDFS_USER", getpass.getuser()))

    @property
    def hbase(self) -> HBase:
        port = self._port("HBASE_THRIFT_PORT", self.address("HBASE_THRIFT_PORT"))
        return HBase(self.address("HBASE_THRIFT_HOST"), port)

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
        engine: Engine = registry.manifest(name).module("engine").connect(self)
        return engine

    def host_and_port(self, name: str) -> tuple[str, int]:
        """The address under this name, HOST:PORT, in its parts."""
        host, _, port = self.address(name).rpartition(":")
        return host, self._port(name, port)

    def _port(self, name: str, port: str) -> int:
        if not port.isdecimal():
            raise InfraError(
                f"{name} in MILLRACE_TARGET is {self.address(name)!r}, without the number of a port at its end; "
                "`millrace env` shows an example"
            )
        return int(port)

    def address(self, name: str) -> str:
        """The address that the target must have under this name."""
        if name not in self.addresses:
            raise InfraError(f"no address {name}; add it to the file in MILLRACE_TARGET, see `millrace env`")
        return self.addresses[name]
