"""Traffic from a file: recorded events, brought to the present and cleared of card numbers."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from millrace.rules import EventType
from pipelines.fraud.events import CARD_TOKEN, customers, device_locations, merchants, transactions
from pipelines.fraud.tokens import TokenError, Tokens
from pipelines.fraud.traffic.plan import Label, Message, message

KINDS = {each.name: each for each in (transactions, device_locations, merchants, customers)}
LABEL = Label("replayed")


class ReplayError(ValueError):
    """A file that cannot be replayed: names the file, the line and the remedy, and never repeats a card number."""


@dataclass(frozen=True)
class Replay:
    """The events of a file, read and checked whole before the first is sent.

    A line names its kind in `topic` (transactions unless given), its time in `at_ms` or, as ISO 8601, in `at`, and a
    card in `card_number`, or in `card` as a number or a token. Fields that the kind does not declare are left out:
    their content is unchecked.
    """

    references: tuple[Message, ...]
    events: tuple[tuple[int, EventType, Mapping[str, Any]], ...]
    """Original time in milliseconds, kind, fields without their times."""

    def messages(self, start_ms: int, speed: float = 1.0) -> Iterator[Message]:
        """The events in the order of the file, `speed` times as fast as they happened, the last of them now."""
        first_ms = self.events[0][0]
        newest_ms = max(at_ms for at_ms, _, _ in self.events)
        # When time runs faster than it did, the past must begin earlier, or the end would lie in the future.
        shift_ms = start_ms + int((newest_ms - first_ms) / speed) - newest_ms
        due_ms = 0
        for at_ms, kind, fields in self.events:
            due_ms = max(due_ms, int((at_ms - first_ms) / speed))
            event = {**fields, "at_ms": at_ms + shift_ms, "sent_ms": start_ms + due_ms}
            yield message(due_ms, kind.name, str(event[kind.key]), event, LABEL)


def read_replay(path: Path, tokens: Tokens) -> Replay:
    """Reads a CSV file with a header, or JSON lines, by its suffix."""
    rows = _csv_rows(path) if path.suffix == ".csv" else _json_rows(path)
    references, events = [], []
    try:
        for number, row in rows:
            kind, at_ms, fields = _Row(path, number, row).read(tokens)
            if kind.time is None:
                references.append(message(0, kind.name, str(fields[kind.key]), fields, LABEL))
            else:
                events.append((at_ms, kind, fields))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ReplayError(f"{path}: cannot be read ({error}); give a readable UTF-8 file") from None
    if not events:
        raise ReplayError(f"{path}: the file has no events; write one transaction or device location per line")
    return Replay(tuple(references), tuple(events))


def _csv_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open(encoding="utf-8", newline="") as opened:
        reader = csv.DictReader(opened)
        for row in reader:
            if None in row:
                raise ReplayError(f"{path}, line {reader.line_num}: more fields than the header names; quote commas")
            yield reader.line_num, {name: value for name, value in row.items() if value not in ("", None)}


def _json_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open(encoding="utf-8") as opened:
        for number, line in enumerate(opened, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise ReplayError(f"{path}, line {number}: not a JSON object; write one object per line")
            yield number, row


@dataclass(frozen=True)
class _Row:
    """One line of the file."""

    path: Path
    number: int
    row: Mapping[str, Any]

    def read(self, tokens: Tokens) -> tuple[EventType, int, dict[str, Any]]:
        """The kind of event, its time, and its declared fields."""
        name = self.row.get("topic", transactions.name)
        if name not in KINDS:
            raise self.error(f"'{name}' is not a kind of event", f"topic is one of {', '.join(KINDS)}")
        kind = KINDS[name]
        fields = {
            declared.name: self.value(declared.name, declared.kind)
            for declared in kind.readable
            if declared.name in self.row and declared.name not in ("card", "at_ms", "sent_ms")
        }
        if kind is transactions:
            fields["card"] = self.card(tokens)
        if kind.key not in fields:
            raise self.error(f"no {kind.key}", f"every event of {kind.name} needs one")
        return kind, 0 if kind.time is None else self.at_ms(), fields

    def value(self, name: str, kind: str) -> Any:
        value = self.row[name]
        if self.path.suffix != ".csv":
            return value
        try:
            return int(value) if kind == "whole" else float(value) if kind == "real" else value
        except ValueError:
            raise self.error(
                f"{name} is not a {kind} number: '{value[:20]}'", "correct it or remove the line"
            ) from None

    def card(self, tokens: Tokens) -> str:
        given = str(self.row.get("card_number", self.row.get("card", "")))
        if "card_number" not in self.row and re.fullmatch(CARD_TOKEN, given):
            return given
        try:
            return tokens.token(given)
        except TokenError as error:
            raise self.error("no usable card", f"{error}; give card_number, or a token in card") from None

    def at_ms(self) -> int:
        given = self.row.get("at_ms", self.row.get("at"))
        try:
            if "at_ms" in self.row:
                return int(self.row["at_ms"])
            moment = datetime.fromisoformat(str(given))
        except (ValueError, TypeError):
            moment = None
        if moment is None or moment.tzinfo is None:
            raise self.error(
                f"no time: {str(given)[:40]!r}", "give at_ms, or at with an offset such as 2026-03-01T12:00:00+01:00"
            )
        return round(moment.timestamp() * 1000)

    def error(self, what: str, remedy: str) -> ReplayError:
        return ReplayError(f"{self.path}, line {self.number}: {what}; {remedy}")
