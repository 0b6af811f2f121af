"""Clocks."""

from support.manual_clock import ManualClock

from kafkatools.core.clock import SystemClock


def test_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(now_ms=10, wall_ms=1000)
    assert (clock.now_ms(), clock.wall_ms()) == (10, 1000)
    clock.advance_ms(5)
    assert (clock.now_ms(), clock.wall_ms()) == (15, 1005)


def test_sleeping_on_a_manual_clock_advances_it() -> None:
    clock = ManualClock(now_ms=0)
    clock.sleep_ms(250)
    clock.sleep_ms(-1)
    assert clock.now_ms() == 250


def test_wall_clock_may_go_back_without_the_timer() -> None:
    clock = ManualClock(now_ms=7, wall_ms=1000)
    clock.set_wall_ms(10)
    assert (clock.now_ms(), clock.wall_ms()) == (7, 10)


def test_system_clock_gives_milliseconds() -> None:
    clock = SystemClock()
    first = clock.now_ms()
    assert clock.now_ms() >= first
    assert clock.wall_ms() > 1_700_000_000_000
    clock.sleep_ms(0)
