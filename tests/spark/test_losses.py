"""Where a query's messages are gone."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from millrace.engines.spark.checkpoints import TOPIC_IDS, Checkpoint, offsets_of
from millrace.engines.spark.losses import Losses, Retained, gaps
from millrace.patterns.loss import Loss, problem_of
from tests.spark.test_checkpoints import Files, first, offsets, taken_up, worked

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


def test_what_was_deleted_of_a_partition_that_was_added_is_lost() -> None:
    files = worked({"u": {"0": 3}, "t": {"1": 7}})
    lost = Loss("t", 0, 0, 5, 10, "id", "id", "files")
    assert lost in looked(files, "t", "u")
    looked(files, "t", "u", accepted=(lost, *looked(files, "t", "u")))
    assert offsets_of(files.texts["offsets/4"])["t"][0] == 5


def test_a_topic_that_is_declared_again_is_read_from_where_it_begins_by_now() -> None:
    files = worked({"u": {"0": 3}}, planned={"u": {"0": 4}})
    assert looked(files, "t", "u") == []
    assert offsets_of(files.texts["offsets/4"]) == {"u": {0: 3}, "t": {0: 5}}
    assert offsets_of(files.texts["offsets/5"]) == {"u": {0: 4}, "t": {0: 5}}


@pytest.mark.parametrize(("planned", "end"), [(4, 5), (8, 8)], ids=["before it", "behind it"])
def test_a_batch_with_it_that_was_planned_ends_where_it_begins_or_later(planned: int, end: int) -> None:
    files = worked({"u": {"0": 3}}, planned={"u": {"0": 4}, "t": {"0": planned}})
    assert looked(files, "t", "u") == []
    assert offsets_of(files.texts["offsets/4"]) == {"u": {0: 3}, "t": {0: 5}}
    assert offsets_of(files.texts["offsets/5"]) == {"u": {0: 4}, "t": {0: end}}


@pytest.mark.parametrize("files", [worked({"t": {"0": 7}}), Files({})], ids=["one that begins at 0", "all"])
def test_where_spark_itself_finds_the_beginning_it_is_left_to_spark(files: Files) -> None:
    before = dict(files.texts)
    assert looked(files, "t", "u", "away") == []
    assert {**files.texts, TOPIC_IDS: ""} == {**before, TOPIC_IDS: ""}


def test_what_was_deleted_before_the_first_batch_of_a_query_that_begins_anew_is_lost() -> None:
    files = worked({"t": {"0": 2}})
    taken_up(files, "")
    taken_up(files, "memory")
    files.texts["offsets/0"] = offsets({"t": {"0": 4}})
    lost = Loss("t", 0, 2, 5, 10, "id", "id", "files")
    assert looked(files, "t") == [lost]
    assert looked(files, "t", accepted=(lost,)) == []
    assert files.texts["sources/0/0"] == first({"t": {"0": 5}})
    assert offsets_of(files.texts["offsets/0"]) == {"t": {0: 5}}


def looked(files: Files, *reads: str, accepted: tuple[Loss, ...] = ()) -> list[Loss]:
    """The losses of a query with these files that is about to start, where a topic `u` is whole."""
    query = SimpleNamespace(name="files", reads=reads)
    due = cast(Any, SimpleNamespace(query=query, checkpoint=Checkpoint(cast(Any, files)), is_active=False))
    losses = Losses(cast(Any, SimpleNamespace(accepted=accepted)), [due])
    there = Retained({**THERE.ids, "u": "id"}, {**THERE.firsts, "u": {0: 0}}, {**THERE.ends, "u": {0: 10}})
    losses._retained = lambda: there  # type: ignore[method-assign]
    return losses._of([due])


def test_a_crash_between_the_two_batches_that_are_moved_is_made_good(monkeypatch: pytest.MonkeyPatch) -> None:
    files, moved, replace_in = worked({"u": {"0": 3}}, planned={"u": {"0": 4}}), list[str](), Files.replace

    def cut_off(folder: Files, name: str, text: str) -> None:
        if moved:
            raise OSError("cut off")
        moved.append(name)
        replace_in(folder, name, text)

    with monkeypatch.context() as patched:
        patched.setattr(Files, "replace", cut_off)
        with pytest.raises(OSError, match="cut off"):
            looked(files, "t", "u")
    assert looked(files, "t", "u") == []
    assert offsets_of(files.texts["offsets/4"]) == {"u": {0: 3}, "t": {0: 5}}
    assert offsets_of(files.texts["offsets/5"]) == {"u": {0: 4}, "t": {0: 5}}


def test_a_query_that_commits_while_topics_are_read_is_not_ahead_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    files = worked({"t": {"0": 9}})

    def ends_before_it(losses: Losses) -> Retained:
        files.texts |= {"offsets/5": offsets({"t": {"0": 12}}), "commits/5": files.texts["commits/4"]}
        return THERE

    query = SimpleNamespace(name="files", reads=("t",))
    at_work = cast(Any, SimpleNamespace(query=query, checkpoint=Checkpoint(cast(Any, files)), is_active=True))
    monkeypatch.setattr(Losses, "_retained", ends_before_it)
    assert Losses(cast(Any, SimpleNamespace(accepted=())), [at_work])._of([at_work]) == []


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
