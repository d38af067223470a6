"""Ids on disk: remembered across a crash, made again from their pieces, forgotten in their time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from millrace.verify.ledger.ids import ASKED_MOST, Ids, IdsError


@pytest.fixture
def ids(tmp_path: Path) -> Iterator[Ids]:
    with closing(Ids(tmp_path / "ids")) as ids:
        yield ids


def add(ids: Ids, number: int, *names: str) -> tuple[str, list[bytes]]:
    """Add a piece; returns the digest and what is written down."""
    for name in names:
        ids["anna", name] = number * 1_000
    digest, piece = ids.digest, ids.added()
    ids.keep(number)
    return digest, piece


def is_known(ids: Ids, name: str) -> bool:
    return ids.get(("anna", name), -math.inf) > 0


def test_an_id_is_known_at_once_and_after_it_is_kept(ids: Ids) -> None:
    ids["anna", "1"] = 1_000
    assert ids.get(("anna", "1"), -math.inf) == 1_000
    ids.keep(1)
    assert ids.get(("anna", "1"), -math.inf) == 1_000
    assert not is_known(ids, "2")
    assert ids.get(("berta", "1"), -math.inf) == -math.inf


def test_ids_that_are_looked_up_together_are_known_as_each_alone(ids: Ids) -> None:
    for number in range(1, 2 * ASKED_MOST):
        add(ids, number, str(number))
    names = [str(number) for number in range(1, 3 * ASKED_MOST)]
    ids.look_up(("anna", name) for name in names)
    ids["anna", names[-1]] = 1_000
    assert [name for name in names if is_known(ids, name)] == [*names[: 2 * ASKED_MOST - 1], names[-1]]
    assert [*ids.forget(ASKED_MOST * 1_000)] == [*range(1, ASKED_MOST)]
    assert not is_known(ids, "1")
    ids.back_to(ASKED_MOST)
    assert [name for name in names if is_known(ids, name)] == [str(ASKED_MOST)]


def test_what_was_not_written_down_is_forgotten(ids: Ids) -> None:
    digest, _ = add(ids, 1, "1")
    add(ids, 2, "2")
    ids["anna", "3"] = 3_000
    ids.back_to(1)
    assert [is_known(ids, name) for name in "123"] == [True, False, False]
    assert ids.kept == (1, digest)
    again, _ = add(ids, 2, "2")
    assert ids.kept == (2, again)


def test_another_database_is_made_from_the_pieces(ids: Ids, tmp_path: Path) -> None:
    pieces = [add(ids, number, f"{number}a", f"{number}b") for number in (1, 2, 3, 4)]
    with closing(Ids(tmp_path / "other")) as other:
        # The first has been forgotten, with the messages of its time.
        for number in (2, 3, 4):
            other.take(number, pieces[number - 1][1])
        assert other.kept == ids.kept == (4, pieces[3][0])
        assert [is_known(other, name) for name in ("1a", "2a", "4b")] == [False, True, True]


def test_pieces_that_do_not_follow_from_one_another_are_refused(ids: Ids, tmp_path: Path) -> None:
    pieces = [add(ids, number, str(number))[1] for number in (1, 2, 3)]
    with closing(Ids(tmp_path / "other")) as other:
        other.take(1, pieces[0])
        with pytest.raises(IdsError, match="do not follow"):
            other.take(3, pieces[2])
        with pytest.raises(IdsError, match="damaged"):
            other.take(2, [pieces[1][0], b"[1]"])
        other.take(2, [pieces[1][0], b'["anna", "x", 2000]'])
        assert other.kept[1] != ids.kept[1], "an altered piece has another digest"


def test_a_piece_is_forgotten_when_all_its_ids_are_too_old(ids: Ids) -> None:
    for number in (1, 2, 3, 4, 5, 6):
        add(ids, number, str(number))
    assert list(ids.forget(2_500)) == [1, 2]
    assert [is_known(ids, name) for name in "123456"] == [False, False, True, True, True, True]
    assert list(ids.forget(9_000)) == [3], "the last pieces stay: a killed validator goes back to one of them"
