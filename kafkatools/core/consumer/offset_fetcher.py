"""Find and validate fetch positions: ListOffsets and OffsetForLeaderEpoch (Kafka's OffsetFetcher), without I/O.

Rules: builds requests for leaders and reads their responses; the caller sends them. After a failure a partition waits
retry.backoff.ms before the next request. SubscriptionState applies results and ignores outdated ones: each request
carries the strategies or positions that its response is about, since a seek may send a second one before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from kafkatools.core.consumer.network import MetadataLeaders
from kafkatools.core.consumer.subscription import (
    AutoOffsetResetStrategy,
    FetchPosition,
    LeaderAndEpoch,
    ResetKind,
    SubscriptionState,
    TopicPartition,
)
from kafkatools.core.errors import KafkaError, unauthorized_topics
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.topic_partition import topic_fields

LIST_OFFSETS = 2
OFFSET_FOR_LEADER_EPOCH = 23
_TOPIC_AUTHORIZATION_FAILED = 29
_UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
_CONSUMER = -1

_Entry = tuple[TopicPartition, dict[str, int]]


class OffsetAndTimestamp(NamedTuple):
    """An offset found by timestamp, the record's timestamp in ms and its leader epoch (-1 = unknown)."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class NodeRequest(NamedTuple):
    """A request for one node as message fields, and the partitions it asks about: with the strategies of a reset, or
    the positions of a validation."""

    node: int
    api_key: int
    fields: Mapping[str, object]
    partitions: tuple[TopicPartition, ...]
    strategies: Mapping[TopicPartition, AutoOffsetResetStrategy] = MappingProxyType({})
    positions: Mapping[TopicPartition, FetchPosition] = MappingProxyType({})


class ListedOffsets(NamedTuple):
    """A ListOffsets response: offsets (None = no such record), and the partitions to retry."""

    offsets: dict[TopicPartition, OffsetAndTimestamp | None]
    retries: list[TopicPartition]


class OffsetFetcher:
    """Builds ListOffsets and OffsetForLeaderEpoch requests and applies their responses to positions."""

    def __init__(
        self,
        subscriptions: SubscriptionState,
        leaders: MetadataLeaders,
        isolation_level: int,
        retry_backoff_ms: int,
        request_timeout_ms: int,
    ) -> None:
        self.subscriptions = subscriptions
        self.leaders = leaders
        self.isolation_level = isolation_level
        self.retry_backoff_ms = retry_backoff_ms
        self.request_timeout_ms = request_timeout_ms

    # --- ListOffsets

    def list_requests(self, timestamps: Mapping[TopicPartition, int]) -> tuple[list[NodeRequest], list[TopicPartition]]:
        """Return ListOffsets requests by leader, and the partitions without one, for which metadata is refreshed."""
        by_node: dict[int, list[_Entry]] = {}
        leaderless: list[TopicPartition] = []
        for part, timestamp in timestamps.items():
            leader = self.leaders.leader(part)
            if leader is None or leader.leader < 0:
                leaderless.append(part)
                continue
            entry = {"partition_index": part.partition, "current_leader_epoch": leader.epoch, "timestamp": timestamp}
            by_node.setdefault(leader.leader, []).append((part, entry))
        if leaderless:
            self.leaders.request_update(reset_backoff=True)  # the callers keep retry.backoff.ms
        common = {"isolation_level": self.isolation_level, "timeout": self.request_timeout_ms}
        return [_node_request(node, LIST_OFFSETS, entries, common) for node, entries in by_node.items()], leaderless

    def read_listing(self, entity: Entity) -> ListedOffsets:
        """Read a ListOffsets response. Raises TopicAuthorizationFailed. UNSUPPORTED_FOR_MESSAGE_FORMAT means no offset;
        other errors mark partitions to retry and request fresh metadata."""
        result = ListedOffsets({}, [])
        unauthorized: list[str] = []
        for topic in entity.topics:
            for data in topic.partitions:
                part, code = TopicPartition(topic.name, data.partition_index), int(data.error_code)
                if code == 0:
                    epoch = int(getattr(data, "leader_epoch", -1))
                    exists = data.offset >= 0
                    result.offsets[part] = OffsetAndTimestamp(data.offset, data.timestamp, epoch) if exists else None
                elif code == _TOPIC_AUTHORIZATION_FAILED:
                    unauthorized.append(topic.name)
                elif code == _UNSUPPORTED_FOR_MESSAGE_FORMAT:
                    result.offsets[part] = None
                else:
                    result.retries.append(part)
        if unauthorized:
            raise unauthorized_topics(unauthorized[:1])
        if result.retries:
            self.leaders.request_update()
        return result

    # --- reset

    def reset_requests(self, now_ms: int, wall_ms: int) -> list[NodeRequest]:
        """Return ListOffsets requests for the partitions whose offset reset is due, and delay their next request.
        Partitions without a leader wait for retry.backoff.ms."""
        strategies = self.subscriptions.partitions_needing_reset(now_ms)
        if not strategies:
            return []
        timestamps = {part: strategy.timestamp(wall_ms) for part, strategy in strategies.items()}
        requests, leaderless = self.list_requests(timestamps)
        requested = [part for request in requests for part in request.partitions]
        self.subscriptions.set_next_retry(requested, now_ms + self.request_timeout_ms)
        self.subscriptions.set_next_retry(leaderless, now_ms + self.retry_backoff_ms)
        return [request._replace(strategies=strategies) for request in requests]

    def handle_reset_response(self, request: NodeRequest, entity: Entity, now_ms: int) -> None:
        """Set the reset positions from a ListOffsets response; partitions with errors retry after the back-off. Where
        no record is at or after the reset's timestamp, the partition is reset to latest instead. Raises
        TopicAuthorizationFailed."""
        result = self.read_listing(entity)
        missing = set(request.partitions) - result.offsets.keys()
        self.subscriptions.set_next_retry(missing, now_ms + self.retry_backoff_ms)
        for part, offset in result.offsets.items():
            strategy = request.strategies.get(part)
            if strategy is None:
                continue
            if offset is None:
                # No record is that recent, but the next one will be.
                self.subscriptions.maybe_replace_reset(part, strategy, AutoOffsetResetStrategy(ResetKind.LATEST))
                continue
            self.leaders.note_epoch(part, offset.leader_epoch)
            leader = self.leaders.leader(part) or LeaderAndEpoch()
            self.subscriptions.maybe_seek_unvalidated(part, FetchPosition(offset.offset, -1, leader), strategy)

    def handle_failure(self, request: NodeRequest, now_ms: int) -> None:
        """Schedule a retry after a request without a response, and request fresh metadata."""
        self.subscriptions.set_next_retry(request.partitions, now_ms + self.retry_backoff_ms)
        self.leaders.request_update()

    # --- validation

    def note_leaders(self) -> None:
        """Store changed leaders from cached metadata in the positions. A position whose epochs are known then awaits
        validation."""
        for part in self.subscriptions.assigned_partitions():
            leader = self.leaders.leader(part)
            if leader is None or leader.leader < 0:
                continue
            position = self.subscriptions.position(part)
            if position is not None and position.leader != leader:
                self.subscriptions.clear_preferred_read_replica(part)  # the new leader may prefer another one
            self.subscriptions.maybe_validate_position_for_current_leader(part, leader)

    def validation_requests(self, now_ms: int) -> list[NodeRequest]:
        """Return OffsetForLeaderEpoch requests for the positions whose validation is due, and delay their next
        request."""
        by_node: dict[int, list[_Entry]] = {}
        positions: dict[TopicPartition, FetchPosition] = {}
        for part in self.subscriptions.partitions_needing_validation(now_ms):
            position = self.subscriptions.position(part)
            if position is None or position.leader.leader < 0:
                self.leaders.request_update()
                continue
            epochs = {"current_leader_epoch": position.leader.epoch, "leader_epoch": position.offset_epoch}
            entry = {"partition": part.partition, **epochs}
            by_node.setdefault(position.leader.leader, []).append((part, entry))
            positions[part] = position
        requests = [_node_request(node, OFFSET_FOR_LEADER_EPOCH, entries) for node, entries in by_node.items()]
        for request in requests:
            self.subscriptions.set_next_retry(request.partitions, now_ms + self.request_timeout_ms)
        return [request._replace(positions=positions) for request in requests]

    def handle_validation_response(self, request: NodeRequest, entity: Entity, now_ms: int) -> None:
        """Validate positions against the epoch end offsets of an OffsetForLeaderEpoch response. All partitions are
        processed before the first error is raised: LogTruncation without a reset policy, or TopicAuthorizationFailed.
        Partitions with errors retry after the back-off."""
        missing = set(request.partitions)
        failure: KafkaError | None = None
        for topic in entity.topics:
            for data in topic.partitions:
                part = TopicPartition(topic.topic, data.partition)
                if int(data.error_code) == 0:
                    missing.discard(part)
                try:
                    self._complete_validation(part, request.positions.get(part), data)
                except KafkaError as error:
                    failure = failure or error
        if missing:
            self.subscriptions.set_next_retry(missing, now_ms + self.retry_backoff_ms)
            self.leaders.request_update()
        if failure is not None:
            raise failure

    def _complete_validation(self, part: TopicPartition, position: FetchPosition | None, data: Entity) -> None:
        code = int(data.error_code)
        if code == _TOPIC_AUTHORIZATION_FAILED:
            raise unauthorized_topics([part.topic])
        if code == 0 and position is not None:
            self.subscriptions.maybe_complete_validation(part, position, data.leader_epoch, data.end_offset)

    def skip_validation(self, request: NodeRequest) -> None:
        """Accept positions without validation, because the broker does not support OffsetForLeaderEpoch."""
        for part in request.partitions:
            self.subscriptions.complete_validation(part)


def _node_request(
    node: int, api_key: int, entries: Sequence[_Entry], common: Mapping[str, object] | None = None
) -> NodeRequest:
    fields = {"replica_id": _CONSUMER, **(common or {}), "topics": topic_fields(entries)}
    return NodeRequest(node, api_key, fields, tuple(part for part, _ in entries))
