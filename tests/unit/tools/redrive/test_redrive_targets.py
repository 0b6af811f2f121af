"""What a target topic refuses, against the batches of the builder."""

from __future__ import annotations

import pytest

from kafkatools.core.records.batch import read_batches
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import encode_headers
from kafkatools.core.records.compression import CompressionType
from kafkatools.tools.redrive.targets import Target, batch_size, record_body

HEADERS = [("trace", b"x" * 200), ("null", None)]


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
@pytest.mark.parametrize(("key", "value"), [(b"k", b"v" * 70_000), (None, b""), (b"", None)])
def test_the_size_is_that_of_a_batch_with_only_this_record(
    codec: CompressionType, key: bytes | None, value: bytes | None
) -> None:
    builder = BatchBuilder(1 << 20, codec)
    builder.append(7, key, value, HEADERS)
    batch = bytes(builder.close())
    assert len(list(read_batches(batch))) == 1
    assert batch_size(record_body(key, value, encode_headers(HEADERS)), codec) == len(batch)


@pytest.mark.parametrize(
    ("configs", "timestamp", "reason"),
    [
        ({}, 0, None),
        ({"max.message.bytes": "100"}, 0, None),
        ({"max.message.bytes": "70"}, 0, "too_large"),
        ({"cleanup.policy": "compact,delete"}, 0, "no_key"),
        ({"message.timestamp.before.max.ms": "999"}, 0, "timestamp"),
        ({"message.timestamp.before.max.ms": "1000"}, 0, None),
        ({"message.timestamp.after.max.ms": "999"}, 2000, "timestamp"),
        ({"message.timestamp.after.max.ms": "999", "message.timestamp.type": "LogAppendTime"}, 2000, None),
    ],
)
def test_refusals(configs: dict[str, str], timestamp: int, reason: str | None) -> None:
    target = Target("orders", 1, configs)
    found = target.refusal(record_body(None, b"ten bytes!", b"\0"), -1, timestamp, 1000, CompressionType.NONE)
    assert (None if found is None else found.word) == reason
