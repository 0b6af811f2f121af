"""Consumer errors that are raised locally rather than received from a broker."""

from __future__ import annotations

from collections.abc import Iterable

from kafkatools.core import errors
from kafkatools.core.errors import CorruptRecord, KafkaError, OffsetOutOfRange, RetriableError
from kafkatools.core.errors import WakeupError as WakeupError


class NoOffsetForPartition(errors.NoOffsetForPartition):
    """A partition has no position and auto.offset.reset=none forbids choosing one."""

    def __init__(self, partitions: Iterable[tuple[str, int]]) -> None:
        self.partitions = tuple(partitions)
        names = ", ".join(f"{topic}-{partition}" for topic, partition in self.partitions)
        super().__init__(f"Undefined offset with no reset policy for partitions: [{names}]")


class FetchOffsetOutOfRange(OffsetOutOfRange):
    """A fetch position lies outside the log and auto.offset.reset=none (Kafka's OffsetOutOfRangeException)."""

    def __init__(self, positions: Iterable[tuple[str, int, int]]) -> None:
        self.positions = tuple(positions)
        names = ", ".join(f"{topic}-{partition}={offset}" for topic, partition, offset in self.positions)
        super().__init__(f"Fetch position {{{names}}} is out of range, and no reset policy is configured.")


class LogTruncation(errors.LogTruncation):
    """The log was truncated below the consumer's position (KIP-320), and no reset policy is set."""

    def __init__(self, topic: str, partition: int, offset: int, diverging_offset: int | None) -> None:
        self.topic, self.partition, self.offset, self.diverging_offset = topic, partition, offset, diverging_offset
        place = "unknown" if diverging_offset is None else str(diverging_offset)
        super().__init__(
            f"Detected log truncation of partition {topic}-{partition} at position {offset}: "
            f"the logs diverge at offset {place}"
        )


class CorruptBatch(CorruptRecord):
    """A record batch is damaged. Without `skip_corrupt` the consumer's position stays before the damage. `first_offset`
    and `last_offset` come from the batch header, or are the position when the header is implausible."""

    def __init__(self, topic: str, partition: int, offsets: tuple[int, int], position: int, cause: str) -> None:
        self.topic, self.partition, self.position = topic, partition, position
        self.first_offset, self.last_offset = offsets
        self.cause = cause
        super().__init__(
            f"Record batch for partition {topic}-{partition} at offset {self.first_offset} is invalid, cause: {cause} "
            f"(offsets {self.first_offset} to {self.last_offset}; seek to {self.next_offset} to go past it)"
        )

    @property
    def next_offset(self) -> int:
        """The first offset after the damaged batch; the position plus one when its header is implausible."""
        return max(self.last_offset, self.position) + 1


class FetchFailed(KafkaError, name="FETCH_FAILED"):
    """A fetch failed in a way that no retry can cure: an unexpected broker error, or bytes without a whole batch."""


class RetriableCommitFailed(RetriableError, name="RETRIABLE_COMMIT_FAILED"):
    """Offset commit failed with a retriable exception. You should retry committing the latest consumed offsets."""
