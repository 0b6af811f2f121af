"""A shortcut for connections that send one Produce request after the other for the same partition.

A busy producer sends thousands of requests that differ in correlation id and records only. The connection keeps the
encoded header, acks, topic and partition of the last request; a frame with the same bytes needs no decoding. Any other
frame goes the ordinary way: other bytes, a transaction, client quotas, a deleted partition. The shortcut exists for
flexible versions (from 9 on) without an authorizer, and never for acks=0.

With acks=all and followers the response waits for the high watermark, but the next request does not wait for the
response. So all requests that a client has in flight are replicated together.
"""

from __future__ import annotations

from struct import Struct

from kafkatools.core.broker.apis.contexts import ProduceContext
from kafkatools.core.broker.replicas.partition import NONE, Partition
from kafkatools.core.broker.server.connection import REPLY_PENDING
from kafkatools.core.broker.server.deferred import Waiting
from kafkatools.core.broker.server.requests import Client, CloseConnection, Request
from kafkatools.core.errors import DecodeError, KafkaStorageError
from kafkatools.core.protocol.varints import read_unsigned_varint, unsigned_varint
from kafkatools.core.records.layout import HEADER_SIZE

_CORRELATION_START, _CORRELATION_END = 4, 8
_SIZE_PREFIX = 4
_ATTRIBUTES_LOW_BYTE, _TRANSACTIONAL_BIT = 22, 0x10
_NO_TAGS = b"\0\0\0"
"""The end of a request: empty tagged fields of the partition, the topic and the request."""
_RESPONSE_END = b"\1\0\0" + b"\0" + b"\0\0\0\0" + b"\0"
"""No record errors, message or tags of the partition; tags of the topic; throttle time; tags of the response."""


class RepeatedProduce:
    """Appends batches of Produce frames that differ from an earlier one in correlation id and records only."""

    __slots__ = (
        "_response",
        "_response_start",
        "_begin",
        "_connection",
        "_node",
        "_partition",
        "_start",
        "_timeout_ms",
    )

    def __init__(
        self,
        node: ProduceContext,
        request: Request,
        partition: Partition,
        wire_name: bytes,
        start_size: int,
        timeout_ms: int | None = None,
    ) -> None:
        """`start_size` is the number of bytes in front of the size of the records. `wire_name` is the encoded topic for
        the response. `timeout_ms` limits the wait for followers; None: no wait (acks=1)."""
        frame = request.frame
        self._node = node
        self._partition = partition
        self._connection = request.connection
        self._timeout_ms = timeout_ms
        self._start = (bytes(frame[:_CORRELATION_START]), bytes(frame[_CORRELATION_END:start_size]))
        self._begin = Struct(f">{_CORRELATION_START}si{start_size - _CORRELATION_END}s")
        self._response_start = b"\0\2" + wire_name + b"\2" + partition.index.to_bytes(4, "big")
        self._response = Struct(f">ii{len(self._response_start)}shqqq{len(_RESPONSE_END)}s")

    def respond(self, frame: memoryview) -> bytes | None:
        """Append the frame's batch and return the response, or REPLY_PENDING when it waits for followers.

        Returns None, with nothing appended, for a frame that has to be decoded and dispatched. A failed write is the
        error code of the response; while earlier responses wait it raises CloseConnection instead.
        """
        begin = self._begin
        if len(frame) < begin.size + HEADER_SIZE:
            return None
        api_and_version, correlation_id, rest = begin.unpack_from(frame)
        if (api_and_version, rest) != self._start or self._node.quotas.is_active:
            return None
        try:
            size, position = read_unsigned_varint(frame, begin.size)
        except DecodeError:
            return None
        end = position + size - 1
        if end + len(_NO_TAGS) != len(frame) or size <= HEADER_SIZE or frame[end:] != _NO_TAGS:
            return None
        records = frame[position:end]
        if records[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL_BIT:
            return None
        return self._append(records, correlation_id)

    def _append(self, records: memoryview, correlation_id: int) -> bytes | None:
        node, partition = self._node, self._partition
        try:
            info = partition.append_plain(records, node.clock.wall_ms())
        except KafkaStorageError as error:
            node.note_failure(error)
            if partition.waiting:
                raise CloseConnection(
                    f"a write failed while earlier Produce requests were unanswered: {error}"
                ) from error
            return self._frame(correlation_id, error.code, (-1, -1, -1))
        if info is None:
            return None
        node.replicas.wake_readers(partition)
        offsets = (info.first_offset, info.log_append_time, info.log_start_offset)
        if self._timeout_ms is None or partition.high_watermark_is_end:
            return self._frame(correlation_id, NONE, offsets)
        end = info.last_offset + 1
        if partition.log.high_watermark >= end and not partition.waiting:
            return self._frame(correlation_id, NONE, offsets)

        def finish(error_code: int) -> Client:
            self._connection.queue_pending(self._frame(correlation_id, error_code, offsets))
            return self._connection

        node.replicas.wait_for_followers(partition, Waiting(end, finish, node.clock.now_ms() + self._timeout_ms))
        return REPLY_PENDING

    def _frame(self, correlation_id: int, error_code: int, offsets: tuple[int, int, int]) -> bytes:
        response = self._response
        size = response.size - _SIZE_PREFIX
        return response.pack(size, correlation_id, self._response_start, error_code, *offsets, _RESPONSE_END)


def repeat_of(
    node: ProduceContext,
    request: Request,
    partition: Partition,
    wire_name: bytes,
    records_size: int,
    timeout_ms: int | None = None,
) -> RepeatedProduce | None:
    """A shortcut for requests like this one; None if its frame does not end with the records and empty tags."""
    start = len(request.frame) - len(_NO_TAGS) - records_size
    start_size = start - len(unsigned_varint(records_size + 1))
    if read_unsigned_varint(request.frame, start_size) != (records_size + 1, start):
        return None
    return RepeatedProduce(node, request, partition, wire_name, start_size, timeout_ms)
