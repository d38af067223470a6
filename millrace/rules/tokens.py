"""Secrets become keyed tokens at the edge, so that nothing behind the edge ever holds one."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace.rules.events import Secret


class TokenError(ValueError):
    """A key or a secret that cannot be used; the message never repeats either."""


@dataclass(frozen=True)
class Tokens:
    """Turns the secrets of a field into `<key id>.<32 hex digits>`: one secret under one key gives one token."""

    of: str
    """The field."""
    secret: Secret
    key: bytes = field(repr=False)

    @property
    def key_id(self) -> str:
        """Identifies the key without revealing it, so that tokens of an old key are recognised after a rotation."""
        return hashlib.sha256(f"millrace {self.of} key id\0".encode() + self.key).hexdigest()[:8]

    def token(self, secret: str) -> str:
        """Returns the token of a secret, whatever its separators."""
        digest = hmac.new(self.key, self._normalised(secret).encode("ascii"), hashlib.sha256).hexdigest()
        return f"{self.key_id}.{digest[:32]}"

    def _normalised(self, secret: str) -> str:
        bare = secret.translate(dict.fromkeys(map(ord, self.secret.separators)))
        if not re.fullmatch(self.secret.pattern, bare):
            raise TokenError(self.secret.complaint)
        return bare


Secrets = Mapping[str, Tokens]
"""By the field that carries the tokens."""
