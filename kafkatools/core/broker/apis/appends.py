"""Decode Produce requests, append their record batches, and encode Produce responses.

This is the hot path: a batch is a view of the receive buffer, stamped in place and appended from there. Its records are
decoded only if a topic setting needs that, such as compression.type. A partition takes exactly one batch of magic 2
(ProduceRequest.validateRecords). With acks=0 any error closes the connection. From version 10 on NOT_LEADER_OR_FOLLOWER
names the leader and its address (KIP-951).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple

from kafkatools.core.broker.apis.contexts import ProduceContext
from kafkatools.core.broker.apis.repeated_produce import repeat_of
from kafkatools.core.broker.metadata.controller.acls import TOPIC, WRITE
from kafkatools.core.broker.metadata.image import INTERNAL_TOPICS
from kafkatools.core.broker.replicas.delayed_produce import DelayedProduce, ProduceStatus
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.replicas.replica_manager import error_code_of
from kafkatools.core.broker.server.requests import DELAYED, NO_RESPONSE, CloseConnection, Request, Response
from kafkatools.core.broker.server.response_framing import endpoint_tags
from kafkatools.core.errors import (
    DecodeError,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnsupportedCompressionType,
)
from kafkatools.core.net.metadata import NodeEndpoint
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.messages import decode, request_type
from kafkatools.core.protocol.slices import TooManyElements
from kafkatools.core.protocol.uuids import UUID_ZERO
from kafkatools.core.protocol.varints import compact_string, plain_string, unsigned_varint
from kafkatools.core.records.layout import HEADER_SIZE, HEADER_SIZE_UP_TO_MAGIC, MAGIC_OFFSET

ALL = -1
NONE = 0
FIRST_FLEXIBLE_VERSION = ApiKey.PRODUCE.first_flexible_version
FIRST_WITH_LEADERS = 10
FIRST_WITH_TOPIC_IDS = 13
# A partition costs a few microseconds even when it is refused; real requests have fewer batches.
MOST_PARTITIONS = 20_000
ADMIN_CLIENT = "__admin_client"
ZSTD = 4
ATTRIBUTES_LOW_BYTE = 22
_INT32 = Struct(">i")
_TWO_INT32 = Struct(">ii")
_PARTITION_RESPONSE = Struct(">ihqqq")


class TopicData(NamedTuple):
    """One topic of a Produce request: its name, or its id from version 13 on; and (partition, record batch) pairs."""

    name: str | None
    topic_id: uuid.UUID | None
    partitions: Sequence[tuple[int, memoryview | None]]

    def wire_name(self, version: int) -> bytes:
        """Encode the topic's id, or else its name, as Produce requests and responses of a version contain it."""
        if self.topic_id is not None:
            return self.topic_id.bytes
        return (compact_string if version >= FIRST_FLEXIBLE_VERSION else plain_string)(self.name)


class ProduceData(NamedTuple):
    """A decoded Produce request; `timeout_ms` limits the wait for followers and, with log.durability=fsync, for the
    disk."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicData]


class PartitionResult(NamedTuple):
    """The result of an append to one partition, as a Produce response contains it. `record_errors` are (index in the
    batch, message) pairs; `current_leader` is (leader id, leader epoch)."""

    partition: int
    error_code: int = NONE
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    message: str | None = None
    record_errors: tuple[tuple[int, str | None], ...] = ()
    current_leader: tuple[int, int] | None = None


NOTHING_REFUSED: Mapping[tuple[str, int], PartitionResult] = MappingProxyType({})


def has_transactional_records(topics: list[TopicData]) -> bool:
    """Return whether any batch of a Produce request belongs to a transaction; reads one attribute byte per batch."""
    for topic in topics:
        for _, records in topic.partitions:
            if records is not None and len(records) > ATTRIBUTES_LOW_BYTE and records[ATTRIBUTES_LOW_BYTE] & 0x10:
                return True
    return False


def append_all(
    node: ProduceContext,
    request: Request,
    data: ProduceData,
    refused: Mapping[tuple[str, int], PartitionResult] = NOTHING_REFUSED,
) -> Response:
    """Append the batches of a Produce request, except those of partitions that have a result in `refused`, by (topic,
    index).

    Returns the response, NO_RESPONSE with acks=0, or DELAYED while batches wait for followers or for the disk. The
    error of a partition is in its result. Raises CloseConnection when an append with acks=0 failed.
    """
    statuses: list[ProduceStatus] = []
    results = [
        (topic, [_append(node, request, data, topic, item, statuses, refused) for item in topic.partitions])
        for topic in data.topics
    ]
    if data.acks == 0:
        if any(result.error_code for _, partitions in results for result in partitions):
            raise CloseConnection("a produce request with acks=0 failed")
        return NO_RESPONSE
    if request.is_flexible:
        _remember(node, request, data, results)
    if statuses and not all(status.partition.is_replicated_to(status.required_offset) for status in statuses):
        return _delay(node, request, data, results, statuses)
    return [_encoded(node, request, results)]


def _encoded(node: ProduceContext, request: Request, results: list[tuple[TopicData, list[PartitionResult]]]) -> bytes:
    """Encode a Produce response; from version 10 on with the addresses of leaders that are other brokers."""
    leaders = {
        result.current_leader[0]
        for _, partitions in results
        for result in partitions
        if result.current_leader is not None
    }
    if not leaders or request.version < FIRST_WITH_LEADERS:
        return encode_response(request, results)
    from kafkatools.core.broker.apis.fetch import node_endpoints

    return encode_response(request, results, node_endpoints(node, request, leaders))


def _failed_later(
    node: ProduceContext, topic: TopicData, result: PartitionResult, failed: Mapping[tuple[uuid.UUID, int], int]
) -> PartitionResult:
    """Put the error of a partition's wait for replication into its result, such as a time-out. Returns the result
    unchanged without an error, or if the topic no longer exists."""
    topic_id = topic.topic_id
    if topic_id is None:
        image = node.image.topics.get(topic.name or "")
        topic_id = None if image is None else image.topic_id
    code = NONE if topic_id is None else failed.get((topic_id, result.partition), NONE)
    if not code:
        return result
    return _with_leader(node, topic, result._replace(error_code=code))


def _with_leader(node: ProduceContext, topic: TopicData, result: PartitionResult) -> PartitionResult:
    """Add the leader's id and epoch to a result with NOT_LEADER_OR_FOLLOWER (KIP-951). Returns any other result, and on
    a node alone every result, unchanged."""
    if result.error_code != NotLeaderOrFollower.code or node.replicas.replication is None:
        return result
    return result._replace(current_leader=node.replicas.current_leader(topic.name, topic.topic_id, result.partition))


def _remember(
    node: ProduceContext, request: Request, data: ProduceData, results: list[tuple[TopicData, list[PartitionResult]]]
) -> None:
    """Set the connection's shortcut (`RepeatedProduce`) when two successful requests in a row write to the same
    partition and to no other.

    A request with several partitions, a transactional id or an error changes nothing, and no request does on a broker
    with an authorizer. Internal topics and partitions that wait for the disk get no shortcut.
    """
    if len(data.topics) != 1 or len(data.topics[0].partitions) != 1 or data.transactional_id is not None:
        return
    topic = data.topics[0]
    index, records = topic.partitions[0]
    if results[0][1][0].error_code or node.authorizer is not None or records is None:
        return
    partition = find_partition(node, request, topic, index)
    connection = request.connection
    if connection.last_written is partition and not partition.waits_for_disk and partition.topic not in INTERNAL_TOPICS:
        timeout_ms = data.timeout_ms if data.acks == ALL else None
        name = topic.wire_name(request.version)
        connection.use_shortcut(repeat_of(node, request, partition, name, len(records), timeout_ms))
    connection.last_written = partition


def _delay(
    node: ProduceContext,
    request: Request,
    data: ProduceData,
    results: list[tuple[TopicData, list[PartitionResult]]],
    statuses: list[ProduceStatus],
) -> Response:
    """Keep a Produce request in the purgatory until its batches are replicated or its time-out is over; returns
    DELAYED."""

    def complete(_: object) -> None:
        failed = {s.partition.key: s.error_code for s in statuses if s.error_code}
        answered = [
            (topic, [_failed_later(node, topic, result, failed) for result in items] if failed else items)
            for topic, items in results
        ]
        request.complete([_encoded(node, request, answered)])

    keys = [status.partition.key for status in statuses]
    node.produce_purgatory.try_complete_else_watch(
        DelayedProduce(data.timeout_ms, statuses, complete), keys, node.clock.now_ms()
    )
    return DELAYED


def _append(
    node: ProduceContext,
    request: Request,
    data: ProduceData,
    topic: TopicData,
    item: tuple[int, memoryview | None],
    statuses: list[ProduceStatus],
    refused: Mapping[tuple[str, int], PartitionResult],
) -> PartitionResult:
    index, records = item
    try:
        if not -1 <= data.acks <= 1:
            raise InvalidRequiredAcks()
        partition = find_partition(node, request, topic, index)
        validate_records(request.version, records)
        assert records is not None
        if refused and (partition.topic, index) in refused:
            return refused[partition.topic, index]
        info = partition.append(records, node.clock.wall_ms(), required_acks=data.acks)
    except Exception as error:  # noqa: BLE001 - boundary: one partition's failure is its own answer, whatever it is
        node.note_failure(error)
        return _with_leader(node, topic, failed_result(index, error))
    node.replicas.note_append(partition)
    if data.acks == ALL or partition.waits_for_disk:
        statuses.append(ProduceStatus(partition, info.last_offset + 1))
    return PartitionResult(index, NONE, info.first_offset, info.log_append_time, info.log_start_offset)


def failed_result(index: int, error: Exception) -> PartitionResult:
    """The result of a failed append; only errors of single records have a message (Kafka's hasCustomErrorMessage)."""
    record_errors = tuple(getattr(error, "record_errors", ()))
    message = str(error) if record_errors else None
    return PartitionResult(index, error_code_of(error), message=message, record_errors=record_errors)


def find_partition(node: ProduceContext, request: Request, topic: TopicData, index: int) -> Partition:
    """Find the partition to write to, and check the client's WRITE right.

    Raises UnknownTopicId, TopicAuthorizationFailed, UnknownTopicOrPartition, KafkaStorageError (offline log directory)
    and NotLeaderOrFollower. Raises InvalidTopic for an internal topic, unless the client id is `__admin_client`.
    """
    partitions = node.replicas.partitions.get(topic.name) if topic.name is not None else None
    if topic.topic_id is not None:
        partitions = node.replicas.partitions_by_id.get(topic.topic_id)
        if partitions is None:
            raise UnknownTopicId()
    if node.authorizer is not None:
        name = topic.name if topic.topic_id is None else node.replicas.topic_name(topic.topic_id)
        node.authorize_or_raise(request, WRITE, TOPIC, name or "")
    partition = partitions.get(index) if partitions is not None else None
    if partition is None:
        raise node.replicas.absence(topic.name or node.replicas.topic_name(topic.topic_id) or "", index)
    if not partition.is_leader:
        raise NotLeaderOrFollower()
    if partition.topic in INTERNAL_TOPICS and request.client_id != ADMIN_CLIENT:
        raise InvalidTopic(f"Cannot append to internal topic {partition.topic}")
    return partition


def validate_records(version: int, records: memoryview | None) -> None:
    """Check that the records of a partition begin with a batch of magic 2 and have nothing behind it. Its length,
    checksum and records are not checked here.

    Raises InvalidRecord, also for None, and UnsupportedCompressionType for zstd before version 7.
    """
    if records is None or len(records) < HEADER_SIZE_UP_TO_MAGIC:
        raise InvalidRecord(_refusal(version, "must have at least one record batch per partition"))
    if records[MAGIC_OFFSET] != 2:
        raise InvalidRecord(_refusal(version, "are only allowed to contain record batches with magic version 2"))
    if len(records) < HEADER_SIZE:
        raise InvalidRecord(_refusal(version, "must have at least one record batch per partition"))
    if version < 7 and records[ATTRIBUTES_LOW_BYTE] & 7 == ZSTD:
        raise UnsupportedCompressionType(_refusal(version, "are not allowed to use ZStandard compression"))
    if _INT32.unpack_from(records, 8)[0] + 12 < len(records):
        raise InvalidRecord(_refusal(version, "are only allowed to contain exactly one record batch per partition"))


def _refusal(version: int, rule: str) -> str:
    return f"Produce requests with version {version} {rule}"


def parse(frame: memoryview, position: int, version: int) -> ProduceData:
    """Decode a Produce request; its batches are views of `frame`. Raises DecodeError, also for more than
    MOST_PARTITIONS topics and partitions."""
    try:
        entity, _ = decode(request_type(ApiKey.PRODUCE, version), frame, position, MOST_PARTITIONS)
    except TooManyElements:
        raise DecodeError(f"more than {MOST_PARTITIONS} topics and partitions") from None
    if version >= FIRST_WITH_TOPIC_IDS:
        topics = [TopicData(None, topic.topic_id or UUID_ZERO, topic.partition_data) for topic in entity.topic_data]
    else:
        topics = [TopicData(topic.name, None, topic.partition_data) for topic in entity.topic_data]
    return ProduceData(entity.transactional_id, entity.acks, entity.timeout, topics)


def encode_response(
    request: Request, results: list[tuple[TopicData, list[PartitionResult]]], endpoints: Sequence[NodeEndpoint] = ()
) -> bytes:
    """Encode the frame of a Produce response by hand, in half the codec's time for one partition (2.3 us). With client
    quotas the request's processing time is counted first."""
    version = request.version
    if request.quotas is not None:
        request.quotas.note_request(request)
    if version >= FIRST_FLEXIBLE_VERSION:
        out = bytearray(unsigned_varint(len(results) + 1))
        for topic, partitions in results:
            out += topic.wire_name(version) + unsigned_varint(len(partitions) + 1)
            for result in partitions:
                _write_flexible(out, result, with_leader=version >= FIRST_WITH_LEADERS)
            out += b"\0"
        out += _INT32.pack(request.throttle_ms) + endpoint_tags(endpoints)
    else:
        out = bytearray(_INT32.pack(len(results)))
        for topic, partitions in results:
            out += topic.wire_name(version) + _INT32.pack(len(partitions))
            for result in partitions:
                _write_plain(out, result, version)
        out += _INT32.pack(request.throttle_ms)
    return request.frame_response(out)


def _write_flexible(out: bytearray, result: PartitionResult, *, with_leader: bool) -> None:
    out += _PARTITION_RESPONSE.pack(*result[:5])
    leader = result.current_leader if with_leader else None
    tags = b"\0" if leader is None else b"\1\0\x09" + _TWO_INT32.pack(*leader) + b"\0"
    if result.message is None and not result.record_errors:
        out += b"\1\0" + tags
        return
    out += unsigned_varint(len(result.record_errors) + 1)
    for index, message in result.record_errors:
        out += _INT32.pack(index) + compact_string(message) + b"\0"
    out += compact_string(result.message) + tags


def _write_plain(out: bytearray, result: PartitionResult, version: int) -> None:
    encoded = _PARTITION_RESPONSE.pack(*result[:5])
    out += encoded if version >= 5 else encoded[:-8]
    if version < 8:
        return
    out += _INT32.pack(len(result.record_errors))
    for index, message in result.record_errors:
        out += _INT32.pack(index) + plain_string(message)
    out += plain_string(result.message)
