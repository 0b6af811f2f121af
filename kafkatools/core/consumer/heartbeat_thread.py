"""Keeps a member alive while the application works on its records (AbstractCoordinator.HeartbeatThread).

Rules: everything it does happens in `run_once`, under the network client's lock and without waiting there. It sleeps
until something is due, and looks often while an answer is on its way. While the application is inside of a call, that
call does the same work, and this thread finds nothing to do.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)

IN_FLIGHT_LOOK_MS = 20
LONGEST_SLEEP_MS = 1000


class HeartbeatThread:
    """A daemon thread that calls `run_once() -> ms to sleep` until it is closed."""

    def __init__(self, run_once: Callable[[], int], name: str) -> None:
        self._run_once = run_once
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                delay_ms = self._run_once()
            except Exception:  # noqa: BLE001
                # The boundary of the thread: the application's polls go on and do the same work themselves.
                _log.exception("The heartbeat thread met an error")
                delay_ms = LONGEST_SLEEP_MS
            self._closing.wait(delay_ms / 1000)

    def close(self) -> None:
        """Ends it and waits for that."""
        self._closing.set()
        self._thread.join()
