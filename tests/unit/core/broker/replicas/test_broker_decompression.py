"""Compressed batches that unpack to more than a topic allows: refused on produce, harmless to look-ups."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.embedded import embedded_broker

from kafkatools import Consumer, TopicPartition
from kafkatools.core.errors import KafkaError
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.compression import CompressionType

INVALID_RECORD = 87
MIB = 1 << 20
TIMESTAMP = 1_700_000_000_000
CODECS = [codec for codec in CompressionType if codec]
ZSTD, LZ4 = CompressionType.ZSTD, CompressionType.LZ4


@pytest.fixture
def client(tmp_path: Path) -> Iterator[BrokerClient]:
    with embedded_broker(tmp_path) as bootstrap:
        host, port = bootstrap.rsplit(":", 1)
        with BrokerClient(host, int(port)) as made:
            made.socket.settimeout(60)
            yield made


def create(client: BrokerClient, name: str, **settings: str) -> None:
    configs = [{"name": key.replace("_", "."), "value": value} for key, value in settings.items()]
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": configs}
    answer = client.call(19, 5, topics=[topic], timeout=10_000, validate_only=False)
    assert int(answer.topics[0].error_code) == 0, answer


def zeros(size: int, codec: CompressionType, parts: int = 4) -> bytes:
    """A batch whose values are zero bytes."""
    builder = BatchBuilder(2 * size, codec)
    for _ in range(parts):
        builder.append(TIMESTAMP, b"key", bytes(size // parts))
    return bytes(builder.close())


def first_at(client: BrokerClient, topic: str, timestamp: int) -> tuple[int, int]:
    """The error code and the offset of a look-up by timestamp."""
    wanted = {"name": topic, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}
    found = client.call(2, 7, replica_id=-1, isolation_level=0, topics=[wanted]).topics[0].partitions[0]
    return int(found.error_code), found.offset


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "setting",
    [
        {"cleanup_policy": "compact"},
        {"compression_type": "gzip"},
        {"message_timestamp_before_max_ms": "99999999999999"},
    ],
)
def test_a_batch_above_the_bound_is_an_invalid_record(
    client: BrokerClient, codec: CompressionType, setting: dict[str, str]
) -> None:
    create(client, "t", max_decompressed_message_bytes=str(MIB), max_message_bytes=str(8 * MIB), **setting)
    above = client.produce("t", zeros(2 * MIB, codec))
    legal = client.produce("t", zeros(MIB // 2, codec))
    assert int(above.error_code) == INVALID_RECORD
    assert (int(legal.error_code), legal.base_offset) == (0, 0)


@pytest.mark.slow
def test_the_default_is_10_times_the_largest_message_and_at_least_16_mib(client: BrokerClient) -> None:
    create(client, "small", cleanup_policy="compact", max_message_bytes="100000")
    create(client, "large", cleanup_policy="compact", max_message_bytes=str(4 * MIB))
    codes = [
        int(client.produce(topic, zeros(size * MIB, ZSTD)).error_code)
        for topic, size in [("small", 15), ("small", 17), ("large", 39), ("large", 41)]
    ]
    assert codes == [0, INVALID_RECORD, 0, INVALID_RECORD]


@pytest.mark.slow
def test_a_bomb_costs_no_more_than_the_bound(client: BrokerClient) -> None:
    create(client, "t", cleanup_policy="compact")
    bomb = zeros(256 * MIB, ZSTD, parts=2)
    assert len(bomb) < 32_000
    before = peak_bytes()
    assert int(client.produce("t", bomb).error_code) == INVALID_RECORD
    assert peak_bytes() - before < 64 * MIB


def peak_bytes() -> int:
    """The most memory that this process ever had."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def test_the_setting_of_the_broker_is_the_default_of_its_topics_and_may_change(client: BrokerClient) -> None:
    create(client, "t", cleanup_policy="compact")
    assert int(client.produce("t", zeros(2 * MIB, LZ4)).error_code) == 0
    change = {"name": "max.decompressed.message.bytes", "config_operation": 0, "value": str(MIB)}
    broker = {"resource_type": 4, "resource_name": "", "configs": [change]}
    answer = client.call(44, 1, resources=[broker], validate_only=False)
    assert int(answer.responses[0].error_code) == 0, answer
    assert int(client.produce("t", zeros(2 * MIB, LZ4)).error_code) == INVALID_RECORD


def test_a_look_up_by_timestamp_tells_of_a_batch_above_the_bound(client: BrokerClient) -> None:
    create(client, "t", max_decompressed_message_bytes=str(MIB))
    small, large = client.produce("t", zeros(1000, ZSTD)), client.produce("t", zeros(2 * MIB, ZSTD))
    assert (small.base_offset, large.base_offset) == (0, 4)
    assert first_at(client, "t", TIMESTAMP) == (0, 0)
    change = {"name": "max.decompressed.message.bytes", "config_operation": 0, "value": "100"}
    topic = {"resource_type": 2, "resource_name": "t", "configs": [change]}
    assert int(client.call(44, 1, resources=[topic], validate_only=False).responses[0].error_code) == 0
    assert first_at(client, "t", TIMESTAMP) == (INVALID_RECORD, -1)
    assert first_at(client, "t", TIMESTAMP + 1) == (0, -1)


def test_a_consumer_reads_what_its_own_bound_allows(tmp_path: Path) -> None:
    with embedded_broker(tmp_path) as bootstrap:
        host, port = bootstrap.rsplit(":", 1)
        with BrokerClient(host, int(port)) as client:
            create(client, "t")
            client.produce("t", zeros(2 * MIB, ZSTD))
        settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
        with Consumer({**settings, "max.decompressed.message.bytes": str(MIB)}) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            with pytest.raises(KafkaError, match=r"max\.decompressed\.message\.bytes"):
                read_one(consumer)
        with Consumer({**settings, "max.decompressed.message.bytes": str(3 * MIB)}) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            assert len(read_one(consumer).value) == MIB // 2


def read_one(consumer: Consumer) -> Any:
    """The first record that is polled."""
    while not (records := list(consumer.poll(1000))):
        pass
    return records[0]
