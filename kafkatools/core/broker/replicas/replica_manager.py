"""The replicas of this broker, and how produce and fetch requests use them (Kafka's ReplicaManager).

Rules: a metadata delta opens, deletes and changes the roles of replicas. `partitions` has every replica of this broker;
`get` returns only those that it leads. An append or a follower's fetch may move a high watermark. Requests that wait
for that partition are checked after the requests at hand (`complete_delayed`), not in the middle of them. A partition
whose directory cannot be created, on a full disk, stays offline until `open_missing` succeeds. Its topic exists
meanwhile, as in Kafka, where a broker learns of a topic after the CreateTopics response.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kafkatools.core.broker.metadata.image import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    MetadataDelta,
    MetadataImage,
    PartitionState,
    TopicState,
)
from kafkatools.core.broker.replicas.fetch_partition import NONE, FetchedPartition, FetchPartition, Reader
from kafkatools.core.broker.replicas.group_commit import GroupCommit
from kafkatools.core.broker.replicas.partition import READ_COMMITTED, Followers, Partition
from kafkatools.core.broker.server.deferred import Waiting
from kafkatools.core.broker.server.purgatory import Purgatory
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import (
    InconsistentTopicId,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kafkatools.core.log.format.filenames import TopicPartition
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.log_manager import LogManager
from kafkatools.core.log.partition.log_results import LogSlice
from kafkatools.core.protocol.uuids import uuid_text

if TYPE_CHECKING:
    from kafkatools.core.broker.replicas.fetch_messages import FetchRequest
    from kafkatools.core.protocol.entities import Fields

LEADER_ERRORS = (6, 74)
"""NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH, with which a response names the leader (KIP-951)."""


class Fetchers(Protocol):
    """The fetchers of this broker, one for each leader (`ReplicaFetchers`)."""

    def follow(self, partition: Partition) -> None:
        """Start fetching a partition from its leader."""

    def unfollow(self, partition: Partition) -> None:
        """Stop fetching a partition."""


class Sessions(Protocol):
    """The fetch sessions of this broker's followers (`FollowerSessions`)."""

    @property
    def has_woken(self) -> bool:
        """Return whether a waiting fetch must be checked by `complete`."""

    def complete(self) -> None:
        """Answer the woken fetches that have something to send."""

    def fetch(self, request: Request, data: FetchRequest) -> Response:
        """Answer a follower's fetch. Returns the response, or DELAYED if the fetch waits for records."""

    def looks_at_many(self, session_id: int) -> bool:
        """Return whether the session's next request will check all of its partitions, and they are many."""

    def requested_by(self, session_id: int) -> list[FetchPartition]:
        """The followers' positions in the partitions of a session, none for an unknown one."""


class OtherBrokers(Followers, Protocol):
    """The replication with other brokers (`Replication`)."""

    def has_contact(self) -> bool:
        """Return whether the controller answers this broker's heartbeats."""

    @property
    def fetchers(self) -> Fetchers:
        """The fetchers of the partitions that this broker follows."""

    @property
    def sessions(self) -> Sessions:
        """The fetch sessions of this broker's followers."""

    def preferred_replica(self, partition: Partition, fetch_offset: int, rack: str) -> int | None:
        """Return the follower that a consumer in `rack` should fetch from, None for the leader (KIP-392)."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Surroundings:
    """The broker's services for its replicas. `commits` is set with log.durability=fsync, `deletes` in a cluster."""

    fetches: Purgatory
    produces: Purgatory
    broker_config: Callable[[], Config]
    note_failure: Callable[[Exception], None]
    deletes: Purgatory | None = None
    commits: GroupCommit | None = None
    on_elected: Callable[[Partition], None] = lambda partition: None
    on_resigned: Callable[[Partition], None] = lambda partition: None
    note_directory: Callable[[Partition, PartitionState], None] = lambda partition, state: None


class ReplicaManager:
    """All replicas of this broker. `join` creates the replication with other brokers, None on a node alone."""

    def __init__(
        self,
        logs: LogManager,
        image: MetadataImage,
        node_id: int,
        clock: Clock,
        surroundings: Surroundings,
        join: Callable[[ReplicaManager], OtherBrokers | None],
    ) -> None:
        self.logs = logs
        self.fetches, self.deletes, self.commits = surroundings.fetches, surroundings.deletes, surroundings.commits
        self.partitions: dict[str, dict[int, Partition]] = {}
        self.partitions_by_id: dict[uuid.UUID, dict[int, Partition]] = {}
        self._surroundings = surroundings
        self._is_starting = True
        self._missing: dict[str, set[int]] = {}
        self._reported_missing: dict[str, str] = {}  # topic -> the last report of a missing partition
        self.image = image
        self.node_id = node_id
        self.clock = clock
        self._appended: dict[Hashable, None] = {}
        self._advanced: dict[Hashable, Partition] = {}
        self._waited: dict[Hashable, Partition] = {}
        self.replication = join(self)

    def end_start(self) -> None:
        """End the start. From now on a disk error while opening a partition is reported instead of raised."""
        self._is_starting = False

    # -- metadata ------------------------------------------------------------------------------------------------------
    def apply_delta(self, delta: MetadataDelta) -> None:
        """Open, delete, configure and change roles of replicas as a metadata delta says. A disk error leaves the
        partition offline and is reported. During the start it may be raised instead, as OSError or
        KafkaStorageError."""
        for topic in delta.removed_partitions.values():
            self._drop_partitions(topic)
        for topic in delta.removed_topics.values():
            self._drop_topic(topic)
        for topic in delta.changed_topics.values():
            self._apply_topic(topic)
        self._sync_names()
        for kind, name in delta.changed_configs:
            if kind == TOPIC_RESOURCE:
                self._configure(name)
            elif kind == BROKER_RESOURCE:
                for topic_name in self.partitions:
                    self._configure(topic_name)

    def log_config(self, topic: str) -> LogConfig:
        """Return the effective log configuration of a topic."""
        from kafkatools.core.config.topic import topic_config

        broker = self._surroundings.broker_config()
        config = topic_config(broker, self.image.topic_configs(topic))
        values: Fields = {setting.name: config[setting.name] for setting in config.table}
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
                partition.settle()
                if partition.followers and partition.maybe_increment_high_watermark():
                    self.note_high_watermark(partition)

    def _apply_topic(self, topic: TopicState) -> None:
        partitions = self.partitions.setdefault(topic.name, {})
        self.partitions_by_id[topic.topic_id] = partitions
        config: LogConfig | None = None
        for index, state in topic.partitions.items():
            partition = partitions.get(index)
            if self.node_id not in state.replicas:
                self._missing.get(topic.name, set()).discard(index)
                if partition is not None:
                    self._drop(partitions.pop(index))
                continue
            if partition is None:
                config = config or self.log_config(topic.name)
                try:
                    partition = self._open(topic, state, config)
                except (OSError, KafkaStorageError) as error:
                    self._note_missing(topic.name, index, error)
                    continue
                partitions[index] = partition
                self._take_role(partition, state, is_new=True)
                self._surroundings.note_directory(partition, state)
            elif partition.partition_epoch != state.partition_epoch or partition.leader_epoch != state.leader_epoch:
                self._take_role(partition, state, is_new=False)

    def _open(self, topic: TopicState, state: PartitionState, config: LogConfig) -> Partition:
        index = state.partition_id
        log = self.logs.get_or_create(
            TopicPartition(topic.name, index),
            uuid_text(topic.topic_id),
            config,
            self.clock.wall_ms(),
            is_replicated=self.replication is not None and len(state.replicas) > 1,
            directory_id=state.directory(self.node_id),
        )
        waits_for_disk = self.commits is not None
        if waits_for_disk:
            log.flush(self.clock.wall_ms())  # recovered records may still be in the page cache only
        durable_end = log.log_end_offset if waits_for_disk else 0
        return Partition(topic.name, topic.topic_id, index, -1, log, self.replication, waits_for_disk, durable_end)

    def _take_role(self, partition: Partition, state: PartitionState, *, is_new: bool) -> None:
        """Make the replica leader or follower (applyLocalLeadersDelta, applyLocalFollowersDelta). With several log
        directories a disk error is reported. With a single one the partition counts as missing and is retried; during
        the start the error is raised."""
        try:
            self._lead_or_follow(partition, state, is_new=is_new)
        except KafkaStorageError as error:
            if self.logs.has_several:
                self._note_disk_error(error)
            else:
                self._note_missing(partition.topic, partition.index, error)

    def _lead_or_follow(self, partition: Partition, state: PartitionState, *, is_new: bool) -> None:
        was_leader = partition.is_leader and not is_new
        if state.leader == self.node_id:
            is_new_epoch = partition.make_leader(state, self.node_id, self.clock.now_ms())
            if self.replication is not None:
                self.replication.fetchers.unfollow(partition)
                self.note_high_watermark(partition)
            if is_new_epoch:
                self._surroundings.on_elected(partition)
            return
        follows_anew = partition.make_follower(state, self.node_id)
        if was_leader:
            self._complete_all(partition)
            self._surroundings.on_resigned(partition)
        if follows_anew and self.replication is not None:
            self.replication.fetchers.follow(partition)

    def _complete_all(self, partition: Partition) -> None:
        """Check the requests that wait for a partition that this broker no longer leads, so that they get the
        partition's error."""
        self.fetches.check_and_complete(partition.key)
        partition.answer_waiting()
        self._surroundings.produces.check_and_complete(partition.key)
        self.note_low_watermark(partition)

    def _drop(self, partition: Partition) -> None:
        """Delete a replica and its files. After a disk error, which is reported, the files stay but the replica is
        gone."""
        was_leader = partition.is_leader
        partition.mark_deleted()
        if self.replication is not None:
            self.replication.fetchers.unfollow(partition)
        try:
            self.logs.delete(TopicPartition(partition.topic, partition.index), self.clock.wall_ms())
        except (OSError, KafkaStorageError) as error:  # the files stay, but the replica is gone
            self._note_disk_error(error)
        self._complete_all(partition)
        if was_leader:
            self._surroundings.on_resigned(partition)

    def _note_missing(self, topic: str, index: int, error: Exception) -> None:
        """Note a partition that cannot be opened, to retry it. During the start on a single log directory the error is
        raised instead. Each retry meets the same partition first with the same error, so an error is reported once for
        a topic."""
        if self._is_starting and not self.logs.has_several:
            raise error
        missing = self._missing.setdefault(topic, set())
        report = f"Error while creating log for {topic}-{index}: {error}"
        if not missing and self._reported_missing.get(topic) != report:
            self._reported_missing[topic] = report
            self._note_disk_error(KafkaStorageError(report))
        missing.add(index)

    def _note_disk_error(self, error: Exception) -> None:
        """Report a disk error; during the start, ignore it."""
        if not self._is_starting:
            self._surroundings.note_failure(error)

    def lose(self, names: Sequence[TopicPartition]) -> None:
        """Drop the replicas of a failed log directory, which then answer KAFKA_STORAGE_ERROR (handleLogDirFailure)."""
        for name in names:
            partition = self.partitions.get(name.topic, {}).pop(name.partition, None)
            if partition is None:
                continue
            was_leader = partition.is_leader
            self._missing.setdefault(name.topic, set()).add(name.partition)
            if self.replication is not None:
                self.replication.fetchers.unfollow(partition)
            self._complete_all(partition)
            partition.mark_deleted()
            if was_leader:
                self._surroundings.on_resigned(partition)

    def _sync_names(self) -> None:
        try:
            self.logs.sync_names()
        except KafkaStorageError as error:
            if self._is_starting:
                raise
            self._surroundings.note_failure(error)

    def open_missing(self) -> None:
        """Retry opening the missing partitions. Those that fail again stay missing; a new error is reported."""
        if not self._missing:
            return
        missing, self._missing = self._missing, {}
        for name in missing:
            if name in self.image.topics:
                self._apply_topic(self.image.topics[name])
            if not self._missing.get(name):
                self._reported_missing.pop(name, None)
        self._sync_names()

    def _drop_partitions(self, topic: TopicState) -> None:
        """Delete these replicas of a topic that is being removed. All of it is unknown by id at once."""
        self.partitions_by_id.pop(topic.topic_id, None)
        mine = self.partitions.get(topic.name, {})
        for index in topic.partitions:
            partition = mine.pop(index, None)
            if partition is not None:
                self._drop(partition)

    def _drop_topic(self, topic: TopicState) -> None:
        self.partitions_by_id.pop(topic.topic_id, None)
        self._missing.pop(topic.name, None)
        self._reported_missing.pop(topic.name, None)
        for partition in self.partitions.pop(topic.name, {}).values():
            self._drop(partition)

    # -- lookup --------------------------------------------------------------------------------------------------------
    def get(self, topic: str, index: int) -> Partition:
        """Return a partition that this broker leads. Raises UnknownTopicOrPartition without such a partition,
        NotLeaderOrFollower when another broker leads it and KafkaStorageError when it is offline here."""
        partition = self.partitions.get(topic, {}).get(index)
        if partition is None:
            raise self.absence(topic, index)
        if not partition.is_leader:
            raise NotLeaderOrFollower()
        return partition

    def absence(self, topic: str, index: int) -> KafkaError:
        """Return the error for a partition that this broker does not have: KafkaStorageError if it is offline here,
        NotLeaderOrFollower if a cluster's metadata has it, else UnknownTopicOrPartition."""
        if index in self._missing.get(topic, ()):
            return KafkaStorageError(f"Partition {topic}-{index} is in an offline log directory")
        state = self.image.topics.get(topic)
        if state is not None and index in state.partitions and self.replication is not None:
            return NotLeaderOrFollower()
        return UnknownTopicOrPartition()

    def current_leader(self, topic: str | None, topic_id: uuid.UUID | None, index: int) -> tuple[int, int]:
        """Return (leader id, leader epoch) of a partition from the metadata image, (-1, -1) if unknown (KIP-951)."""
        state = self.image.topics_by_id.get(topic_id) if topic_id is not None else self.image.topics.get(topic or "")
        if state is None or index not in state.partitions:
            return -1, -1
        partition = state.partitions[index]
        return partition.leader, partition.leader_epoch

    def endpoint(self, broker_id: int, listener_name: str) -> tuple[str, int, str | None] | None:
        """Return (host, port, rack) of an unfenced broker on this listener, or on its first if it has no such listener;
        None for a fenced or unknown broker."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.is_fenced:
            return None
        points = [point for point in broker.endpoints if point[0] == listener_name] or broker.endpoints[:1]
        return (points[0][1], points[0][2], broker.rack) if points else None

    def find(self, requested: FetchPartition) -> Partition | None:
        """Return the partition by topic id or name, None if this broker does not have it."""
        if requested.topic_id is not None:
            return self.partitions_by_id.get(requested.topic_id, {}).get(requested.index)
        return self.partitions.get(requested.topic or "", {}).get(requested.index)

    def topic_name(self, topic_id: uuid.UUID | None) -> str | None:
        """Return the name of a topic id, None if unknown."""
        topic = None if topic_id is None else self.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    # -- appends -------------------------------------------------------------------------------------------------------
    def note_append(self, partition: Partition) -> None:
        """Note an append: check waiting readers after the requests at hand, and sync the partition if needed."""
        if self.commits is not None:
            self.commits.note(partition)
        self.wake_readers(partition)

    def wake_readers(self, partition: Partition) -> None:
        """Let `complete_delayed` check fetches of followers, and of consumers if the leader is alone in the ISR."""
        for session in partition.sessions:
            session.note()
        if partition.is_alone_in_isr:
            self.wake(partition.key)

    def note_high_watermark(self, partition: Partition) -> None:
        """Note a moved high watermark: `complete_delayed` then checks waiting consumer fetches and acks=all writes."""
        self._advanced[partition.key] = partition
        for session in partition.sessions:
            session.note_news()

    def wake(self, key: Hashable) -> None:
        """Have the next `complete_delayed` check the fetches that wait for this key; does nothing without any."""
        if self.fetches.has_watchers(key):
            self._appended[key] = None

    def wait_for_followers(self, partition: Partition, write: Waiting) -> None:
        """Answer an acks=all write when the high watermark reaches its required offset, when it fails or at its
        time-out. Writes of a partition stay in order."""
        partition.waiting.append(write)
        self._waited[partition.key] = partition
        if partition.log.high_watermark >= write.required_offset:
            self.note_high_watermark(partition)

    def expire_waiting(self, now_ms: int) -> None:
        """Answer the waiting acks=all writes that have timed out, are replicated or have failed."""
        for key, partition in list(self._waited.items()):
            partition.answer_waiting(now_ms)
            if not partition.waiting:
                del self._waited[key]

    def note_low_watermark(self, partition: Partition) -> None:
        """Check the DeleteRecords requests that wait for this partition's low watermark."""
        if self.deletes is not None:
            self.deletes.check_and_complete(partition.key)

    @property
    def has_delayed(self) -> bool:
        """Return whether `complete_delayed` has partitions to check."""
        return bool(self._appended or self._advanced)

    @property
    def has_news(self) -> bool:
        """Return whether appends, replication or finished syncs have not been handled yet."""
        return self.has_delayed or (self.commits is not None and self.commits.has_new)

    def complete_delayed(self) -> None:
        """Check and complete the requests that wait for partitions with new records or a moved high watermark, and the
        followers' fetches that were woken. Goes on until nothing is left to check."""
        replication = self.replication
        while self._appended or self._advanced or (replication is not None and replication.sessions.has_woken):
            advanced, self._advanced = self._advanced, {}
            appended, self._appended = self._appended, {}
            for key, partition in advanced.items():
                appended[key] = None
                if partition.waiting:
                    partition.answer_waiting()
                self._surroundings.produces.check_and_complete(key)
            for key in appended:
                self.fetches.check_and_complete(key)
            if replication is not None:
                replication.sessions.complete()

    # -- fetches -------------------------------------------------------------------------------------------------------
    def read_one(self, requested: FetchPartition, limit: int, reader: Reader, min_one: bool) -> FetchedPartition:
        """Read at most `limit` bytes of a partition, with `min_one` at least a batch. An error, a diverging epoch or a
        preferred replica is returned in the result, without records."""
        partition = self.find(requested)
        if partition is None:
            return self._failed(requested, self._absence_error(requested), ())
        try:
            return self._read_partition(partition, requested, limit, reader, min_one)
        except OffsetOutOfRange:
            return self._failed(requested, self._range_error(requested.fetch_offset > partition.log.log_end_offset))
        except KafkaError as error:
            return self._failed(requested, type(error))
        except OSError:
            return FetchedPartition(error_code=KafkaStorageError.code)

    def _range_error(self, is_above_end: bool) -> type[KafkaError]:
        """Return the error for an offset outside of a log. Without contact to the controller this broker may no longer
        lead the partition, and the new leader may have the offset: OffsetOutOfRange would reset the consumer's
        position."""
        if is_above_end and self.replication is not None and not self.replication.has_contact():
            return NotLeaderOrFollower
        return OffsetOutOfRange

    def _failed(
        self, requested: FetchPartition, error: type[KafkaError], aborted: tuple[tuple[int, int], ...] | None = None
    ) -> FetchedPartition:
        result = FetchedPartition(error_code=error.code, aborted=aborted)
        if self.replication is not None and error.code in LEADER_ERRORS:
            result.current_leader = self.current_leader(requested.topic, requested.topic_id, requested.index)
        return result

    def _read_partition(
        self, partition: Partition, requested: FetchPartition, limit: int, reader: Reader, min_one: bool
    ) -> FetchedPartition:
        log, isolation_level = partition.log, reader.isolation_level
        if reader.is_leader_only:
            partition.ensure_leader()
        partition.check_leader_epoch(requested.current_leader_epoch)
        diverging = partition.diverging_epoch(requested.last_fetched_epoch, requested.fetch_offset)
        result = FetchedPartition(NONE, log.high_watermark, log.last_stable_offset, log.log_start_offset)
        if diverging is not None:
            result.diverging = diverging
            return result
        if reader.rack_id and self.replication is not None and partition.followers:
            preferred = self.replication.preferred_replica(partition, requested.fetch_offset, reader.rack_id)
            if preferred is not None:
                result.preferred_read_replica = preferred
                return result
        end = partition.fetch_end_offset(isolation_level)
        if requested.fetch_offset == end or end < requested.fetch_offset <= log.log_end_offset:
            if requested.fetch_offset < log.log_start_offset:
                raise OffsetOutOfRange()
            result.aborted = () if isolation_level == READ_COMMITTED else None
            return result
        records = partition.read(requested.fetch_offset, limit, isolation_level, min_one_message=min_one)
        if records.first_entry_incomplete:
            return result  # a consumer would take a partial batch for one that is too large to read
        if records.size_bytes:
            result.records = records
        if isolation_level == READ_COMMITTED:
            result.aborted = aborted_transactions(partition, requested.fetch_offset, records)
        return result

    def _absence_error(self, requested: FetchPartition) -> type[KafkaError]:
        if requested.topic_id is not None:
            if requested.topic_id not in self.partitions_by_id:
                return UnknownTopicId
            if requested.topic is not None and self.topic_name(requested.topic_id) != requested.topic:
                return InconsistentTopicId
        return type(self.absence(requested.topic or self.topic_name(requested.topic_id) or "", requested.index))


def aborted_transactions(partition: Partition, start: int, log_slice: LogSlice) -> list[tuple[int, int]]:
    """Return (producer id, first offset) of the aborted transactions in the records of a read. The upper bound comes
    from the offset index: the next entry, the next segment or the log end (LocalLog.addAbortedTransactions)."""
    log, segment = partition.log, log_slice.segment
    end = segment.fetch_upper_bound_offset(log_slice.position + log_slice.size_bytes)
    if end is None:
        higher = log.segments.higher(segment.base_offset)
        end = log.log_end_offset if higher is None else higher.base_offset
    return [(txn.producer_id, txn.first_offset) for txn in log.aborted_transactions(start, end)]


def error_code_of(error: Exception) -> int:
    """Return a KafkaError's error code; KAFKA_STORAGE_ERROR for OSError, UNKNOWN_SERVER_ERROR for any other
    exception."""
    if isinstance(error, KafkaError):
        return error.code
    return KafkaStorageError.code if isinstance(error, OSError) else UnknownServerError.code
