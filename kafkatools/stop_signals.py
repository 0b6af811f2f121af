"""Signals that end a command: `terminate_politely` for all of them, and StopSignals, the graceful stop of commands that
report the outcome of every record.

Rules of StopSignals: the first signal only sets `has_signal` and calls `wake`, so that a command can still print the
result of records that a broker acknowledged. The second signal calls the earlier handler and raises KeyboardInterrupt.
Outside the main thread signals are left alone, as are ignored signals.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PAUSE_S = 0.02
"""Before a dropped signal is sent again."""


class Terminated(KeyboardInterrupt):
    """Raised by SIGTERM and SIGHUP; handled like Ctrl-C."""


def terminate_politely() -> None:
    """Make SIGTERM and SIGHUP raise Terminated, so that commands flush and report as after Ctrl-C. A signal that is
    ignored, as under nohup, stays ignored. A signal whose exception Python drops is sent again."""

    def handle(signum: int, frame: FrameType | None) -> None:
        raise Terminated

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
    sys.unraisablehook = _send_dropped_signal_again


def _send_dropped_signal_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Send a signal again if it arrived in a callback whose exceptions Python only reports: of a fork, a weak
    reference or a finalizer. Another thread sends it after a pause, since this thread is still in the callback."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    number = signal.SIGTERM if issubclass(unraisable.exc_type, Terminated) else signal.SIGINT
    timer = threading.Timer(_PAUSE_S, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


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
