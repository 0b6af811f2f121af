"""Bytes into a FrameReader, and the frame of a response, as a peer of a client needs them."""

from __future__ import annotations

from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.frames import FrameReader, frame_response
from kafkatools.core.protocol.messages import encode


def feed(reader: FrameReader, data: bytes) -> None:
    """Give the reader the next bytes of its stream. Raises NotKafka for an impossible frame size."""
    view = memoryview(data)
    while view:
        target = reader.buffer()
        count = min(len(target), len(view))
        target[:count] = view[:count]
        target.release()
        reader.advance(count)
        view = view[count:]


def encode_response(api_key: int, version: int, correlation_id: int, entity: Entity) -> bytes:
    """The bytes of a response: size prefix, header and body."""
    return b"".join(frame_response(api_key, version, correlation_id, [encode(entity)]))
