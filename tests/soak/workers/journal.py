"""What a worker writes down as it happens: a line each, which a SIGKILL right afterwards cannot take back."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

FENCED = 75
"""The exit status of a worker that another one replaced, or whose transaction timed out: it may be started again."""


class Journal:
    """Lines of words, appended with one write each; the last word is the time of the machine's monotonic clock."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, *words: object) -> None:
        """One line."""
        line = " ".join(str(word) for word in words)
        os.write(self._descriptor, f"{line} {time.monotonic_ns()}\n".encode())


def after_contact(call: Callable[[], Found]) -> Found:
    """What a call of ours gives, tried until a broker was reached: a client that never reached one gives up after some
    seconds, and a run may begin with a longer outage."""
    from kafkatools.core.errors import ConnectionFailed, Disconnected

    while True:
        with contextlib.suppress(ConnectionFailed, Disconnected):
            return call()


def told_to_stop() -> list[int]:
    """A list that is not empty any more once SIGTERM came. On SIGUSR1 the stacks of all threads are printed."""
    faulthandler.register(signal.SIGUSR1)
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))
    return stopping
