"""Card numbers in a text: whether there is one, and the text without them. The rule is decision 0030, to the byte."""

from __future__ import annotations

import re
from collections.abc import Iterator

DIGITS_LEAST, DIGITS_MOST = 13, 19

# A digit and a separator may stand there as JSON's escape, and UTF-16 puts a zero byte between two ASCII characters.
_DIGIT, _SEPARATOR = r"(?:[0-9]|\\u003[0-9])", r"(?:[ -]|\\u002[0dD])"
_GROUP = rf"{_DIGIT}(?:\0*{_DIGIT})*"
_RUN = re.compile(
    rf"{_DIGIT}(?:\0*{_DIGIT}){{0,11}}\0*\.\0*{_GROUP}"  # a number with a fraction, such as a latitude
    rf"|(?P<groups>{_GROUP}(?:\0*{_SEPARATOR}\0*{_GROUP})*)"
    r"|\\u[0-9A-Fa-f]{4}"  # another character's escape: its last digits begin no number
)
_GROUPS = re.compile(rf"{_SEPARATOR}|(?P<group>{_GROUP})")
_DIGITS = re.compile(r"\\u002[0dD]|\\u003(?P<escaped>[0-9])|(?P<plain>[0-9])")
# Whatever a card number may be written with, so often: a quick look that most texts end with.
_MAY_BE = re.compile(rf"[0-9\0 \\udD-]{{{DIGITS_LEAST},}}")
_TIME = re.compile(r"[12][0-9]{12}|1[0-9]{15}|1[0-9]{18}")


def are_in(text: str) -> bool:
    """Whether a card number is in the text."""
    if len(text) < DIGITS_LEAST or _MAY_BE.search(text) is None or _TIME.fullmatch(text):
        return False
    return any(True for run in _runs(text) for _ in _card_numbers(run))


def masked(value: bytes) -> bytes:
    """The message with a `*` for each digit of a card number, and of a group of digits that is longer than any."""
    text = value.decode("latin-1")
    if _MAY_BE.search(text) is None:
        return value
    places = [place for run in _runs(text) for place in (*_card_numbers(run), *_too_long(run))]
    for begin, end in places:
        text = text[:begin] + _DIGITS.sub(_star, text[begin:end]) + text[end:]
    return text.encode("latin-1")


def passes_luhn(digits: str) -> bool:
    """Whether the last digit is right."""
    doubled = (int(digit) * (1 + position % 2) for position, digit in enumerate(reversed(digits)))
    return sum(value // 10 + value % 10 for value in doubled) % 10 == 0


_Group = tuple[str, int, int]
"""Digits, and where they begin and end."""


def _runs(text: str) -> Iterator[list[_Group]]:
    """Groups of digits with one separator from each to the next."""
    for run in _RUN.finditer(text):
        if run["groups"]:
            found = (group for group in _GROUPS.finditer(text, *run.span("groups")) if group["group"])
            yield [(_plain(group.group()), group.start(), group.end()) for group in found]


def _plain(group: str) -> str:
    return "".join(digit["escaped"] or digit["plain"] for digit in _DIGITS.finditer(group))


def _card_numbers(run: list[_Group]) -> Iterator[tuple[int, int]]:
    for first, (_, begin, _) in enumerate(run):
        digits = ""
        for last, (more, _, end) in enumerate(run[first:], first):
            digits += more
            if len(digits) > DIGITS_MOST:
                break
            is_time = first == last and _TIME.fullmatch(digits)
            if len(digits) >= DIGITS_LEAST and not is_time and passes_luhn(digits):
                yield begin, end


def _too_long(run: list[_Group]) -> Iterator[tuple[int, int]]:
    return ((begin, end) for digits, begin, end in run if len(digits) > DIGITS_MOST)


def _star(digit: re.Match[str]) -> str:
    if digit["escaped"]:
        return r"\u****"
    return "*" if digit["plain"] else digit.group()
