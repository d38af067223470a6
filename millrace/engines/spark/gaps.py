"""Gaps between the offsets of a checkpoint and what is in the topics."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millrace.patterns.loss import Loss

Offsets = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> the offset after the last message."""


@dataclass(frozen=True)
class Topics:
    """The topics as they are now."""

    ids: Mapping[str, str]
    firsts: Offsets
    ends: Offsets


def gaps(reader: str, wanted: Offsets, known: Mapping[str, str], topics: Topics) -> list[Loss]:
    """Where the offset that is to be read next is not in the topic, or the topic is another one."""
    found = []
    for topic in wanted.keys() & topics.ids.keys():
        now, was = topics.ids[topic], known.get(topic, topics.ids[topic])
        for partition, offset in wanted[topic].items():
            first, end = topics.firsts[topic].get(partition, 0), topics.ends[topic].get(partition, 0)
            if was != now or not first <= offset <= end:
                found.append(Loss(topic, partition, offset, first, end, now, was, reader))
    return sorted(found, key=lambda loss: loss.place)


def skipping(text: str, gaps: Sequence[Loss], *, is_planned: bool) -> str:
    """The offsets of a batch, as Spark writes them, moved behind the gaps."""
    lines = text.splitlines()
    for i, line in enumerate(lines[2:], start=2):
        if not line.startswith("{"):
            continue
        offsets = json.loads(line)
        for gap in gaps:
            reached = offsets.get(gap.topic, {})
            if (partition := str(gap.partition)) in reached:
                is_behind = is_planned and not gap.is_new_topic and gap.first <= reached[partition] <= gap.end
                reached[partition] = reached[partition] if is_behind else gap.first
        lines[i] = json.dumps(offsets, separators=(",", ":"))
    return "\n".join(lines)
