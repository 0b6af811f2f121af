"""Rate-limited log lines about failed connections: a client retries a dead broker every second.

Rules: the first failure of a node and error class is logged at once. Then at most one line a minute follows, with the
number of failures in between, which are logged at DEBUG. Memory is limited by the number of nodes and of error classes.
"""

from __future__ import annotations

import logging

from kafkatools.core.client_log import ClientLog
from kafkatools.core.errors import KafkaError

INTERVAL_MS = 60_000


class FailureLog:
    """The log of a client's failed connections, for use by the client's thread. `level`: the log level of its lines."""

    def __init__(self, log: logging.Logger | ClientLog) -> None:
        self._log = log
        self.level = logging.WARNING
        self._logged: dict[tuple[int, type[KafkaError]], tuple[int, int]] = {}  # time of the last line, failures since

    def failed(self, node: int, error: KafkaError, now_ms: int, *, is_routine: bool = False) -> None:
        """Log that a connection to the node failed or ended. `is_routine`: not a failure, so the line is at INFO."""
        level = logging.INFO if is_routine else self.level
        key = (node, type(error))
        at_ms, left_out = self._logged.get(key, (now_ms - INTERVAL_MS, 0))
        if now_ms - at_ms < INTERVAL_MS:
            self._logged[key] = (at_ms, left_out + 1)
            self._log.debug("%s", error)
            return
        self._logged[key] = (now_ms, 0)
        if left_out:
            self._log.log(level, "%s (%d more failures in the last %d s)", error, left_out, (now_ms - at_ms) // 1000)
        else:
            self._log.log(level, "%s", error)
