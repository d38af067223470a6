"""EDGAR's log format: one request to a line, 15 columns, numbers written as 401.0, times to the second."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from pipelines.flood.events import SECOND_MS, requests
from pipelines.flood.groups import GROUPS, group_of
from pipelines.flood.shapes import Columns, Row

HEADER = "ip,date,time,zone,cik,accession,extention,code,size,idx,norefer,noagent,find,crawler,browser"
NUMBERS = ("zone", "cik", "code", "size", "idx", "norefer", "noagent", "find", "crawler")

IPS_KEPT = 100_000
LINE_BYTES_MOST = 65_536
"""A longer line comes in pieces, so that a file without line ends needs no more memory than any other."""

_NUMBER = re.compile(r"(-?[0-9]{1,18})(?:\.0*)?", re.ASCII)
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}", re.ASCII)


class EdgarError(ValueError):
    """A file that is no EDGAR log; names the file, the line and the remedy."""


def columns(groups: int = GROUPS) -> Columns:
    """How the lines of a log become requests."""
    group = partial(_group, groups=groups)
    return Columns(
        event=requests,
        header=tuple(HEADER.split(",")),
        at_ms=lambda row: _at_ms(f"{row['date']}T{row['time']}"),
        fields={
            **{name: name for name in ("ip", "accession", "extention", "browser")},
            **{name: partial(_whole, name) for name in NUMBERS},
            "group_id": lambda row: group(row["ip"]),
        },
        is_quoted=False,
    )


def read(path: Path, groups: int = GROUPS) -> Iterator[dict[str, Any] | bytes]:
    """Checks the header of a file; returns its lines in their order, as requests or, unparsed, as they are."""
    given = columns(groups)
    try:
        with path.open("rb") as opened:
            header = opened.readline(LINE_BYTES_MOST).rstrip(b"\r\n").decode(errors="replace")
    except OSError as error:
        raise EdgarError(f"{path}: cannot be read ({error.strerror}); give a readable file") from None
    if header != HEADER:
        raise EdgarError(f"{path}, line 1: {_difference(header)}; give an EDGAR log, with the header {HEADER}")
    return _lines(path, given)


def _lines(path: Path, given: Columns) -> Iterator[dict[str, Any] | bytes]:
    with path.open("rb") as opened:
        opened.readline(LINE_BYTES_MOST)
        for line in iter(partial(opened.readline, LINE_BYTES_MOST), b""):
            yield _parsed(line.rstrip(b"\r\n"), given)


def _parsed(line: bytes, given: Columns) -> dict[str, Any] | bytes:
    try:
        cells = line.decode().split(",")
        row = {name: cell for name, cell in zip(given.header, cells, strict=True) if cell}
        fields = {name: take(row) if callable(take) else row.get(take) for name, take in given.fields.items()}
        return {**fields, "at_ms": given.at_ms(row)}
    except (ValueError, KeyError):
        return line


def _difference(header: str) -> str:
    found, wanted = header.split(","), HEADER.split(",")
    for number, (column, name) in enumerate(zip(found, wanted, strict=False), start=1):
        if column != name:
            return f"column {number} of the header is '{column[:40]}', not '{name}'"
    return f"the header has {len(found)} columns, not {len(wanted)}"


def _whole(name: str, row: Row) -> int:
    found = _NUMBER.fullmatch(row[name])
    if found is None:
        raise ValueError(f"{name} is no whole number")
    return int(found[1])


@lru_cache(2)
def _at_ms(written: str) -> int:
    """A line's time; the logs give no usable zone, so it counts as UTC."""
    if not _TIME.fullmatch(written):
        raise ValueError("no time")
    return int(datetime.fromisoformat(f"{written}+00:00").timestamp()) * SECOND_MS


@lru_cache(IPS_KEPT)
def _group(ip: str, groups: int) -> str:
    return str(group_of(ip, groups))
