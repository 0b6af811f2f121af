"""A reader of message bodies for hand-written decoders: of responses whose many partitions make entities too slow."""

from __future__ import annotations

import struct
import uuid
from typing import ClassVar, NamedTuple

from kafkatools.core.errors import DecodeError

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class NodeEndpoint(NamedTuple):
    """The address of a new leader in a response (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None


class BodyReader:
    """A cursor over a body. With `flexible` lengths are compact and structures have tagged fields (KIP-482).

    A subclass sets `name`, the message's name in errors. Methods raise DecodeError when a field exceeds the remaining
    bytes.
    """

    __slots__ = ("buffer", "end", "flexible", "position")
    name: ClassVar[str]

    def __init__(self, buffer: memoryview, position: int, *, flexible: bool) -> None:
        self.buffer = buffer
        self.position = position
        self.end = len(buffer)
        self.flexible = flexible

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """Read fields of fixed size."""
        start = self.position
        self.position = start + layout.size
        if self.position > self.end:
            raise DecodeError(f"{self.name} ends inside a field")
        return layout.unpack_from(self.buffer, start)

    def uvarint(self) -> int:
        """Read an unsigned varint of at most 5 bytes."""
        value = shift = 0
        while True:
            if self.position >= self.end or shift > 28:
                raise DecodeError(f"{self.name} holds a bad varint")
            byte = self.buffer[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def length(self, layout: struct.Struct) -> int:
        """Read a length; -1 for null."""
        return self.uvarint() - 1 if self.flexible else self.unpack(layout)[0]

    def array_length(self, minimum_item_bytes: int) -> int:
        """Read the number of items of an array; -1 for null. Checks that the remaining bytes can hold that many."""
        count = self.length(_INT32)
        if count * minimum_item_bytes > self.end - self.position:
            raise DecodeError(f"{self.name} announces {count} items in {self.end - self.position} bytes")
        return count

    def slice(self, size: int) -> memoryview:
        """Read the next `size` bytes without a copy."""
        start = self.position
        if size < 0 or start + size > self.end:
            raise DecodeError(f"{self.name} announces {size} bytes where {self.end - start} are left")
        self.position = start + size
        return self.buffer[start : start + size]

    def string(self) -> str | None:
        """Read a nullable string."""
        size = self.length(_INT16)
        return None if size < 0 else str(self.slice(size), "utf-8", "replace")

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(bytes=bytes(self.slice(16)))

    def skip_tags(self) -> None:
        """Skip all tagged fields of a structure."""
        if self.flexible:
            for _ in range(self.uvarint()):
                self.uvarint()
                self.slice(self.uvarint())

    def endpoint(self) -> NodeEndpoint:
        """Read the address of a node."""
        node_id, host = self.unpack(_INT32)[0], self.string() or ""
        endpoint = NodeEndpoint(node_id, host, self.unpack(_INT32)[0], self.string())
        self.skip_tags()
        return endpoint
