"""The follower's side of replication: fetches all partitions that this broker follows from one leader (Kafka's
ReplicaFetcherThread, AbstractFetcherThread and FetchSessionHandler). No I/O here: requests go through a `PeerChannel`.

Rules:
- One fetch is under way at a time. It names at most `MOST_CHANGES` partitions whose position moved since the last
  fetch. If more are left, the fetch asks the leader to answer at once. Results of partitions that were removed or added
  again meanwhile are ignored.
- A log is truncated only where the leader's epochs say that it diverges (KIP-101, KIP-279, KIP-595), or where the
  leader has none of its offsets (out of range). The high watermark is no measure, since it may lag behind commits,
  except for a log without leader epochs.
- A response's high watermark and log start offset count only up to this log's end. Records are appended from the
  receive buffer without a copy.
- A failed partition is fetched again after a back-off; other partitions are not affected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.replicas.fetch_messages import (
    VERSION,
    FetchedData,
    FetchResponse,
    Key,
    decode_response,
    encode_request,
)
from kafkatools.core.broker.replicas.fetch_partition import FetchPartition
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.errors import DecodeError, KafkaError, KafkaStorageError, UnexpectedAppendOffset
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import result_of
from kafkatools.core.records.header import read_header, whole_batches_bytes

if TYPE_CHECKING:
    from kafkatools.core.broker.replicas.cluster import Cluster, ReplicationSettings
    from kafkatools.core.broker.replicas.throttles import ReplicationThrottles
    from kafkatools.core.log.partition.partition_log import PartitionLog
    from kafkatools.core.protocol.entities import Fields

NONE, OFFSET_OUT_OF_RANGE, FENCED_LEADER_EPOCH = 0, 1, 74
SESSION_ERRORS = (70, 71, 106)
LATEST, EARLIEST = -1, -2
MOST_CHANGES = 1000
"""The most partitions of a request: for each, encoding costs this broker 1 us and handling costs the leader 10 us."""
FIRST_RETRY_MS = 20
THROTTLED_MS = 50


class Followed:
    """A followed partition in one leader epoch: its fetch position and its back-off."""

    __slots__ = ("fetch_offset", "last_epoch", "leader_epoch", "not_before_ms", "partition", "retry_ms")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.not_before_ms: int | None = 0
        self.retry_ms = FIRST_RETRY_MS
        self.settle()

    def settle(self) -> None:
        """Set the fetch position to the end of the log."""
        log = self.partition.log
        self.fetch_offset = log.log_end_offset
        self.last_epoch = -1 if log.latest_epoch is None else log.latest_epoch

    def fetch_partition(self, max_bytes: int) -> FetchPartition:
        """Return the fetch position as a partition of a Fetch request."""
        partition = self.partition
        return FetchPartition(
            None,
            partition.topic_id,
            partition.index,
            self.fetch_offset,
            max_bytes,
            self.leader_epoch,
            self.last_epoch,
            partition.log.log_start_offset,
        )


@dataclass(eq=False, repr=False)
class ReplicaFetcher:
    """Fetches from one leader the partitions that this broker follows."""

    leader_id: int
    cluster: Cluster
    settings: ReplicationSettings
    throttles: ReplicationThrottles
    on_high_watermark_advanced: Callable[[Partition], None]
    partitions: dict[Key, Followed] = field(default_factory=dict, init=False)
    _session: tuple[int, int] = field(default=(0, 0), init=False)
    _session_partitions: dict[Key, Followed] = field(default_factory=dict, init=False)
    _changed: dict[Key, Followed] = field(default_factory=dict, init=False)
    _delayed: dict[Key, Followed] = field(default_factory=dict, init=False)
    _dropped: dict[Key, None] = field(default_factory=dict, init=False)
    _is_waiting: bool = field(default=False, init=False)
    _not_before_ms: int = field(default=0, init=False)

    # -- followed partitions -------------------------------------------------------------------------------------------
    def add(self, partition: Partition) -> None:
        """Follow a partition in its current leader epoch, from the end of its log (initialFetchOffset). A log without
        leader epochs is truncated to its high watermark first."""
        followed = Followed(partition)
        self.partitions[partition.key] = followed
        self._delayed.pop(partition.key, None)
        self._changed[partition.key] = followed
        log = partition.log
        if log.latest_epoch is None and log.log_end_offset > log.high_watermark:
            self._guarded(followed, lambda: self._cut(followed, log.high_watermark), self.cluster.clock.now_ms())

    def remove(self, key: Key) -> None:
        """Stop following a partition."""
        self.partitions.pop(key, None)
        self._changed.pop(key, None)
        self._delayed.pop(key, None)
        self._dropped[key] = None

    def _delay(self, followed: Followed, now_ms: int, delay_ms: int | None = None) -> None:
        """Skip a partition for `delay_ms`, or for a back-off that doubles up to replica.fetch.backoff.ms."""
        if delay_ms is None:
            delay_ms = followed.retry_ms
            followed.retry_ms = min(followed.retry_ms * 2, max(FIRST_RETRY_MS, self.settings.fetch_backoff_ms))
        self._hold(followed, now_ms + delay_ms)

    def _hold(self, followed: Followed, until_ms: int | None) -> None:
        """Skip a partition until a time in ms; with None until it is released or added again."""
        key = followed.partition.key
        if self.partitions.get(key) is followed:
            followed.not_before_ms = until_ms
            self._delayed[key] = followed
            self._changed.pop(key, None)
            self._dropped[key] = None

    def _release(self, followed: Followed) -> None:
        key = followed.partition.key
        if self.partitions.get(key) is followed:
            self._delayed.pop(key, None)
            self._changed[key] = followed

    # -- turns ---------------------------------------------------------------------------------------------------------
    @property
    def next_deadline_ms(self) -> int | None:
        """Time in ms at which `tick` must run; None while a fetch is under way or no partition can be fetched."""
        if self._is_waiting or not self.partitions:
            return None
        if len(self._delayed) < len(self.partitions):
            return self._not_before_ms
        deadlines = [
            followed.not_before_ms for followed in self._delayed.values() if followed.not_before_ms is not None
        ]
        return max(self._not_before_ms, min(deadlines)) if deadlines else None

    def tick(self, now_ms: int) -> None:
        """Send a fetch, unless one is under way or no partition is due. Partitions above the replication throttle are
        skipped for `THROTTLED_MS`."""
        if self._is_waiting or now_ms < self._not_before_ms or not self.partitions:
            return
        for followed in list(self._delayed.values()):
            if followed.not_before_ms is not None and followed.not_before_ms <= now_ms:
                self._release(followed)
        for followed in list(self._changed.values()):
            if self.throttles.is_receiving_throttled(followed.partition):
                self._delay(followed, now_ms, THROTTLED_MS)
        if len(self._delayed) < len(self.partitions):
            self._fetch()

    def _fetch(self) -> None:
        settings = self.settings
        if self._session[1] == 0:
            self._session_partitions.clear()
            self._changed = {key: followed for key, followed in self.partitions.items() if key not in self._delayed}
        changes = dict(islice(self._changed.items(), MOST_CHANGES))
        requested = [followed.fetch_partition(settings.fetch_max_bytes) for followed in changes.values()]
        forgotten = [
            key
            for key in self._dropped
            if key in self._session_partitions and (key not in self.partitions or key in self._delayed)
        ]
        self._dropped.clear()
        for key in forgotten:
            del self._session_partitions[key]
        self._session_partitions.update(changes)
        for key in changes:
            del self._changed[key]
        max_wait_ms = 0 if self._changed else settings.fetch_wait_max_ms
        if len(requested) > 1:
            requested.sort(key=_topic_order)
        body = encode_request(
            (max_wait_ms, settings.fetch_min_bytes, settings.fetch_response_max_bytes),
            self._session,
            requested,
            sorted(forgotten, key=lambda key: key[0].bytes),
            (self.cluster.node_id, self.cluster.broker_epoch()),
        )
        self._is_waiting = True
        self.cluster.peers.send_raw(
            self.leader_id, ApiKey.FETCH, VERSION, body, self._handle_response, timeout_ms=settings.socket_timeout_ms
        )

    # -- answers -------------------------------------------------------------------------------------------------------
    def _handle_response(self, body: memoryview | None) -> None:
        self._is_waiting = False
        now_ms = self.cluster.clock.now_ms()
        try:
            response = None if body is None else decode_response(body)
        except DecodeError:
            response = None
        if response is None or response.error_code:
            self._begin_anew(response, now_ms)
        else:
            self._take(response, now_ms)
        self.tick(now_ms)

    def _begin_anew(self, response: FetchResponse | None, now_ms: int) -> None:
        """Open a new session, soon after a session error or a lost response, else after replica.fetch.backoff.ms."""
        session_id = self._session[0]
        is_session_error = response is not None and response.error_code in SESSION_ERRORS
        self._session = (session_id if response is None else 0, 0)
        wait_ms = FIRST_RETRY_MS if is_session_error or response is None else self.settings.fetch_backoff_ms
        self._not_before_ms = now_ms + wait_ms

    def _take(self, response: FetchResponse, now_ms: int) -> None:
        session_id, epoch = self._session
        if response.session_id:
            self._session = (response.session_id, 1 if epoch == 2**31 - 1 else epoch + 1)
        else:
            self._session = (0, 0)
        if response.throttle_ms:
            self._not_before_ms = now_ms + response.throttle_ms
        for data in response.partitions:
            key = (data.topic_id, data.partition_index)
            followed = self.partitions.get(key)
            if followed is not None and self._session_partitions.get(key) is followed and key not in self._delayed:
                self._take_partition(followed, data, now_ms)

    def _take_partition(self, followed: Followed, data: FetchedData, now_ms: int) -> None:
        if data.error_code:
            self._failed(followed, data, now_ms)
        elif data.diverging is not None:
            diverging = data.diverging
            self._guarded(followed, lambda: self._truncate(followed, diverging), now_ms)
        else:
            self._guarded(followed, lambda: self._append(followed, data), now_ms)

    def _guarded(self, followed: Followed, work: Callable[[], None], now_ms: int) -> None:
        """Run a change of a log. On an error the partition is retried later, or no longer fetched if its log went
        offline."""
        try:
            work()
        except (KafkaError, OSError) as error:
            self._storage_failed(followed, error, now_ms)

    def _cut(self, followed: Followed, offset: int) -> None:
        """Truncate the log to an offset and fetch from there."""
        followed.partition.log.truncate_to(offset, self.cluster.clock.wall_ms())
        followed.settle()
        self._changed[followed.partition.key] = followed

    def _storage_failed(self, followed: Followed, error: Exception, now_ms: int) -> None:
        if followed.partition.log.failure is not None:
            self.remove(followed.partition.key)
            return
        followed.settle()
        self._delay(followed, now_ms, self.settings.fetch_backoff_ms)
        if self.cluster.note_failure is not None:
            self.cluster.note_failure(
                error if isinstance(error, KafkaError) else KafkaStorageError(f"{followed.partition}: {error}")
            )

    def _append(self, followed: Followed, data: FetchedData) -> None:
        partition = followed.partition
        log = partition.log
        records = data.records
        if records is not None and (size := whole_batches_bytes(records)):
            try:
                self._append_in_pieces(followed, records[:size])
            finally:
                if partition.waits_for_disk:
                    self._sync(log)  # after an error, too: the pieces before it stay
            self.throttles.note_received(partition, size)
            followed.settle()
            self._changed[partition.key] = followed
        if data.high_watermark >= 0:
            previous_high_watermark = log.high_watermark
            if (
                data.high_watermark != previous_high_watermark
                and log.update_high_watermark(data.high_watermark) > previous_high_watermark
            ):
                self.on_high_watermark_advanced(partition)
        if log.log_start_offset < data.log_start_offset <= log.high_watermark:
            log.increment_log_start_offset(data.log_start_offset)
            self._changed[partition.key] = followed
        followed.retry_ms = FIRST_RETRY_MS

    def _sync(self, log: PartitionLog) -> None:
        """Sync records that the next fetch reports as durable. After a failed sync the content of the disk is unknown:
        the log goes offline, as a leader's does."""
        try:
            log.flush(self.cluster.clock.wall_ms())
        except KafkaStorageError as error:
            failure = log.go_offline(error)
            if self.cluster.note_failure is not None:
                self.cluster.note_failure(failure)
            raise failure from error

    def _append_in_pieces(self, followed: Followed, records: memoryview) -> None:
        """Append records in pieces of whole batches that fit into a segment, since segment.bytes may be smaller than a
        response. A batch larger than a segment raises RecordListTooLarge; the pieces before it stay appended."""
        limit = followed.partition.log.config.segment_bytes
        while len(records) > limit:
            size = whole_batches_bytes(records[:limit]) or whole_batches_bytes(records)
            self._append_records(followed, records[:size])
            records = records[size:]
        if records:
            self._append_records(followed, records)

    def _append_records(self, followed: Followed, records: memoryview) -> None:
        """Append records; an empty log that starts within the first batch restarts there (appendRecordsToFollower)."""
        log, wall_ms = followed.partition.log, self.cluster.clock.wall_ms()
        try:
            log.append_as_follower(records, wall_ms)
        except UnexpectedAppendOffset:
            first = read_header(records)
            is_begin = log.log_end_offset == log.log_start_offset
            if not (is_begin and first.base_offset < log.log_end_offset <= first.last_offset):
                raise
            start = log.log_start_offset
            log.truncate_fully_and_start_at(first.base_offset, wall_ms)
            log.append_as_follower(records, wall_ms)
            log.update_high_watermark(start)
            log.increment_log_start_offset(start)

    # -- truncation ----------------------------------------------------------------------------------------------------
    def _truncate(self, followed: Followed, leader_end: tuple[int, int]) -> None:
        """Truncate the log where it diverges from the leader's (getOffsetTruncationState). The target is the end of the
        leader's epoch if this log has that epoch, else the end of the largest epoch below it; the next fetch then
        compares further."""
        log = followed.partition.log
        epoch, end_offset = leader_end
        own_epoch, own_end = log.end_offset_for_epoch(epoch)
        if own_end < 0:
            target = end_offset
        elif own_epoch != epoch:
            target = own_end
        else:
            target = min(own_end, end_offset)
        self._cut(followed, max(0, min(target, log.log_end_offset)))

    def _failed(self, followed: Followed, data: FetchedData, now_ms: int) -> None:
        if data.error_code == OFFSET_OUT_OF_RANGE:
            self._request_offset(followed, LATEST)
        elif data.error_code == FENCED_LEADER_EPOCH:
            self._hold(followed, None)  # until newer metadata arrives
        else:
            self._delay(followed, now_ms)

    def _request_offset(self, followed: Followed, timestamp: int) -> None:
        """Request from the leader its log end or log start offset, after an out-of-range fetch
        (fetchOffsetAndTruncate)."""
        self._hold(followed, None)
        partition = followed.partition
        epoch = followed.leader_epoch
        position = {"partition_index": partition.index, "current_leader_epoch": epoch, "timestamp": timestamp}
        topics = [{"name": partition.topic, "partitions": [position]}]
        fields: Fields = {"replica_id": self.cluster.node_id, "isolation_level": 0, "topics": topics}
        self.cluster.peers.send(
            self.leader_id,
            ApiKey.LIST_OFFSETS,
            fields,
            lambda entity: self._take_range(followed, timestamp, entity),
            timeout_ms=self.settings.socket_timeout_ms,
        )

    def _take_range(self, followed: Followed, timestamp: int, entity: Any | None) -> None:
        partition = followed.partition
        if self.partitions.get(partition.key) is not followed:
            return
        now_ms = self.cluster.clock.now_ms()
        range_end = None if entity is None else result_of(entity.topics, (partition.topic, partition.index))
        if range_end is None or int(range_end.error_code) != NONE:
            self._delay(followed, now_ms)
            return
        log = partition.log
        try:
            if timestamp == LATEST and range_end.offset >= log.log_end_offset:
                self._request_offset(followed, EARLIEST)
                return
            if timestamp == LATEST:
                log.truncate_to(range_end.offset, self.cluster.clock.wall_ms())
            elif range_end.offset > log.log_end_offset:
                log.truncate_fully_and_start_at(range_end.offset, self.cluster.clock.wall_ms())
        except (KafkaError, OSError) as error:
            self._storage_failed(followed, error, now_ms)
            return
        followed.settle()
        self._release(followed)
        self.tick(now_ms)


def _topic_order(requested: FetchPartition) -> bytes:
    assert requested.topic_id is not None
    return requested.topic_id.bytes
