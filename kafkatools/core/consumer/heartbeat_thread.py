"""The thread that sends heartbeats while the application processes records (AbstractCoordinator.HeartbeatThread).

Rules: all work happens in `run_once`, which holds the network client's lock and does not block in the network. The
thread sleeps until work is due, at most 1 s. It sleeps 20 ms while a response is outstanding or the coordinator is
unknown. A consumer call does the same work, so that this thread finds nothing to do meanwhile.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)

IN_FLIGHT_CHECK_MS = 20
LONGEST_SLEEP_MS = 1000


class HeartbeatThread:
    """A daemon thread that calls `run_once` until closed and sleeps for the ms that `run_once` returns. An exception is
    logged, and the next call follows after 1 s."""

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
                # The boundary of the thread: the application's polls do the same work themselves.
                _log.exception("Error in the heartbeat thread")
                delay_ms = LONGEST_SLEEP_MS
            self._closing.wait(delay_ms / 1000)

    def close(self) -> None:
        """Stop the thread and wait until it has ended."""
        self._closing.set()
        self._thread.join()
