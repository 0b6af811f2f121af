"""A blocking client of few lines: one request, one response, over a real socket. Knows the wire, nothing of the
broker."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any

from kafkatools.core.protocol import messages
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.records.builder import BatchBuilder

FLEXIBLE_SINCE = {int(key): key.first_flexible_version for key in ApiKey}


def batch(values: list[bytes], timestamp: int = 1_700_000_000_000, **header: Any) -> bytes:
    """A record batch of these values."""
    builder = BatchBuilder(1 << 20, **header)
    for value in values:
        builder.append(timestamp, None, value)
    return bytes(builder.close())


class BrokerClient:
    """One connection, maybe from a certain address."""

    def __init__(self, host: str, port: int, source: str | None = None) -> None:
        self.socket = socket.create_connection((host, port), 10, None if source is None else (source, 0))
        self._correlation_id = 0

    def frame(self, api_key: int, version: int, fields: Mapping[str, Any], client_id: bytes = b"test") -> bytes:
        """A request with its size prefix."""
        self._correlation_id += 1
        head = struct.pack(">hhih", api_key, version, self._correlation_id, len(client_id)) + client_id
        if version >= FLEXIBLE_SINCE[api_key]:
            head += b"\0"
        body = messages.encode(messages.build(messages.request_type(api_key, version), fields))
        return struct.pack(">i", len(head) + len(body)) + head + body

    def receive(self, api_key: int, version: int) -> Any:
        """The next response; EOFError when the broker closed the connection."""
        size = struct.unpack(">i", self.read(4))[0]
        data = self.read(size)
        offset = 5 if version >= FLEXIBLE_SINCE[api_key] and api_key != 18 else 4
        entity, taken = messages.decode(messages.response_type(api_key, version), data, offset)
        assert offset + taken == size, "bytes are left over"
        return entity

    def read(self, size: int) -> bytes:
        """So many bytes."""
        data = b""
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionResetError:
                part = b""
            if not part:
                raise EOFError("the broker closed the connection")
            data += part
        return data

    def call(self, api_key: int, version: int, **fields: Any) -> Any:
        """Send a request and wait for its response."""
        self.socket.sendall(self.frame(api_key, version, fields))
        return self.receive(api_key, version)

    def produce(self, topic: str, records: bytes, *, partition: int = 0, version: int = 9, acks: int = -1) -> Any:
        """Produce one batch by name; the partition's response."""
        data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
        fields = {"transactional_id": None, "acks": acks, "timeout": 5000, "topic_data": data}
        return self.call(0, version, **fields).responses[0].partition_responses[0]

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def __enter__(self) -> BrokerClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
