"""Signals that end a command: `terminate_politely`, which every command uses, `ignore_stop_signals` for the end of the
process, and StopSignals, the graceful stop of commands that report the outcome of every record.

Rules of StopSignals: the first signal only sets `has_signal` and calls `wake`, so that a command can still print the
result of records that a broker acknowledged. The second signal calls the earlier handler and raises KeyboardInterrupt.
Outside the main thread signals are left alone, as are ignored signals.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PAUSE_S = 0.02
"""Before a dropped signal is sent again."""


_timers: list[threading.Timer] = []
"""Those that send dropped signals again."""


class Terminated(KeyboardInterrupt):
    """Raised by SIGTERM and SIGHUP, one of which is `signum`; handled like Ctrl-C."""

    def __init__(self, signum: int) -> None:
        super().__init__()
        self.signum = signum


def terminate_politely() -> None:
    """Make SIGTERM and SIGHUP raise Terminated, so that commands flush and report as after Ctrl-C. A signal that is
    ignored, as under nohup, stays ignored. A signal whose exception Python drops is sent again."""

    def handle(signum: int, frame: FrameType | None) -> None:
        raise Terminated(signum)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
    sys.unraisablehook = _send_dropped_signal_again
    atexit.register(_ignore_until_the_end)  # called after all that is registered later


def _send_dropped_signal_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Send a signal again if it arrived in a callback whose exceptions Python only reports: of a fork, a weak
    reference or a finalizer. Another thread sends it after a pause, since this thread is still in the callback. If no
    thread can start, Python reports the exception."""
    error = unraisable.exc_value
    if not isinstance(error, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    while True:
        try:
            _start_timer(error.signum if isinstance(error, Terminated) else signal.SIGINT)
            return
        except RuntimeError:
            sys.__unraisablehook__(unraisable)
            return
        except KeyboardInterrupt as interruption:
            # The timer was faster than this function, on a busy machine, or another signal arrived. Python would drop
            # this exception too.
            error = interruption


def _start_timer(number: int) -> None:
    timer = threading.Timer(_PAUSE_S, os.kill, (os.getpid(), number))
    timer.daemon = True
    _timers.append(timer)
    timer.start()


def ignore_stop_signals() -> None:
    """Ignore the first SIGINT, SIGTERM or SIGHUP from here on, also those that would be sent again, so that the process
    ends with its exit status after all clean-ups of atexit. The second of a kind ends it at once, if one hangs."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _let_the_next_end)
    sys.unraisablehook = sys.__unraisablehook__
    for timer in _timers:
        timer.cancel()
    _timers.clear()


def _let_the_next_end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)


def _ignore_until_the_end() -> None:
    """Ignore stop signals while the interpreter ends. It would give those with a handler of Python their default
    action, but leaves ignored ones."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


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
