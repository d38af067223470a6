"""Values as the page may show them: each token is shortened."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

from millrace.rules import TOKEN_PATTERN

SHOWN_OF_TOKEN = 13

_TOKEN = re.compile(TOKEN_PATTERN)


def text(value: Any) -> Any:
    """A value with the tokens in it shortened, also in lists, tuples and objects; numbers and None stay as they are."""
    match value:
        case str():
            return _TOKEN.sub(lambda found: f"{found[0][:SHOWN_OF_TOKEN]}…", value)
        case list() | tuple():
            return [text(each) for each in value]
        case dict():
            return {text(name): text(each) for name, each in value.items()}
    return value


def identity(value: str) -> str:
    """A value as the page names it to the server: a digest of one that it shows shortened, as others may look alike."""
    return value if text(value) == value else sha256(value.encode()).hexdigest()[:32]
