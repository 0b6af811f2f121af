"""Produce with one thing wrong in the batch, in every codec and version: Kafka's error code, and a log that is as
before.

The codes are those of ProduceRequest.validateRecords, LogValidator, DefaultRecordBatch and ProducerAppendInfo of Apache
Kafka. An unknown codec is UNSUPPORTED_COMPRESSION_TYPE here, and compressed records are looked into where a rule of the
topic needs it (docs/differences.md): the topic has one about timestamps."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import crc32c
import pytest
from support.crash.broker import DiskConnection
from support.fuzz.batches import CODECS, HEADER, NOW_MS, varint
from support.fuzz.in_process import MemorySocket, Place, fresh_directory, running_node
from support.whole_messages import decode_all

from kafkatools.core.protocol.api_versions import is_flexible
from kafkatools.core.protocol.messages import build, encode, request_type, response_type
from kafkatools.core.records.compression import compress

NONE, CORRUPT_MESSAGE, INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE = 0, 2, 87, 76
OUT_OF_ORDER, INVALID_PRODUCER_EPOCH = 45, 47
VERSIONS = range(3, 14)
PLACES = {
    "base_offset": (0, ">q"),
    "length": (8, ">i"),
    "magic": (16, ">b"),
    "crc": (17, ">I"),
    "attributes": (21, ">h"),
}
PLACES |= {
    "attributes": (21, ">h"),
    "delta": (23, ">i"),
    "producer_epoch": (51, ">h"),
    "sequence": (53, ">i"),
    "count": (57, ">i"),
}


def record(number: int, *, key: bytes = b"\x01", value: bytes = b"\x0avalue", headers: bytes = b"\0") -> bytes:
    body = b"\0\0" + varint(number) + key + value + headers
    return varint(len(body)) + body


def batch(codec: int, records: bytes, record_count: int, **fields: int) -> bytes:
    """A batch whose header says what `fields` say, with the right checksum unless that is a field."""
    body = compress(codec, records)
    data = bytearray(HEADER.size) + body
    producer = fields.pop("producer_id", -1)
    epoch, sequence = (0, 0) if producer >= 0 else (-1, -1)
    HEADER.pack_into(
        data,
        0,
        0,
        len(data) - 12,
        -1,
        2,
        0,
        codec,
        record_count - 1,
        NOW_MS,
        NOW_MS,
        producer,
        epoch,
        sequence,
        record_count,
    )
    for name, value in fields.items():
        position, layout = PLACES[name]
        struct.pack_into(layout, data, position, value)
    if "crc" not in fields:
        struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return bytes(data)


RULE = {"name": "message.timestamp.before.max.ms", "value": "1000000000000"}
GOOD = record(0) + record(1)
HEADERS: dict[str, tuple[dict[str, int], set[int]]] = {
    "base offset": ({"base_offset": 1}, {INVALID_RECORD}),
    "length too large": ({"length": 100_000}, {CORRUPT_MESSAGE, INVALID_RECORD}),
    "length negative": ({"length": -1}, {CORRUPT_MESSAGE, INVALID_RECORD}),
    "length too small": ({"length": 40}, {CORRUPT_MESSAGE, INVALID_RECORD}),
    "magic 1": ({"magic": 1}, {INVALID_RECORD}),
    "magic 3": ({"magic": 3}, {INVALID_RECORD}),
    "checksum": ({"crc": 1}, {CORRUPT_MESSAGE}),
    "codec 5": ({"attributes": 5}, {UNSUPPORTED_COMPRESSION_TYPE}),
    "codec 7": ({"attributes": 7}, {UNSUPPORTED_COMPRESSION_TYPE}),
    "count above the offsets": ({"count": 3}, {INVALID_RECORD}),
    "count zero": ({"count": 0}, {INVALID_RECORD}),
    "count negative": ({"count": -1}, {INVALID_RECORD}),
    "last offset before the first": ({"delta": -1}, {INVALID_RECORD}),
    "more than the records": ({"count": 3, "delta": 2}, {INVALID_RECORD}),
    "fewer than the records": ({"count": 1, "delta": 0}, {INVALID_RECORD}),
    "last offset out of range": ({"count": 2**31 - 1, "delta": 2**31 - 2}, {INVALID_RECORD}),
}
RECORDS: dict[str, bytes] = {
    "key longer than the record": record(0, key=varint(1000)) + record(1),
    "value longer than the record": record(0, value=varint(1000) + b"v") + record(1),
    "more headers than bytes": record(0, headers=varint(100)) + record(1),
    "negative headers": record(0, headers=varint(-1)) + record(1),
    "header without a key": record(0, headers=varint(1) + varint(-1) + varint(-1)) + record(1),
    "varint without an end": record(0, key=b"\xff" * 10) + record(1),
    "record of negative size": varint(-5) + record(0),
    "record of two billion bytes": varint(2**31 - 1) + record(0),
    "bytes behind the value": record(0, headers=b"\0\0\0") + record(1),
    "nothing": b"",
    "cut": GOOD[:-3],
}


class Asked(NamedTuple):
    code: int
    base_offset: int


MOST_TURNS = 1000


class Producing:
    """Sends batches to a topic of a node and looks at its log."""

    def __init__(self, place: Place, reports: list[str]) -> None:
        self.node = place.node
        self.reports = reports
        self.socket = MemorySocket()
        self.connection = DiskConnection(place.node, place.acceptor, self.socket)
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": [RULE]}
        self.ask(19, 7, topics=[topic], timeout=1000)

    @property
    def end_offset(self) -> int:
        return int(self.node.replicas.get("t", 0).log.log_end_offset)

    def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        head = struct.pack(">hhih", api_key, version, 1, -1) + (b"\0" if is_flexible(api_key, version) else b"")
        frame = head + encode(build(request_type(api_key, version), fields))
        self.socket.input = struct.pack(">i", len(frame)) + frame
        self.connection.handle_readable()
        assert not self.connection.is_closed
        for _ in range(MOST_TURNS):  # a request of several slices is answered in a later turn
            self.node.run_once(0)
            if self.socket.output:
                break
        answer = bytes(self.socket.output[4:])
        self.socket.output.clear()
        return decode_all(response_type(api_key, version), answer, 5 if is_flexible(api_key, version) else 4)

    def produce(self, version: int, records: bytes) -> Asked:
        topic: dict[str, Any] = {"partition_data": [{"index": 0, "records": records}]}
        topic |= {"topic_id": self.node.image.topics["t"].topic_id} if version >= 13 else {"name": "t"}
        fields = {"transactional_id": None, "acks": -1, "timeout": 1000, "topic_data": [topic]}
        found = self.ask(0, version, **fields).responses[0].partition_responses[0]
        return Asked(int(found.error_code), found.base_offset)


@pytest.fixture(scope="module")
def producing() -> Iterator[Producing]:
    with fresh_directory() as directory, running_node(directory) as (place, reports):
        yield Producing(place, reports)


def assert_refused(producing: Producing, records: bytes, codes: set[int], versions: Any = VERSIONS) -> None:
    for version in versions:
        if len(records) > 22 and records[22] & 7 == 4 and version < 7:
            continue  # zstd came with version 7
        end = producing.end_offset
        asked = producing.produce(version, records)
        assert asked.code in codes, f"version {version}"
        assert producing.end_offset == end
        assert producing.reports == []


@pytest.mark.parametrize("codec", range(CODECS))
@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_says_something_else_is_refused(producing: Producing, name: str, codec: int) -> None:
    fields, codes = HEADERS[name]
    assert_refused(producing, batch(codec, GOOD, 2, **fields), codes)


@pytest.mark.parametrize("codec", range(CODECS))
@pytest.mark.parametrize("name", RECORDS)
def test_records_that_cannot_be_read_are_refused(producing: Producing, name: str, codec: int) -> None:
    assert_refused(producing, batch(codec, RECORDS[name], 2), {INVALID_RECORD})


@pytest.mark.parametrize("name", ["offsets repeated", "offsets with a hole"])
def test_plain_records_have_the_offsets_of_their_batch(producing: Producing, name: str) -> None:
    records = {"offsets repeated": record(0) + record(0), "offsets with a hole": record(0) + record(2)}
    assert_refused(producing, batch(0, records[name], 2), {INVALID_RECORD})


@pytest.mark.parametrize("codec", range(1, CODECS))
def test_bytes_that_no_codec_wrote_are_refused(producing: Producing, codec: int) -> None:
    plain = batch(0, GOOD, 2, attributes=codec)
    assert_refused(producing, plain, {CORRUPT_MESSAGE, INVALID_RECORD})


@pytest.mark.parametrize("codec", range(CODECS))
def test_control_records_and_two_batches_are_refused(producing: Producing, codec: int) -> None:
    assert_refused(producing, batch(codec, GOOD, 2, attributes=codec | 0x20), {INVALID_RECORD})
    good = batch(codec, GOOD, 2)
    assert_refused(producing, good + good, {INVALID_RECORD})
    assert_refused(producing, good[:-1], {CORRUPT_MESSAGE, INVALID_RECORD})
    assert_refused(producing, good[:40], {INVALID_RECORD})
    assert_refused(producing, b"", {INVALID_RECORD})


@pytest.mark.parametrize("codec", range(CODECS))
def test_sequences_and_epochs_are_checked(producing: Producing, codec: int) -> None:
    producer = 1000 + codec
    first = batch(codec, GOOD, 2, producer_id=producer)
    asked = producing.produce(9, first)
    assert asked.code == NONE
    assert producing.produce(9, first) == asked
    assert_refused(producing, batch(codec, GOOD, 2, producer_id=producer, sequence=5), {OUT_OF_ORDER})
    newer = batch(codec, GOOD, 2, producer_id=producer, producer_epoch=3, sequence=1)
    assert_refused(producing, newer, {OUT_OF_ORDER})
    assert producing.produce(9, batch(codec, GOOD, 2, producer_id=producer, producer_epoch=3)).code == NONE
    assert_refused(producing, first, {INVALID_PRODUCER_EPOCH})
