"""Defer Ctrl-C, SIGTERM and SIGHUP to the time between polls, while a group's offsets are committed.

A poll moves positions before it returns records. An exception raised in between would lose the unprinted records at the
next commit. So a signal only wakes up the consumer, which ends a poll before positions move, and is raised afterwards.
While records are written, the signal is raised after 0.3 seconds, since a pipe may block forever.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

_Handler = Callable[[int, FrameType | None], object] | int | None
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WRITE_SECONDS = 0.3


class Interruption:
    """Context manager that defers SIGINT, SIGTERM and SIGHUP until `check` is called. A second signal takes effect at
    once. A signal during a write takes effect after 0.3 seconds if the write still blocks. Ignored signals stay
    ignored. Does nothing outside the main thread."""

    def __init__(self, wakeup: Callable[[], None]) -> None:
        self._wakeup = wakeup
        self._previous_handlers: dict[int, _Handler] = {}
        self._deferred_signal: tuple[int, FrameType | None] | None = None
        self.is_writing = False

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            signals = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._previous_handlers = {number: signal.signal(number, self._note) for number in signals}
            self._previous_handlers[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._write_takes_long)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._previous_handlers:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)
        self._previous_handlers = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._deferred_signal is not None:
            self._raise(number, frame)  # a second signal is raised at once
        self._deferred_signal = number, frame
        if self.is_writing:
            signal.setitimer(signal.ITIMER_REAL, _WRITE_SECONDS)
        else:
            self._wakeup()

    def _write_takes_long(self, number: int, frame: FrameType | None) -> None:
        if self.is_writing:
            self.check()

    def check(self) -> None:
        """Deliver the deferred signal: run its original handler, then raise KeyboardInterrupt unless the handler
        raised. Does nothing without a deferred signal."""
        if self._deferred_signal is not None:
            (number, frame), self._deferred_signal = self._deferred_signal, None
            self._raise(number, frame)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        handler = self._previous_handlers.get(number)
        if callable(handler):
            handler(number, frame)
        raise KeyboardInterrupt
