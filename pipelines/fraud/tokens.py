"""Card numbers become keyed tokens at the edge, so that nothing behind the edge ever holds one."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile

TOKEN_PATTERN = r"[0-9a-f]{8}\.[0-9a-f]{32}"
KEY_BYTES = 32

_SEPARATORS = re.compile(r"[ -]")
_CARD_NUMBER = re.compile(r"[0-9]{12,19}")
_KEY = re.compile(rf"[0-9a-f]{{{2 * KEY_BYTES}}}")


class TokenError(ValueError):
    """A card key or a card number that cannot be used; the message never repeats either."""


@dataclass(frozen=True)
class Tokens:
    """Turns card numbers into `<key id>.<32 hex digits>`: the same number under the same key gives the same token."""

    key: bytes = field(repr=False)

    @property
    def key_id(self) -> str:
        """Identifies the key without revealing it, so that tokens of an old key are recognised after a rotation."""
        return hashlib.sha256(b"millrace card key id\0" + self.key).hexdigest()[:8]

    def token(self, card_number: str) -> str:
        """Returns the token of a card number, however its digits are grouped."""
        digest = hmac.new(self.key, normalised(card_number).encode("ascii"), hashlib.sha256).hexdigest()
        return f"{self.key_id}.{digest[:32]}"


def normalised(card_number: str) -> str:
    """Returns the digits alone."""
    digits = _SEPARATORS.sub("", card_number)
    if not _CARD_NUMBER.fullmatch(digits):
        raise TokenError("a card number must have 12 to 19 digits, grouped by spaces or dashes or not at all")
    return digits


def read_tokens(key_file: Path) -> Tokens:
    """Reads the card key from a file that only its owner may read."""
    try:
        with key_file.open(encoding="ascii") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            text = opened.read().strip()
    except FileNotFoundError:
        raise TokenError(
            f"{key_file}: no card key here; create one with create_key, or point to the right file"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise TokenError(f"{key_file}: the card key cannot be read ({type(error).__name__}); check the file") from None
    if mode & 0o077:
        raise TokenError(f"{key_file}: others may read this card key; run: chmod 600 '{key_file}'")
    if not _KEY.fullmatch(text):
        raise TokenError(f"{key_file}: a card key is {2 * KEY_BYTES} hexadecimal digits; restore it, or make a new one")
    return Tokens(bytes.fromhex(text))


def ensure_key(key_file: Path) -> Tokens:
    """Makes sure that there is a card key in this file, a random one if it is new, and reads it."""
    key_file.parent.mkdir(parents=True, exist_ok=True)
    if not key_file.exists():
        # For its owner only, and in place when it is whole: of two first runs at once both read the key of one.
        with NamedTemporaryFile("w", encoding="ascii", dir=key_file.parent, prefix=f".{key_file.name}.") as arriving:
            arriving.write(secrets.token_hex(KEY_BYTES) + "\n")
            arriving.flush()
            with suppress(FileExistsError):
                os.link(arriving.name, key_file)
    return read_tokens(key_file)
