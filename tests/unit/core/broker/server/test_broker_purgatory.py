"""Delayed operations complete exactly once: by their condition, by an event on a key, or by their time-out."""

from kafkatools.core.broker.server.purgatory import DelayedOperation, Purgatory
from kafkatools.core.broker.server.timer import Timer


class Waiting(DelayedOperation):
    def __init__(self, delay_ms: int = 100) -> None:
        super().__init__(delay_ms)
        self.is_ready = False
        self.tries = 0
        self.ready_after_tries = 10**9
        self.events: list[str] = []

    def try_complete(self) -> bool:
        self.tries += 1
        ready = self.is_ready or self.tries >= self.ready_after_tries
        return self.force_complete() if ready else False

    def on_complete(self) -> None:
        self.events.append("complete")

    def on_expiration(self) -> None:
        self.events.append("expired")


def test_an_operation_that_is_ready_never_waits() -> None:
    purgatory = Purgatory("test", Timer(0))
    operation = Waiting()
    operation.is_ready = True
    assert purgatory.try_complete_else_watch(operation, ["a"], 0)
    assert operation.events == ["complete"]
    assert purgatory.entry_count() == 0


def test_what_happens_between_the_first_try_and_the_watch_is_seen_by_the_second_try() -> None:
    purgatory = Purgatory("test", Timer(0))
    operation = Waiting()
    operation.ready_after_tries = 2
    assert purgatory.try_complete_else_watch(operation, ["a", "b"], 0)
    assert operation.events == ["complete"]
    assert purgatory.check_and_complete("a") == 0


def test_an_event_on_any_key_completes_it_once() -> None:
    timer = Timer(0)
    purgatory = Purgatory("test", timer)
    operation = Waiting()
    assert not purgatory.try_complete_else_watch(operation, ["a", "b"], 0)
    assert purgatory.check_and_complete("a") == 0
    operation.is_ready = True
    assert purgatory.check_and_complete("c") == 0
    assert purgatory.check_and_complete("b") == 1
    assert purgatory.check_and_complete("a") == 0
    timer.advance_to(10_000)
    assert operation.events == ["complete"]


def test_the_time_out_completes_and_then_expires() -> None:
    timer = Timer(0)
    purgatory = Purgatory("test", timer)
    operation = Waiting(delay_ms=100)
    purgatory.try_complete_else_watch(operation, ["a"], 0)
    timer.advance_to(99)
    assert operation.events == []
    timer.advance_to(100)
    assert operation.events == ["complete", "expired"]
    assert not operation.force_complete()


def test_an_operation_may_start_another_one_on_the_same_key_while_it_completes() -> None:
    purgatory = Purgatory("test", Timer(0))
    following = Waiting()

    class Chained(Waiting):
        def on_complete(self) -> None:
            super().on_complete()
            purgatory.try_complete_else_watch(following, ["a"], 0)

    first = Chained()
    purgatory.try_complete_else_watch(first, ["a"], 0)
    first.is_ready = True
    assert purgatory.check_and_complete("a") == 1
    following.is_ready = True
    assert purgatory.check_and_complete("a") == 1
    assert following.events == ["complete"]


def test_completed_operations_do_not_pile_up_under_quiet_keys() -> None:
    purgatory = Purgatory("test", Timer(0))
    for _ in range(2000):
        operation = Waiting()
        purgatory.try_complete_else_watch(operation, ["quiet", "busy"], 0)
        operation.is_ready = True
        purgatory.check_and_complete("busy")
    assert purgatory.entry_count() < 1100
