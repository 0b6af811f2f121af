"""Apache Kafka's own tool reads what the builders write."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable

import pytest
from records_truth import java_rows

from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import Record, TimestampType
from kafkatools.core.records.compression import CompressionType
from kafkatools.core.records.legacy import write_message_set

Tool = Callable[..., subprocess.CompletedProcess[bytes]]

VARIANTS: list[tuple[CompressionType, int | None]] = [
    (CompressionType.NONE, None),
    (CompressionType.GZIP, 9),
    (CompressionType.SNAPPY, None),
    (CompressionType.LZ4, None),
    (CompressionType.LZ4, 17),
    (CompressionType.ZSTD, None),
    (CompressionType.ZSTD, -5),
]


@pytest.mark.real_kafka
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_dump_log_shows_our_records(kafka_tool: Tool, tmp_path: pathlib.Path, magic: int) -> None:
    data = b""
    expected = []
    for number, (codec, level) in enumerate(VARIANTS):
        if magic < 2 and codec is CompressionType.ZSTD:
            continue
        rows = [(offset - 1000 + 100 * number, *rest) for offset, *rest in java_rows(magic)]
        expected += rows
        data += write(magic, codec, level, rows)
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(data)
    shown = kafka_tool("dump-log", "--files", str(log), "--deep-iteration", "--print-data-log")
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.split(b"\n")
    assert not any(b"isvalid: false" in line.lower() for line in lines)
    records = [line for line in lines if line.startswith(b"| offset: ")]
    assert len(records) == len(expected)
    for line, (offset, timestamp, key, value, _) in zip(records, expected, strict=True):
        time = b"CreateTime: %d" % timestamp if magic else b"NoTimestampType: -1"
        assert line.startswith(b"| offset: %d %s " % (offset, time))
        assert line.endswith(
            (b" key: " + key if key is not None else b"") + (b" payload: " + value if value is not None else b"")
        )


def write(magic: int, codec: CompressionType, level: int | None, rows: list) -> bytes:
    if magic < 2:
        records = [Record(o, t, TimestampType.CREATE_TIME, k, v) for o, t, k, v, _ in rows]
        return write_message_set(records, magic, codec, level=level)
    builder = BatchBuilder(1 << 20, codec, level=level, base_offset=rows[0][0], partition_leader_epoch=0)
    for _, timestamp, key, value, headers in rows:
        builder.append(timestamp, key, value, headers)
    return bytes(builder.close())
