"""StopSignals: graceful stop on Ctrl-C, SIGTERM or SIGHUP, for commands that report the outcome of every record.

Rules: the first signal only sets `has_signal` and calls `wake`, so that a command can still print the result of records
that a broker acknowledged. The second signal calls the earlier handler and raises KeyboardInterrupt. Outside the main
thread signals are left alone, as are ignored signals.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """A context in which the first SIGINT, SIGTERM or SIGHUP only sets `has_signal` and calls `wake`, if given; the
    second raises KeyboardInterrupt."""

    def __init__(self, wake: Callable[[], None] | None = None) -> None:
        self._wake = wake
        self._previous_handlers: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self.has_signal = False

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            signals = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._previous_handlers = {number: signal.signal(number, self._note) for number in signals}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)
        self._previous_handlers = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.has_signal:
            self.has_signal = True
            if self._wake is not None:
                self._wake()
            return
        handler = self._previous_handlers.get(number)
        if callable(handler):
            handler(number, frame)
        raise KeyboardInterrupt
