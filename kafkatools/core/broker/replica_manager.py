"""The partitions of this broker and what produce and fetch do with them (Kafka's ReplicaManager).

Rules: a metadata delta is applied by opening, re-leading or dropping partitions. An append changes a high watermark;
whoever waits for that partition is looked at after the requests at hand were handled (`complete_delayed`), not in the
middle of them. A partition whose directory cannot be made, on a full disk, is offline until `open_missing` can make it:
the topic exists, as it does in Kafka, where a broker learns of it after the answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from kafkatools.core.broker.controller.metadata_image import TOPIC_RESOURCE, MetadataDelta, MetadataImage, TopicState
from kafkatools.core.broker.group_commit import GroupCommit
from kafkatools.core.broker.partition import READ_COMMITTED, EpochEnd, Partition
from kafkatools.core.broker.purgatory import Purgatory
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import (
    InconsistentTopicId,
    KafkaError,
    KafkaStorageError,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kafkatools.core.log.filenames import TopicPartition
from kafkatools.core.log.log_config import LogConfig
from kafkatools.core.log.log_manager import LogManager
from kafkatools.core.log.log_results import LogSlice
from kafkatools.core.protocol.uuids import uuid_text

NONE = 0


@dataclass(slots=True)
class FetchPartition:
    """What a fetch wants of one partition, by name or by id."""

    topic: str | None
    topic_id: uuid.UUID | None
    index: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1


@dataclass(slots=True)
class FetchedPartition:
    """What there is of it."""

    error_code: int = NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    records: LogSlice | None = None
    diverging: EpochEnd | None = None

    @property
    def size_bytes(self) -> int:
        return 0 if self.records is None else self.records.size_bytes


class ReplicaManager:
    """Partitions by name and by id."""

    def __init__(self, logs: LogManager, image: MetadataImage, node_id: int, clock: Clock, fetches: Purgatory) -> None:
        self.logs = logs
        self.fetches = fetches
        self.partitions: dict[str, dict[int, Partition]] = {}
        self.partitions_by_id: dict[uuid.UUID, dict[int, Partition]] = {}
        self.broker_config: Callable[[], Config] | None = None
        self.commits: GroupCommit | None = None
        self.note_failure: Callable[[Exception], None] | None = None
        self._missing: dict[str, set[int]] = {}
        self._image = image
        self._node_id = node_id
        self._clock = clock
        self._appended: dict[Hashable, None] = {}

    # -- metadata --------------------------------------------------------------------------------------------------
    def apply_delta(self, delta: MetadataDelta) -> None:
        """Make the partitions what the image says."""
        for topic in delta.removed_topics.values():
            self._drop_topic(topic)
        for topic in delta.changed_topics.values():
            self._lead_topic(topic)
        self._sync_names()
        for kind, name in delta.changed_configs:
            if kind == TOPIC_RESOURCE:
                self._configure(name)
            else:
                for topic_name in self.partitions:
                    self._configure(topic_name)

    def log_config(self, topic: str) -> LogConfig:
        """The settings of a topic's logs."""
        from kafkatools.core.config.topic import topic_config

        assert self.broker_config is not None
        broker = self.broker_config()
        config = topic_config(broker, self._image.topic_configs(topic))
        values: dict[str, Any] = {setting.name: config[setting.name] for setting in config.table}
        if values.get("internal.segment.bytes") is None:
            values.pop("internal.segment.bytes", None)
        for name in ("producer.id.expiration.ms", "transaction.partition.verification.enable"):
            values[name] = broker[name]
        return LogConfig.from_values(values)

    def _configure(self, topic: str) -> None:
        if topic in self.partitions:
            config = self.log_config(topic)
            for partition in self.partitions[topic].values():
                partition.log.update_config(config)

    def _lead_topic(self, topic: TopicState) -> None:
        mine = self.partitions.setdefault(topic.name, {})
        self.partitions_by_id[topic.topic_id] = mine
        config: LogConfig | None = None
        for index, state in topic.partitions.items():
            if state.leader != self._node_id:
                continue
            partition = mine.get(index)
            if partition is not None:
                partition.become_leader(state.leader_epoch)
                continue
            config = config or self.log_config(topic.name)
            try:
                mine[index] = self._open(topic, index, state.leader_epoch, config)
            except (OSError, KafkaStorageError) as error:
                self._note_missing(topic.name, index, error)

    def _open(self, topic: TopicState, index: int, leader_epoch: int, config: LogConfig) -> Partition:
        name = TopicPartition(topic.name, index)
        log = self.logs.get_or_create(name, uuid_text(topic.topic_id), config, self._clock.wall_ms())
        log.assign_epoch_start_offset(leader_epoch)
        partition = Partition(topic.name, topic.topic_id, index, leader_epoch, log)
        if self.commits is not None:
            partition.waits_for_disk = True
            log.flush(self._clock.wall_ms())  # what a recovery found need not be on the disk
        return partition

    def _note_missing(self, topic: str, index: int, error: Exception) -> None:
        """A partition cannot be opened; while the broker starts that is the end of it."""
        if self.note_failure is None:
            raise error
        missing = self._missing.setdefault(topic, set())
        if not missing:
            self.note_failure(KafkaStorageError(f"Error while creating log for {topic}-{index}: {error}"))
        missing.add(index)

    def _sync_names(self) -> None:
        try:
            self.logs.sync_names()
        except KafkaStorageError as error:
            if self.note_failure is None:
                raise
            self.note_failure(error)

    def open_missing(self) -> None:
        """Try again to make what could not be made."""
        if not self._missing:
            return
        missing, self._missing = self._missing, {}
        for name in missing:
            if name in self._image.topics:
                self._lead_topic(self._image.topics[name])
        self._sync_names()

    def _drop_topic(self, topic: TopicState) -> None:
        self.partitions_by_id.pop(topic.topic_id, None)
        self._missing.pop(topic.name, None)
        for index, partition in self.partitions.pop(topic.name, {}).items():
            partition.is_deleted = True
            self.logs.delete(TopicPartition(topic.name, index), self._clock.wall_ms())
            self.fetches.check_and_complete(partition.key)

    # -- lookup ----------------------------------------------------------------------------------------------------
    def get(self, topic: str, index: int) -> Partition:
        """The partition; UnknownTopicOrPartition when there is none, KafkaStorageError when it could not be made."""
        partition = self.partitions.get(topic, {}).get(index)
        if partition is None:
            raise self.absence(topic, index)
        return partition

    def absence(self, topic: str, index: int) -> KafkaError:
        """What to say of a partition that is not here: it could not be made, or nobody knows it."""
        if index in self._missing.get(topic, ()):
            return KafkaStorageError(f"Partition {topic}-{index} is in an offline log directory")
        return UnknownTopicOrPartition()

    def find(self, wanted: FetchPartition) -> Partition | None:
        """The partition by id or by name, None when there is none."""
        if wanted.topic_id is not None:
            return self.partitions_by_id.get(wanted.topic_id, {}).get(wanted.index)
        return self.partitions.get(wanted.topic or "", {}).get(wanted.index)

    def topic_name(self, topic_id: uuid.UUID | None) -> str | None:
        """Name of an id."""
        topic = None if topic_id is None else self._image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    # -- appends ---------------------------------------------------------------------------------------------------
    def note_append(self, partition: Partition) -> None:
        """Its watchers are looked at when the requests at hand are done, and when it is on the disk if it has to be."""
        if self.commits is not None:
            self.commits.note(partition)
        self.wake_readers(partition)

    def wake_readers(self, partition: Partition) -> None:
        """There is something new to read: at the next `complete_delayed`."""
        self.wake(partition.key)

    def wake(self, key: Hashable) -> None:
        """Fetches that wait for this key are looked at in the next `complete_delayed`."""
        if self.fetches.has_watchers(key):
            self._appended[key] = None

    def complete_delayed(self) -> None:
        """Look at the fetches that wait for what was appended."""
        while self._appended:
            appended, self._appended = self._appended, {}
            for key in appended:
                self.fetches.check_and_complete(key)

    # -- fetches ---------------------------------------------------------------------------------------------------
    def read(self, wanted: Sequence[FetchPartition], max_bytes: int, isolation_level: int) -> list[FetchedPartition]:
        """Read every partition in order; the first that has records gives at least one batch whatever the limits."""
        results = []
        limit, min_one_message = max_bytes, True
        for each in wanted:
            result = self._read_one(each, min(limit, each.max_bytes), isolation_level, min_one_message)
            if result.size_bytes:
                min_one_message = False
                limit = max(0, limit - result.size_bytes)
            results.append(result)
        return results

    def _read_one(self, wanted: FetchPartition, limit: int, isolation_level: int, min_one: bool) -> FetchedPartition:
        partition = self.find(wanted)
        if partition is None:
            return FetchedPartition(error_code=self._why_absent(wanted).code, aborted=())
        log = partition.log
        try:
            partition.check_leader_epoch(wanted.current_leader_epoch)
            diverging = partition.diverging_epoch(wanted.last_fetched_epoch, wanted.fetch_offset)
            result = FetchedPartition(NONE, log.high_watermark, log.last_stable_offset, log.log_start_offset)
            if diverging is not None:
                result.diverging = diverging
                return result
            end = partition.fetch_end_offset(isolation_level)
            if wanted.fetch_offset == end or end < wanted.fetch_offset <= log.log_end_offset:
                if wanted.fetch_offset < log.log_start_offset:
                    return FetchedPartition(error_code=1)
                result.aborted = () if isolation_level == READ_COMMITTED else None
                return result
            found = partition.read(wanted.fetch_offset, limit, isolation_level, min_one_message=min_one)
            if found.first_entry_incomplete:
                return result  # a reader would take a part of a batch for one too large to ever be read
            if found.size_bytes:
                result.records = found
            if isolation_level == READ_COMMITTED:
                result.aborted = aborted_transactions(partition, wanted.fetch_offset, found)
            return result
        except KafkaError as error:
            return FetchedPartition(error_code=error.code)
        except OSError:
            return FetchedPartition(error_code=KafkaStorageError.code)

    def _why_absent(self, wanted: FetchPartition) -> type[KafkaError]:
        if wanted.topic_id is not None:
            if wanted.topic_id not in self.partitions_by_id:
                return UnknownTopicId
            if wanted.topic is not None and self.topic_name(wanted.topic_id) != wanted.topic:
                return InconsistentTopicId
        return type(self.absence(wanted.topic or self.topic_name(wanted.topic_id) or "", wanted.index))


def aborted_transactions(partition: Partition, start: int, found: LogSlice) -> list[tuple[int, int]]:
    """(producer id, first offset) of aborted transactions in what was read. Up to where that reaches is known as well
    as the offset index knows it: an entry behind it, the next segment, or the end (LocalLog.addAbortedTransactions)."""
    log, segment = partition.log, found.segment
    end = segment.fetch_upper_bound_offset(found.position + found.size_bytes)
    if end is None:
        higher = log.segments.higher(segment.base_offset)
        end = log.log_end_offset if higher is None else higher.base_offset
    return [(txn.producer_id, txn.first_offset) for txn in log.aborted_transactions(start, end)]


def error_code_of(error: Exception) -> int:
    """The wire code of whatever a handler caught."""
    if isinstance(error, KafkaError):
        return error.code
    return KafkaStorageError.code if isinstance(error, OSError) else UnknownServerError.code
