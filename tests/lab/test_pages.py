"""What pages change is told apart from what changes anyway."""

from __future__ import annotations

from lab.pages import compared


def test_what_changes_slowly_falls_on_both_alike() -> None:
    found = compared([[10, 20, 30, 40], [50, 60, 70, 80], [90, 100, 110, 120]])
    assert (found["change_ms"], found["noise_ms"]) == (0, 30)
    assert found["p99_ms"] == {"without": 65, "with": 65}


def test_what_pages_change_is_the_median_of_all_blocks() -> None:
    found = compared([[10, 30, 30, 10], [10, 30, 34, 14], [10, 900, 900, 12]])
    assert (found["change_ms"], found["noise_ms"]) == (20, 2)
