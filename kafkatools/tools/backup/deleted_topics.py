"""Find the topics that were deleted while a backup reads them.

Rules: a reader's metadata may lack a topic that still exists, so a broker decides. It is asked at most every few
seconds, and waits are short: the caller polls its reader between two requests, and only the reader's patience ends the
wait for a cluster that does not answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.errors import KafkaError, UnknownTopicOrPartition

_INTERVAL_MS = 3000
_TIMEOUT_MS = 5000


class DeletedTopics:
    """The topics that brokers reported as unknown: `names`."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._next_ms: int | None = None
        self.names: set[str] = set()

    def check(self, suspects: Collection[str]) -> None:
        """Add those of the suspects that a broker reports as unknown. Does nothing shortly after the last request, or
        if the request fails."""
        clock = self._admin.clock
        if not suspects or (self._next_ms is not None and clock.now_ms() < self._next_ms):
            return
        with contextlib.suppress(KafkaError):  # the reader raises the error that lasts, and it names the brokers
            response = self._admin.metadata_of(sorted(suspects), self._admin.deadline_ms(_TIMEOUT_MS))
            self.names |= {item.name for item in response.topics if isinstance(error_in(item), UnknownTopicOrPartition)}
        self._next_ms = clock.now_ms() + _INTERVAL_MS
