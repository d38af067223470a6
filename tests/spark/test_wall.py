"""A wall clock that is set back is noticed, once."""

from millrace.engines.spark.event_time.wall import WallClock


def test_only_a_step_back_is_noticed() -> None:
    walls, steadies = iter([1_000.0, 1_010.0, 4_700.0, 1_101.0, 1_112.0]), iter([0.0, 10.5, 100.0, 101.0, 112.0])
    clock = WallClock(walls.__next__, steadies.__next__)
    assert [clock.was_set_back() for _ in range(4)] == [False, False, True, False]
