"""Request and response frames without I/O: size prefix, headers, and the recognition of other protocols.

A size is checked against the limit before memory of that size is allocated. An answer in TLS or HTTP is recognized by
its first bytes, which would be a size that no Kafka node sends. Header versions depend on the API (KIP-482).
ApiVersions responses always have header version 0 (KIP-511).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.errors import DecodeError, NotKafka
from kafkatools.core.protocol.api_versions import ApiKey, is_flexible, response_header_version
from kafkatools.core.protocol.varints import skip_tagged_fields

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity

Buffer = bytes | bytearray | memoryview

SIZE_BYTES = 4
DEFAULT_MAX_BYTES = 0x7FFFFFFF
_SIZE = struct.Struct(">i")
_REQUEST_HEAD = struct.Struct(">hhi")
_INT16 = struct.Struct(">h")
_TLS_ALERT = 0x15
_TLS_HANDSHAKE = 0x16
# A frame grows in steps of this size, so that an announced size alone takes no memory.
GROWTH_BYTES = 1 << 20
# Bytes that are received before the size of a frame is known: small frames need one read together, not two each.
READ_AHEAD_BYTES = 1024


class RequestHeader(NamedTuple):
    """The header of a request, and the position where its body starts in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def check_size(prefix: Buffer, max_bytes: int = DEFAULT_MAX_BYTES) -> int:
    """Return the size in a frame's first four bytes. Raises NotKafka when they are TLS, HTTP, a negative size or one
    above `max_bytes`."""
    head = bytes(prefix[:SIZE_BYTES])
    if head[0] in (_TLS_ALERT, _TLS_HANDSHAKE) and head[1] == 3:
        raise NotKafka("it speaks TLS; set security.protocol to SSL or SASL_SSL, or use its plaintext port")
    if head == b"HTTP":
        raise NotKafka("it is an HTTP server, not a Kafka broker")
    size: int = _SIZE.unpack(head)[0]
    if size < 0 or size > max_bytes:
        text = head.decode("ascii") if head.isascii() and head.decode("ascii").isprintable() else head.hex(" ")
        raise NotKafka(f"it is not a Kafka broker: the first bytes of its answer are {text!r}")
    return size


class FrameReader:
    """Splits a stream of bytes into frames: receive bytes into `buffer()` and call `advance`.
    Between frames bytes go to a small buffer, out of which whole frames are copied. A larger frame is collected in one
    bytearray, which grows in steps up to the frame's size."""

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.growth_bytes = GROWTH_BYTES
        self._ahead = bytearray(READ_AHEAD_BYTES)
        self._frame: bytearray | None = None
        self._size = 0
        self._filled = 0
        """Bytes in `_frame`, without one those in `_ahead`."""
        self._frames: list[bytearray] = []

    @property
    def is_inside_a_frame(self) -> bool:
        """Return whether a part of a frame has arrived."""
        return self._frame is not None or self._filled > 0

    def buffer(self) -> memoryview:
        """Return the memory for the next bytes of the stream. It is never empty."""
        if self._frame is None:
            return memoryview(self._ahead)[self._filled :]
        if self._filled == len(self._frame):
            self._frame += bytes(min(max(self.growth_bytes, len(self._frame)), self._size - self._filled))
        return memoryview(self._frame)[self._filled :]

    def advance(self, count: int) -> None:
        """Accept `count` bytes that were written into `buffer()`. Raises NotKafka for an impossible frame size."""
        self._filled += count
        if self._frame is None:
            self._split()
        elif self._filled == self._size:
            self._frames.append(self._frame)
            self._frame, self._filled = None, 0

    def _split(self) -> None:
        """Take the frames out of the bytes that were read ahead. The last one may have only begun."""
        ahead, filled, start = self._ahead, self._filled, 0
        while filled - start >= SIZE_BYTES:
            size = check_size(ahead[start : start + SIZE_BYTES], self.max_bytes)
            body = start + SIZE_BYTES
            if filled - body < size:
                part = ahead[body:filled]
                self._size, self._filled, self._frame = size, len(part), part
                part += bytes(min(size, max(self.growth_bytes, len(part))) - len(part))
                return
            self._frames.append(ahead[body : body + size])
            start = body + size
        self._filled = filled - start
        if start and self._filled:
            ahead[: self._filled] = ahead[start:filled]

    def receive(self) -> list[memoryview]:
        """Return the complete frames, without their size prefixes, and forget them."""
        frames, self._frames = self._frames, []
        return [memoryview(frame).toreadonly() for frame in frames]


def encode_request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encode a request header without the size prefix. The client id is never compact (KIP-482)."""
    head = _REQUEST_HEAD.pack(api_key, version, correlation_id)
    if client_id is None:
        head += b"\xff\xff"
    else:
        name = client_id.encode()
        head += _INT16.pack(len(name)) + name
    return head + b"\0" if is_flexible(api_key, version) else head


def frame_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body: Sequence[Buffer]
) -> list[Buffer]:
    """Return the buffers of a request: size prefix and header, then the encoded body, which is not copied."""
    header = encode_request_header(api_key, version, correlation_id, client_id)
    size = len(header) + sum(len(part) for part in body)
    return [_SIZE.pack(size) + header, *body]


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, entity: Entity
) -> list[Buffer]:
    """Encode a request and return its buffers: size prefix and header, then the body. Raises ValueError for a value
    that its field cannot hold."""
    from kafkatools.core.protocol.messages import encode

    return frame_request(api_key, version, correlation_id, client_id, [encode(entity)])


def decode_request_header(frame: Buffer) -> RequestHeader:
    """Decode the header of a request frame; a negative length gives a client id of None. For an unknown API the body
    offset is that of a header version 1. Raises DecodeError."""
    if len(frame) < _REQUEST_HEAD.size + 2:
        raise DecodeError(f"a request of {len(frame)} bytes is shorter than its header")
    api_key, version, correlation_id = _REQUEST_HEAD.unpack_from(frame, 0)
    length = _INT16.unpack_from(frame, _REQUEST_HEAD.size)[0]
    position = _REQUEST_HEAD.size + 2
    client_id = None
    if length >= 0:
        if position + length > len(frame):
            raise DecodeError(f"a client id of {length} bytes does not fit a request of {len(frame)} bytes")
        try:
            client_id = bytes(frame[position : position + length]).decode()
        except UnicodeDecodeError:
            raise DecodeError("a client id that is not UTF-8") from None
        position += length
    if api_key in ApiKey._value2member_map_ and is_flexible(api_key, version):
        position = skip_tagged_fields(frame, position)
    return RequestHeader(api_key, version, correlation_id, client_id, position)


def encode_response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """Encode a response header without the size prefix."""
    head = _SIZE.pack(correlation_id)
    return head + b"\0" if response_header_version(api_key, version) else head


def frame_response(api_key: int, version: int, correlation_id: int, body: list[Buffer]) -> list[Buffer]:
    """Return the buffers of a response: size prefix and header, then the encoded body."""
    header = encode_response_header(api_key, version, correlation_id)
    size = len(header) + sum(len(part) for part in body)
    return [_SIZE.pack(size) + header, *body]


def decode_response_header(api_key: int, version: int, frame: Buffer) -> tuple[int, int]:
    """Return the correlation id of a response frame and the position where its body starts. Raises DecodeError."""
    if len(frame) < SIZE_BYTES:
        raise DecodeError(f"a response of {len(frame)} bytes is shorter than its header")
    correlation_id = _SIZE.unpack_from(frame, 0)[0]
    position = SIZE_BYTES
    if response_header_version(api_key, version):
        position = skip_tagged_fields(frame, position)
    return correlation_id, position
