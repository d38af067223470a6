"""Kafka Streams has no servers: each job is a process, and its cluster is Kafka."""

from __future__ import annotations

from collections.abc import Collection

from millrace.servers.server import Server
from millrace.settings import Settings


def servers(settings: Settings, profiles: Collection[str]) -> tuple[Server, ...]:
    """None."""
    return ()


def addresses(settings: Settings, profiles: Collection[str]) -> dict[str, str]:
    """None: Kafka's is all that a job needs."""
    return {}
