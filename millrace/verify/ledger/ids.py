"""The ids of accepted events, remembered for days: on disk, in one piece for each segment."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

Identity = tuple[str, str]
"""The key and the id of an event."""


PIECES_LEAST = 3
ASKED_MOST = 500
"""So many ids are looked up with one query."""


class IdsError(Exception):
    """Ids on disk that are not those of the state."""


class Ids:
    """Key and id of each accepted event, and when it arrived.

    What a segment adds is one piece: `added` is written down with the state, and `digest` names all pieces so far. The
    database can be made again from them.
    """

    _new: dict[Identity, int]
    _added: list[bytes]
    """The lines of the piece, once made, as long as no id is added."""
    _looked_up: dict[Identity, int | None]
    """What the pieces before have of the ids that were asked for."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.executescript(
            """
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = NORMAL;
            CREATE TABLE IF NOT EXISTS ids (id BLOB PRIMARY KEY, at_ms INTEGER, piece INTEGER) WITHOUT ROWID;
            CREATE INDEX IF NOT EXISTS by_piece ON ids (piece);
            CREATE TABLE IF NOT EXISTS pieces (number INTEGER PRIMARY KEY, newest_ms INTEGER, digest TEXT);
            """
        )
        self._begin({})

    def close(self) -> None:
        self._database.close()

    def get(self, identity: Identity, default: float) -> float:
        """When the event with this id arrived."""
        if (known := self._new.get(identity)) is not None:
            return known
        if identity not in self._looked_up:
            self.look_up([identity])
        found = self._looked_up[identity]
        return default if found is None else found

    def look_up(self, identities: Iterable[Identity]) -> None:
        """Read when these events arrived, many at once, before each is asked for."""
        names = [(_name(identity), identity) for identity in identities]
        for at in range(0, len(names), ASKED_MOST):
            asked = dict(names[at : at + ASKED_MOST])
            query = f"SELECT id, at_ms FROM ids WHERE id IN ({', '.join('?' * len(asked))})"
            found = dict(self._database.execute(query, [*asked]).fetchall())
            self._looked_up |= {identity: found.get(name) for name, identity in asked.items()}

    def __setitem__(self, identity: Identity, at_ms: int) -> None:
        self._new[identity], self._added = at_ms, []

    @property
    def digest(self) -> str:
        """Of all pieces, the one that is being made included."""
        return _digest(self._last(), self.added())

    @property
    def kept(self) -> tuple[int, str]:
        """The number of the last piece that was taken in, and the digest of all up to it."""
        found = self._database.execute("SELECT number, digest FROM pieces ORDER BY number DESC LIMIT 1").fetchone()
        return (0, "") if found is None else (int(found[0]), str(found[1]))

    def added(self) -> list[bytes]:
        """What the segment has added: the digest of the pieces before, then a line for each id."""
        if not self._added:
            lines = (f"[{_words(identity)}, {at_ms}]".encode() for identity, at_ms in self._new.items())
            self._added = [json.dumps(self._last()).encode(), *lines]
        return self._added

    def keep(self, number: int) -> None:
        """Take in what the segment of that number has added."""
        (before_ms,) = self._database.execute("SELECT coalesce(max(newest_ms), 0) FROM pieces").fetchone()
        digest, newest_ms = self.digest, max([before_ms, *self._new.values()])
        with self._database:
            self._database.execute("BEGIN")
            # In the order of the table, in which pages are written once.
            self._database.executemany(
                "INSERT OR REPLACE INTO ids VALUES (?, ?, ?)",
                sorted((_name(identity), at_ms, number) for identity, at_ms in self._new.items()),
            )
            self._database.execute("INSERT OR REPLACE INTO pieces VALUES (?, ?, ?)", (number, newest_ms, digest))
        self._begin({})

    def take(self, number: int, piece: Sequence[bytes]) -> None:
        """Take in a piece that was written down."""
        try:
            before, lines = json.loads(piece[0]), [json.loads(line) for line in piece[1:] if line]
            added = {(key, identity): int(at_ms) for key, identity, at_ms in lines}
        except (ValueError, TypeError, IndexError) as error:
            raise IdsError(f"the ids of segment {number} are damaged: {error!r}") from None
        if (last := self._last()) and before != last:
            raise IdsError(f"the ids of segment {number} do not follow from those before")
        if not last:
            self._database.execute("INSERT OR REPLACE INTO pieces VALUES (?, 0, ?)", (number - 1, before))
        self._begin(added)
        self.keep(number)

    def back_to(self, number: int) -> None:
        """Forget what later segments have added: they were not written down."""
        self._begin({})
        with self._database:
            self._database.execute("BEGIN")
            self._database.execute("DELETE FROM ids WHERE piece > ?", (number,))
            self._database.execute("DELETE FROM pieces WHERE number > ?", (number,))

    def clear(self) -> None:
        """Forget all."""
        self.back_to(-1)

    def forget(self, before_ms: int) -> Iterator[int]:
        """Forget the pieces of which all ids arrived before, and name them; the last ones stay to go back to."""
        gone = self._database.execute(
            "SELECT number FROM pieces WHERE newest_ms < ? AND number <= (SELECT max(number) FROM pieces) - ?",
            (before_ms, PIECES_LEAST),
        ).fetchall()
        if gone:
            last = max(number for (number,) in gone)
            with self._database:
                self._database.execute("BEGIN")
                self._database.execute("DELETE FROM ids WHERE piece <= ?", (last,))
                self._database.execute("DELETE FROM pieces WHERE number <= ?", (last,))
            self._looked_up.clear()
        yield from (number for (number,) in gone)

    def _begin(self, new: dict[Identity, int]) -> None:
        """Begin a piece with these ids."""
        self._new, self._added, self._looked_up = new, [], {}

    def _last(self) -> str:
        return self.kept[1]


def _name(identity: Identity) -> bytes:
    return hashlib.blake2b(f"[{_words(identity)}]".encode(), digest_size=16).digest()


def _words(identity: Identity) -> str:
    """The elements of a JSON list, without the encoder of lists that `dumps` makes each time."""
    key, own = identity
    return f"{json.dumps(key)}, {json.dumps(own)}"


def _digest(before: str, piece: Iterable[bytes]) -> str:
    found = hashlib.sha256(before.encode())
    for line in piece:
        found.update(line)
        found.update(b"\n")
    return found.hexdigest()
