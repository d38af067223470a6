"""Rows and cells of a table as text, and sums of digests in which many rows are remembered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from millrace.verify.ledger.step import Cells

SUMS = 1 << 64
Rows = Sequence[tuple[str, Cells]]
Sums = list[int]
"""How many rows or cells, and the sum of their digests."""


def text(name: bytes) -> str:
    """Bytes as text: without loss, and in their order."""
    return name.decode("latin-1")


def encoded(text: str) -> bytes:
    return text.encode("latin-1")


def legible(name: str) -> str:
    return encoded(name).decode(errors="replace")


def group_of(row: str) -> str:
    """The first part of a row key."""
    return row.partition("|")[0]


def is_within(row: str, start: str, end: str) -> bool:
    return start <= row and (not end or row < end)


def digest_of(content: Any) -> int:
    written = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.blake2b(written.encode(), digest_size=8).digest(), "big")


def sums_of(digests: Mapping[str, int]) -> Sums:
    return [len(digests), sum(digests.values()) % SUMS]


def plus(before: Sums, count: int, digest: int) -> Sums:
    return [before[0] + count, (before[1] + digest) % SUMS]
