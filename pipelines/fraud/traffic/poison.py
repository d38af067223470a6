"""Invalid messages: each way to damage a valid event, and the reason with which it must be refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from millrace.rules.events import DEPTH_MOST

from ..events import DAY_MS, customers, device_locations, merchants, transactions
from ..invented_cards import invented_card

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Poison:
    """One way to damage an event of one topic."""

    name: str
    topic: str
    reason: str
    spoil: Callable[[Event], bytes | None]


def _json(event: Any) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


def _with(**changes: Any) -> Callable[[Event], bytes]:
    return lambda event: _json({**event, **changes})


def _without(name: str) -> Callable[[Event], bytes]:
    return lambda event: _json({key: value for key, value in event.items() if key != name})


def _literal(name: str, literal: str) -> Callable[[Event], bytes]:
    """Puts text in place of a value that no JSON writer would write."""
    return lambda event: _json({**event, name: "@"}).replace(b'"@"', literal.encode())


def _moved(days: int) -> Callable[[Event], bytes]:
    return lambda event: _json({**event, "at_ms": event["at_ms"] + days * DAY_MS})


NUMBER = invented_card(815_000_815)
"""The plain card number in a field that must have none; it may be only in the topic to which it was sent."""
IN_FOURS = " ".join(NUMBER[i : i + 4] for i in range(0, 16, 4))
_ESCAPED = "".join(f"\\u{ord(digit):04x}" for digit in NUMBER)


T, D, M, C = transactions.name, device_locations.name, merchants.name, customers.name

POISON: tuple[Poison, ...] = (
    Poison("null value", T, "empty", lambda event: None),
    Poison("no bytes", T, "empty", lambda event: b""),
    Poison("oversized", T, "oversized", lambda event: _json({**event, "note": "x" * transactions.max_bytes})),
    Poison("latin-1", T, "encoding", lambda event: _json({**event, "note": "@"}).replace(b"@", b"caf\xe9")),
    Poison("utf-16", T, "encoding", lambda event: b"\xff\xfe" + _json(event).decode().encode("utf-16-le")),
    Poison("byte order mark", T, "json", lambda event: b"\xef\xbb\xbf" + _json(event)),
    Poison("cut off", T, "json", lambda event: _json(event)[:-9]),
    Poison("text after the end", T, "json", lambda event: _json(event) + b"}"),
    Poison("two in one", T, "json", lambda event: _json(event) + b"\n" + _json(event)),
    Poison("no JSON at all", T, "json", lambda event: b"POS;17.50;OK"),
    Poison("single quotes", T, "json", lambda event: _json(event).replace(b'"', b"'")),
    Poison("leading zero", T, "json", _literal("amount_cents", "0100")),
    Poison("bare control character", T, "json", lambda event: _json({**event, "note": "@"}).replace(b"@", b"\n")),
    Poison("nested too deep", T, "json", lambda event: b"[" * 12_000),
    Poison("nested one too deep", T, "json", _literal("note", "[" * DEPTH_MOST + "]" * DEPTH_MOST)),
    Poison("NaN", T, "json", _literal("latitude", "NaN")),
    Poison("Infinity", T, "json", _literal("longitude", "-Infinity")),
    Poison("a list", T, "shape", lambda event: _json([event])),
    Poison("a number", T, "shape", lambda event: b"42"),
    Poison("the word null", T, "shape", lambda event: b"null"),
    Poison("no id", T, "missing:transaction_id", _without("transaction_id")),
    Poison("no customer", T, "missing:customer", _without("customer")),
    Poison("no amount", T, "missing:amount_cents", _without("amount_cents")),
    Poison("no time", T, "missing:at_ms", _without("at_ms")),
    Poison("null customer", T, "null:customer", _with(customer=None)),
    Poison("null amount", T, "null:amount_cents", _with(amount_cents=None)),
    Poison("null place", T, "null:latitude", _with(latitude=None)),
    Poison("amount as text", T, "type:amount_cents", _with(amount_cents="1250")),
    Poison("amount with a fraction", T, "type:amount_cents", _with(amount_cents=12.5)),
    Poison("amount as 100.0", T, "type:amount_cents", _literal("amount_cents", "100.0")),
    Poison("amount as 1e3", T, "type:amount_cents", _literal("amount_cents", "1e3")),
    Poison("amount true", T, "type:amount_cents", _with(amount_cents=True)),
    Poison("place as text", T, "type:latitude", _with(latitude="north")),
    Poison("place as a list", T, "type:longitude", _with(longitude=[1.0])),
    Poison("id as a number", T, "type:transaction_id", _with(transaction_id=17)),
    Poison("time as text", T, "type:at_ms", _with(at_ms="2026-01-01T00:00:00Z")),
    Poison("amount zero", T, "range:amount_cents", _with(amount_cents=0)),
    Poison("negative amount", T, "range:amount_cents", _with(amount_cents=-500)),
    Poison("absurd amount", T, "range:amount_cents", _with(amount_cents=10**12)),
    Poison("amount beyond 64 bits", T, "range:amount_cents", _with(amount_cents=2**63)),
    Poison("amount of 5000 digits", T, "range:amount_cents", _literal("amount_cents", "9" * 5000)),
    Poison("latitude 91", T, "range:latitude", _with(latitude=91)),
    Poison("longitude -180.5", T, "range:longitude", _with(longitude=-180.5)),
    Poison("latitude of 20 digits", T, "range:latitude", _literal("latitude", "-10000000000000000000")),
    Poison("latitude of 400 digits", T, "range:latitude", _literal("latitude", "1" + "0" * 400)),
    Poison("latitude 1e999", T, "range:latitude", _literal("latitude", "1e999")),
    Poison("time before 1970", T, "range:at_ms", _with(at_ms=-1)),
    Poison("endless merchant", T, "length:merchant", _with(merchant="m" * 65)),
    Poison("empty merchant", T, "pattern:merchant", _with(merchant="")),
    Poison("merchant with a line break", T, "pattern:merchant", _with(merchant="m-1\n")),
    Poison("half a surrogate pair", T, "pattern:merchant", _with(merchant="\ud83d")),
    Poison("40 emoji", T, "pattern:merchant", _with(merchant="\U0001f600" * 40)),
    Poison("digits that are not ASCII", T, "pattern:merchant", _with(merchant="m-\u0661")),
    Poison("card without a key id", T, "pattern:card", _with(card="0" * 32)),
    Poison(
        "card with a letter beyond f",
        T,
        "pattern:card",
        lambda event: _json({**event, "card": "g" + event["card"][1:]}),
    ),
    Poison("card in the clear", T, "card-number:card", _with(card=NUMBER)),
    Poison("card in fours", T, "card-number:card", _with(card=IN_FOURS)),
    Poison("card in escapes", T, "card-number:card", _literal("card", f'"{_ESCAPED}"')),
    Poison("card as a number", T, "type:card", _literal("card", NUMBER)),
    Poison("card in another field", T, "card-number:merchant", _with(merchant=IN_FOURS.replace(" ", "-"))),
    Poison("card in a time", T, "card-number:sent_ms", _literal("sent_ms", NUMBER)),
    Poison(
        "card in a note that is too long", T, "card-number:merchant", _with(merchant=f"m-1 paid with {NUMBER} " * 4)
    ),
    Poison("card where JSON is cut off", T, "json", lambda event: _json({**event, "note": NUMBER})[:-1]),
    Poison("card in no JSON at all", T, "json", lambda event: b"POS;17.50;" + IN_FOURS.encode() + b" 1227;OK"),
    Poison("card in utf-16", T, "encoding", lambda event: b"\xff\xfe" + NUMBER.encode("utf-16-le")),
    Poison("card in a note of nobody", T, "unknown:customers", _with(customer="nobody-knows", note=IN_FOURS)),
    Poison("cvv", T, "forbidden:cvv", _with(cvv="737", note=NUMBER)),
    Poison("pin within", T, "forbidden:pin", _with(terminal=[{"PIN": 1234}])),
    Poison("track where JSON is cut off", T, "json", lambda event: b'{"track_2":"' + NUMBER.encode() + b"=27121"),
    Poison("a month old", T, "past:at_ms", _moved(-31)),
    Poison("a month ahead", T, "future:at_ms", _moved(31)),
    Poison(
        "milliseconds taken for microseconds", T, "future:at_ms", lambda e: _json({**e, "at_ms": e["at_ms"] * 1000})
    ),
    Poison("unknown merchant", T, "unknown:merchants", _with(merchant="nobody-knows")),
    Poison("unknown customer", T, "unknown:customers", _with(customer="nobody-knows")),
    Poison("phone: null value", D, "empty", lambda event: None),
    Poison("phone: cut off", D, "json", lambda event: _json(event)[:-3]),
    Poison("phone: wrong encoding", D, "encoding", lambda event: b"\x80" + _json(event)),
    Poison("phone: no place", D, "missing:longitude", _without("longitude")),
    Poison("phone: place as text", D, "type:latitude", _with(latitude="52.5")),
    Poison("phone: impossible place", D, "range:latitude", _with(latitude=-90.01)),
    Poison("phone: far future", D, "future:at_ms", _moved(2)),
    Poison("phone: card for a customer", D, "card-number:customer", _with(customer=NUMBER)),
    Poison("phone: far past", D, "past:at_ms", _moved(-8)),
)

REFERENCE_POISON: tuple[Poison, ...] = (
    Poison("merchant: broken", M, "json", lambda event: b"{"),
    Poison("merchant: no category", M, "missing:category", _without("category")),
    Poison("merchant: card for a place", M, "card-number:place", _with(place=IN_FOURS)),
    Poison("customer: segment as a number", C, "type:segment", _with(segment=3)),
)
