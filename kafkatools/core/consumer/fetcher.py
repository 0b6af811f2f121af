"""Fetch records from leaders and hand them out: Kafka's Fetcher (AbstractFetch and FetchCollector), without I/O.

Rules: each node has one fetch session and at most one Fetch request in flight. A partition is fetched again as soon as
its response has arrived, from the end of its buffered data, so that brokers work while records are read. At most two
responses per partition are buffered, and no request is sent while more than half of fetch.max.bytes is buffered. The
data of paused partitions does not count: it may stay for ever, and the others would get nothing. Buffered data is
dropped when it no longer starts at the position, after a seek or reset. As in Kafka, partition errors take effect when
their response is collected.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from kafkatools.core.clock import SystemClock
from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.consumer.completed_fetch import READ_COMMITTED, CompletedFetch, FetchedColumns, FetchOptions
from kafkatools.core.consumer.errors import FetchFailed, FetchOffsetOutOfRange
from kafkatools.core.consumer.fetch_messages import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from kafkatools.core.consumer.fetch_session import FetchRequestData, FetchSessionHandler
from kafkatools.core.consumer.network import MetadataLeaders
from kafkatools.core.consumer.subscription import FetchPosition, SubscriptionState, TopicPartition, TopicPartitionState
from kafkatools.core.errors import KafkaError, error_for_code, unauthorized_topics
from kafkatools.core.metrics.fetching import FetchedCounts, FetchMetrics
from kafkatools.core.metrics.registry import MetricsRegistry
from kafkatools.core.metrics.sensor import DEFAULT_WINDOW
from kafkatools.core.records.header import whole_batches
from kafkatools.core.records.layout import HEADER_SIZE, MAGIC_OFFSET

OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
TOPIC_AUTHORIZATION_FAILED = 29
FETCH_SESSION_TOPIC_ID_ERROR = 106
# Errors of stale metadata: retried after a metadata update.
_STALE_METADATA = frozenset({3, 6, 9, 56, 74, 78, 100, 103})
# Transient errors: UNKNOWN_LEADER_EPOCH (the broker is behind) and UNKNOWN_SERVER_ERROR.
_TRY_AGAIN = frozenset({75, -1})
_MAX_WAITING_FETCHES = 2


class FetchSettings(NamedTuple):
    """The consumer settings that fetching uses, named as in the configuration."""

    fetch_min_bytes: int = CONSUMER.default_number("fetch.min.bytes")
    fetch_max_bytes: int = CONSUMER.default_number("fetch.max.bytes")
    fetch_max_wait_ms: int = CONSUMER.default_number("fetch.max.wait.ms")
    max_partition_fetch_bytes: int = CONSUMER.default_number("max.partition.fetch.bytes")
    client_rack: str = ""
    metadata_max_age_ms: int = CONSUMER.default_number("metadata.max.age.ms")
    retry_backoff_ms: int = CONSUMER.default_number("retry.backoff.ms")
    options: FetchOptions = FetchOptions()

    @classmethod
    def of(cls, config: Config, options: FetchOptions) -> FetchSettings:
        """Return the fetch settings of a consumer configuration."""
        values = {name: getattr(config, name) for name in cls._fields if name != "options"}
        return cls(**values, options=options)


class FetchedBatches(NamedTuple):
    """Undecoded record batches of one partition, in a slice of the receive buffer. They start with the batch that holds
    `fetch_offset`; `next_offset` follows their last record. `aborted` holds (producer id, first offset) of the aborted
    transactions among them; brokers send it under read_committed only."""

    partition: TopicPartition
    records: memoryview
    fetch_offset: int
    next_offset: int
    aborted: tuple[tuple[int, int], ...] = ()


class NodeFetch(NamedTuple):
    """A Fetch request that is ready to be sent to a node."""

    node: int
    request: FetchRequest


class Fetcher:
    """Builds Fetch requests, buffers their responses and hands out records as columns."""

    def __init__(
        self,
        settings: FetchSettings,
        subscriptions: SubscriptionState,
        leaders: MetadataLeaders,
        metrics: FetchMetrics | None = None,
    ) -> None:
        """`metrics` None: nobody reads them."""
        self._metrics = metrics or FetchMetrics(MetricsRegistry("", DEFAULT_WINDOW, SystemClock()))
        self._measured_assignment = -1
        self.settings = settings
        self.subscriptions = subscriptions
        self.leaders = leaders
        self._sessions: dict[int, FetchSessionHandler] = {}
        self._in_flight: set[int] = set()
        self._completed: deque[CompletedFetch] = deque()
        self._retry_ms: dict[TopicPartition, int] = {}
        self._empty_from: dict[TopicPartition, int] = {}
        self._taken_from: dict[TopicPartition, FetchPosition] = {}
        self._now_ms = 0

    # --- requests

    def prepare(self, now_ms: int, can_send: Callable[[int], bool]) -> list[NodeFetch]:
        """Return the Fetch requests to send now; each is in flight until its response or failure is handled. Empty
        while more than half of fetch.max.bytes is buffered of partitions that are not paused. `can_send(node)` says
        whether a node is connected. Requests fresh metadata for a partition without a leader."""
        self._measure_assigned()
        waiting: dict[TopicPartition, list[CompletedFetch]] = {}
        for fetch in self._completed:
            waiting.setdefault(fetch.partition, []).append(fetch)
        buffered_bytes = sum(fetch.size_bytes for fetch in self._completed if self._is_current(fetch))
        if buffered_bytes > self.settings.fetch_max_bytes // 2:
            return []
        by_node: dict[int, dict[TopicPartition, FetchPartition]] = {}
        for part in self.subscriptions.fetchable_partitions(lambda part: self._may_fetch(part, waiting, now_ms)):
            node = self._node_for(part, now_ms)
            if node is None or node in self._in_flight:
                continue
            item = self._fetch_partition(part, waiting.get(part))
            if item is not None:
                by_node.setdefault(node, {})[part] = item
        ready = [node for node in by_node if can_send(node)]
        return [self._request(node, by_node[node]) for node in ready]

    def _measure_assigned(self) -> None:
        version = self.subscriptions.assignment_version
        if version != self._measured_assignment:
            self._measured_assignment = version
            partitions = self.subscriptions.assigned_partitions()
            self._metrics.assigned(partitions, self.subscriptions.preferred_read_replica)

    def _may_fetch(
        self, part: TopicPartition, waiting: dict[TopicPartition, list[CompletedFetch]], now_ms: int
    ) -> bool:
        return len(waiting.get(part, ())) < _MAX_WAITING_FETCHES and self._retry_ms.get(part, 0) <= now_ms

    def _fetch_partition(self, part: TopicPartition, waiting: list[CompletedFetch] | None) -> FetchPartition | None:
        position = self.subscriptions.position(part)
        if position is None:
            return None
        offset = position.offset
        if waiting:
            end_offset = end_offset_of(waiting[-1].data)
            if end_offset is None:
                return None
            offset = end_offset
        topic_id = self.leaders.topic_id(part.topic)
        size = self.settings.max_partition_fetch_bytes
        return FetchPartition(part.topic, topic_id, part.partition, offset, size, position.leader.epoch)

    def _node_for(self, part: TopicPartition, now_ms: int) -> int | None:
        """Return the replica to fetch from: the preferred one (KIP-392) or the leader; None without a leader. Requests
        fresh metadata without a leader, and when the preferred replica is not online."""
        leader = self.leaders.leader(part)
        if leader is None or leader.leader < 0:
            self.leaders.request_update()
            return None
        replica = self.subscriptions.preferred_read_replica(part, now_ms)
        if replica is None:
            return leader.leader
        if self.leaders.has_replica(part, replica):
            return replica
        self.subscriptions.clear_preferred_read_replica(part)
        self.leaders.request_update()
        return leader.leader

    def _request(self, node: int, partitions: dict[TopicPartition, FetchPartition]) -> NodeFetch:
        session = self._sessions.setdefault(node, FetchSessionHandler(node))
        if session.assignment_version != self.subscriptions.assignment_version:
            session.assignment_version = self.subscriptions.assignment_version
            present = session.session_partitions.keys() & partitions.keys()
            if any(self.subscriptions.state(part).high_watermark is None for part in present):
                # Revoked and assigned again without a request in between: in this session the broker would not report
                # its high watermark until that changes.
                session.handle_error()
        self._in_flight.add(node)
        return NodeFetch(node, self._fetch_request(session.build(partitions)))

    def _fetch_request(self, data: FetchRequestData) -> FetchRequest:
        settings = self.settings
        return FetchRequest(
            settings.fetch_max_wait_ms,
            settings.fetch_min_bytes,
            settings.fetch_max_bytes,
            settings.options.isolation_level,
            data.metadata.session_id,
            data.metadata.epoch,
            data.to_send,
            data.to_forget,
            settings.client_rack,
        )

    def close_requests(self) -> list[NodeFetch]:
        """Return requests that close all fetch sessions, so that brokers need not wait for them to expire."""
        ends = [(node, session.close_request()) for node, session in self._sessions.items()]
        return [NodeFetch(node, self._fetch_request(data)) for node, data in ends if data is not None]

    # --- responses

    def handle_response(self, node: int, response: FetchResponse, version: int) -> None:
        """Update the node's fetch session from its Fetch response, and buffer the partitions that have records, an
        error or a preferred replica. A response that does not fit the session is dropped."""
        self._in_flight.discard(node)
        self._metrics.latency.answered(response.latency_ms, response.throttle_time_ms, self._now_ms)
        session = self._sessions[node]
        if not session.handle_response(response, version):
            if response.error_code == FETCH_SESSION_TOPIC_ID_ERROR:
                self.leaders.request_update()
            return
        self._note_empty(session, response)
        counted = FetchedCounts(0)
        for data in response.partitions:
            part = TopicPartition(data.topic, data.partition)
            requested = session.session_partitions.get(part)
            if requested is None:
                continue
            if data.error_code and data.current_leader.leader_id >= 0 and data.current_leader.leader_epoch >= 0:
                self.leaders.update_leadership(part, data.current_leader, response.node_endpoints)
            if data.error_code or data.records or data.preferred_read_replica >= 0:
                self._empty_from.pop(part, None)
                fetch = CompletedFetch(part, data, requested.fetch_offset, self.settings.options)
                fetch.counted = counted
                counted.remaining += 1
                self._completed.append(fetch)
            else:
                self._note_offsets(part, data)

    def _note_empty(self, session: FetchSessionHandler, response: FetchResponse) -> None:
        """Remember the fetch offsets that a response without any records proves to have no records after them. A
        response with records proves nothing for its empty partitions: the size limit may have excluded them. Nor does
        a throttled one: above a quota a broker leaves out all partitions (KIP-219)."""
        if response.throttle_time_ms > 0 or any(data.records for data in response.partitions):
            return
        failed_partitions = {
            TopicPartition(data.topic, data.partition) for data in response.partitions if data.error_code
        }
        for part, requested in session.session_partitions.items():
            if part not in failed_partitions:
                self._empty_from[part] = requested.fetch_offset

    def has_nothing_before(self, part: TopicPartition, end: int) -> bool:
        """Return whether the broker has reported no records between the position and offset `end`; False while that is
        unknown."""
        state = self.subscriptions.state_or_none(part)
        if state is None or state.position is None or self._empty_from.get(part) != state.position.offset:
            return False
        is_committed_only = self.settings.options.isolation_level == READ_COMMITTED
        readable = state.last_stable_offset if is_committed_only else state.high_watermark
        return readable is not None and readable >= end

    def handle_failure(self, node: int) -> None:
        """After a request that failed without a response, make the node's next request full and clear the preferred
        replica of its partitions."""
        self._in_flight.discard(node)
        self._sessions[node].handle_error()
        for part in self._sessions[node].session_partitions:
            self.subscriptions.clear_preferred_read_replica(part)

    def has_completed(self) -> bool:
        """Return whether a buffered response of a partition that is not paused waits for collection."""
        return any(self._is_current(fetch) for fetch in self._completed)

    def _is_current(self, fetch: CompletedFetch) -> bool:
        state = self.subscriptions.state_or_none(fetch.partition)
        return state is None or not state.paused

    # --- collecting records

    def collect(self, max_records: int) -> list[FetchedColumns]:
        """Return up to `max_records` buffered records and move the positions past them. Skips paused partitions, and
        drops data that no longer starts at the position. A partition's error is raised only when no records were
        collected before it; otherwise the next call raises it. Raises CorruptBatch, FetchFailed, FetchOffsetOutOfRange
        and TopicAuthorizationFailed."""
        collected: list[FetchedColumns] = []
        paused: list[CompletedFetch] = []
        remaining = max_records
        self._taken_from = {}
        try:
            while self._completed and remaining > 0:
                fetch = self._completed[0]
                if not self._is_current(fetch):
                    paused.append(self._completed.popleft())
                    continue
                try:
                    usable = fetch.is_initialized or self._initialize(fetch)
                    items = self._take(fetch, remaining) if usable else []
                except KafkaError:
                    if collected:
                        break
                    if not fetch.is_initialized:
                        self._handed_out(self._completed.popleft())
                    raise
                remaining -= sum(item.columns.count for item in items)
                collected += items
                if fetch.is_consumed and self._completed and self._completed[0] is fetch:
                    self._handed_out(self._completed.popleft())
        finally:
            self._completed.extendleft(reversed(paused))
        return collected

    def note_handed_out(self) -> None:
        """Leave the positions after the records of the last `collect`, because the caller got them."""
        self._taken_from = {}

    def take_back(self) -> None:
        """Move the positions back to before the last `collect`, unless its records were handed out: an interrupt, such
        as KeyboardInterrupt, came before the caller got them."""
        taken_from, self._taken_from = self._taken_from, {}
        for part, position in taken_from.items():
            state = self.subscriptions.state_or_none(part)
            if state is not None and state.position is not None:
                state.position = position._replace(leader=state.position.leader)

    def _handed_out(self, fetch: CompletedFetch) -> None:
        """Count a partition of a response that has no more records to return; data that was dropped unread counts
        nothing."""
        if fetch.record_count:
            topic = fetch.partition.topic
            fetch.counted.sizes[topic] += fetch.size_bytes
            fetch.counted.records[topic] += fetch.record_count
        self._metrics.handed_out(fetch.counted, self._now_ms)

    def _measure_position(self, part: TopicPartition, state: TopicPartitionState) -> None:
        if state.position is None:
            return
        is_committed_only = self.settings.options.isolation_level == READ_COMMITTED
        end = state.last_stable_offset if is_committed_only else state.high_watermark
        start, position = state.log_start_offset, state.position.offset
        lag = None if end is None else max(0, end - position)
        self._metrics.moved(part, lag, None if start is None else position - start, self._now_ms)

    def collect_batches(self) -> list[FetchedBatches]:
        """Return all buffered batches undecoded and unchecked; move positions past them. Skips paused partitions.
        Errors as in `collect`, but no CorruptBatch."""
        collected: list[FetchedBatches] = []
        paused = [fetch for fetch in self._completed if not self._is_current(fetch)]
        self._completed = deque(fetch for fetch in self._completed if self._is_current(fetch))
        try:
            while self._completed:
                fetch = self._completed[0]
                try:
                    usable = self._initialize(fetch)
                except KafkaError:
                    if collected:
                        break
                    self._handed_out(self._completed.popleft())
                    raise
                self._completed.popleft()
                try:
                    batches = self._batches_of(fetch) if usable else None
                finally:
                    self._handed_out(fetch)
                if batches is not None:
                    collected.append(batches)
        finally:
            self._completed.extendleft(reversed(paused))
        return collected

    def _batches_of(self, fetch: CompletedFetch) -> FetchedBatches | None:
        state = self.subscriptions.state(fetch.partition)
        end_offset = end_offset_of(fetch.data)
        if not state.is_fetchable or state.position is None or not fetch.data.records:
            return None
        if end_offset is None:
            raise FetchFailed(
                f"The batches of {fetch.partition} from offset {fetch.fetch_offset} on have implausible sizes"
            )
        next_offset = max(end_offset, state.position.offset)
        state.position = FetchPosition(next_offset, -1, state.position.leader)
        fetch.record_count = stated_records(fetch.data.records)
        self._measure_position(fetch.partition, state)
        self.subscriptions.move_partition_to_end(fetch.partition)
        aborted = tuple((item.producer_id, item.first_offset) for item in fetch.data.aborted_transactions or ())
        return FetchedBatches(fetch.partition, fetch.data.records, fetch.fetch_offset, next_offset, aborted)

    def buffered_to(self, part: TopicPartition) -> int | None:
        """Return the offset after all fetched data of a partition, collected or not; None when unknown."""
        ends = [end_offset_of(fetch.data) for fetch in self._completed if fetch.partition == part]
        if ends:
            return ends[-1]
        position = self.subscriptions.position(part)
        return None if position is None else position.offset

    def _take(self, fetch: CompletedFetch, max_records: int) -> list[FetchedColumns]:
        """Return up to `max_records` records of a response as columns; none, dropping the response, when the position
        has changed or the partition must not be fetched."""
        part = fetch.partition
        state = self.subscriptions.state_or_none(part)
        if state is None or not state.is_fetchable or state.position is None:
            fetch.drain()
            return []
        if state.position.offset != fetch.next_fetch_offset:
            fetch.drain()
            return []
        try:
            runs = fetch.fetch_columns(max_records)
        finally:
            if fetch.next_fetch_offset > state.position.offset:
                self._taken_from.setdefault(part, state.position)
                state.position = FetchPosition(fetch.next_fetch_offset, fetch.last_epoch, state.position.leader)
        if fetch.is_consumed and fetch.size_bytes:
            self.subscriptions.move_partition_to_end(part)
        if runs:
            self._measure_position(part, state)
        return [FetchedColumns(part.topic, part.partition, columns) for columns in runs]

    def _initialize(self, fetch: CompletedFetch) -> bool:
        """Process a response's error and reported offsets; return whether its records may be collected. False after an
        error, a changed position or an unassigned partition. Raises non-retriable errors."""
        part, data = fetch.partition, fetch.data
        state = self.subscriptions.state_or_none(part)
        if state is None or not state.has_valid_position() or state.position is None:
            fetch.drain()
            return False
        if data.error_code:
            self._handle_error(fetch, state.position)
            return False
        if state.position.offset != fetch.fetch_offset:
            fetch.drain()
            return False
        fetch.check_progress()
        self._note_offsets(part, data)
        if data.preferred_read_replica >= 0:
            # The follower is read from now on; this response has no records.
            expires = self._now_ms + self.settings.metadata_max_age_ms
            self.subscriptions.set_preferred_read_replica(part, data.preferred_read_replica, expires)
        self._retry_ms.pop(part, None)
        fetch.is_initialized = True
        return True

    def note_time(self, now_ms: int) -> None:
        """Set the current time in ms, from which back-offs and expiries are computed."""
        self._now_ms = now_ms

    def _note_offsets(self, part: TopicPartition, data: FetchedPartition) -> None:
        state = self.subscriptions.state_or_none(part)
        if state is None:
            return
        if data.high_watermark >= 0:
            state.high_watermark = data.high_watermark
        if data.log_start_offset >= 0:
            state.log_start_offset = data.log_start_offset
        if data.last_stable_offset >= 0:
            state.last_stable_offset = data.last_stable_offset

    def _handle_error(self, fetch: CompletedFetch, position: FetchPosition) -> None:
        """Handle a partition's error code (FetchCollector.handleInitializeErrors); raise non-retriable errors."""
        part, code = fetch.partition, fetch.data.error_code
        fetch.drain()
        self.subscriptions.move_partition_to_end(part)
        if fetch.data.current_leader.leader_id < 0 and (code in _STALE_METADATA or code in _TRY_AGAIN):
            # Without a new leader in the response, an immediate retry would fail alike.
            self._retry_ms[part] = self._now_ms + self.settings.retry_backoff_ms
        if code in _STALE_METADATA:
            self.leaders.request_update()
            self.subscriptions.clear_preferred_read_replica(part)
        elif code == OFFSET_OUT_OF_RANGE:
            self._handle_out_of_range(part, fetch.fetch_offset, position)
        elif code == CORRUPT_MESSAGE:
            raise FetchFailed(
                f"Encountered corrupt message when fetching offset {fetch.fetch_offset} for topic-partition {part}"
            )
        elif code == TOPIC_AUTHORIZATION_FAILED:
            raise unauthorized_topics([part.topic])
        elif code not in _TRY_AGAIN:
            name = error_for_code(code).name
            raise FetchFailed(
                f"Unexpected error code {code} ({name}) while fetching at offset {fetch.fetch_offset} from {part}"
            )

    def _handle_out_of_range(self, part: TopicPartition, fetch_offset: int, position: FetchPosition) -> None:
        if self.subscriptions.clear_preferred_read_replica(part) is not None:
            # A follower may lag: ask the leader before the position is reset.
            self.leaders.request_update()
        elif position.offset != fetch_offset:
            return
        elif self.subscriptions.has_default_reset_policy():
            self.subscriptions.request_offset_reset(part)
        else:
            raise FetchOffsetOutOfRange([(part.topic, part.partition, fetch_offset)])


def end_offset_of(data: FetchedPartition) -> int | None:
    """Return the offset after the last whole batch of a fetched partition. None for an error, without a whole batch, or
    when a batch is smaller than its header."""
    records = data.records
    if data.error_code or records is None:
        return None
    result = None
    for position, size in whole_batches(records):
        base_offset, _, _, magic = _HEAD.unpack_from(records, position)
        # Before magic 2 the offset of an entry is its last one (a wrapper carries that of its last inner message).
        result = base_offset + 1
        if magic >= 2:
            if size < HEADER_SIZE:
                return None
            result += _INT32.unpack_from(records, position + 23)[0]
    return result


def stated_records(records: memoryview) -> int:
    """Return the number of records in whole batches, as their headers state it; an entry of magic 0 or 1 counts one,
    also a compressed one."""
    count = 0
    for position, size in whole_batches(records):
        if records[position + MAGIC_OFFSET] < 2:
            count += 1
        elif size >= HEADER_SIZE:
            count += max(0, _INT32.unpack_from(records, position + HEADER_SIZE - 4)[0])
    return count


_HEAD = struct.Struct(">qiib")
_INT32 = struct.Struct(">i")
