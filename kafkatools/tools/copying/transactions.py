"""Transactions that commit records together with the progress in consumer groups.

So a reader of committed records sees each record once, however often a run is interrupted and continued: an interrupted
run leaves an open transaction, which the next run aborts when it initializes its producer. A second run at the same
time is fenced in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
from kafkatools.core.producer.producer import Producer
from kafkatools.tools.rights import GROUP, TOPIC, Right, needs

_COMMIT_INTERVAL_MS = 4000
_MOST_UNCOMMITTED = 1_000_000

GroupOffsets = Mapping[str, Mapping[tuple[str, int], OffsetAndMetadata]]
"""The offsets to commit of each consumer group."""


class ProgressTransactions:
    """The transactions of one run. `producer`: with transactions initialized before the first commit."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._is_open = False
        self._uncommitted = 0
        self._committed_ms: int | None = None

    def begin(self) -> None:
        """Begin a transaction unless one is open."""
        if not self._is_open:
            self._producer.begin_transaction()
            self._is_open = True

    def count(self, records: int) -> None:
        """Take note of records that were sent in the open transaction."""
        self._uncommitted += records

    def is_due(self, now_ms: int) -> bool:
        """Return whether the open transaction has lasted, or has grown, long enough to be committed. `now_ms` of the
        first call starts the interval."""
        if self._committed_ms is None:
            self._committed_ms = now_ms
        is_late = now_ms - self._committed_ms >= _COMMIT_INTERVAL_MS
        return self._is_open and (is_late or self._uncommitted >= _MOST_UNCOMMITTED)

    def commit(self, offsets: GroupOffsets, now_ms: int) -> None:
        """Commit the records sent so far together with the offsets. Raises KafkaError; then nothing is committed,
        except after a Timeout, whose outcome is open."""
        self.begin()
        for group, places in offsets.items():
            topic = next((topic for topic, _ in places), "")
            with needs(Right("READ", GROUP, group), Right("READ", TOPIC, topic)):
                self._producer.send_offsets_to_transaction(places, ConsumerGroupMetadata(group))
        self._producer.commit_transaction()
        self._is_open = False
        self._uncommitted = 0
        self._committed_ms = now_ms
