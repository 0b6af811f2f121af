"""All share partitions and share sessions of a broker (Kafka's SharePartitionManager, KIP-932).

Rules: a share partition's state is read from the share coordinator at its first fetch. It is dropped when its group is
empty, its topic is deleted, this broker no longer leads it, or a write of its state fails. When records become
available, waiting share fetches are checked after the requests at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from kafkatools.core.broker.coordinators.groups.share.settings import ShareGroupSettings
from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.share_state.coordinator import ShareCoordinator
from kafkatools.core.broker.coordinators.share_state.pending import PendingWrite, ShareWrite
from kafkatools.core.broker.coordinators.share_state.persister import StatePersister, error_for_members
from kafkatools.core.broker.coordinators.share_state.share_state import (
    UNINITIALIZED_START_OFFSET,
    ShareKey,
    ShareState,
    ShareUpdate,
)
from kafkatools.core.broker.coordinators.share_state.share_state_topic import TOPIC
from kafkatools.core.broker.metadata.image import MetadataDelta
from kafkatools.core.broker.replicas.partition import READ_COMMITTED, READ_UNCOMMITTED, Partition
from kafkatools.core.broker.replicas.share.fetch_read import ShareFetched, available_bytes, read
from kafkatools.core.broker.replicas.share.partition import Acknowledgement, Limits, SharePartition, Wish
from kafkatools.core.broker.replicas.share.session import SessionKey, ShareSessions
from kafkatools.core.broker.server.requests import Client
from kafkatools.core.broker.server.timer import TimerTask
from kafkatools.core.config.setting import parse_iso_duration_ms
from kafkatools.core.errors import (
    FencedStateEpoch,
    InvalidRequest,
    KafkaError,
    KafkaStorageError,
    NotCoordinator,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

EARLIEST = "earliest"
LOCK_RETRY_MS = 500
"""The delay before the next attempt to write expired locks."""


class SharePartitionManager:
    """The share partitions of this broker by key. `states` opens the share coordinator of a node alone. `persister`
    sends state requests to the coordinators of a cluster; it is None on a node alone."""

    def __init__(
        self,
        host: Host,
        settings: ShareGroupSettings,
        states: Callable[[], ShareCoordinator],
        persister: StatePersister | None,
    ) -> None:
        self._host = host
        self.settings = settings
        self.states = states
        self._persister = persister
        self.sessions = ShareSessions(host.config.group_share_max_share_sessions)
        self._partitions: dict[ShareKey, SharePartition] = {}
        self._by_group: dict[str, set[ShareKey]] = {}
        self._lock_timers: dict[ShareKey, TimerTask] = {}
        self._opening: set[ShareKey] = set()
        self._failed: dict[ShareKey, KafkaError] = {}

    def log_partition(self, key: ShareKey) -> Partition:
        """Return the log partition. Raises UnknownTopicId, UnknownTopicOrPartition, NotLeaderOrFollower,
        KafkaStorageError when it is offline."""
        topic = self._host.image.topics_by_id.get(key.topic_id)
        if topic is None:
            raise UnknownTopicId()
        if key.partition not in topic.partitions:
            raise UnknownTopicOrPartition()
        return self._host.replicas.get(topic.name, key.partition)

    def isolation_level(self, group_id: str) -> int:
        """Return the group's isolation level: READ_COMMITTED or READ_UNCOMMITTED."""
        return READ_COMMITTED if self.settings.reads_committed(group_id) else READ_UNCOMMITTED

    def find(self, key: ShareKey) -> SharePartition | None:
        """Return the share partition, None if it is not loaded."""
        return self._partitions.get(key)

    def _opened(self, key: ShareKey, partition: Partition) -> SharePartition | None:
        """Return the share partition, loaded if necessary; None while its coordinator loads it. Raises a KafkaError."""
        shared = self._partitions.get(key)
        if shared is not None:
            return shared
        if self._persister is not None:
            if key in self._failed:
                raise self._failed[key]
            if key not in self._opening:
                self._request_state(self._persister, key, partition)
            return self._partitions.get(key)
        try:
            state = self.states().read(key, partition.leader_epoch)
        except InvalidRequest as error:
            raise UnknownServerError(str(error)) from error
        return self._begin(key, partition, state)

    def _request_state(self, persister: StatePersister, key: ShareKey, partition: Partition) -> None:
        epoch = partition.leader_epoch
        self._opening.add(key)

        def open_partition(error: KafkaError | None, state: ShareState | None) -> None:
            self._opening.discard(key)
            if error is not None:
                self._failed[key] = error_for_members(error)
            elif state is not None and partition.is_leader and partition.leader_epoch == epoch:
                try:
                    self._begin(key, partition, state)
                except KafkaError as failure:
                    self._failed[key] = failure
            self._host.replicas.wake(key)

        persister.read(key, epoch, open_partition)

    def _begin(self, key: ShareKey, partition: Partition, state: ShareState) -> SharePartition:
        if state.start_offset == UNINITIALIZED_START_OFFSET:
            state = replace(state, start_offset=self._first_offset(key, partition))
        settings, group_id = self.settings, key.group_id
        limits = Limits(
            partial(settings.lock_duration_ms, group_id),
            partial(settings.delivery_count_limit, group_id),
            partial(settings.max_record_locks, group_id),
        )
        share_partition = SharePartition(state, partition.leader_epoch, limits, partial(self._write, key))
        share_partition.note_log_start(partition.log.log_start_offset)
        self._partitions[key] = share_partition
        self._by_group.setdefault(key.group_id, set()).add(key)
        return share_partition

    def available_bytes(self, key: ShareKey, min_bytes: int) -> int:
        """Estimate the bytes that a member could acquire from a share partition now; 0 while its state is being loaded,
        which this starts if necessary. Raises KafkaError."""
        partition = self.log_partition(key)
        shared = self._opened(key, partition)
        if shared is None:
            return 0
        return available_bytes(partition, shared, self.isolation_level(key.group_id), min_bytes)

    def read(self, key: ShareKey, max_bytes: int, wish: Wish) -> ShareFetched:
        """Read and acquire records for a member, and set the timer of their locks. The result is empty while the share
        partition's state is being loaded; an error becomes the partition's error code."""
        try:
            partition = self.log_partition(key)
            shared = self._opened(key, partition)
            if shared is None:
                return ShareFetched()
            now_ms = self._host.clock.now_ms()
            fetched = read(partition, shared, self.isolation_level(key.group_id), (max_bytes, wish), now_ms)
            self.watch_locks(key, shared)
            return fetched
        except KafkaError as error:
            self._failed.pop(key, None)
            return ShareFetched(error_code=error.code)
        except OSError as error:
            self._host.note_failure(error)
            return ShareFetched(error_code=KafkaStorageError.code)

    def _first_offset(self, key: ShareKey, partition: Partition) -> int:
        """Return the start offset of a new share group from its share.auto.offset.reset; the high watermark for
        `latest`, or when no record is young enough for `by_duration`."""
        rule = self.settings.auto_offset_reset(key.group_id)
        if rule == EARLIEST:
            return partition.log.log_start_offset
        _, colon, duration = rule.partition(":")
        if colon:
            since_ms = self._host.clock.wall_ms() - (parse_iso_duration_ms(duration) or 0)
            record = partition.offset_for_timestamp(since_ms, READ_UNCOMMITTED)
            if record.offset >= 0:
                return record.offset
        return partition.log.high_watermark

    def _write(self, key: ShareKey, update: ShareUpdate) -> ShareWrite:
        """Persist an update of a share partition and return the write to wait for. If it fails, the share partition is
        dropped and later loaded again, so that its acquired records are available again. On a node alone, raises
        KafkaError, except for what becomes known with the sync of the disk."""
        if self._persister is not None:
            pending, finish = self._pending_write(key)
            self._persister.write(key, update, lambda error, _state: finish(error))
            return pending
        try:
            status = self.states().write(key, update)
        except FencedStateEpoch:
            self._forget(key)
            raise
        if status is None:
            return None
        pending, finish = self._pending_write(key)
        self._host.when_durable([status], lambda code: finish(NotCoordinator() if code else None))
        return pending

    def _pending_write(self, key: ShareKey) -> tuple[PendingWrite, Callable[[KafkaError | None], None]]:
        """Return a write of a share partition and the function that ends it."""
        pending = PendingWrite()
        share_partition = self._partitions.get(key)

        def finish(error: KafkaError | None) -> None:
            if error is not None and self._partitions.get(key) is share_partition:
                self._forget(key)
            pending.finish(None if error is None else error_for_members(error))

        return pending, finish

    def _forget(self, key: ShareKey) -> None:
        self._partitions.pop(key, None)
        self._by_group.get(key.group_id, set()).discard(key)
        timer = self._lock_timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._host.replicas.wake(key)

    def acknowledge(self, key: ShareKey, member_id: str, acknowledgements: Sequence[Acknowledgement]) -> ShareWrite:
        """Apply all acknowledgements of one partition, or none if one is invalid. Returns the write to wait for, None
        if nothing is written. Raises UnknownTopicOrPartition if the share partition is not loaded, InvalidRequest,
        InvalidRecordState, and the errors of the write."""
        shared = self._partitions.get(key)
        if shared is None:
            raise UnknownTopicOrPartition()
        status = shared.acknowledge(member_id, acknowledgements, self._host.clock.now_ms())
        self.watch_locks(key, shared)
        self._host.replicas.wake(key)
        return status

    def release(self, group_id: str, member_id: str) -> list[ShareWrite]:
        """Make the records that a member has acquired available again, in all partitions of the group. Returns the
        writes to wait for, with None where there is none; an error is reported, not raised."""
        statuses: list[ShareWrite] = []
        for key in list(self._by_group.get(group_id, ())):
            try:
                statuses.append(self._partitions[key].release_member(member_id))
            except KafkaError as error:
                self._host.note_failure(error)
            self._host.replicas.wake(key)
        return statuses

    def close_session(self, key: SessionKey) -> list[ShareWrite]:
        """Close a member's share session, if it has one, and make its acquired records available again; after the
        group's last session, drop its share partitions. A member that leaves the group keeps its session and records
        until then, as in Kafka. Return the share-state writes to wait for before the response (`when_written`)."""
        self.sessions.remove(key)
        writes = self.release(*key)
        if not self.sessions.has_group(key[0]):
            self.forget_group(key[0])
        return writes

    def watch_connection(self, connection: Client) -> None:
        """Close the share sessions of a connection when it closes. Does nothing when called again for it."""
        connection.call_when_closed(self, lambda: self._close_sessions_of(connection))

    def _close_sessions_of(self, connection: Client) -> None:
        for key in self.sessions.of_connection(connection):
            self.close_session(key)

    def watch_locks(self, key: ShareKey, partition: SharePartition) -> None:
        """Set the timer for the share partition's first lock expiration. Does nothing without locks, or if the share
        partition was dropped, as after a write that failed at once: its timer would stand for that of the next one."""
        timer = self._lock_timers.get(key)
        next_ms = partition.next_expiration_ms if self._partitions.get(key) is partition else None
        if next_ms is None or (timer is not None and timer.expiration_ms <= next_ms):
            return
        if timer is not None:
            timer.cancel()
        self._watch_locks_until(key, partition, next_ms)

    def _watch_locks_until(self, key: ShareKey, partition: SharePartition, next_ms: int) -> None:
        task = TimerTask(next_ms, lambda now_ms: self._expire(key, partition, now_ms))
        self._lock_timers[key] = task
        self._host.timer.add(task, self._host.clock.now_ms())

    def _expire(self, key: ShareKey, partition: SharePartition, now_ms: int) -> None:
        self._lock_timers.pop(key, None)
        if self._partitions.get(key) is not partition:
            return
        try:
            partition.expire_locks(now_ms)
        except KafkaError as error:
            self._host.note_failure(error)
            self._watch_locks_until(key, partition, now_ms + LOCK_RETRY_MS)
        else:
            self.watch_locks(key, partition)
        self._host.replicas.wake(key)
        self._host.replicas.complete_delayed()

    def drop(self, partition: Partition) -> None:
        """Drop the share partitions of a partition that this broker no longer leads, or leads in a new epoch."""
        for key in [key for key in self._partitions if (key.topic_id, key.partition) == partition.key]:
            self._forget(key)

    def forget_group(self, group_id: str) -> None:
        """Drop the share partitions of a group; they are loaded again when a member fetches."""
        for key in list(self._by_group.get(group_id, ())):
            self._forget(key)
        self._by_group.pop(group_id, None)

    def note_deleted_topics(self, delta: MetadataDelta) -> None:
        """Drop the share partitions and share state of deleted topics. If __share_group_state itself is deleted, drop
        all share partitions. A KafkaError is reported, not raised."""
        names = {topic.name for topic in delta.removed_topics.values()}
        topic_ids = {topic.topic_id for topic in delta.removed_topics.values()}
        for key in [key for key in self._partitions if key.topic_id in topic_ids]:
            self._forget(key)
        if TOPIC in names:
            self.states().unload()
            for group_id in list(self._by_group):
                self.forget_group(group_id)
        for topic_id in topic_ids:
            try:
                self.states().forget_topic(topic_id)
            except KafkaError as error:
                self._host.note_failure(error)
