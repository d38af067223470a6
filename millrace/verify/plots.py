"""Plots as SVG text: colours come from the page's style, so one drawing serves light and dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from millrace.verify.latency import Latency

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 760, 64, 16, 14, 42
LEAST_MS = 0.5
SHARES = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999)
BUCKETS_MOST = 90
BUCKET_SECONDS = (1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600)
COLOURS = 5


def latencies(measured: Sequence[Latency], promised_ms: float | None) -> str:
    """The share of messages that took at most so long; both axes are logarithmic, to stretch the tail."""
    drawn = [each for each in measured if each.count]
    if not drawn:
        return ""
    height, bottom = 320, 320 - BOTTOM
    least = max(LEAST_MS, min(each.ascending_ms[0] for each in drawn))
    most = max([*(each.ascending_ms[-1] for each in drawn), promised_ms or 0, least * 10])
    low, high = math.log10(least), math.log10(most * 1.1)
    tail_most = max(math.log10(max(each.count, 10)) for each in drawn)

    def x(ms: float) -> float:
        return LEFT + (math.log10(max(ms, least)) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(tail: float) -> float:
        return bottom - tail / tail_most * (bottom - TOP)

    parts = []
    for share in SHARES:
        tail = -math.log10(1 - share)
        if tail <= tail_most + 1e-9:
            parts.append(_line(LEFT, y(tail), WIDTH - RIGHT, y(tail), "grid"))
            parts.append(_text(LEFT - 8, y(tail) + 4, f"{share * 100:g} %", "end"))
    for tick in _log_ticks(low, high):
        parts.append(_line(x(tick), TOP, x(tick), bottom, "grid"))
        parts.append(_text(x(tick), bottom + 18, _ms(tick), "middle"))
    if promised_ms is not None:
        parts.append(_line(x(promised_ms), TOP, x(promised_ms), bottom, "promise"))
        # The promise is a p99: at the mark the curve must have reached 99 %.
        parts.append(_text(x(promised_ms) - 6, TOP + 12, f"promised p99 {promised_ms:g} ms", "end", "promise-text"))
    for colour, each in enumerate(drawn):
        points = " ".join(f"{x(ms):.1f},{y(tail):.1f}" for ms, tail in _curve(each))
        parts.append(f'<polyline class="curve c{colour % COLOURS}" points="{points}"/>')
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, height - 6, "took at most", "middle"))
    return _svg(height, parts, "share of messages by latency") + _legend(each.name for each in drawn)


def alerts_over_time(by_rule: Mapping[str, Sequence[int]]) -> str:
    """Alerts over time, one colour for each rule."""
    times = [at_ms for each in by_rule.values() for at_ms in each]
    if not times:
        return ""
    first_ms, last_ms = min(times), max(times)
    span_s = (last_ms - first_ms) / 1000 + 1
    bucket_s = next((s for s in BUCKET_SECONDS if span_s / s <= BUCKETS_MOST), math.ceil(span_s / BUCKETS_MOST))
    count = int(span_s // bucket_s) + 1
    heights: dict[str, list[int]] = {rule: [0] * count for rule in by_rule}
    for rule, each in by_rule.items():
        for at_ms in each:
            heights[rule][int((at_ms - first_ms) / 1000 // bucket_s)] += 1
    tallest = max(sum(column) for column in zip(*heights.values(), strict=True))
    height, bottom = 240, 240 - BOTTOM
    step = (WIDTH - LEFT - RIGHT) / count
    parts = []
    for tick in _ticks(tallest):
        y = bottom - tick / tallest * (bottom - TOP)
        parts += [_line(LEFT, y, WIDTH - RIGHT, y, "grid"), _text(LEFT - 8, y + 4, str(tick), "end")]
    for tick in _ticks(count * bucket_s):
        if tick <= count * bucket_s:
            parts.append(_text(LEFT + tick / bucket_s * step, bottom + 18, f"{tick} s", "middle"))
    for bucket in range(count):
        below = 0
        for colour, (rule, columns) in enumerate(heights.items()):
            here = columns[bucket]
            if here:
                top = bottom - (below + here) / tallest * (bottom - TOP)
                tall = here / tallest * (bottom - TOP)
                left, wide = LEFT + bucket * step, max(step - 1, 1)
                title = f"{escape(rule)}: {here} from {bucket * bucket_s} s"
                parts.append(
                    f'<rect class="bar c{colour % COLOURS}" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" '
                    f'height="{tall:.1f}"><title>{title}</title></rect>'
                )
                below += here
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, height - 6, "after the first alert", "middle"))
    unit = "s" if bucket_s == 1 else f"{bucket_s} s"
    return _svg(height, parts, f"alerts in each {unit}") + _legend(by_rule)


def dead_letters(by_reason: Mapping[str, int], shown: int = 24) -> str:
    """How many messages were refused for which reason."""
    if not by_reason:
        return ""
    rows = sorted(by_reason.items(), key=lambda row: (-row[1], row[0]))
    if len(rows) > shown:
        rows = [*rows[: shown - 1], (f"{len(rows) - shown + 1} other reasons", sum(n for _, n in rows[shown - 1 :]))]
    left, row_height = 210, 20
    height, most = TOP + row_height * len(rows) + 8, max(count for _, count in rows)
    parts = []
    for number, (reason, count) in enumerate(rows):
        y = TOP + number * row_height
        wide = max(count / most * (WIDTH - left - 70), 1)
        parts.append(_text(left - 8, y + 13, escape(reason), "end"))
        parts.append(f'<rect class="bar c0" x="{left}" y="{y + 2}" width="{wide:.1f}" height="{row_height - 6}"/>')
        parts.append(_text(left + wide + 6, y + 13, f"{count:,}", "start"))
    return _svg(height, parts, "dead letters by reason")


def _curve(each: Latency) -> list[tuple[float, float]]:
    """At most a few hundred points, evenly spread on the axis that stretches the tail."""
    ends_at = math.log10(max(each.count, 2))
    tails = (ends_at * step / 300 for step in range(301))
    points = [(each.quantile(1 - 10**-tail) or 0.0, tail) for tail in tails]
    return [(each.ascending_ms[0], 0.0), *points]


def _log_ticks(low: float, high: float) -> list[float]:
    steps = (1, 2, 5) if high - low < 3 else (1,)
    return [
        tick
        for power in range(math.floor(low), math.ceil(high) + 1)
        for s in steps
        if low <= math.log10(tick := s * 10**power) <= high
    ]


def _ticks(most: float) -> list[int]:
    step = 10 ** math.floor(math.log10(max(most, 1)))
    while most / step < 4 and step > 1:
        step = step // 2 if step % 2 == 0 else step // 5 or 1
    return list(range(0, int(most) + 1, max(step, 1)))


def _ms(ms: float) -> str:
    return f"{ms / 1000:g} s" if ms >= 1000 else f"{ms:g} ms"


def _svg(height: float, parts: Iterable[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _legend(names: Iterable[str]) -> str:
    items = (f'<li><i class="c{n % COLOURS}"></i>{escape(name)}</li>' for n, name in enumerate(names))
    return f'<ul class="legend">{"".join(items)}</ul>'
