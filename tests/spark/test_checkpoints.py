"""A checkpoint as Spark lays it out: the last completed batch is read, and moved behind a gap."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import pytest

from millrace.engines.spark.checkpoints import LAYOUT, Checkpoint, Committed, moved_behind, offsets_of
from millrace.engines.spark.tuning import DISORDER_MARGIN_MS
from millrace.patterns.loss import Loss

GAP = Loss("t", 0, 2, 5, 10, "id", "id", "files")


@dataclass
class Files:
    """A folder in memory."""

    texts: dict[str, str]
    path: str = ""
    reads: list[str] = field(default_factory=list)

    def inner(self, name: str) -> Files:
        return Files(self.texts, f"{self.path}{name}/", self.reads)

    def names(self) -> list[str]:
        return [path.removeprefix(self.path) for path in self.texts if path.startswith(self.path)]

    def has(self, name: str) -> bool:
        return self.path + name in self.texts

    def read(self, name: str) -> str:
        self.reads.append(self.path + name)
        return self.texts[self.path + name]

    def replace(self, name: str, text: str) -> None:
        self.texts[self.path + name] = text

    def delete(self, name: str) -> None:
        for path in [each for each in self.texts if f"{each}/".startswith(f"{self.path}{name}/")]:
            del self.texts[path]


def offsets(ends: Mapping[str, Mapping[str, int]]) -> str:
    """A batch as Spark writes it: version, settings, a line for each source."""
    return "\n".join(["v1", '{"batchWatermarkMs":0,"t":{"0":2}}', json.dumps(ends, separators=(",", ":")), "77"])


def commit(watermark_ms: int) -> str:
    return f'v1\n{{"nextBatchWatermarkMs":{watermark_ms}}}'


def test_the_offsets_of_all_topics_are_read_and_neither_settings_nor_ticks() -> None:
    text = offsets({"t": {"0": 2, "1": 3}, "u": {"0": 4}}) + '\n{"v":{"7":1}}'
    assert offsets_of(text) == {"t": {0: 2, 1: 3}, "u": {0: 4}, "v": {7: 1}}


def test_the_last_completed_batch_counts_and_a_planned_one_does_not() -> None:
    files = Files({f"offsets/{n}": offsets({"t": {"0": n}}) for n in (9, 10, 11)})
    files.texts |= {"commits/9": commit(0), "commits/10": commit(5_000), "commits/.10.crc": ""}
    assert Checkpoint(files).committed() == Committed({"t": {0: 10}}, 5_000)
    assert Checkpoint(Files({})).committed() is None


def test_a_batch_is_read_once() -> None:
    files = Files({"offsets/1": offsets({"t": {"0": 1}}), "commits/1": commit(0)})
    checkpoint = Checkpoint(files)
    assert checkpoint.committed() is checkpoint.committed() is checkpoint.latest
    assert sorted(files.reads) == ["commits/1", "offsets/1"]


def test_later_batches_are_found_one_by_one_without_a_list_of_all() -> None:
    files = Files({f"offsets/{n}": offsets({"t": {"0": n}}) for n in range(1, 5)} | {"commits/1": commit(0)})
    checkpoint = Checkpoint(files)
    assert checkpoint.committed() == Committed({"t": {0: 1}}, 0)
    files.texts |= {"commits/2": commit(2_000), "commits/3": commit(3_000)}
    checkpoint._commits.names = None  # type: ignore[assignment,method-assign]
    assert checkpoint.committed() == Committed({"t": {0: 3}}, 3_000)
    del files.texts["commits/1"]  # Spark keeps the last ones alone
    assert checkpoint.committed() == Committed({"t": {0: 3}}, 3_000)


def test_the_last_batch_is_found_after_a_pause_in_which_spark_has_deleted_all_that_were_there() -> None:
    files = Files({f"offsets/{n}": offsets({"t": {"0": n}}) for n in (1, 40, 41)} | {"commits/1": commit(0)})
    checkpoint = Checkpoint(files)
    assert checkpoint.committed() == Committed({"t": {0: 1}}, 0)
    del files.texts["commits/1"]
    files.texts |= {"commits/40": commit(4_000), "commits/41": commit(4_100)}
    assert checkpoint.committed() == Committed({"t": {0: 41}}, 4_100)


def test_the_clock_is_the_moment_behind_which_the_watermark_stays() -> None:
    assert Committed({}, 1_000).clock_ms(5_000) == 6_000 + DISORDER_MARGIN_MS
    assert Committed({}, 0).clock_ms(5_000) == 0, "no event moved it yet"


def test_the_completed_and_the_planned_batch_are_moved_behind_a_gap() -> None:
    files = Files({f"offsets/{n}": offsets({"t": {"0": end}}) for n, end in ((1, 1), (2, 2), (3, 4))})
    files.texts |= {f"commits/{n}": commit(0) for n in (1, 2)}
    checkpoint = Checkpoint(files)
    checkpoint.committed()
    checkpoint.skip([GAP])
    assert [offsets_of(files.texts[f"offsets/{n}"])["t"][0] for n in (1, 2, 3)] == [1, 5, 5]
    assert checkpoint.committed() == Committed({"t": {0: 5}}, 0)


def worked(ends: Mapping[str, Mapping[str, int]], planned: Mapping[str, Mapping[str, int]] | None = None) -> Files:
    """The files of a query after a batch that reached the ends, and with another one planned."""
    files = Files({"offsets/4": offsets(ends), "commits/4": commit(9_000), "metadata": "{}", "state/0/1/5.delta": ""})
    files.texts |= {"sources/0/0": first({topic: {"0": 0} for topic in ends}), "topic-ids.json": "{}"}
    files.texts |= {"offsets/5": offsets(planned)} if planned else {}
    return files


def first(begins: Mapping[str, Mapping[str, int]]) -> str:
    """Where a first batch begins, as Spark writes it."""
    return f"\0v1\n{json.dumps(begins, separators=(',', ':'))}"


def taken_up(files: Files, layout: str, topics: Collection[str] = ("t",), *, goes_on: bool = True) -> Checkpoint:
    checkpoint = Checkpoint(files)
    checkpoint.take_up(layout, topics, goes_on=goes_on)
    return checkpoint


def test_state_of_the_same_layout_and_that_of_an_earlier_build_is_continued() -> None:
    files = worked({"t": {"0": 7}})
    before = dict(files.texts)
    for _ in range(2):
        assert taken_up(files, "memory").committed() == Committed({"t": {0: 7}}, 9_000)
        assert files.texts == before | {LAYOUT: '{"layout": "memory"}'}


def test_with_another_layout_a_query_begins_anew_at_the_offsets_that_it_has_reached() -> None:
    files = worked({"t": {"0": 7}, "u": {"0": 3}}, planned={"t": {"0": 9}, "u": {"0": 3}})
    taken_up(files, "", ("t", "u"))
    for _ in range(2):  # the second time as if the driver had died before the first batch
        assert taken_up(files, "memory").committed() is None
        assert files.texts == {
            "sources/0/0": first({"t": {"0": 7}}),
            "topic-ids.json": "{}",
            LAYOUT: '{"layout": "memory"}',
        }, "`u` is not read any more"
    taken_up(files, "")
    assert files.texts["sources/0/0"] == first({"t": {"0": 7}}), "no batch came between two changes"


@pytest.mark.parametrize("died", range(1, 9))
def test_a_query_that_dies_while_it_begins_anew_loses_no_offset(died: int) -> None:
    class Dying(Files):
        def inner(self, name: str) -> Files:
            return Dying(self.texts, f"{self.path}{name}/", self.reads)

        def replace(self, name: str, text: str) -> None:
            self._step()
            super().replace(name, text)

        def delete(self, name: str) -> None:
            self._step()
            super().delete(name)

        def _step(self) -> None:
            nonlocal died
            died -= 1
            if not died:
                raise OSError("killed")

    files = worked({"t": {"0": 7}})
    taken_up(files, "")
    with pytest.raises(OSError, match="killed"):
        taken_up(Dying(files.texts), "memory")
    assert Checkpoint(files).reached() == {"t": {0: 7}}
    taken_up(files, "memory")
    assert files.texts.keys() == {"sources/0/0", "topic-ids.json", LAYOUT}
    assert files.texts["sources/0/0"] == first({"t": {"0": 7}})


def test_windows_of_another_layout_begin_with_what_the_topic_holds() -> None:
    files = worked({"t": {"0": 7}})
    taken_up(files, "ids")
    taken_up(files, "", goes_on=False)
    assert files.texts.keys() == {"topic-ids.json", LAYOUT}
    cut = worked({"t": {"0": 7}})
    cut.texts[LAYOUT] = '{"layout": "", "begins": {}}'
    assert Checkpoint(cut).reached() == {}, "a driver died before it had removed what was there"


@pytest.mark.parametrize("is_planned", [False, True], ids=["completed", "planned"])
def test_offsets_of_a_topic_that_is_not_read_any_more_are_forgotten(is_planned: bool) -> None:
    more = {"t": {"0": 9}, "u": {"0": 4}}
    files = worked({"t": {"0": 7}, "u": {"0": 3}}, more if is_planned else None)
    assert taken_up(files, "").committed() == Committed({"t": {0: 7}}, 9_000)
    assert files.texts["offsets/4"] == offsets({"t": {"0": 7}})
    assert not is_planned or files.texts["offsets/5"] == offsets({"t": {"0": 9}})


def test_they_are_forgotten_before_the_first_batch_is_completed_too() -> None:
    files = worked({"t": {"0": 7}, "u": {"0": 3}})
    files.texts = {"sources/0/0": files.texts["sources/0/0"], "offsets/0": files.texts["offsets/4"]}
    assert taken_up(files, "").committed() is None
    assert files.texts["sources/0/0"] == first({"t": {"0": 0}})
    assert files.texts["offsets/0"] == offsets({"t": {"0": 7}})


def test_topic_ids_are_kept_beside_it() -> None:
    checkpoint = Checkpoint(Files({}))
    assert checkpoint.topic_ids() == {}
    checkpoint.note_topic_ids({"t": "id"})
    assert checkpoint.topic_ids() == {"t": "id"}


@pytest.mark.parametrize(
    ("gap", "is_planned", "before", "behind"),
    [
        (GAP, False, 2, 5),
        (GAP, True, 4, 5),
        (GAP, True, 8, 8),
        (replace(GAP, first=0, was_id="other"), False, 2, 0),
        (replace(GAP, first=0, was_id="other"), True, 8, 0),
        (replace(GAP, wanted=20, first=0), True, 25, 0),
    ],
    ids=["committed", "planned into the gap", "planned behind it", "anew", "planned before anew", "beyond the end"],
)
def test_a_checkpoint_is_moved_behind_a_gap(gap: Loss, is_planned: bool, before: int, behind: int) -> None:
    other = {"1": 3}
    moved = moved_behind(offsets({"t": {"0": before, **other}, "u": {"0": 2}}), [gap], is_planned=is_planned)
    assert moved == offsets({"t": {"0": behind, **other}, "u": {"0": 2}})
