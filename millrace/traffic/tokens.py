"""The keys of a use's tokens, in files that only their owner may read."""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from millrace.rules import Secret, UseCase
from millrace.rules.tokens import TokenError, Tokens

KEY_BYTES = 32

_KEY = re.compile(rf"[0-9a-f]{{{2 * KEY_BYTES}}}")


def secrets_under(use: UseCase, key: bytes) -> dict[str, Tokens]:
    """The tokens of all fields of a use, under one key."""
    return {name: Tokens(name, secret, key) for name, secret in _declared(use).items()}


def ensure_secrets(use: UseCase, folder: Path) -> dict[str, Tokens]:
    """The tokens of all fields of a use; a key that is missing from the folder is created."""
    return {name: Tokens(name, secret, ensure_key(folder / f"{name}.key")) for name, secret in _declared(use).items()}


def read_secrets(use: UseCase, folder: Path) -> dict[str, Tokens]:
    """The tokens of all fields of a use, under the keys that are in the folder."""
    return {name: Tokens(name, secret, read_key(folder / f"{name}.key")) for name, secret in _declared(use).items()}


def read_key(file: Path) -> bytes:
    """Reads a key from a file that only its owner may read."""
    name = file.stem
    try:
        with file.open(encoding="ascii") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            text = opened.read().strip()
    except FileNotFoundError:
        raise TokenError(f"{file}: no {name} key here; `millrace traffic` creates one, or restore the file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TokenError(f"{file}: the {name} key cannot be read ({type(error).__name__}); check the file") from None
    if mode & 0o077:
        raise TokenError(f"{file}: others may read this {name} key; run: chmod 600 '{file}'")
    if not _KEY.fullmatch(text):
        raise TokenError(f"{file}: a {name} key is {2 * KEY_BYTES} hexadecimal digits; restore it, or make a new one")
    return bytes.fromhex(text)


def ensure_key(file: Path) -> bytes:
    """Makes sure that there is a key in this file, a random one if it is new, and reads it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        # For its owner only, and in place when it is whole: of two first runs at once both read the key of one.
        with NamedTemporaryFile("w", encoding="ascii", dir=file.parent, prefix=f".{file.name}.") as arriving:
            arriving.write(secrets.token_hex(KEY_BYTES) + "\n")
            arriving.flush()
            with suppress(FileExistsError):
                os.link(arriving.name, file)
    return read_key(file)


def _declared(use: UseCase) -> dict[str, Secret]:
    return {name: secret for each in (*use.raw, *use.references) for name, secret in each.tokens.items()}
