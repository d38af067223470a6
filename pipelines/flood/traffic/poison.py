"""What a stream must survive: each way to spoil a good request, and the reason with which it must be refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from millrace.rules import Text
from millrace.rules.events import DEPTH_MOST
from millrace.traffic import Label

from ..edgar import HEADER
from ..events import DAY_MS, requests

Spoil = Callable[[bytes], bytes | None]


@dataclass(frozen=True)
class Poison:
    """One way to spoil a request, written as a message or as a line of a log."""

    name: str
    reason: str
    spoil: Spoil

    @property
    def label(self) -> Label:
        return Label(f"poison: {self.name}", refusal=self.reason)


def _json(event: Any) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


def _with(name: str, value: Any) -> Spoil:
    return lambda message: _json({**json.loads(message), name: value})


def _without(name: str) -> Spoil:
    return lambda message: _json({key: value for key, value in json.loads(message).items() if key != name})


def _literal(name: str, literal: str) -> Spoil:
    """Puts text in place of a value that no JSON writer would write."""
    return lambda message: _json({**json.loads(message), name: "@"}).replace(b'"@"', literal.encode())


def _moved(ms: int) -> Spoil:
    return lambda message: _json({**(event := json.loads(message)), "at_ms": event["at_ms"] + ms})


def _of_each_field() -> Iterator[Poison]:
    """Every field left out, null, of another type and beyond each of its limits."""
    for field in requests.readable:
        name = field.name
        if field.required:
            yield Poison(f"no {name}", f"missing:{name}", _without(name))
            yield Poison(f"{name} null", f"null:{name}", _with(name, None))
        if isinstance(field, Text):
            yield Poison(f"{name} as a number", f"type:{name}", _with(name, 7))
            yield Poison(f"endless {name}", f"length:{name}", _with(name, "a" * (field.max_length + 1)))
            yield Poison(f"empty {name}", f"pattern:{name}", _with(name, ""))
            yield Poison(f"{name} with a line break", f"pattern:{name}", _with(name, "1\n"))
        else:
            yield Poison(f"{name} as text", f"type:{name}", _with(name, "200"))
            yield Poison(f"{name} with a fraction", f"type:{name}", _literal(name, "1.0"))
            yield Poison(f"{name} true", f"type:{name}", _with(name, True))
            yield Poison(f"{name} too small", f"range:{name}", _with(name, field.least - 1))
            if name != requests.time:  # any time that is too large is first of all in the future
                yield Poison(f"{name} too large", f"range:{name}", _with(name, field.most + 1))


LINE = b"107.23.85.jfd,2016-06-30,00:00:00,0.0,1439124.0,0001193125-16-635197,-index.htm,401.0,2553.0,1.0,0.0,0.0,10.0"

POISON: tuple[Poison, ...] = (
    Poison("null value", "empty", lambda message: None),
    Poison("no bytes", "empty", lambda message: b""),
    Poison("oversized", "oversized", lambda message: message + b" " * requests.max_bytes),
    Poison("latin-1", "encoding", lambda message: message[:-1] + b',"note":"caf\xe9"}'),
    Poison("utf-16", "encoding", lambda message: b"\xff\xfe" + message.decode().encode("utf-16-le")),
    Poison("a UTF-8 character cut in two", "encoding", lambda message: message[:-1] + b',"note":"\xe2\x82"}'),
    Poison("byte order mark", "json", lambda message: b"\xef\xbb\xbf" + message),
    Poison("cut off", "json", lambda message: message[:-9]),
    Poison("text after the end", "json", lambda message: message + b"}"),
    Poison("two in one", "json", lambda message: message + b"\n" + message),
    Poison("a line of a log", "json", lambda message: LINE + b",0.0,"),
    Poison("a cut line of a log", "json", lambda message: LINE[:40]),
    Poison("the header of a log", "json", lambda message: HEADER.encode()),
    Poison("single quotes", "json", lambda message: message.replace(b'"', b"'")),
    Poison("leading zero", "json", _literal("size", "0100")),
    Poison("bare control character", "json", lambda message: message[:-1] + b',"note":"\n"}'),
    Poison("nested too deep", "json", lambda message: b"[" * 4_000),
    Poison("nested one too deep", "json", _literal("note", "[" * DEPTH_MOST + "]" * DEPTH_MOST)),
    Poison("NaN", "json", _literal("size", "NaN")),
    Poison("a list", "shape", lambda message: b"[%s]" % message),
    Poison("a number", "shape", lambda message: b"401"),
    Poison("the word null", "shape", lambda message: b"null"),
    Poison("status 9999", "range:code", _with("code", 9999)),
    Poison("size of 5000 digits", "oversized", _literal("size", "9" * 5000)),
    Poison("size of 3000 digits", "range:size", _literal("size", "9" * 3000)),
    Poison("code as 4e2", "type:code", _literal("code", "4e2")),
    Poison("an ip with four numbers", "pattern:ip", _with("ip", "107.23.85.12")),
    Poison("a group of its own", "pattern:group_id", _with("group_id", "-1")),
    Poison("digits that are not ASCII", "pattern:group_id", _with("group_id", "\u0661")),
    Poison("half a surrogate pair", "pattern:extention", _with("extention", "\ud83d")),
    Poison("a month old", "past:at_ms", _moved(-31 * DAY_MS)),
    Poison("a month ahead", "future:at_ms", _moved(31 * DAY_MS)),
    Poison(
        "seconds taken for milliseconds",
        "past:at_ms",
        lambda m: _json({**(e := json.loads(m)), "at_ms": e["at_ms"] // 1000}),
    ),
    *_of_each_field(),
)


def _column(number: int, text: bytes) -> Spoil:
    def spoil(line: bytes) -> bytes:
        columns = line.split(b",")
        return b",".join((*columns[:number], text, *columns[number + 1 :]))

    return spoil


LINES: tuple[Poison, ...] = (
    Poison("broken UTF-8", "encoding", lambda line: line[:30] + b"\xe2\x82" + line[30:]),
    Poison("cut line", "json", lambda line: line[: len(line) // 2]),
    Poison("empty line", "empty", lambda line: b""),
    Poison("not a line of a log", "json", lambda line: b"# restarted"),
    Poison("another column", "json", lambda line: line + b",1.0"),
    Poison("number in words", "json", _column(8, b"many")),
    Poison("no number", "json", _column(8, b"")),
    Poison("no day of the calendar", "json", _column(1, b"2016-13-45")),
    Poison("status 9999", "range:code", _column(7, b"9999.0")),
    Poison("find beyond 10", "range:find", _column(12, f"{11}.0".encode())),
)
"""For lines of a log; the reason is that of the message that a replay makes of the line."""
