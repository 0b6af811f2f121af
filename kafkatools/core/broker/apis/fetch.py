"""Handler for Fetch: records for consumers and followers, sent from the segment files to the socket with sendfile.

It supports fetch sessions (KIP-227), topic ids (KIP-516), both isolation levels, leader epochs and truncation. A client
of another broker's partition gets the leader's address (KIP-951), and a consumer a replica in its rack (KIP-392).
Versions from 13 on are decoded by hand, all responses are encoded by hand. `replicas/follower_sessions.py` serves
followers.

A fetch of many partitions, in its request or its session, is handled in slices in the slow lane. While it waits for
records it leaves the lane, and enters it again when it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from struct import Struct, pack
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.apis.contexts import ReadContext, ReplicaContext
from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME, READ, TOPIC
from kafkatools.core.broker.replicas.delayed_fetch import DelayedFetch
from kafkatools.core.broker.replicas.fetch_messages import FetchRequest, parse_request
from kafkatools.core.broker.replicas.fetch_partition import (
    INLINE_BYTES,
    CopiedRecords,
    FetchedPartition,
    FetchPartition,
    Reader,
)
from kafkatools.core.broker.replicas.fetch_reads import FetchReads
from kafkatools.core.broker.replicas.fetch_session import FetchContext
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.requests import CloseConnection, FileRegion, Part, Request, Response
from kafkatools.core.broker.server.response_framing import endpoint_tags
from kafkatools.core.errors import DecodeError, NotLeaderOrFollower, TopicAuthorizationFailed
from kafkatools.core.net.metadata import NodeEndpoint
from kafkatools.core.protocol.api_versions import ApiKey, is_flexible
from kafkatools.core.protocol.slices import paced
from kafkatools.core.protocol.varints import compact_string, plain_string, unsigned_varint

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity

WITH_SESSIONS, FIRST_FROM_FOLLOWERS, BY_ID, FIRST_WITH_LEADERS = 7, 11, 13, 16
BYTES_PER_PARTITION = 50
_HEAD = Struct(">ihqq")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_SIZE_AND_CORRELATION = Struct(">ii")


def handle_fetch(node: ReadContext, request: Request) -> Response:
    """Answer Fetch: at once when there are `min_bytes` of records, an error or no partitions; else when records arrive
    or the request's maximum wait is over.

    In a cluster of several, followers with CLUSTER_ACTION are served by their own sessions, from version 13 on. Any
    other request of a follower gets NOT_LEADER_OR_FOLLOWER or TOPIC_AUTHORIZATION_FAILED. Raises CloseConnection for a
    malformed request.
    """
    version = request.version
    data = _parse(node, request)
    if data.replica_id >= 0 and node.replicas.replication is not None and version >= BY_ID:
        if not node.authorize(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME):
            return respond(
                request, FetchContext(data.partitions), _refused(data.partitions, TopicAuthorizationFailed.code)
            )
        request.connection.is_peer = True
        request.quotas = None  # as in Kafka, a quota of clients does not slow down replication
        return node.replicas.replication.sessions.fetch(request, data)
    now_ms = node.clock.now_ms()
    if version < WITH_SESSIONS:
        context = FetchContext(data.partitions)
    else:
        session = data.session_id, data.session_epoch
        uses_ids = version >= BY_ID
        context = node.fetch_sessions.context(
            *session, data.partitions, data.forgotten, now_ms, uses_topic_ids=uses_ids
        )
    if context.error_code:
        return respond(request, context, [])
    if data.replica_id >= 0:
        is_allowed = node.authorize(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
        error = NotLeaderOrFollower if is_allowed else TopicAuthorizationFailed
        return respond(request, context, _refused(context.partitions, error.code))
    return _fetch(node, request, data, context, now_ms)


def _fetch(node: ReadContext, request: Request, data: FetchRequest, context: FetchContext, now_ms: int) -> Response:
    """Read records for a consumer. Returns the response, or DELAYED until `min_bytes` are there or the maximum wait is
    over. It is not delayed without partitions, with a wait of 0, or with a result that must be sent at once, such as an
    error."""
    reader = Reader(data.isolation_level, data.rack_id, is_leader_only=request.version < FIRST_FROM_FOLLOWERS)
    may_read = None if node.authorizer is None else partial(node.authorize, request, READ, TOPIC)
    max_bytes = min(data.max_bytes, node.fetch_max_bytes)
    if request.quotas is not None:
        max_bytes = int(min(max_bytes, request.quotas.most_fetch_bytes(request)))
    min_bytes = min(data.min_bytes, max_bytes)
    reads = FetchReads(node.replicas, context.partitions, max_bytes, reader, may_read)
    size_bytes = reads.read()
    if data.max_wait_ms <= 0 or not context.partitions or size_bytes >= min_bytes or reads.has_verdict:
        return _read_response(node, request, context, reads)

    def read_changed(changed: Sequence[int]) -> Response:
        reads.read_again(changed)
        return _read_response(node, request, context, reads)

    response = Deferred(request)

    def complete(changed: Sequence[int]) -> None:
        response.complete_with(partial(read_changed, changed))

    operation = DelayedFetch(data.max_wait_ms, node.replicas, reads, min_bytes, complete)
    node.fetch_purgatory.begin_timeout(operation, now_ms)
    operation.watch(node.fetch_purgatory)
    return response.result()


def _read_response(node: ReadContext, request: Request, context: FetchContext, reads: FetchReads) -> list[Part]:
    """Encode a Fetch response, with the addresses of leaders that are other brokers. If a log region changed, or this
    broker may no longer serve the partition, while the request was paused, the partition is read again as a copy."""
    numbers = _choose(request, context, reads.results)
    while True:
        results = reads.results
        leaders = {result.current_leader[0] for result in paced(results) if result.current_leader is not None}
        endpoints = node_endpoints(node, request, leaders) if leaders and request.version >= FIRST_WITH_LEADERS else []
        response = _frame(request, context, [(context.partitions[n], results[n]) for n in paced(numbers)], endpoints)
        stale = reads.stale()
        if not stale:
            return response
        reads.read_again(stale, copies=True)
        for number in stale:
            context.note_sent(number, reads.results[number])


def node_endpoints(node: ReplicaContext, request: Request, broker_ids: Iterable[int]) -> list[NodeEndpoint]:
    """The addresses of brokers on the client's listener (NodeEndpoints), without fenced and unknown brokers."""
    endpoints = (
        (broker_id, node.replicas.endpoint(broker_id, request.listener_name)) for broker_id in sorted(broker_ids)
    )
    return [NodeEndpoint(broker_id, *endpoint) for broker_id, endpoint in endpoints if endpoint is not None]


def _parse(node: ReadContext, request: Request) -> FetchRequest:
    if request.version >= BY_ID:
        try:
            data = parse_request(request.frame, request.body_offset, request.version)
        except DecodeError as error:
            raise CloseConnection(str(error)) from error
        topic_name = node.replicas.topic_name
        for partition in paced(data.partitions):
            partition.topic = topic_name(partition.topic_id)
        return data
    return _from_entity(request.decode(), request.version)


def _refused(partitions: Sequence[FetchPartition], error_code: int) -> list[FetchedPartition]:
    """The same error for every partition of a request."""
    return [FetchedPartition(error_code=error_code) for _ in paced(partitions)]


def _from_entity(entity: Entity, version: int) -> FetchRequest:
    """Convert a decoded Fetch request of version 12 or earlier, which names topics."""
    partitions = [
        FetchPartition(
            topic.topic,
            None,
            partition.partition,
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch if version >= 9 else -1,
            partition.last_fetched_epoch if version >= 12 else -1,
        )
        for topic in paced(entity.topics)
        for partition in paced(topic.partitions)
    ]
    with_session = version >= WITH_SESSIONS
    return FetchRequest(
        entity.max_wait,
        entity.min_bytes,
        entity.max_bytes,
        entity.isolation_level,
        entity.session_id if with_session else 0,
        entity.session_epoch if with_session else -1,
        partitions,
        [(topic.topic, index) for topic in paced(entity.forgotten_topics_data) for index in paced(topic.partitions)]
        if with_session
        else [],
        entity.rack_id if version >= FIRST_FROM_FOLLOWERS else "",
        entity.replica_id,
        -1,
    )


def respond(request: Request, context: FetchContext, results: Sequence[FetchedPartition]) -> list[Part]:
    """Encode a Fetch response from results that have no records."""
    numbers = _choose(request, context, results)
    return _frame(request, context, [(context.partitions[number], results[number]) for number in paced(numbers)])


def _choose(request: Request, context: FetchContext, results: Sequence[FetchedPartition]) -> Sequence[int]:
    """The positions of the partitions to include in the response; none for a client above its fetch quota. With client
    quotas the response's bytes are counted."""
    if request.quotas is not None:
        size_bytes = sum(result.size_bytes for result in paced(results)) + BYTES_PER_PARTITION * len(results)
        if not request.quotas.note_fetch(request, size_bytes):
            return ()
    return context.select(results)


def _frame(
    request: Request,
    context: FetchContext,
    partition_results: Sequence[tuple[FetchPartition, FetchedPartition]],
    endpoints: Sequence[NodeEndpoint] = (),
) -> list[Part]:
    """Encode a Fetch response as parts: bytes, and file regions between them."""
    writer = _Writer(request.version)
    writer.begin(context, request.throttle_ms)
    groups: list[tuple[Any, list[tuple[FetchPartition, FetchedPartition]]]] = []
    for requested, result in paced(partition_results):
        name = requested.topic_id if request.version >= 13 else requested.topic
        if not groups or groups[-1][0] != name:
            groups.append((name, []))
        groups[-1][1].append((requested, result))
    writer.count(len(groups))
    for name, partitions in paced(groups):
        writer.topic(name)
        writer.count(len(partitions))
        for requested, result in paced(partitions):
            writer.partition(requested.index, result)
        writer.tags()
    return writer.finish(request, endpoints)


class _Writer:
    """Encodes a Fetch response of one version by hand; `parts` alternates bytes and file regions."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._is_flexible = is_flexible(ApiKey.FETCH, version)
        self._out = bytearray()
        self._parts: list[Part] = []
        self._file_bytes = 0

    def begin(self, context: FetchContext, throttle_ms: int) -> None:
        self._out += pack(">i", throttle_ms)
        if self._version >= 7:
            self._out += pack(">hi", context.error_code, context.session_id)

    def count(self, number: int) -> None:
        self._out += unsigned_varint(number + 1) if self._is_flexible else pack(">i", number)

    def tags(self) -> None:
        if self._is_flexible:
            self._out += b"\0"

    def topic(self, name: Any) -> None:
        if self._version >= 13:
            self._out += name.bytes
        else:
            self._out += compact_string(name) if self._is_flexible else plain_string(name)

    def partition(self, index: int, result: FetchedPartition) -> None:
        out = self._out
        out += _HEAD.pack(index, result.error_code, result.high_watermark, result.last_stable_offset)
        if self._version >= 5:
            out += _INT64.pack(result.log_start_offset)
        self._aborted(result)
        if self._version >= 11:
            out += _INT32.pack(result.preferred_read_replica)
        self._records(result)
        if self._is_flexible:
            self._tags(result)

    def _aborted(self, result: FetchedPartition) -> None:
        if result.aborted is None:
            self._out += b"\0" if self._is_flexible else b"\xff\xff\xff\xff"
            return
        self.count(len(result.aborted))
        for producer_id, first_offset in result.aborted:
            self._out += pack(">qq", producer_id, first_offset)
            self.tags()

    def _records(self, result: FetchedPartition) -> None:
        records = result.records
        size = 0 if records is None else records.size_bytes
        self._out += unsigned_varint(size + 1) if self._is_flexible else pack(">i", size)
        if records is None:
            return
        if size <= INLINE_BYTES or isinstance(records, CopiedRecords):
            self._out += records.read()
            return
        self._parts += [self._out, FileRegion(records.file, records.position, size)]
        self._file_bytes += size
        self._out = bytearray()

    def _tags(self, result: FetchedPartition) -> None:
        end, leader = result.diverging, result.current_leader
        tags = []
        if end is not None:
            tags.append(b"\0\x0d" + pack(">iq", end.leader_epoch, end.end_offset) + b"\0")
        if leader is not None and self._version >= FIRST_WITH_LEADERS:
            tags.append(b"\1\x09" + pack(">ii", *leader) + b"\0")
        self._out += bytes((len(tags),)) + b"".join(tags)

    def finish(self, request: Request, endpoints: Sequence[NodeEndpoint]) -> list[Part]:
        """Append the tagged fields, prepend the size prefix and the response header, and return the parts of the
        response."""
        if self._is_flexible:
            self._out += endpoint_tags(endpoints)
        parts = self._parts
        total = self._file_bytes + len(self._out) + sum(len(part) for part in parts if isinstance(part, bytearray))
        header = b"\0" if self._is_flexible else b""
        first = _SIZE_AND_CORRELATION.pack(total + 4 + len(header), request.correlation_id) + header
        if not parts:
            return [first + self._out]
        parts[0] = first + bytes(parts[0]) if isinstance(parts[0], bytearray) else parts[0]
        if self._out:
            parts.append(self._out)
        return parts
