"""Read the partitions of `__consumer_offsets` from log directories, and the ends of other logs there.

The number of partitions of the topic is unknown from files, so the partition of a group is the one that has records of
it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.format.checkpoints import read_partition_metadata
from kafkatools.core.log.format.filenames import PARTITION_METADATA
from kafkatools.core.log.reading import segment_reader
from kafkatools.core.log.reading.directories import PartitionDirectory, UnreadableLog, find_partitions
from kafkatools.core.log.reading.partition_files import PartitionFiles
from kafkatools.core.protocol.uuids import uuid_from_text
from kafkatools.core.records.batch import read_batches
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.exit_status import CommandError
from kafkatools.tools.timeline import log_ends
from kafkatools.tools.timeline.group_records import TOPIC, Damage, group_of_key, key_prefix, may_hold

if TYPE_CHECKING:
    from kafkatools.core.records.batch import AnyBatch


class LogDirectories:
    """The partitions below paths of log directories. `note` prints a line about missing or damaged files. Raises
    CommandError if none of them is of `__consumer_offsets`."""

    def __init__(self, paths: str, note: Callable[[str], None]) -> None:
        self._note = note
        try:
            directories = find_partitions(paths)
        except UnreadableLog as error:
            raise CommandError(str(error)) from None
        self._directories = {directory.topic_partition: directory for directory in directories}
        self.partitions = sorted(part.partition for part in self._directories if part.topic == TOPIC)
        if not self.partitions:
            raise CommandError(f"{paths} has no partition of {TOPIC}")
        self._logs: dict[TopicPartition, PartitionFiles] = {}

    def holding(self, group_id: str) -> list[int]:
        """Return the partitions that have records of a group. Raises UnreadableLog, OSError."""
        return [number for number in self.partitions if _holds(self.batches(number), group_id)]

    def batches(self, partition: int) -> Iterator[AnyBatch | Damage]:
        """Yield the batches of a partition of `__consumer_offsets`, and damaged ranges. Raises UnreadableLog,
        OSError."""
        files = self._files(TopicPartition(TOPIC, partition))
        offset = files.log_start_offset
        place = files.place_of(offset)
        while True:
            found, place = files.run(place, segment_reader.CHUNK_BYTES)
            if found is None:
                return
            if isinstance(found, segment_reader.Damage):
                yield Damage(offset, found.next_offset, f"{found.cause} at byte {found.position} of {found.path}")
            else:
                yield from (batch for batch in read_batches(found.data) if batch.next_offset > offset)
            offset = max(offset, place.offset)

    def _files(self, part: TopicPartition) -> PartitionFiles:
        if part not in self._logs:
            self._logs[part] = PartitionFiles(self._directories[part], self._note)
        return self._logs[part]

    # --- topics and log ends

    def topic_ids(self) -> dict[uuid.UUID, str]:
        """Return the names of the topics in the directories by id, as `partition.metadata` has them."""
        found = {}
        for part, directory in self._directories.items():
            topic_id = _topic_id(directory)
            if topic_id is not None:
                found[topic_id] = part.topic
        return found

    def present(self, partitions: Iterable[log_ends.TopicPartition]) -> dict[log_ends.TopicPartition, log_ends.Log]:
        """Return the logs in the directories, without those that cannot be read."""
        found = {}
        for key in partitions:
            part = TopicPartition(*key)
            if part not in self._directories:
                continue
            try:
                files = self._files(part)
                found[key] = log_ends.Log(
                    files.log_start_offset, files.log_end_offset, _topic_id(self._directories[part])
                )
            except (KafkaError, OSError) as error:
                self._note(f"{part}: {error}")
        return found

    def first_after(self, times: Mapping[log_ends.TopicPartition, int]) -> dict[log_ends.TopicPartition, int | None]:
        """Return the offset of the first record of each partition that is newer than a time (ms since 1970)."""
        found: dict[log_ends.TopicPartition, int | None] = {}
        for key, time_ms in times.items():
            try:
                first = self._files(TopicPartition(*key)).first_at(time_ms + 1)
            except (KafkaError, OSError) as error:
                self._note(f"{TopicPartition(*key)}: {error}")
                continue
            found[key] = None if first is None else first.offset
        return found


def _holds(items: Iterable[AnyBatch | Damage], group_id: str) -> bool:
    prefix = key_prefix(group_id)
    for item in items:
        if isinstance(item, Damage) or item.is_control or not may_hold(item, prefix):
            continue
        try:
            columns = item.columns()
        except KafkaError:
            continue
        if any(group_of_key(columns.key(index)) == group_id for index in range(columns.count)):
            return True
    return False


def _topic_id(directory: PartitionDirectory) -> uuid.UUID | None:
    try:
        metadata = read_partition_metadata(RealFileSystem(), os.path.join(directory.path, PARTITION_METADATA))
        return uuid_from_text(metadata.topic_id)
    except (KafkaError, OSError, ValueError):
        return None
