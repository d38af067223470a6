"""Card numbers that were never issued, and the search for them in places that must have none.

All invented customers pay with such numbers, so one that turns up in a topic, file, table or log is certainly a leak.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

PREFIX = "999999"  # no issuer has it
_INDEXES = 10**9
# In fours, as on a card: a log's microseconds and the thread's number behind them are digits with a space, too.
_PLAIN = re.compile(rb"9999[ -]?99[0-9]{2}[ -]?[0-9]{4}[ -]?[0-9]{4}")
_WIDE = re.compile(rb"(?:9\x00){6}(?:[0-9]\x00){10}")  # UTF-16; either byte order holds this run but for its edge
# Whatever the alignment, six nines hold three that fall on a base64 boundary; 19 characters of a grouped number are 28.
_BASE64_NINES, _BASE64_AROUND = b"OTk5", 32
_BASE64 = re.compile(rb"[A-Za-z0-9+/]+")


def invented_card(index: int) -> str:
    """The card number of that index: 16 digits with a right Luhn digit."""
    digits = f"{PREFIX}{index % _INDEXES:09d}"
    return f"{digits}{luhn_digit(digits)}"


def luhn_digit(digits: str) -> int:
    """The digit that makes the sum right."""
    doubled = (int(digit) * (2 - position % 2) for position, digit in enumerate(reversed(digits)))
    return -sum(value // 10 + value % 10 for value in doubled) % 10


def invented_cards_in(data: bytes) -> set[str]:
    """The invented numbers found in some bytes: plain, grouped by spaces or dashes, as UTF-16, or inside base64."""
    found = _plainly_in(data) | {match.group().replace(b"\0", b"").decode() for match in _WIDE.finditer(data)}
    for text in _base64_around_nines(data):
        for start in range(4):
            part = text[start : start + (len(text) - start) // 4 * 4]
            found |= _plainly_in(base64.b64decode(part))
    return {number for number in found if luhn_digit(number[:-1]) == int(number[-1])}


def _base64_around_nines(data: bytes) -> Iterator[bytes]:
    # Looks for the nines first: a pattern that begins with "any base64" would try every place of every long text.
    at = data.find(_BASE64_NINES)
    while at >= 0:
        begin = max(0, at - _BASE64_AROUND)
        around = data[begin : at + _BASE64_AROUND + len(_BASE64_NINES)]
        yield from (match.group() for match in _BASE64.finditer(around) if _BASE64_NINES in match.group())
        at = data.find(_BASE64_NINES, at + 1)


def _plainly_in(data: bytes) -> set[str]:
    return {match.group().replace(b" ", b"").replace(b"-", b"").decode() for match in _PLAIN.finditer(data)}
