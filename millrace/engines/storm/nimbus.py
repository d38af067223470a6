"""Nimbus by its Thrift interface."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ANSWERS_WITHIN_MS = 10_000
RECOVERS_WITHIN_S, AGAIN_AFTER_S = 30, 0.5
"""A Nimbus that was apart from its ZooKeeper for some seconds refuses an answer until it has it again."""


@dataclass(frozen=True)
class Topology:
    """A topology that Nimbus has."""

    id: str
    name: str
    is_active: bool
    """Whether it runs, or is to run; one that was killed is there until its workers have ended."""
    workers: int = 1
    """The slots that it takes; one that waits for a worker takes a slot, too."""


@dataclass(frozen=True)
class Cluster:
    """What a Nimbus has."""

    topologies: tuple[Topology, ...]
    supervisors_up_s: tuple[int, ...]
    """For how long each supervisor is up."""
    slots: int
    has_leader: bool
    """Whether Nimbus itself takes topologies."""


@dataclass(frozen=True)
class Nimbus:
    """A Nimbus by its address."""

    host: str
    port: int

    def cluster(self, refused_for_s: float = 0) -> Cluster:
        """What there is now; asked again for so long where Nimbus is there and refuses an answer."""
        from thriftpy2.thrift import TApplicationException

        deadline, found = time.monotonic() + refused_for_s, None
        while found is None:
            with self._client() as client:
                try:
                    found = client.getClusterInfo()
                except TApplicationException:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(AGAIN_AFTER_S)
        topologies, supervisors = found.topologies or (), found.supervisors or ()
        return Cluster(
            tuple(
                Topology(each.id, each.name, each.status == "ACTIVE", max(1, each.num_workers)) for each in topologies
            ),
            tuple(each.uptime_secs for each in supervisors),
            sum(each.num_workers for each in supervisors),
            any(each.isLeader for each in found.nimbuses or ()),
        )

    def kill(self, name: str) -> None:
        """Kill the topology of that name at once; nothing if there is none."""
        with self._client() as client:
            try:
                client.killTopologyWithOpts(name, _thrift().KillOptions(wait_secs=0))
            except _thrift().NotAliveException:
                return

    @contextmanager
    def _client(self) -> Iterator[Any]:
        from thriftpy2.protocol.binary import TBinaryProtocolFactory
        from thriftpy2.rpc import make_client
        from thriftpy2.thrift import TException
        from thriftpy2.transport.framed import TFramedTransportFactory

        from millrace.job import EngineError  # `millrace status` asks a Nimbus, and reads no pattern

        try:
            client = make_client(
                _thrift().Nimbus,
                self.host,
                self.port,
                proto_factory=TBinaryProtocolFactory(),
                trans_factory=TFramedTransportFactory(),
                timeout=ANSWERS_WITHIN_MS,
            )
            try:
                yield client
            finally:
                client.close()
        except (TException, OSError) as error:
            raise EngineError(
                f"Nimbus at {self.host}:{self.port} does not answer ({error}); "
                "run `millrace up storm`, or see `millrace logs storm-nimbus`"
            ) from None


@cache
def _thrift() -> Any:
    import thriftpy2

    return thriftpy2.load(str(Path(__file__).with_name("nimbus.thrift")), module_name="nimbus_thrift")
