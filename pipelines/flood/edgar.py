"""EDGAR's log format: one request to a line, 15 columns, numbers written as 401.0, times to the second."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache, partial

from millrace.traffic import Columns, Row

from .events import MINUTE_MS, SECOND_MS, requests
from .groups import GROUPS, group_of

HEADER = "ip,date,time,zone,cik,accession,extention,code,size,idx,norefer,noagent,find,crawler,browser"
NUMBERS = ("zone", "cik", "code", "size", "idx", "norefer", "noagent", "find", "crawler")

IPS_KEPT = 100_000

_NUMBER = re.compile(r"(-?[0-9]{1,18})(?:\.0*)?", re.ASCII)
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}", re.ASCII)


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
        aligned_ms=MINUTE_MS,
        is_quoted=False,
    )


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
