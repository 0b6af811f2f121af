"""Turns: run one client's sans-I/O step on an event loop, whenever a socket is ready or a time-out is due.

Rules: a client has no thread and no task. Its selector has a file descriptor, which the loop watches; one timer is set
to the next time-out. Each turn runs the client's step, which does not wait, then wakes the coroutines that wait for a
turn. They check their condition and wait again. All of it is on the thread of one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import NamedTuple, TypeVar

from kafkatools.core.errors import IllegalState

_log = logging.getLogger(__name__)

_LONGEST_MS = 300_000
_PAUSE_AFTER_FAILURE_MS = 100

Wait = TypeVar("Wait")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


class Turn(NamedTuple):
    """The result of a client's step: ms until the next one is needed (0: at once), and whether anything changed that a
    waiting coroutine may see."""

    delay_ms: int
    has_changed: bool


class Turns:
    """The turns of one client. `step` runs one and does not wait; `fileno` is the client's selector. `thread_id`: the
    thread of its event loop, -1 before `start`."""

    def __init__(self, step: Callable[[], Turn], fileno: Callable[[], int]) -> None:
        self._step = step
        self._fileno = fileno
        self._loop: asyncio.AbstractEventLoop | None = None
        self.thread_id = -1
        self._fd = -1
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False
        self._is_stopped = False
        self._waiting: list[asyncio.Future[None]] = []

    def start(self) -> asyncio.AbstractEventLoop:
        """Begin to watch the client on the running event loop, at the first call; return the loop. Raises RuntimeError
        outside of an event loop, and IllegalState on another loop than that of the first call."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return loop
        if self._loop is not None:
            raise IllegalState("The client was used on another event loop: create one client for each loop")
        self._loop = loop
        self.thread_id = threading.get_ident()
        if not self._is_stopped:
            self._fd = self._fileno()
            loop.add_reader(self._fd, self._turn)
        return loop

    @property
    def is_started(self) -> bool:
        """Return whether the client was used on an event loop."""
        return self._loop is not None

    @property
    def is_stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._is_stopped

    def soon(self) -> None:
        """Run a turn in the loop's next iteration; no effect before `start` and after `stop`."""
        if not self._is_due and self._loop is not None and not self._is_stopped:
            self._is_due = True
            self._loop.call_soon(self._turn_due)

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call a function in the loop's next iteration; no effect before `start`."""
        if self._loop is not None:
            self._loop.call_soon(call)

    async def wait(self, timeout_ms: int | None = None) -> None:
        """Wait until a turn has changed something, at most `timeout_ms` (None: without limit)."""
        loop = self.start()
        turn = loop.create_future()
        self._waiting.append(turn)
        timer = None if timeout_ms is None else loop.call_later(max(0, timeout_ms) / 1000, self._time_out, turn)
        try:
            await turn
        finally:
            if timer is not None:
                timer.cancel()

    def stop(self) -> None:
        """End the turns and wake all waiting coroutines; before the client closes its selector."""
        if self._is_stopped:
            return
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None and self._fd >= 0:
            self._loop.remove_reader(self._fd)
        self._wake()

    def _time_out(self, turn: asyncio.Future[None]) -> None:
        self._turn()
        _release(turn)

    def _turn_due(self) -> None:
        self._is_due = False
        self._turn()

    def _turn_timed(self) -> None:
        self._timer = None
        self._turn()

    def _turn(self) -> None:
        if self._is_stopped:
            return
        try:
            turn = self._step()
        except Exception:  # noqa: BLE001 - the top of a turn: the client must go on to complete or fail its requests
            _log.exception("Uncaught error in a turn of a Kafka client")
            turn = Turn(_PAUSE_AFTER_FAILURE_MS, True)
        self._set_timer(turn.delay_ms)
        if turn.has_changed:
            self._wake()

    def _set_timer(self, delay_ms: int) -> None:
        """Run the next turn after `delay_ms` at the latest. An earlier timer stays: a turn too many does no harm."""
        if delay_ms <= 0:
            self.soon()
            return
        assert self._loop is not None
        due = self._loop.time() + min(delay_ms, _LONGEST_MS) / 1000
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._turn_timed)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            _release(turn)


def _release(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


async def run(steps: Generator[Wait, Answer, Result], wait: Callable[[Wait], Awaitable[Answer]]) -> Result:
    """Run the steps of a call (core/steps.py) and return its result: `wait` is awaited for what a step yields. A
    cancellation is raised inside the steps."""
    try:
        item = next(steps)
        while True:
            try:
                answer = await wait(item)
            except BaseException as error:  # noqa: BLE001  # raised where the steps wait, CancelledError too
                item = steps.throw(error)
            else:
                item = steps.send(answer)
    except StopIteration as end:
        result: Result = end.value
        return result
