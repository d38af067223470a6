"""Card numbers: where the rule (decision 0030) sees one, and what is kept of a message that has one."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.oracle import kept, value_base64, without_tokens
from millrace.rules import EventType, RuleError, Text, Whole, card_numbers
from millrace.testing import token
from pipelines.fraud.events import transactions
from pipelines.fraud.invented_cards import invented_card, invented_cards_in
from pipelines.fraud.traffic.poison import NUMBER, POISON, REFERENCE_POISON
from tests.kernel.conftest import Partner
from tests.kernel.test_reading import FIELDS, GOOD, NOW_MS, PLACE, agree, changed

VISA, AMEX, OLD_VISA, LONGEST = "4111111111111111", "378282246310005", "4222222222222", "6304000000000000000"
STARS = "*" * 16
TIME_THAT_PASSES = next(ms for ms in range(NOW_MS, NOW_MS + 20) if card_numbers.passes_luhn(str(ms)))


def escaped(digits: str) -> str:
    return "".join(f"\\u{ord(digit):04x}" for digit in digits)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (VISA, STARS),
        (f"PAN{VISA}X", f"PAN{STARS}X"),
        ("4111 1111 1111 1111", "**** **** **** ****"),
        ("4111-1111-1111-1111", "****-****-****-****"),
        ("3782 822463 10005", "**** ****** *****"),
        ("4111 11111111-1111", "**** ********-****"),
        ("4111  1111  1111  1111", None),  # two separators are none
        ("4111.1111.1111.1111", None),
        ("4111/1111/1111/1111", None),
        ("4111111111111112", None),
        (AMEX, "*" * 15),
        (OLD_VISA, "*" * 13),
        (LONGEST, "*" * 19),
        ("424242424242", None),  # 12 digits, and a right last one
        (f"{VISA} 12/27", f"{STARS} 12/27"),
        (f"2 x {VISA}", f"2 x {STARS}"),
        (f"17 {VISA} 737", f"17 {STARS} 737"),
        ("17 4111 1111 1111 1111 1227", "17 **** **** **** **** 1227"),
        (f"{VISA}=27121010000012345", f"{STARS}=27121010000012345"),
        (f"-{VISA}", f"-{STARS}"),
        (f"{VISA}.00", f"{STARS}.00"),
        (f"no.{VISA}", f"no.{STARS}"),
        (f"48.{VISA}", None),  # a fraction
        (f"1.2.{VISA}", f"1.2.{STARS}"),
        (f"{VISA}.{VISA}", f"{STARS}.{STARS}"),
        (f"1234567890123.{VISA}", f"1234567890123.{STARS}"),
        (f"48.4 {VISA}", f"48.4 {STARS}"),
        (str(TIME_THAT_PASSES), None),
        (str(TIME_THAT_PASSES)[:5] + " " + str(TIME_THAT_PASSES)[5:], "***** ********"),  # no time is written so
        ("2026-11-22 14:15:16.123456789", None),
        (escaped(VISA), r"\u****" * 16),
        (f"4{escaped('111111111111111')}", "*" + r"\u****" * 15),
        (r"4111\u00201111\u002d1111\u002D1111", r"****\u0020****\u002d****\u002D****"),
        (rf"\u00e9{VISA}", rf"\u00e9{STARS}"),  # the 9 is no digit
        (rf"\n{VISA}\n", rf"\n{STARS}\n"),
        (rf"\u003{VISA}", r"\u****" + "*" * 15),  # an escape that takes the first digit away
        ("0" * 16, "*" * 16),
        ("\u0664" + "1" * 15, None),  # another script's digit
    ],
)
def test_a_card_number_is_seen_and_masked(partner: Partner, text: str, masked: str | None) -> None:
    assert card_numbers.are_in(text) == (masked is not None)
    assert card_numbers.masked(text.encode()) == (text if masked is None else masked).encode()
    same(partner, text)


@pytest.mark.parametrize("digits", [20, 21, 32, 400])
def test_a_longer_number_is_no_card_number_but_may_hide_one(partner: Partner, digits: int) -> None:
    text = f"{VISA}{'7' * (digits - 16)}"
    assert not card_numbers.are_in(text)
    assert card_numbers.masked(text.encode()) == b"*" * digits
    same(partner, text)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_card_number_in_utf_16_is_masked(partner: Partner, encoding: str) -> None:
    value = f'"{VISA}", 4111 1111 1111 1111'.encode(encoding)
    assert card_numbers.masked(value) == f'"{STARS}", **** **** **** ****'.encode(encoding)
    same_bytes(partner, value)


# Runs of digits with everything that may stand between them.
PIECES = (
    *(VISA, AMEX, OLD_VISA, "4111", "1111", "42", "0", "1790000000123", str(TIME_THAT_PASSES)),
    *(" ", "-", ".", ",", "x", "é", "u", "*", "\0", "\\", "\\u", "\\u0034", "\\u0020", "\\u00e9"),
)
texts = st.lists(st.sampled_from(PIECES) | st.from_regex(r"[0-9]{1,20}", fullmatch=True), max_size=12).map("".join)


@settings(max_examples=5 * settings.default.max_examples)
@given(texts)
def test_any_text_is_masked_as_the_oracle_masks_it(partner: Partner, text: str) -> None:
    same(partner, text)
    assert card_numbers.masked(card_numbers.masked(text.encode())) == card_numbers.masked(text.encode())


@given(st.binary(max_size=60), st.integers(0, 10**9), st.binary(max_size=60))
def test_no_card_survives_wherever_it_stands(partner: Partner, before: bytes, index: int, after: bytes) -> None:
    around = (before.rstrip(b"\0 -.0123456789"), after.lstrip(b"\0 -0123456789"))
    if b"\\" in around[0][-6:] + around[1][:6]:
        return  # an escape may take digits away; what is then left is no card number
    value = around[0] + invented_card(index).encode() + around[1]
    assert invented_cards_in(card_numbers.masked(value)) == set()
    same_bytes(partner, value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (changed(card=VISA), "card-number:card"),
        (changed(card="x" + VISA * 10), "length:card"),  # one run of 160 digits is masked, but is no card number
        (changed(card=f"{VISA} " * 10), "card-number:card"),
        (changed(customer=VISA), "card-number:customer"),
        (changed(customer=f"c-{VISA}"), "card-number:customer"),
        (changed(customer="4111-1111-1111-1111"), "card-number:customer"),
        (changed(customer="4111111111111112"), None),
        (changed(customer=str(TIME_THAT_PASSES)), None),
        (changed(transaction_id=VISA), None),  # its good values may pass
        (changed(transaction_id=f"{VISA}!"), "card-number:transaction_id"),
        (changed(card="41111111.11111111" + "1" * 24), None),
        (changed(at_ms=TIME_THAT_PASSES, sent_ms=TIME_THAT_PASSES), None),
        (changed(sent_ms=int(VISA)), "card-number:sent_ms"),
        (changed(sent_ms=-int(VISA)), "card-number:sent_ms"),
        (changed(sent_ms=int(OLD_VISA)), "card-number:sent_ms"),
        (changed(sent_ms=int(LONGEST)), "card-number:sent_ms"),
        (changed(sent_ms=9_999_999_999_999_999_998), "card-number:sent_ms"),  # beyond 64 bits
        (changed(sent_ms=10**18), None),  # a time in nanoseconds
        (changed(sent_ms=int(VISA) + 1), None),
        (changed(amount_cents=int(VISA)), "card-number:amount_cents"),
        (changed(latitude=int(VISA)), "range:latitude"),
        (changed(customer=int(VISA)), "type:customer"),
        (changed(note=VISA), None),  # nobody reads it on
        (changed(cvv=None), "forbidden:cvv"),
        (changed(CVV="1"), "forbidden:cvv"),
        (changed(**{"c-v_v 2": "1"}), "forbidden:cvv2"),
        (changed(pin=1, cvc=2), "forbidden:cvc"),  # the first of the declaration
        (changed(deep=[{"a": {"Pin_Block": 1}}]), "forbidden:pinblock"),
        (changed(**{"\u212avv": 1, "pins": 1, "the pin": 1, "": 1}), None),
        (changed(note="cvv"), None),
        (b'{"customer":{"cvv":1},' + FIELDS[:-1] + b"}", "forbidden:cvv"),
        (b'{"a":{"cvv":1},"a":2}', "forbidden:cvv"),
        (b'{"\\u0063vv":1}', "forbidden:cvv"),
        (b'{"cvv":1', "json"),
        (b'[{"cvv":1}]', "shape"),
        (b"{" + FIELDS + PLACE + b'"at_ms":' + VISA.encode() + b"}", "card-number:at_ms"),
    ],
)
def test_what_holds_a_card_number_or_must_never_come_is_refused(
    partner: Partner, value: bytes, reason: str | None
) -> None:
    assert agree(partner, transactions, value) == reason


@pytest.mark.parametrize(
    ("value", "reason", "keeps"),
    [
        (None, "empty", None),
        (b"", "empty", None),
        (b"x" * 16_385, "oversized", None),
        (changed(cvv="737"), "forbidden:cvv", None),
        (b'{"cvv":"737"', "json", None),
        (b"{'Track-2': '", "json", None),
        (b"cvv2=737&amount=12", "json", None),
        ('{"pin":1'.encode("utf-16"), "encoding", None),
        (b'[{"cvv":1}]', "shape", None),
        (b"spin=1 pins=2", "json", b"spin=1 pins=2"),
        (b'{"note":"pin"}', "missing:customer", b'{"note":"pin"}'),
        (b'{"card":"4111 1111 1111 1111"}', "card-number:card", b'{"card":"**** **** **** ****"}'),
        (b'{"at_ms":%d}' % TIME_THAT_PASSES, "past:at_ms", b'{"at_ms":%d}' % TIME_THAT_PASSES),
        (b"\xff" + VISA.encode(), "encoding", b"\xff" + STARS.encode()),
    ],
)
def test_a_dead_letter_keeps_neither(partner: Partner, value: bytes | None, reason: str, keeps: bytes | None) -> None:
    assert kept(transactions, value, reason) == keeps
    assert partner.kept(transactions, value, reason) == value_base64(transactions, value, reason)


@pytest.mark.parametrize("poison", [*POISON, *REFERENCE_POISON], ids=lambda poison: poison.name)
def test_no_dead_letter_of_the_invented_traffic_has_a_card_number(partner: Partner, poison: Any) -> None:
    merchant = {"merchant": "m", "category": "c", "place": "p", "segment": "s"}
    value = poison.spoil({**merchant, **GOOD})
    assert invented_cards_in(value or b"") <= {NUMBER}
    carried = value_base64(transactions, value, poison.reason)
    assert invented_cards_in(base64.b64decode(carried or "")) == set()
    assert partner.kept(transactions, value, poison.reason) == carried


LIKE_A_CARD = token("t756")
"""A token whose digits are those of a card number by chance."""


@pytest.mark.parametrize(
    ("event", "is_hidden"),
    [
        ({"card": LIKE_A_CARD}, False),
        ({"transaction_id": VISA}, False),
        ({"card": VISA}, True),
        ({"card": LIKE_A_CARD, "note": VISA}, True),
        ({"card": LIKE_A_CARD, "more": {"card": VISA}}, True),
    ],
    ids=["a token", "an id", "no token", "a card number beside it", "a card number inside"],
)
def test_what_is_no_token_is_searched_before_a_message_is_sent_again(event: dict[str, Any], is_hidden: bool) -> None:
    value = json.dumps(GOOD | event).encode()
    assert card_numbers.masked(value) != value
    searched = without_tokens(transactions, value)
    assert (kept(transactions, searched, "unknown:merchants") != searched) is is_hidden


def test_a_name_that_comes_twice_and_no_json_are_searched_whole() -> None:
    twice = json.dumps(GOOD).replace("{", f'{{"card": "{VISA}", ', 1).encode()
    assert VISA in without_tokens(transactions, twice).decode()
    for value in (f"[{VISA}]".encode(), VISA.encode(), f'{{"card": "{VISA}'.encode(), b"\xff"):
        assert without_tokens(transactions, value) == value


def test_a_forbidden_name_that_could_never_be_found_is_refused() -> None:
    for wrong in ("Cvv", "c_vv"):
        with pytest.raises(RuleError, match=f"'{wrong}' cannot be forbidden"):
            EventType("e", "", (Text("a"),), key="a", forbidden=(wrong,))
    with pytest.raises(RuleError, match="'pinblock' cannot be forbidden: a field has this name"):
        EventType("e", "", (Text("a"), Whole("Pin_Block")), key="a", forbidden=("pinblock",))


def same(partner: Partner, text: str) -> None:
    assert partner.are_card_numbers_in(text) == card_numbers.are_in(text), text
    same_bytes(partner, text.encode())


def same_bytes(partner: Partner, value: bytes) -> None:
    """The kernel masks as the oracle does; a message without bytes is kept by neither."""
    masked = base64.b64encode(card_numbers.masked(value)).decode() if value else None
    assert partner.kept(transactions, value, "past:at_ms") == masked, json.dumps(value.decode("latin-1"))
