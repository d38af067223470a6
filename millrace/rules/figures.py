"""Values as people read them: in the unit that a name ends in, with thousands, and with few digits."""

from __future__ import annotations

import math
from datetime import UTC, datetime

MOMENTS_FROM_MS = 100_000_000_000
"""No span is as long, and no event as old."""
DIGITS_MOST = 15
_UNITS = {"cents": "cents", "ms": "ms", "km": "km", "bytes": "bytes", "size": "bytes"}
_SPANS = ((1, "ms"), (1_000, "s"), (60_000, "min"), (3_600_000, "h"))
_SIZES = ((1, "B"), (1_000, "kB"), (1_000_000, "MB"), (1_000_000_000, "GB"), (1_000_000_000_000, "TB"))


def unit(name: str) -> str:
    """The unit that the name of a value ends in."""
    return _UNITS.get(name.rpartition("_")[2], "")


def in_unit(value: float, of: str, beside: float | None = None) -> str:
    """A number in its unit. What it is compared with adds digits, until the two are in the same order as they were."""
    if of == "cents":
        return _rounded(value / 100, 2, _scaled(beside, 100), least=2)
    if of == "km":
        return f"{_rounded(value, 0 if abs(value) >= 10 else 1, beside)} km"
    if of == "ms" and abs(value) >= MOMENTS_FROM_MS:
        return moment(value)
    if of in ("ms", "bytes"):
        steps = _SPANS if of == "ms" else _SIZES
        size, name = max((each for each in steps if each[0] <= abs(value)), default=steps[0])
        return f"{_rounded(value / size, 1, _scaled(beside, size))} {name}"
    return f"{value:,}" if isinstance(value, int) else _real(value, beside)


def exact(value: float, of: str) -> str:
    """A number in its unit, with as many digits as it has."""
    return in_unit(value, of, beside=value)


def moment(ms: float) -> str:
    """A time of the clock, in UTC."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):  # no year has it
        return f"{ms:,} ms"


def _real(value: float, beside: float | None) -> str:
    """A number without a unit: four digits that matter, and thousands."""
    magnitude = math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0
    if not math.isfinite(value) or not -5 <= magnitude < DIGITS_MOST:
        return repr(value)
    return _rounded(value, max(0, 3 - magnitude), beside)


def _rounded(value: float, digits: int, beside: float | None, least: int = 0) -> str:
    while beside is not None and digits < DIGITS_MOST and _order(round(value, digits), beside) != _order(value, beside):
        digits += 1
    whole, _, part = f"{round(value, digits) + 0.0:,.{digits}f}".partition(".")
    part = part.rstrip("0").ljust(least, "0")
    return f"{whole}.{part}" if part else whole


def _order(one: float, other: float) -> int:
    return (one > other) - (one < other)


def _scaled(value: float | None, by: int) -> float | None:
    return None if value is None else value / by
