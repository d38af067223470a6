"""Latencies: exact quantiles of all measurements, without sketches and averages."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}


@dataclass(frozen=True)
class Latency:
    """Measured times in milliseconds under one name, in ascending order."""

    name: str
    ascending_ms: tuple[float, ...] = field(repr=False)

    @property
    def count(self) -> int:
        return len(self.ascending_ms)

    def quantile(self, q: float) -> float | None:
        """The smallest measured time that at least this share of all measurements does not exceed."""
        if not self.ascending_ms:
            return None
        # Rounded first: 0.99 * 100 is 99.00000000000001 in floating point, and its ceiling would be one rank too far.
        rank = math.ceil(round(q * self.count, 9))
        return self.ascending_ms[max(rank, 1) - 1]

    @property
    def worst(self) -> float | None:
        return self.ascending_ms[-1] if self.ascending_ms else None

    def record(self) -> dict[str, float | int | str | None]:
        quantiles = {f"{name}_ms": self.quantile(q) for name, q in QUANTILES.items()}
        return {"name": self.name, "count": self.count, **quantiles, "max_ms": self.worst}


def latency(name: str, times_ms: Iterable[float]) -> Latency:
    """Puts measurements in order."""
    return Latency(name, tuple(sorted(times_ms)))
