"""Event time goes on with the wall clock while there is no traffic, and not before."""

from millrace.engines.spark.ticks import Look, Silence

IDLE_MS = 10_000
OPEN = Look(offsets={"t": {0: 5}}, is_done=True, clock_ms=1_000_000, is_open=True)


def look(**changes: object) -> Look:
    return Look(**{**OPEN.__dict__, **changes})  # type: ignore[arg-type]


def test_time_goes_on_as_far_as_the_silence_lasts() -> None:
    silence = Silence(IDLE_MS)
    assert [silence.tick(OPEN, now_ms) for now_ms in (0, 9_999, 10_000, 12_000)] == [None, None, 1_010_000, 1_012_000]


def test_what_the_query_was_told_does_not_make_time_go_faster() -> None:
    silence = Silence(IDLE_MS)
    silence.tick(OPEN, 0)
    assert silence.tick(OPEN, 10_000) == 1_010_000
    assert silence.tick(look(clock_ms=1_010_000), 11_000) == 1_011_000


def test_any_traffic_ends_the_silence() -> None:
    silence = Silence(IDLE_MS)
    silence.tick(OPEN, 0)
    assert silence.tick(OPEN, 10_000) is not None
    more = look(offsets={"t": {0: 6}}, clock_ms=1_009_000)
    assert [silence.tick(more, now_ms) for now_ms in (11_000, 20_000, 21_000)] == [None, None, 1_019_000]


def test_no_time_passes_while_anything_is_yet_to_be_dealt_with() -> None:
    silence = Silence(IDLE_MS)
    assert [silence.tick(look(is_done=False), now_ms) for now_ms in (0, 60_000, 120_000)] == [None] * 3
    assert silence.tick(OPEN, 121_000) == 1_121_000


def test_nothing_is_told_when_no_window_is_open_or_no_event_was_ever_seen() -> None:
    for nothing in (look(is_open=False), look(clock_ms=0)):
        silence = Silence(IDLE_MS)
        assert [silence.tick(nothing, now_ms) for now_ms in (0, 60_000)] == [None, None]


def test_a_drain_closes_everything_at_once() -> None:
    assert Silence(0, ahead_ms=86_400_000).tick(OPEN, 500) == 1_000_000 + 86_400_000
