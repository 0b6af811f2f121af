"""One request at a time over a plain socket: how tests prepare a broker without the clients that they test."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.frames import decode_response_header, encode_request
from kafkatools.core.protocol.messages import build, decode, request_type, response_type
from kafkatools.core.records.builder import BatchBuilder

Row = tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]


class RawClient:
    """A connection to one broker."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(",")[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), 30)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def call(self, api: ApiKey, version: int, fields: Mapping[str, Any]) -> Any:
        """Sends a request and returns the answer."""
        entity = build(request_type(api, version), fields)
        self._socket.sendall(b"".join(bytes(part) for part in encode_request(api, version, 1, "raw", entity)))
        (size,) = struct.unpack(">i", self._receive(4))
        frame = self._receive(size)
        _, body = decode_response_header(api, version, frame)
        return decode(response_type(api, version), frame, body)[0]

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Makes a topic and waits until its leaders are known."""
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": [{"name": key.replace("_", "."), "value": value} for key, value in config.items()],
        }
        answer = self.call(ApiKey.CREATE_TOPICS, 5, {"topics": [topic], "timeout": 30000, "validate_only": False})
        assert int(answer.topics[0].error_code) == 0, answer
        while True:
            described = self.call(ApiKey.METADATA, 9, {"topics": [{"name": name}], "allow_auto_topic_creation": False})
            found = described.topics[0]
            ready = [part for part in found.partitions if int(part.error_code) == 0]
            if int(found.error_code) == 0 and len(ready) == partitions:
                return

    def produce(self, topic: str, partition: int, batch: bytes, transactional_id: str | None = None) -> int:
        """Sends one batch as it is; returns its base offset."""
        fields = {
            "transactional_id": transactional_id,
            "acks": -1,
            "timeout": 30000,
            "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}],
        }
        while True:
            answer = self.call(ApiKey.PRODUCE, 9, fields)
            result = answer.responses[0].partition_responses[0]
            if int(result.error_code) not in (3, 5, 6):  # a new topic: metadata may be ahead of the log
                break
        assert int(result.error_code) == 0, answer
        return int(result.base_offset)

    def produce_rows(self, topic: str, partition: int, rows: Sequence[Row]) -> int:
        """Sends rows of (timestamp, key, value, headers) as one batch."""
        builder = BatchBuilder(1 << 20)
        for timestamp, key, value, headers in rows:
            builder.append(timestamp, key, value, headers)
        return self.produce(topic, partition, bytes(builder.close()))
