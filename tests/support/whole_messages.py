"""Messages of the protocol that must fill their bytes to the end."""

from __future__ import annotations

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.messages import Buffer, decode


def decode_all(message_type: type[Entity], buffer: Buffer, offset: int = 0) -> Entity:
    """Decode the message from `offset` to the end of the buffer. Raises DecodeError, also for bytes after it."""
    entity, size = decode(message_type, buffer, offset)
    if offset + size != len(buffer):
        raise DecodeError(f"{len(buffer) - offset - size} bytes are left after {message_type.__name__}")
    return entity
