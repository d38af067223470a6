"""What the record of a run shows of itself, and what of it cannot be."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.traffic.planned import KEYS, partition_of
from millrace.traffic.runs import LONGEST_S, Run, Span
from millrace.verify.latency import QUANTILES

ROUNDED_MS = 10
"""What a record leaves out where it rounds."""


def span_ms(run: Run) -> Span:
    """When its messages were due, the bare hops too: until its recorded end; an earlier version recorded none."""
    return run.start_ms, run.until_ms or run.start_ms + sent_for_ms(run)


def contradictions(run: Run) -> Iterator[str]:
    """What of a record contradicts the rest of it.

    A file has an event, as a plan has. The last message left as late as the latest one at most. Each key of the closing
    is in the partition of its place among them.
    """
    if why := run.contradiction:
        yield why
    if run.is_complete and not run.sent:
        yield "it is complete, and sent nothing"
    timed = run.behind_ms.get("count", run.sent)
    if run.is_complete and timed != run.sent:
        yield f"it counts {run.sent} messages, and the punctuality of {timed}"
    quantiles_ms = [
        ms for name in (*QUANTILES, "max") if isinstance(ms := run.behind_ms.get(f"{name}_ms"), int | float)
    ]
    if quantiles_ms != sorted(quantiles_ms):
        yield f"the quantiles of its punctuality do not rise: {quantiles_ms}"
    behind_ms = round(max(quantiles_ms, default=0))
    if run.until_ms and sent_for_ms(run) > run.until_ms - run.start_ms + behind_ms + ROUNDED_MS:
        yield f"it took {run.seconds} s, and its last message was due at {run.until_ms}"
    if (keys := run.about.get(KEYS)) is None:
        return
    places = [partition_of(key.encode(errors="replace"), len(keys)) for key in keys]
    if places != [*range(len(keys))] or ("plan" in run.about and not keys):
        yield f"the keys of its closing are not those of {len(keys)} partitions"


def sent_for_ms(run: Run) -> int:
    """How long it took until its last event left."""
    return round(min(run.seconds, LONGEST_S) * 1000)
