"""Card numbers become tokens at the edge, and the search for leaked ones finds them."""

from __future__ import annotations

import base64
import re
import secrets
import stat
from pathlib import Path

import pytest

from millrace.rules import TOKEN_LENGTH, TOKEN_PATTERN
from millrace.rules.tokens import TokenError, Tokens
from millrace.traffic.tokens import ensure_key, read_key
from pipelines.fraud.canaries import canaries_in, canary, luhn_digit
from pipelines.fraud.events import CARD_NUMBER

NUMBER = canary(12_345)


def tokens_under(key: bytes) -> Tokens:
    return Tokens("card", CARD_NUMBER, key)


def test_a_token_has_the_form_that_events_require() -> None:
    assert re.fullmatch(TOKEN_PATTERN, tokens_under(b"k").token(NUMBER))
    assert len(tokens_under(b"k").token(NUMBER)) == TOKEN_LENGTH


def test_grouping_does_not_matter_and_key_and_number_do() -> None:
    tokens = tokens_under(b"k")
    grouped = f"{NUMBER[:4]} {NUMBER[4:8]}-{NUMBER[8:]}"
    assert tokens.token(grouped) == tokens.token(NUMBER)
    assert tokens.token(canary(1)) != tokens.token(canary(2))
    assert tokens_under(b"other").token(NUMBER).split(".")[0] != tokens.token(NUMBER).split(".")[0]
    assert tokens_under(b"other").token(NUMBER).split(".")[1] != tokens.token(NUMBER).split(".")[1]


@pytest.mark.parametrize("number", ["", "1234", "1" * 20, "4111x1111x1111x1111", "\uff14" + "1" * 15])
def test_what_is_no_card_number_is_refused_without_being_repeated(number: str) -> None:
    with pytest.raises(TokenError, match="12 to 19 digits") as error:
        tokens_under(b"k").token(number)
    assert not number or number not in str(error.value)


def test_a_key_never_shows() -> None:
    assert "hush" not in repr(tokens_under(b"hush"))


def test_a_key_file_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "card.key"
    made = ensure_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ensure_key(path) == made == read_key(path)
    assert len(made) == 32


def test_two_first_runs_at_once_use_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, invent, others = tmp_path / "card.key", secrets.token_hex, list[bytes]()

    def invent_while_another_runs(bytes_: int) -> str:
        monkeypatch.setattr(secrets, "token_hex", invent)
        others.append(ensure_key(path))
        return invent(bytes_)

    monkeypatch.setattr(secrets, "token_hex", invent_while_another_runs)
    assert [ensure_key(path)] == others
    assert list(tmp_path.iterdir()) == [path]


def test_a_key_file_that_cannot_be_used_is_named_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "card.key"
    with pytest.raises(TokenError, match=r"card\.key: no card key here; `millrace traffic` creates one"):
        read_key(path)
    path.write_text("short")
    path.chmod(0o600)
    with pytest.raises(TokenError, match="64 hexadecimal digits"):
        read_key(path)
    path.write_text("ab" * 32)
    path.chmod(0o644)
    with pytest.raises(TokenError, match="chmod 600"):
        read_key(path)
    path.chmod(0o600)
    assert read_key(path) == b"\xab" * 32


def test_canaries_are_right_card_numbers_of_no_issuer() -> None:
    assert luhn_digit("7992739871") == 3  # the example of the standard
    numbers = {canary(index) for index in range(1_000)}
    assert len(numbers) == 1_000
    assert all(len(number) == 16 and number.startswith("999999") for number in numbers)


@pytest.mark.parametrize("index", [0, 1, 999_999_999])
def test_canaries_are_found_however_they_are_written(index: int) -> None:
    number = canary(index)
    grouped = " ".join(number[i : i + 4] for i in range(0, 16, 4))
    for form in (number, grouped, grouped.replace(" ", "-")):
        assert canaries_in(f"\x00card={form};".encode()) == {number}
    assert canaries_in(f'"{number}"'.encode("utf-16-le")) == {number}
    assert canaries_in(f'"{number}"'.encode("utf-16-be")) == {number}
    for before in range(3):
        hidden = base64.b64encode(b"x" * before + number.encode() + b"yz")
        assert canaries_in(b'{"value_base64":"' + hidden + b'"}') == {number}


def test_other_digits_and_tokens_are_no_canaries() -> None:
    wrong_digit = NUMBER[:-1] + str((int(NUMBER[-1]) + 1) % 10)
    assert canaries_in(f"4111111111111111 1790000000000 {wrong_digit}".encode()) == set()
    assert canaries_in(b"2026/11/22-03:57:57.999999 1396515540678464 Options.max_open_files: -1") == set()
    assert canaries_in(tokens_under(b"k").token(NUMBER).encode()) == set()
