"""Fetch (key 1), versions 4-18.

Records go from the segment's file to the socket with sendfile; the response around them is framed by hand. Sessions
(KIP-227), topic ids (KIP-516), min and max bytes, max wait in the purgatory, both isolation levels, current leader
epoch and diverging epoch.
Not done: fetches of followers are refused (one node has none), preferred read replicas, current leader and
node endpoints of KIP-951.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from struct import Struct, pack
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.acls import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME, READ, TOPIC
from kafkatools.core.broker.delayed_fetch import DelayedFetch
from kafkatools.core.broker.fetch_session import FetchContext, SessionKey
from kafkatools.core.broker.replica_manager import FetchedPartition, FetchPartition
from kafkatools.core.broker.requests import DELAYED, FileRegion, Part, Request, Response
from kafkatools.core.errors import NotLeaderOrFollower, TopicAuthorizationFailed
from kafkatools.core.protocol.varints import unsigned_varint

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (4, 18)
INLINE_BYTES = 4096
BYTES_PER_PARTITION = 50
_HEAD = Struct(">ihqq")
_INT64 = Struct(">q")
_SIZE_AND_CORRELATION = Struct(">ii")


def handle(node: Node, request: Request) -> Response:
    """Answer now when there is enough, else wait."""
    entity = request.decode()
    version = request.version
    context = _context(node, entity, version)
    max_bytes = min(entity.max_bytes, node.fetch_max_bytes)
    isolation_level = entity.isolation_level
    if context.error_code or _is_follower(entity, version):
        return respond(request, context, _refused(node, request, context))
    if node.authorizer is None:
        read = partial(node.replicas.read, context.wanted, max_bytes, isolation_level)
    else:
        read = partial(_read_allowed, node, request, context.wanted, max_bytes, isolation_level)
    results = read()
    max_wait_ms = entity.max_wait // _MILLISECOND
    if (
        max_wait_ms <= 0
        or not context.wanted
        or sum(result.size_bytes for result in results) >= entity.min_bytes
        or any(result.error_code or result.diverging for result in results)
    ):
        return respond(request, context, results)

    def complete() -> None:
        request.complete(respond(request, context, read()))

    operation = DelayedFetch(max_wait_ms, node.replicas, context.wanted, (entity.min_bytes, isolation_level), complete)
    keys = [partition.key for partition in map(node.replicas.find, context.wanted) if partition is not None]
    node.fetch_purgatory.try_complete_else_watch(operation, keys, node.clock.now_ms())
    return DELAYED


def _refused(node: Node, request: Request, context: FetchContext) -> list[FetchedPartition]:
    """Who says that it is a replica: this broker has none but its own, and a client may not even ask."""
    is_allowed = node.authorize(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    error = NotLeaderOrFollower if is_allowed else TopicAuthorizationFailed
    return [FetchedPartition(error_code=error.code) for _ in context.wanted]


def _read_allowed(
    node: Node, request: Request, wanted: Sequence[FetchPartition], max_bytes: int, isolation_level: int
) -> list[FetchedPartition]:
    """Read what the client may; a topic whose id is unknown stays unknown."""
    names = [each.topic if each.topic is not None else node.replicas.topic_name(each.topic_id) for each in wanted]
    allowed = {name for name in set(names) if name is None or node.authorize(request, READ, TOPIC, name)}
    readable = [each for each, name in zip(wanted, names, strict=True) if name in allowed]
    results = iter(node.replicas.read(readable, max_bytes, isolation_level))
    denied = FetchedPartition(error_code=TopicAuthorizationFailed.code, aborted=())
    return [next(results) if name in allowed else denied for name in names]


def _milliseconds() -> Any:
    from datetime import timedelta

    return timedelta(milliseconds=1)


_MILLISECOND = _milliseconds()


def _is_follower(entity: Any, version: int) -> bool:
    return bool(entity.replica_state.replica_id >= 0 if version >= 15 else entity.replica_id >= 0)


def _context(node: Node, entity: Any, version: int) -> FetchContext:
    by_id = version >= 13
    wanted = []
    for topic in entity.topics:
        topic_id = topic.topic_id if by_id else None
        name = node.replicas.topic_name(topic_id) if by_id else topic.topic
        for each in topic.partitions:
            wanted.append(
                FetchPartition(
                    name,
                    topic_id if not by_id or topic_id is not None else _ZERO_ID,
                    each.partition,
                    each.fetch_offset,
                    each.partition_max_bytes,
                    each.current_leader_epoch if version >= 9 else -1,
                    each.last_fetched_epoch if version >= 12 else -1,
                )
            )
    if version < 7:
        return FetchContext(wanted)
    forgotten: list[SessionKey] = [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in entity.forgotten_topics_data
        for index in topic.partitions
    ]
    return node.fetch_sessions.context(
        entity.session_id, entity.session_epoch, wanted, forgotten, node.clock.now_ms(), uses_topic_ids=by_id
    )


def _zero_id() -> Any:
    from uuid import UUID

    return UUID(int=0)


_ZERO_ID = _zero_id()


def _size(results: Sequence[FetchedPartition]) -> int:
    """About what the response will take."""
    return sum(result.size_bytes for result in results) + BYTES_PER_PARTITION * len(results)


def respond(request: Request, context: FetchContext, results: Sequence[FetchedPartition]) -> list[Part]:
    """The response as parts: framing and, between it, file regions. Above its quota a client gets none of it."""
    is_throttled = request.quotas is not None and not request.quotas.note_fetch(request, _size(results))
    chosen = [] if is_throttled else context.select(results)
    writer = _Writer(request.version)
    writer.begin(context, request.throttle_ms)
    groups: list[tuple[Any, list[tuple[FetchPartition, FetchedPartition]]]] = []
    for wanted, result in chosen:
        name = wanted.topic_id if request.version >= 13 else wanted.topic
        if not groups or groups[-1][0] != name:
            groups.append((name, []))
        groups[-1][1].append((wanted, result))
    writer.count(len(groups))
    for name, partitions in groups:
        writer.topic(name)
        writer.count(len(partitions))
        for wanted, result in partitions:
            writer.partition(wanted.index, result)
        writer.tags()
    writer.tags()
    return writer.finish(request)


class _Writer:
    """Frames a response of one version; `parts` alternates bytes and file regions."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._is_flexible = version >= 12
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
            return
        encoded = name.encode()
        self._out += (unsigned_varint(len(encoded) + 1) if self._is_flexible else pack(">h", len(encoded))) + encoded

    def partition(self, index: int, result: FetchedPartition) -> None:
        out = self._out
        out += _HEAD.pack(index, result.error_code, result.high_watermark, result.last_stable_offset)
        if self._version >= 5:
            out += _INT64.pack(result.log_start_offset)
        self._aborted(result)
        if self._version >= 11:
            out += b"\xff\xff\xff\xff"  # no preferred read replica
        self._records(result)
        if self._is_flexible:
            self._diverging(result)

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
        if size <= INLINE_BYTES:
            self._out += records.read()
            return
        self._parts += [self._out, FileRegion(records.file, records.position, size)]
        self._file_bytes += size
        self._out = bytearray()

    def _diverging(self, result: FetchedPartition) -> None:
        if result.diverging is None:
            self._out += b"\0"
            return
        end = result.diverging
        self._out += b"\1\0\x0d" + pack(">iq", end.leader_epoch, end.end_offset) + b"\0"

    def finish(self, request: Request) -> list[Part]:
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
