"""The timer: tasks run once, at their time, in the order of their time."""

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.manual_clock import ManualClock

from kafkatools.core.broker.server.scheduler import Scheduler
from kafkatools.core.broker.server.timer import Timer, TimerTask


def test_a_task_runs_at_its_time_and_not_before() -> None:
    timer = Timer(1000)
    ran: list[int] = []
    timer.schedule(50, ran.append, 1000)
    assert timer.advance_to(1049) == 0
    assert ran == []
    assert timer.advance_to(1050) == 1
    assert ran == [1050]
    assert timer.advance_to(5000) == 0


def test_a_task_that_is_due_runs_at_once() -> None:
    timer = Timer(1000)
    ran: list[int] = []
    timer.add(TimerTask(1000, ran.append), 1000)
    assert ran == [1000]


def test_a_cancelled_task_never_runs_even_when_cancelled_by_its_neighbour() -> None:
    timer = Timer(0)
    ran: list[str] = []
    second = TimerTask(30, lambda _: ran.append("second"))
    timer.add(TimerTask(30, lambda _: second.cancel()), 0)
    timer.add(second, 0)
    timer.advance_to(100)
    assert ran == []
    assert timer.next_expiration_ms() is None


def test_a_cancelled_task_keeps_nothing_alive() -> None:
    timer = Timer(0)
    held = {1, 2}
    reference = weakref.ref(held)
    task = timer.schedule(30_000, lambda _, held=held: held.clear(), 0)  # type: ignore[misc]
    task.cancel()
    del held
    gc.collect()
    assert reference() is None


def test_many_cancelled_tasks_disturb_no_other() -> None:
    timer = Timer(0)
    ran: list[int] = []
    tasks = [timer.schedule(1 + index % 50, lambda _, index=index: ran.append(index), 0) for index in range(1000)]  # type: ignore[misc]
    kept = set(range(0, 1000, 7))
    for index, task in enumerate(tasks):
        if index not in kept:
            task.cancel()
    assert timer.advance_to(100) == len(kept)
    assert ran == sorted(kept, key=lambda index: (index % 50, index))
    assert timer.next_expiration_ms() is None


def test_next_expiration_is_never_after_the_next_task() -> None:
    timer = Timer(0)
    timer.schedule(7_777, lambda _: None, 0)
    found = timer.next_expiration_ms()
    assert found is not None
    assert found <= 7_777


@pytest.mark.slow
@given(st.lists(st.integers(0, 200_000), max_size=40), st.lists(st.integers(1, 30_000), min_size=1, max_size=30))
def test_every_task_runs_exactly_once_at_the_first_advance_at_or_after_it(delays: list[int], steps: list[int]) -> None:
    timer = Timer(500)
    ran: dict[int, int] = {}

    def note(index: int, now: int) -> None:
        assert index not in ran
        ran[index] = now

    for index, delay in enumerate(delays):
        timer.schedule(delay, lambda now, index=index: note(index, now), 500)  # type: ignore[misc]
    now = 500
    stops = [500]
    for step in steps:
        now += step
        stops.append(now)
        timer.advance_to(now)
        assert set(ran) == {index for index, delay in enumerate(delays) if 500 + delay <= now}
    for index, at in ran.items():
        assert at == next(stop for stop in stops if stop >= 500 + delays[index])


def test_a_task_that_fails_is_told_and_the_others_run() -> None:
    failures: list[Exception] = []
    ran: list[int] = []
    timer = Timer(0, failures.append)

    def fail(now_ms: int) -> None:
        raise ValueError("broken")

    timer.schedule(10, fail, 0)
    timer.schedule(20, ran.append, 0)
    assert timer.advance_to(100) == 2
    assert [str(error) for error in failures] == ["broken"]
    assert ran == [100]


def test_periodic_work_goes_on_after_a_turn_that_failed() -> None:
    clock = ManualClock()
    failures: list[Exception] = []
    timer = Timer(clock.now_ms())
    turns: list[int] = []

    def work() -> None:
        turns.append(clock.now_ms())
        if len(turns) == 1:
            raise LookupError("the first")

    Scheduler(timer, clock, failures.append).every(100, work)
    for _ in range(2):
        clock.advance_ms(100)
        timer.advance_to(clock.now_ms())
    assert len(turns) == 2
    assert [str(failure) for failure in failures] == ["the first"]
