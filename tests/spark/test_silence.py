"""Event time follows the clock while there is no traffic, and only then."""

from millrace.engines.spark.event_time.silence import Look, Silence

IDLE_MS = 10_000
OPEN = Look(ends={"t": {0: 5}}, is_done=True, clock_ms=1_000_000, is_open=True)


def look(**changes: object) -> Look:
    return Look(**{**OPEN.__dict__, **changes})  # type: ignore[arg-type]


def test_time_advances_by_the_length_of_the_silence() -> None:
    silence = Silence(IDLE_MS)
    assert [silence.tick(OPEN, now_ms) for now_ms in (0, 9_999, 10_000, 12_000)] == [None, None, 1_010_000, 1_012_000]


def test_a_tick_does_not_accelerate_time() -> None:
    silence = Silence(IDLE_MS)
    silence.tick(OPEN, 0)
    assert silence.tick(OPEN, 10_000) == 1_010_000
    assert silence.tick(look(clock_ms=1_010_000), 11_000) == 1_011_000


def test_any_traffic_ends_the_silence() -> None:
    silence = Silence(IDLE_MS)
    silence.tick(OPEN, 0)
    assert silence.tick(OPEN, 10_000) is not None
    more = look(ends={"t": {0: 6}}, clock_ms=1_009_000)
    assert [silence.tick(more, now_ms) for now_ms in (11_000, 20_000, 21_000)] == [None, None, 1_019_000]


def test_no_time_passes_while_a_message_is_not_judged_or_counted() -> None:
    silence = Silence(IDLE_MS)
    assert [silence.tick(look(is_done=False), now_ms) for now_ms in (0, 60_000, 120_000)] == [None] * 3
    assert silence.tick(OPEN, 121_000) == 1_121_000


def test_no_tick_is_sent_without_an_open_window_or_before_the_first_event() -> None:
    for nothing in (look(is_open=False), look(clock_ms=0)):
        silence = Silence(IDLE_MS)
        assert [silence.tick(nothing, now_ms) for now_ms in (0, 60_000)] == [None, None]


def test_behind_a_finite_stream_time_leaps_over_the_last_window() -> None:
    silence = Silence(0, leap_ms=3_600_000)
    assert [silence.tick(look(is_done=False), 0), silence.tick(OPEN, 1_000)] == [None, 4_601_000]


def test_after_a_look_that_failed_silence_begins_anew() -> None:
    silence = Silence(IDLE_MS)
    silence.tick(OPEN, 0)
    silence.interrupt()
    assert [silence.tick(OPEN, now_ms) for now_ms in (9_000, 18_000, 19_000)] == [None, None, 1_010_000]
