"""Writes a made EDGAR log, for replays: `python -m pipelines.flood.made_log --lines 2000000 OUT.csv`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from .edgar import HEADER
from .events import SECOND_MS
from .groups import GROUPS
from .traffic import stage
from .traffic.attacks import Siege
from .traffic.pace import by_the_curve
from .traffic.poison import LINES
from .traffic.visitors import Document, Visitor, public

BUFFER_BYTES = 1 << 20
# A log has its lines in order; what is no line at all is as rare as a full disk.
SHARES = {"attacks": 0.02, "poison": 0.0001, "late": 0.0, "refused": 0.003, "again": 0.01}


def log_lines(
    lines: int, day: date, *, first_hour: int = 0, hours: int = 24, seed: int = 1, groups: int = GROUPS
) -> Iterator[bytes]:
    """The header, then so many lines within these hours of a day, with its curve and with attacks."""
    yield f"{HEADER}\n".encode()
    midnight_ms = int(datetime.combine(day, datetime.min.time(), UTC).timestamp()) * SECOND_MS
    everybody = public(seed, groups)
    siege = Siege(seed, groups, SHARES["attacks"], everybody.visitors, room=1)  # without a sender, none is delayed
    windows = by_the_curve(lines, midnight_ms, first_hour, hours)
    made = stage.requests(seed, everybody, siege, windows, SHARES, LINES, in_order=True)
    stamped_ms, stamp = -1, ""
    for _, visitor, document, code, at_ms, _, poison in made:
        if at_ms != stamped_ms:
            stamped_ms, stamp = at_ms, f"{datetime.fromtimestamp(at_ms / SECOND_MS, UTC):%Y-%m-%d,%H:%M:%S}"
        line = _line(visitor, stamp, document, code)
        if poison is not None:
            line = poison.spoil(line) or b""
        yield line + b"\n"


def _line(visitor: Visitor, stamp: str, document: Document, code: int) -> bytes:
    return (
        f"{visitor.ip},{stamp},{document.csv},{code}.0,{document.answered(code)}.0,{document.idx}.0,"
        f"{visitor.norefer}.0,{visitor.noagent}.0,{document.find}.0,{visitor.is_crawler:d}.0,{visitor.browser}"
    ).encode()


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT.csv")
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--day", type=date.fromisoformat, default=date(2016, 6, 30), help="default: 2016-06-30")
    parser.add_argument("--first-hour", type=int, default=0, choices=range(24), metavar="HOUR")
    parser.add_argument("--hours", type=int, default=24, choices=range(1, 25), metavar="HOURS", help="default: 24")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--groups", type=int, default=GROUPS, help="as in the replay: attacks are alone in one of them")
    given = parser.parse_args(words)
    lines = log_lines(
        given.lines, given.day, first_hour=given.first_hour, hours=given.hours, seed=given.seed, groups=given.groups
    )
    try:
        with given.out.open("wb", buffering=BUFFER_BYTES) as opened:
            opened.writelines(lines)
    except OSError as error:
        parser.error(f"{given.out}: cannot be written ({error.strerror}); name a file in a folder with room for it")


if __name__ == "__main__":
    main()
