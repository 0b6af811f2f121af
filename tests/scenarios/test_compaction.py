"""Compacted topics and metadata snapshots of a broker in a process of its own, killed and handed over."""

from __future__ import annotations

import pathlib
import shutil
import time
from typing import Any

import pytest
from support.broker_client import BrokerClient, batch
from support.waiting import PATIENCE_S, eventually

from kafkatools.core.records.batch import read_batches
from kafkatools.core.records.builder import BatchBuilder

SNAPSHOTS = {
    "metadata_log_max_record_bytes_between_snapshots": "3000",
    "metadata_max_retention_bytes": "6000",
}
SMALL_SEGMENTS = {"internal_metadata_log_segment_bytes": "4000"}  # Apache Kafka's batches do not fit


def connect(broker: Any) -> BrokerClient:
    return BrokerClient("127.0.0.1", broker.port)


def create(client: BrokerClient, topic: str, partitions: int = 1, **configs: str) -> None:
    entries = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
    topics = [{"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": entries}]
    result = client.call(19, 7, topics=topics, timeout=5000).topics[0]
    assert result.error_code == 0, result


def keyed(pairs: list[tuple[bytes, bytes]]) -> bytes:
    """A batch of keys and values."""
    builder = BatchBuilder(1 << 20)
    for key, value in pairs:
        builder.append(1_700_000_000_000, key, value)
    return bytes(builder.close())


def fetch_all(client: BrokerClient, topic: str) -> list[Any]:
    """Every record that is left, in order."""
    records: list[Any] = []
    offset = 0
    while True:
        wanted = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]
        topics = [{"topic": topic, "partitions": wanted}]
        answer = (
            client.call(1, 12, max_wait=0, min_bytes=0, max_bytes=1 << 24, topics=topics).responses[0].partitions[0]
        )
        assert answer.error_code == 0
        if not answer.records:
            return records
        for each in read_batches(answer.records):
            assert each.last_offset >= offset
            records += [record for record in each.records() if record.offset >= offset]
            offset = each.last_offset + 1


def test_the_last_value_of_every_key_survives_kills_in_the_middle_of_cleaning(broker: Any) -> None:
    broker.stop()
    settings = {"log_cleaner_backoff_ms": "20", "log_cleaner_dedupe_buffer_size": "1000000"}
    broker.start(**settings)
    with connect(broker) as client:
        compacted = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "file_delete_delay_ms": "0"}
        create(client, "keyed", **compacted, segment_bytes="1048576")
    newest: dict[bytes, bytes] = {}
    number = 0
    for round_number in range(4):
        with connect(broker) as client:
            for _ in range(30):
                values = []
                for _ in range(100):
                    key, value = b"key-%d" % (number % 501), b"value %d " % number + b"." * 400
                    newest[key] = value
                    values.append((key, value))
                    number += 1
                assert client.produce("keyed", keyed(values)).error_code == 0
        time.sleep(0.05 * round_number)  # another moment of the cleaner's work each time
        broker.kill()
        broker.start(**settings)
        with connect(broker) as client:
            found = fetch_all(client, "keyed")
            assert {record.key: record.value for record in found} == newest
            assert client.produce("keyed", keyed([(b"end", b"end")])).base_offset == number + round_number
            newest[b"end"] = b"end"
    with connect(broker) as client:
        eventually(lambda: len(fetch_all(client, "keyed")) < number / 3)


def test_committed_offsets_are_compacted_and_survive_a_kill(broker: Any) -> None:
    broker.stop()
    settings = {
        "log_cleaner_backoff_ms": "20",
        "log_cleaner_dedupe_buffer_size": "1000000",
        "offsets_topic_num_partitions": "1",
        "offsets_topic_segment_bytes": "1048576",
    }
    broker.start(**settings)
    size = 0
    with connect(broker) as client:
        create(client, "read", partitions=200)
        for number in range(80):
            partitions = [{"partition_index": i, "committed_offset": number * 1000 + i} for i in range(200)]
            topics = [{"name": "read", "partitions": partitions}]
            answer = client.call(8, 8, group_id="readers", topics=topics)
            assert {each.error_code for each in answer.topics[0].partitions} == {0}
            size += 200 * 60
    directory = broker.directory / "__consumer_offsets-0"
    eventually(lambda: sum(path.stat().st_size for path in directory.glob("*.log")) <= size / 2)
    broker.kill()
    broker.start(**settings)
    with connect(broker) as client:
        topics = [{"name": "read", "partition_indexes": list(range(200))}]
        answer = client.call(9, 7, group_id="readers", topics=topics)
        found = {each.partition_index: each.committed_offset for each in answer.topics[0].partitions}
        assert found == {i: 79_000 + i for i in range(200)}


def checkpoints(directory: pathlib.Path) -> list[str]:
    return sorted(path.name for path in (directory / "__cluster_metadata-0").glob("*.checkpoint"))


@pytest.mark.real_kafka
@pytest.mark.slow
def test_apache_kafka_and_this_broker_start_on_each_others_metadata_snapshots(
    make_broker: Any, new_kafka: Any, kafka_tool: Any
) -> None:
    broker = make_broker()
    broker.start(**SNAPSHOTS, **SMALL_SEGMENTS)
    with connect(broker) as client:
        for number in range(60):
            create(client, f"topic-{number}", partitions=2, retention_ms=str(1000 + number))
        client.produce("topic-59", batch([b"one"]), partition=1)
        deadline = time.monotonic() + PATIENCE_S
        log = broker.directory / "__cluster_metadata-0" / f"{0:020d}.log"
        number = 60
        while log.exists() and time.monotonic() < deadline:
            create(client, f"topic-{number}")
            number += 1
            time.sleep(0.2)
        assert not log.exists(), "the beginning of the log is gone: only a snapshot has it"
    broker.stop()
    newest = broker.directory / "__cluster_metadata-0" / checkpoints(broker.directory)[-1]
    decoded = kafka_tool("dump-log", "--cluster-metadata-decoder", "--files", str(newest))
    assert decoded.returncode == 0, decoded.stderr
    for expected in (
        b"SnapshotHeader",
        b'"name":"topic-0"',
        b'"name":"retention.ms","value":"1000"',
        b"SnapshotFooter",
    ):
        assert expected in decoded.stdout
    kafka = new_kafka(settings={name.replace("_", "."): value for name, value in SNAPSHOTS.items()})
    kafka.log_dir().parent.mkdir(parents=True)
    shutil.copytree(broker.directory, kafka.log_dir())
    kafka.start(format_first=False)
    described = kafka.tool("topics", "--describe", "--topic", "topic-59")
    assert "PartitionCount: 2" in described and "retention.ms=1059" in described
    for name in range(3):
        kafka.tool("topics", "--create", "--topic", f"theirs-{name}", "--partitions", "20")
    kafka.stop()
    assert set(checkpoints(kafka.log_dir())) - set(checkpoints(broker.directory))
    shutil.rmtree(broker.directory)
    shutil.copytree(kafka.log_dir(), broker.directory)
    broker.start(**SNAPSHOTS)
    with connect(broker) as client:
        names = {topic.name: len(topic.partitions) for topic in client.call(3, 12, topics=None).topics}
        assert names["topic-59"] == 2 and names["theirs-2"] == 20 and len(names) >= 63
        assert client.produce("topic-59", batch([b"two"]), partition=1).base_offset == 1
