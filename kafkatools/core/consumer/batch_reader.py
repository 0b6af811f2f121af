"""Read many partitions as undecoded record batches, each from an offset up to its end, for backups.

Rules: the ends are log end offsets that a leader reported. A partition is complete when the position has reached its
end, or the broker reported no records before it. The last batches may lie beyond the end. Nothing is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.core.clock import Clock
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.fetcher import FetchedBatches
from kafkatools.core.consumer.record_iterator import whole_ms
from kafkatools.core.consumer.single_thread import one_at_a_time
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import RequestTimedOut

_FORCED = {"auto.offset.reset": "none", "allow.auto.create.topics": "false", "isolation.level": "read_uncommitted"}


class BatchReader(Consumer):
    """Reads partitions that `add` assigns. A context manager. Ignores group.id, and neither creates topics nor resets
    positions. `patience_ms`: the time limit in ms without any progress."""

    def __init__(self, config: Mapping[str, object], clock: Clock | None = None, patience_ms: int = 120_000) -> None:
        super().__init__({**{name: value for name, value in config.items() if name != "group.id"}, **_FORCED}, clock)
        self._patience_ms = patience_ms
        self._ends: dict[TopicPartition, int] = {}
        self._progress_ms = self.clock.now_ms()

    def __enter__(self) -> BatchReader:
        return self

    @property
    def active(self) -> int:
        """The number of partitions that are not complete."""
        return len(self._ends)

    def replace(self, complete: list[TopicPartition], added: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Stop reading partitions, and read others. `added`: the first offset and the end of each."""
        for part in complete:
            self._ends.pop(part, None)
        self._ends.update({part: end for part, (_, end) in added.items()})
        self.assign(list(self._ends))
        for part, (start, _) in added.items():
            self.seek(part, start)
        self._progress_ms = self.clock.now_ms()

    def poll_batches(self, timeout_ms: int) -> list[FetchedBatches]:
        """Return all fetched batches; wait up to `timeout_ms` for the first. Raises FetchOffsetOutOfRange for offsets
        that were deleted, RequestTimedOut after `patience_ms` without progress, and errors that a retry cannot
        cure."""
        items = self._poll_batches(timeout_ms)
        now_ms = self.clock.now_ms()
        if items or self.complete():
            self._progress_ms = now_ms
        elif now_ms - self._progress_ms >= self._patience_ms:
            problem = self.connection_problem()
            parts = ", ".join(map(str, list(self._ends)[:3]))
            raise RequestTimedOut(
                f"Nothing came of {len(self._ends)} partitions ({parts}) in {self._patience_ms} ms"
                + ("" if problem is None else f": {problem}")
            )
        return items

    def complete(self) -> list[TopicPartition]:
        """Return the partitions whose position has reached their end."""
        return [part for part, end in self._ends.items() if self._has_reached(part, end)]

    def _has_reached(self, part: TopicPartition, end: int) -> bool:
        position = self.known_position(part)
        return position is not None and (position >= end or self.has_read_to(part, end))

    @one_at_a_time
    def _poll_batches(self, timeout_ms: int) -> list[FetchedBatches]:
        return self._client.run(self._poll(whole_ms(timeout_ms), self._fetcher.collect_batches))
