"""The engines' reader accepts and refuses what the oracle does, for the same reason and with the same values."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace.oracle import Refusal, accept
from millrace.rules import EventType, Real, Text, Whole
from millrace.rules.events import DEPTH_MOST
from pipelines.fraud.events import MINUTE_MS, device_locations, merchants, transactions
from tests.kernel.conftest import Partner

NOW_MS = 1_790_000_000_000
GOOD: dict[str, Any] = {
    "transaction_id": "t-1",
    "customer": "C1",
    "card": "0123abcd." + "0" * 32,
    "merchant": "M1",
    "amount_cents": 1234,
    "latitude": 48.4,
    "longitude": 9.99,
    "at_ms": NOW_MS,
    "sent_ms": NOW_MS,
}
ODD = EventType(
    "odd",
    "Fields that no real event of ours has.",
    (
        Text("free", pattern=r"[\s\S]*", max_length=3, required=False),
        Text("digits", pattern=r"-?\w+", max_length=30, required=False, may_pass_luhn=True, takes_whole=True),
        Text("line", pattern=r".*\s?\d?", required=False),
        Whole("any", required=False),
        Whole("narrow", least=-5, most=5, required=False),
        Real("wide", least=-1e300, most=1e300, required=False),
        Real("unit", least=0, most=1, required=False),
    ),
    key="free",
    max_bytes=4096,
)
FIELDS = b'"transaction_id":"t","customer":"C1","card":"0123abcd.' + b"0" * 32 + b'","merchant":"M1","amount_cents":1,'
PLACE = b'"latitude":1,"longitude":2,'


def changed(**values: Any) -> bytes:
    return json.dumps({**GOOD, **values}).encode()


def nested(depth: int, opened: bytes = b"[", closed: bytes = b"]") -> bytes:
    """A good message, nested so deep by an undeclared field."""
    return changed()[:-1] + b',"deep":' + opened * (depth - 1) + b"1" + closed * (depth - 1) + b"}"


def without(name: str) -> bytes:
    return json.dumps({k: v for k, v in GOOD.items() if k != name}).encode()


def agree(partner: Partner, event_type: EventType, value: bytes | None, ingest_ms: int = NOW_MS) -> str | None:
    """Check that both have the same outcome, and return its reason."""
    meant = accept(event_type, value, ingest_ms)
    reason, *fields = partner.read(event_type, value, ingest_ms)
    names = [field.name for field in event_type.readable]
    if isinstance(meant, Refusal):
        assert (reason, set(fields)) == (meant.reason, {None}), value
        return meant.reason
    read = dict(zip(names, fields, strict=True))
    assert (reason, read) == (None, meant), value
    # Text shows what == does not: 1 and 1.0, the two zeros.
    assert list(map(repr, read.values())) == [repr(meant[name]) for name in names], value
    return None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (changed(), None),
        (without("sent_ms"), None),
        (changed(sent_ms=None), None),
        (changed(unknown={"a": [1, None, {"b": []}]}), None),
        (b" \t\r\n" + changed() + b"\n", None),
        (None, "empty"),
        (b"", "empty"),
        (b" ", "json"),
        (b"x" * 16_385, "oversized"),
        (b"\xff" + b"x" * 16_384, "oversized"),
        (b" " * 16_384, "json"),
        (b'{"a":"\xff"}', "encoding"),
        (b'{"a":"\xc0\xaf"}', "encoding"),  # overlong
        (b'{"a":"\xed\xa0\x80"}', "encoding"),  # a surrogate
        (b'{"a":"\xf4\x90\x80\x80"}', "encoding"),  # beyond the last code point
        (b'{"a":"\xe2\x82', "encoding"),  # cut off
        (b"\xef\xbb\xbf" + changed(), "json"),  # a byte order mark
        (changed().decode().encode("utf-16"), "encoding"),
        (b"{", "json"),
        (b"{}{}", "json"),
        (b"{} x", "json"),
        (b"[1,]", "json"),
        (b'{"a":1,}', "json"),
        (b"{'a':1}", "json"),
        (b'{"a":01}', "json"),
        (b'{"a":1.}', "json"),
        (b'{"a":.5}', "json"),
        (b'{"a":+1}', "json"),
        (b'{"a":-}', "json"),
        (b'{"a":NaN}', "json"),
        (b'{"a":Infinity}', "json"),
        (b'{"a":-Infinity}', "json"),
        (b'{"a":0x10}', "json"),
        (b'{"a":tru}', "json"),
        (b'{"a":True}', "json"),
        (b'{"a":"\n"}', "json"),  # a control character
        (b'{"a":"\x7f"}', "missing:transaction_id"),
        (b'{"a":"\\x41"}', "json"),
        (b'{"a":"\\u12"}', "json"),
        (b'{"a":1}/*c*/', "json"),
        (b'{"a":1}//c', "json"),
        (b'{"a" 1}', "json"),
        (b"{a:1}", "json"),
        (b'{"a":1 "b":2}', "json"),
        (b"null", "shape"),
        (b"7", "shape"),
        (b'"text"', "shape"),
        (b"[]", "shape"),
        (b"[{}]", "shape"),
        (b"truex", "json"),
        (b"{}", "missing:transaction_id"),
        (without("at_ms"), "missing:at_ms"),
        (changed(merchant=None), "null:merchant"),
        (changed(merchant=5), "type:merchant"),
        (changed(merchant=["M1"]), "type:merchant"),
        (changed(merchant=""), "pattern:merchant"),
        (changed(merchant="M 1"), "pattern:merchant"),
        (changed(merchant="M1\n"), "pattern:merchant"),
        (changed(merchant="Ünal"), "pattern:merchant"),
        (changed(merchant="M" * 64), None),
        (changed(merchant="M" * 65), "length:merchant"),
        (changed(card="4111111111111112"), "pattern:card"),
        (changed(amount_cents="5"), "type:amount_cents"),
        (changed(amount_cents=True), "type:amount_cents"),
        (changed(amount_cents=5.0), "type:amount_cents"),
        (changed(amount_cents={}), "type:amount_cents"),
        (changed(amount_cents=0), "range:amount_cents"),
        (changed(amount_cents=-1), "range:amount_cents"),
        (changed(amount_cents=100_000_000), None),
        (changed(amount_cents=100_000_001), "range:amount_cents"),
        (changed(amount_cents=2**63), "range:amount_cents"),
        (changed(amount_cents=10**400), "range:amount_cents"),
        (changed(amount_cents=-(10**19)), "range:amount_cents"),
        (changed(latitude=90), None),
        (changed(latitude=-90.0), None),
        (changed(latitude=90.0000000001), "range:latitude"),
        (changed(latitude=1e400), "json"),  # Python writes Infinity
        (b"{" + FIELDS + b'"latitude":1e400}', "range:latitude"),
        (b"{" + FIELDS + b'"latitude":-1e400}', "range:latitude"),
        (b"{" + FIELDS + b'"latitude":1' + b"0" * 5000 + b"}", "range:latitude"),
        (b"{" + FIELDS + b'"latitude":0.' + b"0" * 5000 + b"1}", "missing:longitude"),
        (b"{" + FIELDS + PLACE + b'"at_ms":1' + b"0" * 5000 + b"}", "range:at_ms"),
        (b"{" + FIELDS + PLACE + b'"at_ms":1e3}', "type:at_ms"),
        (b"{" + FIELDS + PLACE + b'"at_ms":1E5}', "type:at_ms"),
        (b"{" + FIELDS + PLACE + b'"at_ms":-0.0}', "type:at_ms"),
        (b"{" + FIELDS + PLACE + b'"at_ms":-0}', "past:at_ms"),
        (changed(latitude="48"), "type:latitude"),
        (changed(latitude=None), "null:latitude"),
        (changed(at_ms=NOW_MS - transactions.past_ms), None),
        (changed(at_ms=NOW_MS - transactions.past_ms - 1), "past:at_ms"),
        (changed(at_ms=NOW_MS + 5 * MINUTE_MS), None),
        (changed(at_ms=NOW_MS + 5 * MINUTE_MS + 1), "future:at_ms"),
        (changed(at_ms=2**63 - 1), "future:at_ms"),
        (changed(at_ms=-1), "range:at_ms"),
        # A name that comes twice: the last one counts, on both sides of an error.
        (b'{"customer":5,' + changed()[1:], None),
        (changed()[:-1] + b',"customer":5}', "type:customer"),
        (changed()[:-1] + b',"customer":null}', "null:customer"),
        (changed()[:-1] + b',"\\u0063ustomer":"C 2"}', "pattern:customer"),
        (b'{"amount_cents":99999999999999999999,' + changed()[1:], None),
        # An error anywhere in the text beats a field that is wrong.
        (changed(amount_cents=-1)[:-1] + b",}", "json"),
        (changed(extra="x" * 14_000), None),
        (b'{"' + b"n" * 16_000 + b'":1}', "missing:transaction_id"),
        (nested(DEPTH_MOST), None),
        (nested(DEPTH_MOST + 1), "json"),
        (nested(5000), "json"),
        (nested(DEPTH_MOST, b'{"a":', b"}"), None),
        (nested(DEPTH_MOST + 1, b'{"a":', b"}"), "json"),
        (b"[" * DEPTH_MOST + b"]" * DEPTH_MOST, "shape"),
        (b"[" * (DEPTH_MOST + 1) + b"]" * (DEPTH_MOST + 1), "json"),
        # Brackets in a text are no depth, behind an escaped quote neither; beside each other they add nothing.
        (changed(extra="[{" * 600), None),
        (changed(extra='"' + "[{" * 600 + "\\"), None),
        (changed(extra=[[]] * 600), None),
        # A value that a later one replaces counts too.
        (b'{"deep":' + nested(DEPTH_MOST + 1) + b',"deep":1}', "json"),
        (b'{"customer":"\\ud83d\\ude00"}', "missing:transaction_id"),
    ],
)
def test_a_transaction_is_read_as_the_oracle_reads_it(
    partner: Partner, value: bytes | None, reason: str | None
) -> None:
    assert agree(partner, transactions, value) == reason


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ('{"free":"äöü"}', None),
        ('{"free":"äöüß"}', "length:free"),
        ('{"free":"😀😀😀"}', None),  # three characters, six UTF-16 units
        ('{"free":"😀😀😀😀"}', "length:free"),
        ('{"free":"\\ud83d\\ude00\\u0000\\n"}', None),
        ('{"free":""}', None),
        ('{"free":"\\ud83d"}', "pattern:free"),  # half of a pair, which UTF-8 cannot write
        ('{"free":"\\ude00\\ud83d"}', "pattern:free"),
        ('{"free":"\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00\\ud83d"}', "length:free"),
        ('{"free":"\\u0000"}', None),
        ('{"free":"\x00"}', "json"),
        ('\x00{"free":"a"}', "json"),
        ('{"free":"a"}\x00', "json"),
        ('\ufeff{"free":"a"}', "json"),
        ('{"free":"\ufeff"}', None),
        ('{"digits":"17"}', None),
        ('{"digits":17}', None),
        ('{"digits":-0}', None),
        ('{"digits":-17}', None),
        ('{"digits":123456789012345678901234567890}', None),
        ('{"digits":1' + "0" * 3000 + "}", "length:digits"),
        ('{"digits":1.0}', "type:digits"),
        ('{"digits":1e3}', "type:digits"),
        ('{"digits":true}', "type:digits"),
        ('{"digits":"Müller"}', "pattern:digits"),
        ('{"digits":"\u0663"}', "pattern:digits"),  # a digit, but of Arabic
        ('{"line":"GET /\\r"}', None),
        ('{"line":"a\\u2028b\\u0085"}', None),
        ('{"line":"a\\nb"}', "pattern:line"),
        ('{"line":"a\\n\u00a0"}', "pattern:line"),  # a space, but not of ASCII
        ('{"line":"a\\n7"}', None),
        ('{"any":9223372036854775807}', None),
        ('{"any":9223372036854775808}', "range:any"),
        ('{"any":-9223372036854775808}', None),
        ('{"any":-9223372036854775809}', "card-number:any"),  # 19 digits that pass Luhn
        ('{"any":-9223372036854775810}', "range:any"),
        ('{"any":000}', "json"),
        ('{"any":-00}', "json"),
        ('{"any":-0}', None),
        ('{"any":1E5}', "type:any"),
        ('{"any":0.1e1}', "type:any"),
        ('{"any":1, "any":1' + "0" * 400 + "}", "range:any"),
        ('{"any":1' + "0" * 400 + ', "any":1}', None),
        ('{"any":-9999999999999999999}', "range:any"),
        ('{"any":-99999999999999999999}', "range:any"),
        ('{"narrow":-6}', "range:narrow"),
        ('{"wide":12345678901234567}', None),
        ('{"wide":9007199254740993}', None),  # no double: rounded to the even one next to it
        ('{"wide":0.1e-400}', None),
        ('{"wide":4.9e-324}', None),
        ('{"wide":1.7976931348623157e308}', "range:wide"),
        ('{"wide":123456789.123456789123456789123456789}', None),
        ('{"unit":1}', None),
        ('{"unit":1.0000000000000002}', "range:unit"),
        ('{"unit":1.0000000000000001}', None),  # is 1 as a double
        ('{"unit":-0.0}', None),
        ('{"unit":-0}', None),
        ('{"unit":-0e5}', None),
        ('{"unit":-1e-400}', None),
        ('{"unit":0.1e1}', None),
        ('{"unit":00.1}', "json"),
        ('{"unit":0e99999999999}', None),
        ('{"unit":1e-99999999999}', None),
        ('{"unit":0.' + "3" * 4000 + "}", None),
        ('{"wide":1E5}', None),
        ('{"wide":-10000000000000000000}', None),
        ('{"wide":18446744073709551615}', None),
        ('{"wide":9007199254740993000000000000}', None),  # beyond 64 bits and halfway between two doubles
        ('{"wide":1' + "0" * 300 + "}", None),
        ('{"wide":' + str(int(1e300) + 1) + "}", None),  # 1e300 as a double
        ('{"wide":1' + "0" * 301 + "}", "range:wide"),
        ('{"wide":1' + "0" * 400 + "}", "range:wide"),
        ('{"wide":-1' + "0" * 400 + "}", "range:wide"),
        ('{"wide":1e400}', "range:wide"),
        ('{"wide":1e99999999999}', "range:wide"),
        ('{"wide":0.' + "0" * 400 + "1e401}", None),
        ('{"unit":false}', "type:unit"),
    ],
)
def test_odd_fields_are_read_as_the_oracle_reads_them(partner: Partner, value: str, reason: str | None) -> None:
    assert agree(partner, ODD, value.encode()) == reason


numbers = (
    st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0, 1, -1, 5, 6])
)
# As JSON allows them and no writer would: many digits, a sign on nothing, exponents that overflow.
literals = st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)
# Letters that JSON, UTF-8, UTF-16 or a pattern may trip over; half of a surrogate pair can stand as an escape only.
letters = st.text(st.characters(exclude_categories=[]), max_size=5)
values = st.recursive(
    st.none() | st.booleans() | numbers | letters,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(letters, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def messages(draw: st.DrawFn, good: dict[str, Any]) -> bytes:
    """A good message with some fields changed, some repeated and some bytes damaged."""
    names = st.sampled_from(sorted(good))
    items = [(name, value) for name, value in good.items() if draw(st.integers(0, 9)) != 0]
    items += draw(st.lists(st.tuples(names | letters, values), max_size=3))
    ascii_only = draw(st.booleans())
    pairs = [f"{json.dumps(k, ensure_ascii=ascii_only)}:{json.dumps(v, ensure_ascii=ascii_only)}" for k, v in items]
    pairs += [f"{json.dumps(k)}:{v}" for k, v in draw(st.lists(st.tuples(names, literals), max_size=2))]
    text = bytearray(("{" + ",".join(draw(st.permutations(pairs))) + "}").encode(errors="surrogatepass"))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(text)))
        text[at : at + draw(st.integers(0, 3))] = draw(
            st.binary(max_size=2) | st.sampled_from([b",", b"}", b'"', b"0"])
        )
    return bytes(text)


many = settings(max_examples=3 * settings.default.max_examples)


@many
@given(
    message=messages(GOOD),
    skew_ms=st.sampled_from([0, 0, transactions.past_ms, transactions.past_ms + 1, -5 * MINUTE_MS - 1]),
)
def test_any_damaged_transaction_is_read_as_the_oracle_reads_it(partner: Partner, message: bytes, skew_ms: int) -> None:
    agree(partner, transactions, message, NOW_MS + skew_ms)


@many
@given(messages({"free": "abc", "any": 1, "narrow": 2, "wide": 1.5, "unit": 0.5, "digits": 7, "line": "a"}))
@example(message=b'{"wide":-10000000000000000000}')
def test_any_damaged_odd_event_is_read_as_the_oracle_reads_it(partner: Partner, message: bytes) -> None:
    agree(partner, ODD, message)


@many
@given(st.binary(max_size=40) | values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_read_as_the_oracle_reads_them(partner: Partner, message: bytes) -> None:
    for event_type in (device_locations, merchants):
        agree(partner, event_type, message)
