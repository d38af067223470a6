"""The group of an ip: a number below G that Kafka's own hash gives, so that an ip is always in the same group."""

from __future__ import annotations

GROUPS, GROUPS_MOST = 12, 10_000


def group_of(ip: str, groups: int) -> int:
    """The group of an ip; the hash costs some 10 us, so senders keep the result."""
    from kafka.partitioner.default import murmur2  # here: the rules are also read where nothing is sent

    return int((murmur2(ip.encode()) & 0x7FFFFFFF) % groups)
