"""Where a query's messages are gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.engines.spark.losses import Retained, gaps
from millrace.patterns.loss import Loss, problem_of

#            offset  0         5         10        15
#                              [---- there ---)
THERE = Retained({"t": "id"}, {"t": {0: 5}}, {"t": {0: 10}})
GAP = Loss("t", 0, 2, 5, 10, "id", "id", "files")


@pytest.mark.parametrize(
    ("wanted", "was_id", "is_lost"),
    [(4, "id", True), (5, "id", False), (10, "id", False), (11, "id", True), (7, "other", True)],
    ids=["deleted", "the first", "the end", "beyond the end", "another topic"],
)
def test_what_is_to_be_read_next_must_be_in_the_same_topic(wanted: int, was_id: str, is_lost: bool) -> None:
    lost = [Loss("t", 0, wanted, 5, 10, "id", was_id, "files")]
    assert gaps("files", {"t": {0: wanted}}, {"t": was_id}, THERE) == (lost if is_lost else [])


def test_a_checkpoint_without_ids_and_a_topic_that_is_away_are_no_gaps() -> None:
    assert gaps("files", {"t": {0: 7}, "away": {0: 7}}, {}, THERE) == []


def test_a_loss_is_the_same_however_much_has_come_since() -> None:
    assert GAP.is_same_as(replace(GAP, end=12))
    assert not GAP.is_same_as(replace(GAP, first=7))
    assert not GAP.is_same_as(replace(GAP, topic_id="other"))


def test_the_problem_names_topic_partition_offsets_and_remedy() -> None:
    assert problem_of("p", [GAP, GAP, GAP, GAP]) == (
        "messages were deleted before they were read: "
        + "; ".join(["files: t[0]: offset 2 was to be read next; the topic has offsets 5 to 10"] * 3)
        + "; and 1 more; `millrace deploy p --accept-loss` continues without them"
    )
    assert (GAP.offsets, GAP.messages) == ("offsets 2 to 4", 3)
    anew = replace(GAP, was_id="other")
    assert (anew.offsets, anew.messages) == ("all from offset 2 on", None)
