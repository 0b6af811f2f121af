"""Asks leaders for records and hands them out: Kafka's Fetcher (AbstractFetch and FetchCollector), without I/O.

Rules: one request in flight for each node, in a fetch session. A partition is asked for again as soon as its answer is
here, from the end of what is buffered, so the broker works while the records are read; at most two answers wait for
each partition and, over all of them, no more than half of fetch.max.bytes before a request is sent. What is buffered is
handed out only while it still starts at the position: after a seek or a reset it is stale and dropped. Errors of a
partition act when its turn to be handed out has come, as in Kafka.
"""

from __future__ import annotations

import struct
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.consumer.completed_fetch import READ_COMMITTED, CompletedFetch, FetchedColumns, FetchOptions
from kafkatools.core.consumer.errors import FetchFailed, FetchOffsetOutOfRange
from kafkatools.core.consumer.fetch_messages import (
    CurrentLeader,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from kafkatools.core.consumer.fetch_session import FetchRequestData, FetchSessionHandler
from kafkatools.core.consumer.subscription import FetchPosition, LeaderAndEpoch, SubscriptionState, TopicPartition
from kafkatools.core.errors import KafkaError, error_for_code
from kafkatools.core.net.metadata import NodeEndpoint
from kafkatools.core.records.header import whole_batches
from kafkatools.core.records.layout import HEADER_SIZE

OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
TOPIC_AUTHORIZATION_FAILED = 29
FETCH_SESSION_TOPIC_ID_ERROR = 106
# Errors that say our picture of the cluster is old: fresh metadata, then the next try.
_STALE_METADATA = frozenset({3, 6, 9, 56, 74, 78, 100, 103})
# Errors that pass on their own: UNKNOWN_LEADER_EPOCH (the broker is behind) and UNKNOWN_SERVER_ERROR.
_TRY_AGAIN = frozenset({75, -1})
_MAX_WAITING_FETCHES = 2


class FetchSettings(NamedTuple):
    """The settings of fetching; names as in the consumer's configuration."""

    min_bytes: int = CONSUMER.default_number("fetch.min.bytes")
    max_bytes: int = CONSUMER.default_number("fetch.max.bytes")
    max_wait_ms: int = CONSUMER.default_number("fetch.max.wait.ms")
    max_partition_bytes: int = CONSUMER.default_number("max.partition.fetch.bytes")
    rack_id: str = ""
    metadata_max_age_ms: int = CONSUMER.default_number("metadata.max.age.ms")
    retry_backoff_ms: int = CONSUMER.default_number("retry.backoff.ms")
    options: FetchOptions = FetchOptions()

    @classmethod
    def of(cls, config: Config, options: FetchOptions) -> FetchSettings:
        """Those of a consumer's configuration."""
        return cls(
            config.fetch_min_bytes,
            config.fetch_max_bytes,
            config.fetch_max_wait_ms,
            config.max_partition_fetch_bytes,
            config.client_rack or "",
            config.metadata_max_age_ms,
            config.retry_backoff_ms,
            options,
        )


class FetchedBatches(NamedTuple):
    """Batches of one partition as a broker sent them, in a slice of the receive buffer.

    They begin with the batch that holds `fetch_offset`; `next_offset` is the one behind their last record. `aborted`:
    (producer id, first offset) of the aborted transactions that lie in them, told to readers of what is committed only.
    """

    partition: TopicPartition
    records: memoryview
    fetch_offset: int
    next_offset: int
    aborted: tuple[tuple[int, int], ...] = ()


class Leaders(Protocol):
    """What the fetcher needs to know of the cluster."""

    def leader(self, partition: TopicPartition) -> LeaderAndEpoch | None:
        """The leader, None when nobody knows one."""

    def topic_id(self, topic: str) -> uuid.UUID:
        """The topic's id, zero when there is none."""

    def has_replica(self, partition: TopicPartition, node: int) -> bool:
        """Whether the node is part of the cluster and holds the partition, and is not known to be offline."""

    def request_update(self) -> None:
        """Asks for fresh metadata."""

    def note_epoch(self, partition: TopicPartition, epoch: int) -> None:
        """A leader epoch was seen in an answer (-1: none); a newer one than is known asks for fresh metadata."""

    def update_leadership(
        self, partition: TopicPartition, leader: CurrentLeader, endpoints: tuple[NodeEndpoint, ...]
    ) -> bool:
        """Takes over a leader a Fetch response names (KIP-951); False when it is not newer than what is known."""


class NodeFetch(NamedTuple):
    """A request that is ready to go to a node."""

    node: int
    request: FetchRequest


@dataclass(eq=False, repr=False)
class Fetcher:
    """Fetch requests out, columns in."""

    settings: FetchSettings
    subscriptions: SubscriptionState
    leaders: Leaders
    _sessions: dict[int, FetchSessionHandler] = field(default_factory=dict, init=False)
    _in_flight: set[int] = field(default_factory=set, init=False)
    _completed: deque[CompletedFetch] = field(default_factory=deque, init=False)
    _retry_ms: dict[TopicPartition, int] = field(default_factory=dict, init=False)
    _empty_from: dict[TopicPartition, int] = field(default_factory=dict, init=False)
    _now_ms: int = field(default=0, init=False)

    # --- requests

    def prepare(self, now_ms: int, can_send: Callable[[int], bool]) -> list[NodeFetch]:
        """The requests to send now; each counts as in flight until its answer or failure is handled."""
        waiting: dict[TopicPartition, list[CompletedFetch]] = {}
        for fetch in self._completed:
            waiting.setdefault(fetch.partition, []).append(fetch)
        if sum(fetch.size_bytes for fetch in self._completed) > self.settings.max_bytes // 2:
            return []
        wanted: dict[int, dict[TopicPartition, FetchPartition]] = {}
        for part in self.subscriptions.fetchable_partitions(lambda part: self._may_fetch(part, waiting, now_ms)):
            node = self._node_for(part, now_ms)
            if node is None or node in self._in_flight:
                continue
            item = self._fetch_partition(part, waiting.get(part))
            if item is not None:
                wanted.setdefault(node, {})[part] = item
        ready = [node for node in wanted if can_send(node)]
        return [self._request(node, wanted[node]) for node in ready]

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
        size = self.settings.max_partition_bytes
        return FetchPartition(part.topic, topic_id, part.partition, offset, size, position.leader.epoch)

    def _node_for(self, part: TopicPartition, now_ms: int) -> int | None:
        """The replica to read from: the one the leader prefers for us, else the leader (KIP-392)."""
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

    def _request(self, node: int, wanted: dict[TopicPartition, FetchPartition]) -> NodeFetch:
        session = self._sessions.setdefault(node, FetchSessionHandler(node))
        self._in_flight.add(node)
        return NodeFetch(node, self._fetch_request(session.build(wanted)))

    def _fetch_request(self, data: FetchRequestData) -> FetchRequest:
        settings = self.settings
        return FetchRequest(
            settings.max_wait_ms,
            settings.min_bytes,
            settings.max_bytes,
            settings.options.isolation_level,
            data.metadata.session_id,
            data.metadata.epoch,
            data.to_send,
            data.to_forget,
            settings.rack_id,
        )

    def close_requests(self) -> list[NodeFetch]:
        """Requests that end the sessions, so that brokers need not wait for them to grow old."""
        ends = [(node, session.close_request()) for node, session in self._sessions.items()]
        return [NodeFetch(node, self._fetch_request(data)) for node, data in ends if data is not None]

    # --- answers

    def handle_response(self, node: int, response: FetchResponse, version: int) -> None:
        """Takes in a node's answer."""
        self._in_flight.discard(node)
        session = self._sessions[node]
        if not session.handle_response(response, version):
            if response.error_code == FETCH_SESSION_TOPIC_ID_ERROR:
                self.leaders.request_update()
            return
        self._note_empty(session, response)
        for data in response.partitions:
            part = TopicPartition(data.topic, data.partition)
            asked = session.session_partitions.get(part)
            if asked is None:
                continue
            if data.error_code and data.current_leader.leader_id >= 0 and data.current_leader.leader_epoch >= 0:
                self.leaders.update_leadership(part, data.current_leader, response.node_endpoints)
            if data.error_code or data.records or data.preferred_read_replica >= 0:
                self._empty_from.pop(part, None)
                self._completed.append(CompletedFetch(part, data, asked.fetch_offset, self.settings.options))
            else:
                self._note_offsets(part, data)

    def _note_empty(self, session: FetchSessionHandler, response: FetchResponse) -> None:
        """An answer without any record says that nothing lies behind the offsets it was asked for. One with records
        does not say so of its empty partitions: they may only have found no room.
        """
        if any(data.records for data in response.partitions):
            return
        failed = {TopicPartition(data.topic, data.partition) for data in response.partitions if data.error_code}
        for part, asked in session.session_partitions.items():
            if part not in failed:
                self._empty_from[part] = asked.fetch_offset

    def has_nothing_before(self, part: TopicPartition, end: int) -> bool:
        """Whether a broker whose log goes on to `end` has answered that no record lies between the position and that
        end: what was there is compacted away.
        """
        state = self.subscriptions.state_or_none(part)
        if state is None or state.position is None or self._empty_from.get(part) != state.position.offset:
            return False
        is_committed_only = self.settings.options.isolation_level == READ_COMMITTED
        readable = state.last_stable_offset if is_committed_only else state.high_watermark
        return readable is not None and readable >= end

    def handle_failure(self, node: int) -> None:
        """The request ended without an answer."""
        self._in_flight.discard(node)
        self._sessions[node].handle_error()
        for part in self._sessions[node].session_partitions:
            self.subscriptions.clear_preferred_read_replica(part)

    def has_completed(self) -> bool:
        """Whether something waits to be collected that may be handed out now."""
        return any(self._is_current(fetch) for fetch in self._completed)

    def _is_current(self, fetch: CompletedFetch) -> bool:
        state = self.subscriptions.state_or_none(fetch.partition)
        return state is None or not state.paused

    # --- handing out

    def collect(self, max_records: int) -> list[FetchedColumns]:
        """Up to `max_records` buffered records; positions move past what is returned.

        An error of a partition is raised only when nothing is there to return; it comes (again) with the next call.
        """
        collected: list[FetchedColumns] = []
        paused: list[CompletedFetch] = []
        left = max_records
        try:
            while self._completed and left > 0:
                fetch = self._completed[0]
                if not self._is_current(fetch):
                    paused.append(self._completed.popleft())
                    continue
                try:
                    usable = fetch.is_initialized or self._initialize(fetch)
                    taken = self._take(fetch, left) if usable else []
                except KafkaError:
                    if collected:
                        break
                    if not fetch.is_initialized:
                        self._completed.popleft()
                    raise
                left -= sum(item.columns.count for item in taken)
                collected += taken
                if fetch.is_consumed and self._completed and self._completed[0] is fetch:
                    self._completed.popleft()
        finally:
            self._completed.extend(paused)
        return collected

    def collect_batches(self) -> list[FetchedBatches]:
        """What is buffered, as the broker sent it: nothing is decoded, no checksum looked at. Positions move past it;
        errors as in `collect`.
        """
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
                    self._completed.popleft()
                    raise
                self._completed.popleft()
                batches = self._batches_of(fetch) if usable else None
                if batches is not None:
                    collected.append(batches)
        finally:
            self._completed.extend(paused)
        return collected

    def _batches_of(self, fetch: CompletedFetch) -> FetchedBatches | None:
        state = self.subscriptions.state(fetch.partition)
        end_offset = end_offset_of(fetch.data)
        if not state.is_fetchable or state.position is None or not fetch.data.records:
            return None
        if end_offset is None:
            raise FetchFailed(
                f"The batches of {fetch.partition} from offset {fetch.fetch_offset} on have sizes that cannot be true"
            )
        next_offset = max(end_offset, state.position.offset)
        state.position = FetchPosition(next_offset, -1, state.position.leader)
        self.subscriptions.move_partition_to_end(fetch.partition)
        aborted = tuple((item.producer_id, item.first_offset) for item in fetch.data.aborted_transactions or ())
        return FetchedBatches(fetch.partition, fetch.data.records, fetch.fetch_offset, next_offset, aborted)

    def buffered_to(self, part: TopicPartition) -> int | None:
        """The offset behind all that is fetched of a partition, handed out or not; None when it cannot be told."""
        ends = [end_offset_of(fetch.data) for fetch in self._completed if fetch.partition == part]
        if ends:
            return ends[-1]
        position = self.subscriptions.position(part)
        return None if position is None else position.offset

    def _take(self, fetch: CompletedFetch, max_records: int) -> list[FetchedColumns]:
        part = fetch.partition
        state = self.subscriptions.state_or_none(part)
        if state is None or not state.is_fetchable or state.position is None:
            fetch.drain()
            return []
        if state.position.offset != fetch.next_fetch_offset:
            fetch.drain()
            return []
        try:
            taken = fetch.fetch_columns(max_records)
        finally:
            if fetch.next_fetch_offset > state.position.offset:
                state.position = FetchPosition(fetch.next_fetch_offset, fetch.last_epoch, state.position.leader)
        if fetch.is_consumed and fetch.size_bytes:
            self.subscriptions.move_partition_to_end(part)
        return [FetchedColumns(part.topic, part.partition, columns) for columns in taken]

    def _initialize(self, fetch: CompletedFetch) -> bool:
        """The first look at an answer: its error, its age, the offsets it reports. False when it has no records."""
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
            # From now on the follower is read; what came along is empty by then.
            expires = self._now_ms + self.settings.metadata_max_age_ms
            self.subscriptions.set_preferred_read_replica(part, data.preferred_read_replica, expires)
        self._retry_ms.pop(part, None)
        fetch.is_initialized = True
        return True

    def note_time(self, now_ms: int) -> None:
        """The time for what is collected next: back-offs and the expiry of preferred replicas begin at it."""
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
        """Acts on an error (FetchCollector.handleInitializeErrors); raises those that only the user can cure."""
        part, code = fetch.partition, fetch.data.error_code
        fetch.drain()
        self.subscriptions.move_partition_to_end(part)
        if fetch.data.current_leader.leader_id < 0 and (code in _STALE_METADATA or code in _TRY_AGAIN):
            # Without a new leader in the answer the next try would end the same way, and at once.
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
            raise error_for_code(code)(f"Not authorized to access topics: [{part.topic}]")
        elif code not in _TRY_AGAIN:
            name = error_for_code(code).name
            raise FetchFailed(
                f"Unexpected error code {code} ({name}) while fetching at offset {fetch.fetch_offset} from {part}"
            )

    def _handle_out_of_range(self, part: TopicPartition, fetch_offset: int, position: FetchPosition) -> None:
        if self.subscriptions.clear_preferred_read_replica(part) is not None:
            # A follower may be behind: the leader is asked before the position is given up.
            self.leaders.request_update()
        elif position.offset != fetch_offset:
            return
        elif self.subscriptions.has_default_reset_policy():
            self.subscriptions.request_offset_reset(part)
        else:
            raise FetchOffsetOutOfRange([(part.topic, part.partition, fetch_offset)])


def end_offset_of(data: FetchedPartition) -> int | None:
    """The offset after the last whole batch of a fetched partition; None when it cannot be told from the headers."""
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


_HEAD = struct.Struct(">qiib")
_INT32 = struct.Struct(">i")
