"""StopSignals: Ctrl-C, SIGTERM and SIGHUP as a wish to stop, for commands that tell what became of every record.

Rules: the first signal only sets `came` (and calls `wake`), so that nothing is cut off between an acknowledgement and
the line that tells of it; the second one takes the way that signals take otherwise. Outside the main thread signals are
left alone.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """While entered, the first signal is a wish."""

    def __init__(self, wake: Callable[[], None] | None = None) -> None:
        self._wake = wake
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self.came = False

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._note) for number in heard}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.came:
            self.came = True
            if self._wake is not None:
                self._wake()
            return
        handler = self._before.get(number)
        if callable(handler):
            handler(number, frame)
        raise KeyboardInterrupt
