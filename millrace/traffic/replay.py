"""Traffic from a file: recorded events, brought to the present and cleared of secrets."""

from __future__ import annotations

import csv
import io
import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

from millrace.rules import TOKEN_PATTERN, EventType, UseCase
from millrace.rules.events import WHOLE_LEAST, WHOLE_MOST
from millrace.rules.tokens import Secrets, TokenError
from millrace.rules.traffic import Columns, Label, Message

LINE_BYTES_LEAST, LINE_BYTES_MOST = 65_536, 900_000
"""Between these is the length of a line that is read whole, as the use's events are long; Kafka takes no longer one."""
ESCAPED = 6
"""How many times longer a letter may be in a file than in an event: as an escape such as \\u0416."""
LASTS_MOST_S = 604_800
"""As long as generated traffic lasts at most."""

LABEL, UNPARSED = Label("replayed"), Label("replayed as it is")

csv.field_size_limit(LINE_BYTES_MOST)  # longer than any line that is read whole; for all of this process

Event = tuple[EventType, int, dict[str, Any]]
"""Its kind, its recorded time in milliseconds, its fields without the times."""
Line = tuple[int, bytes, Mapping[str, Any] | None]
"""Its number, its bytes, and its values by name; None if it cannot be parsed."""


@dataclass(frozen=True)
class Unparsed:
    """A line that cannot be parsed."""

    written: bytes
    why: str
    """With its number and the remedy."""


class ReplayError(ValueError):
    """A file that cannot be replayed: names the file, the line and the remedy, and never repeats a secret."""


class _LineError(ValueError):
    """What is wrong with a line, and the remedy."""


@dataclass(frozen=True)
class Replay:
    """A recorded file that was read once, and is read again, line by line, for every other purpose.

    A column map of the use turns the lines of a CSV file into events. Without one, and in JSON lines, a line names
    its kind in `topic` (the judged one unless given), its time in the kind's time field or, as ISO 8601, in `at`, and
    a secret in its own column, or its token in the field. Where the judged kind has a field `topic`, each line is of
    this kind. An empty cell of CSV is the empty text where the kind requires a text that may be empty, and no value
    elsewhere. Fields that the kind does not declare are left out: their content is unchecked.

    A line that cannot be parsed is sent as it is, unless the use has secrets: it could hold one. Of a line that is too
    long for an event only the beginning is sent. Events of canaries are left out: only those that are sent on time
    show whether a pattern works.
    """

    path: Path
    use: UseCase
    secrets: Secrets
    columns: Columns | None
    first_ms: int = 0
    newest_ms: int = 0
    events: int = 0
    """With the lines that cannot be parsed."""
    unparsed: int = 0
    canaries: int = 0
    """Events that are left out."""

    @property
    def lasts_ms(self) -> int:
        """From the first event to the newest."""
        return self.newest_ms - self.first_ms

    def references(self, now_ms: int | None = None) -> Iterator[Message]:
        """The reference data of the file, which arrives now; without a time, when the first event does.

        Times move as those of the events, but not so far that the event type refuses what it once accepted.
        """
        arrives_ms = self.first_ms if now_ms is None else now_ms
        shift_ms = 0 if now_ms is None else now_ms - self.newest_ms
        for found in self._read():
            if isinstance(found, Unparsed) or found[0] not in self.use.references:
                continue
            kind, at_ms, fields = found
            moved_ms = max(min(at_ms + shift_ms, arrives_ms), arrives_ms - kind.past_ms // 2)
            yield _recorded(0, (kind, moved_ms, fields))

    def require_replayable(self, speed: float) -> None:
        """Refuse a speed at which the replay would take too long, or its events would be too old."""
        if (lasts_s := self.lasts_ms / speed / 1000) > LASTS_MOST_S:
            raise ReplayError(
                f"{self.path}: from {moment_of(self.first_ms)}, its first event, to {moment_of(self.newest_ms)} it "
                f"would take {lasts_s / 86_400:,.1f} days, and may take {LASTS_MOST_S // 86_400}; correct or remove "
                "events with a wrong time, give more --speed, or judge them at their own times: "
                "`millrace backfill --help`"
            )
        aged_ms = abs(self.lasts_ms - self.lasts_ms / speed)
        for kind in self.use.raw:
            if kind.time is not None and aged_ms > kind.past_ms:
                raise ReplayError(
                    f"{self.path}: at --speed {speed:g} events would be up to {aged_ms / 1000:,.0f} s old when they "
                    f"are sent, and '{kind.name}' accepts {kind.past_ms / 1000:,.0f} s; give a speed nearer to 1, "
                    "fewer events, or judge them at their own times: `millrace backfill --help`"
                )

    def messages(self, start_ms: int, speed: float = 1.0) -> Iterator[Message]:
        """The events in the order of the file, `speed` times as fast as they happened; none lies in the future."""
        # When time runs faster than it did, the past must begin earlier, or the end would lie in the future.
        shift_ms = start_ms + int(self.lasts_ms / max(speed, 1)) - self.newest_ms
        shift_ms -= shift_ms % (self.columns.aligned_ms if self.columns else 1)
        due_ms = 0
        for found in self._read():
            if isinstance(found, Unparsed):
                yield Message(due_ms, self.use.judged.name, None, found.written, UNPARSED)
                continue
            kind, at_ms, fields = found
            if kind in self.use.references or self._is_canary(found):
                continue
            if kind.time is None:
                yield _recorded(due_ms, found)
                continue
            due_ms = max(due_ms, int((at_ms - self.first_ms) / speed))
            event = {**fields, kind.time: at_ms + shift_ms, "sent_ms": start_ms + due_ms}
            yield _message(due_ms, kind, event)

    def recorded(self) -> Iterator[Message]:
        """The events in the order of the file, at their own times.

        Each is due at its arrival, in milliseconds since 1970: with the newest event so far.
        """
        arrived_ms = self.first_ms
        for found in self._read():
            if isinstance(found, Unparsed):
                yield Message(arrived_ms, self.use.judged.name, None, found.written, UNPARSED)
                continue
            kind, at_ms, _ = found
            if kind in self.use.references:
                continue
            if kind.time is not None:
                arrived_ms = max(arrived_ms, at_ms)
            yield _recorded(arrived_ms, found)

    def _read(self) -> Iterator[Event | Unparsed]:
        """Each line as an event, unless it cannot be parsed."""
        try:
            with self.path.open("rb") as opened:
                longest = max(ESCAPED * each.max_bytes for each in self.use.raw)
                most = min(max(longest, LINE_BYTES_LEAST), LINE_BYTES_MOST)
                read = iter(partial(_line, opened, most), b"")
                lines = _csv_lines(self.path, read, self.columns, most) if self.is_csv else _json_lines(read)
                for number, written, values in lines:
                    try:
                        yield self._event(values)
                    except _LineError as error:
                        if self.secrets:
                            raise ReplayError(f"{self.path}, line {number}: {error}") from None
                        yield Unparsed(written[: self.use.judged.max_bytes + 1], f"line {number}: {error}")
        except OSError as error:
            raise ReplayError(
                f"{self.path}: cannot be read ({error.strerror or error}); give a readable file"
            ) from None

    def _is_canary(self, event: Event) -> bool:
        kind, _, fields = event
        mark = self.use.canaries.marks.get(kind.key) if self.use.canaries else None
        return mark is not None and str(fields[kind.key]).startswith(mark)

    @property
    def is_csv(self) -> bool:
        return self.path.suffix == ".csv"

    def _event(self, values: Mapping[str, Any] | None) -> Event:
        if values is None:
            raise _LineError(
                "not the columns of the header; quote commas, and write UTF-8"
                if self.is_csv
                else "not a JSON object; write one object per line, in UTF-8"
            )
        empty = {name for name, cell in values.items() if cell == ""} if self.is_csv else set()
        values = {name: value for name, value in values.items() if name not in empty}
        if self.columns and self.is_csv:
            return _mapped(values, self.columns, self.secrets)
        kinds = {each.name: each for each in (*self.use.raw, *self.use.references)}
        judged = self.use.judged
        name = judged.name if "topic" in judged.names else values.get("topic", judged.name)
        if not isinstance(name, str) or name not in kinds:
            raise _LineError(f"'{name}' is not a kind of event; topic is one of {', '.join(kinds)}")
        kind = kinds[name]
        values |= dict.fromkeys(empty & kind.may_be_empty, "")
        return kind, _at_ms(kind, values) if kind.time else 0, _named(kind, values, self.secrets, is_text=self.is_csv)


def read_replay(path: Path, use: UseCase, secrets: Secrets, columns: Columns | None = None) -> Replay:
    """Reads a CSV file with a header, or JSON lines, by its suffix: whole, and without keeping its lines."""
    if path.exists() and not path.is_file():
        raise ReplayError(f"{path}: it is read several times, and is no file; write its lines to one")
    first_ms = newest_ms = None
    events = unparsed = canaries = 0
    first_unparsed = ""
    replay = Replay(path, use, secrets, columns)
    for found in replay._read():
        if isinstance(found, Unparsed):
            unparsed += 1
            first_unparsed = first_unparsed or f"; {found.why}"
        elif replay._is_canary(found):
            canaries += 1
        elif found[0] not in use.references:
            events += 1
            if found[0].time is not None:
                first_ms = found[1] if first_ms is None else first_ms
                newest_ms = found[1] if newest_ms is None else max(newest_ms, found[1])
    if not events:
        kinds = " or ".join(each.name for each in use.raw)
        raise ReplayError(f"{path}: the file has no events; write one of {kinds} per line{first_unparsed}")
    return replace(
        replay,
        first_ms=first_ms or 0,
        newest_ms=newest_ms or 0,
        events=events + unparsed,
        unparsed=unparsed,
        canaries=canaries,
    )


def _recorded(due_ms: int, event: Event) -> Message:
    """An event at its own time, if its kind has one."""
    kind, at_ms, fields = event
    return _message(due_ms, kind, fields if kind.time is None else {**fields, kind.time: at_ms})


def _message(due_ms: int, kind: EventType, event: Mapping[str, Any]) -> Message:
    """Letters stay as they are: as escapes, a line could be longer than the event type accepts."""
    key = str(event[kind.key]).encode("utf-8", "surrogatepass")
    try:
        value = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a pair of surrogates
        value = json.dumps(event, separators=(",", ":")).encode()
    return Message(due_ms, kind.name, key, value, LABEL)


def moment_of(at_ms: int) -> str:
    """A time of a file for people; one that no calendar has, as in nanoseconds, stays a number."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def _line(opened: IO[bytes], most: int) -> bytes:
    """The next line; of one that is longer than an event may be its beginning, without a line end. Empty at the end."""
    line = rest = opened.readline(most)
    while len(rest) == most and not rest.endswith(b"\n"):
        rest = opened.readline(most)
    return line


def _csv_lines(path: Path, lines: Iterator[bytes], columns: Columns | None, most: int) -> Iterator[Line]:
    header = _header(path, next(lines, b""), columns)
    pending: list[bytes] = []

    def texts() -> Iterator[str]:
        for line in lines:
            pending.append(line)
            yield line.decode("utf-8", errors="surrogateescape")

    is_quoted = columns is None or columns.is_quoted
    rows = csv.reader(texts()) if is_quoted else (text.rstrip("\r\n").split(",") for text in texts())
    number = 1
    while True:
        try:
            cells: Sequence[str] | None = next(rows)
        except StopIteration:
            return
        except csv.Error:
            cells = None
        written = b"".join(pending)
        if len(pending) > 1 and not _is_closed(written):
            raise ReplayError(
                f"{path}, line {number + 1}: a quote opens and does not close in this row; remove it, or double it"
            )
        number += len(pending)
        is_cut = any(len(line) == most for line in pending)
        pending.clear()
        if not written.strip() and columns is None:
            continue
        values = None if is_cut else _by_name(header, cells, written, is_whole=columns is not None)
        yield number, written.rstrip(b"\r\n"), values


def _is_closed(row: bytes) -> bool:
    """Whether each quote in a row of several lines closes where a cell ends."""
    try:
        next(csv.reader(io.StringIO(row.decode("utf-8", "surrogateescape"), newline=""), strict=True))
    except csv.Error:
        return False
    return True


def _header(path: Path, line: bytes, columns: Columns | None) -> list[str]:
    header = next(csv.reader([line.decode("utf-8-sig", errors="replace")]), [])
    if columns and tuple(header) != columns.header:
        raise ReplayError(
            f"{path}: {_difference(header, columns.header)}; the first line must be '{','.join(columns.header)}'"
        )
    return header


def _difference(found: Sequence[str], wanted: Sequence[str]) -> str:
    for number, (column, name) in enumerate(zip(found, wanted, strict=False), start=1):
        if column != name:
            return f"column {number} of its header is '{column[:40]}', not '{name}'"
    return f"its header has {len(found)} columns, not {len(wanted)}"


def _by_name(
    header: Sequence[str], cells: Sequence[str] | None, written: bytes, *, is_whole: bool
) -> Mapping[str, Any] | None:
    """The values of a line; None if it does not fit the header."""
    if cells is None or len(cells) > len(header) or (is_whole and len(cells) < len(header)) or not _is_utf8(written):
        return None
    return dict(zip(header, cells, strict=False))


def _is_utf8(written: bytes) -> bool:
    if written.isascii():
        return True
    try:
        written.decode()
    except UnicodeDecodeError:
        return False
    return True


def _json_lines(lines: Iterator[bytes]) -> Iterator[Line]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line.removeprefix(BOM_UTF8 if number == 1 else b"").decode())
        except (ValueError, RecursionError):
            values = None
        yield number, line.rstrip(b"\r\n"), values if isinstance(values, dict) else None


def _mapped(values: Mapping[str, Any], columns: Columns, secrets: Secrets) -> Event:
    kind = columns.event
    fields = {}
    for name, source in columns.fields.items():
        if not isinstance(source, str):
            try:
                value = source(values)
            except (ValueError, KeyError):
                raise _LineError(f"{name} cannot be read; correct it or remove the line") from None
            if value is not None:
                fields[name] = value
        elif source in values:
            fields[name] = _number(source, kind.kind(name), values[source])
    fields |= _tokens(kind, secrets, values)
    try:
        at_ms = columns.at_ms(values)
    except (ValueError, KeyError):
        raise _LineError("no time; correct it or remove the line") from None
    return kind, at_ms, _with_key(kind, fields)


def _named(kind: EventType, values: Mapping[str, Any], secrets: Secrets, *, is_text: bool) -> dict[str, Any]:
    apart = (*kind.tokens, kind.time, "sent_ms")
    fields = {
        field.name: _number(field.name, field.kind, values[field.name]) if is_text else values[field.name]
        for field in kind.readable
        if field.name in values and field.name not in apart
    }
    return _with_key(kind, fields | _tokens(kind, secrets, values))


def _tokens(kind: EventType, secrets: Secrets, values: Mapping[str, Any]) -> dict[str, Any]:
    optional = {field.name for field in kind.readable if not field.required}
    return {
        name: _token(name, secrets, values)
        for name, secret in kind.tokens.items()
        if name not in optional or secret.column in values or name in values
    }


def _with_key(kind: EventType, fields: dict[str, Any]) -> dict[str, Any]:
    if kind.key not in fields:
        raise _LineError(f"no {kind.key}; every event of {kind.name} needs one")
    return fields


def _number(name: str, kind: str, value: str) -> Any:
    try:
        return int(value) if kind == "whole" else float(value) if kind == "real" else value
    except ValueError:
        raise _LineError(f"{name} is not a {kind} number: '{value[:20]}'; correct it or remove the line") from None


def _token(name: str, secrets: Secrets, values: Mapping[str, Any]) -> str:
    tokens = secrets[name]
    column = tokens.secret.column
    given = str(values.get(column, values.get(name, "")))
    if column not in values and re.fullmatch(TOKEN_PATTERN, given):
        return given
    try:
        return tokens.token(given)
    except TokenError as error:
        raise _LineError(f"no usable {name}; {error}; give {column}, or a token in {name}") from None


def _at_ms(kind: EventType, values: Mapping[str, Any]) -> int:
    name = kind.time or ""
    given = values.get(name, values.get("at"))
    try:
        if name in values and WHOLE_LEAST <= (at_ms := int(given)) <= WHOLE_MOST:
            return at_ms
        moment = datetime.fromisoformat(str(given))
    except (ValueError, TypeError, OverflowError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise _LineError(
            f"no time: {str(given)[:40]!r}; give {name}, or at with an offset such as 2026-03-01T12:00:00+01:00"
        )
    return round(moment.timestamp() * 1000)
