"""The mark of a dead letter whose message was sent again: where the new message is, and what identifies it."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter

from millrace import shapes


@dataclass(frozen=True)
class Mark:
    """The new message, in the topic of the dead letter's."""

    partition: int
    offset: int
    digest: str

    def carried(self) -> str:
        """The mark in place of a message, as dead letters carry one."""
        return base64.b64encode(json.dumps(asdict(self)).encode()).decode()


_MARK = TypeAdapter(Mark)


def mark(carried: str) -> Mark | None:
    """The mark that a dead letter carries; None if it carries something else."""
    try:
        return Mark(**shapes.read(base64.b64decode(carried, validate=True), _MARK))
    except (ValueError, TypeError):
        return None


def digest_of(key: bytes | None, value: bytes | None) -> str:
    """Identifies a message to its last byte."""
    return hashlib.sha256(repr((key or b"", value or b"")).encode()).hexdigest()
