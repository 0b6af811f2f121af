"""What slices, ends and the merge by time need of the consumer that reads the partitions: a client of brokers, or a
reader of log files. The methods are those of Consumer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.ends import Positioned
from kafkatools.core.errors import KafkaError
from kafkatools.core.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kafkatools.core.consumer.offset_fetcher import OffsetAndTimestamp


class PartitionReader(Positioned, Protocol):
    """Reads assigned partitions, each from its position on."""

    @property
    def metadata_version(self) -> int:
        """A number that rises when the known topics change."""

    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[int]:
        """Return the partition numbers of a topic, none if it does not exist."""

    def list_topics(self, timeout_ms: int | None = None) -> dict[str, list[int]]:
        """Return the partition numbers of all topics."""

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Replace the assigned partitions with these."""

    def seek(self, partition: tuple[str, int], offset: int, leader_epoch: int = -1) -> None:
        """Make the next poll read from `offset`."""

    def seek_to_beginning(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Move partitions (default: all assigned) to their log start offsets."""

    def seek_to_end(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Move partitions (default: all assigned) to their end offsets."""

    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Return no records of these partitions until `resume`."""

    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Return records of these paused partitions again."""

    def known_position(self, partition: tuple[str, int]) -> int | None:
        """Return the position, None while it is unknown."""

    def poll_columns(self, timeout_ms: int) -> list[FetchedColumns]:
        """Return the next records as columns; wait up to `timeout_ms` for the first."""

    def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition."""

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each partition at or after its timestamp (ms), None without one."""

    def missing_leader(self) -> KafkaError | None:
        """Return the error of an assigned partition without a leader, else None."""

    def has_broker(self) -> bool:
        """Return whether a broker responds."""


@runtime_checkable
class LateRecordFinder(Protocol):
    """A reader that finds records behind the first newer one: brokers cannot be asked for these."""

    def ends_before_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offset of each partition after its last record that is older than the timestamp (ms)."""
