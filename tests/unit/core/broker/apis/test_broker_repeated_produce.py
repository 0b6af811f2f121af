"""Produce requests that repeat on one connection: the same answers as for the first of their kind."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from support.broker_client import BrokerClient, batch

from kafkatools.core.records.batch import read_batches

PRODUCE, FETCH, CREATE_TOPICS, DELETE_TOPICS, ALTER_CLIENT_QUOTAS = 0, 1, 19, 20, 49
KAFKA_STORAGE_ERROR, UNKNOWN_TOPIC_OR_PARTITION = 56, 3


def create(client: BrokerClient) -> Any:
    topics = [{"name": "t", "num_partitions": 2, "replication_factor": 1, "configs": []}]
    result = client.call(CREATE_TOPICS, 7, topics=topics, timeout=1000).topics[0]
    assert result.error_code == 0, result
    return result.topic_id


def fields(name: dict[str, Any], records: bytes, partition: int = 0, acks: int = -1) -> dict[str, Any]:
    data = [{**name, "partition_data": [{"index": partition, "records": records}]}]
    return {"transactional_id": None, "acks": acks, "timeout": 1000, "topic_data": data}


@pytest.fixture
def running(run_node: Callable[..., Any]) -> Any:
    return run_node()


@pytest.fixture
def warm(running: Any) -> BrokerClient:
    """A connection that has sent three requests for partition 0 of topic t and is known for it."""
    client: BrokerClient = running.connect()
    create(client)
    for offset in range(3):
        assert client.produce("t", batch([b"warm"])).base_offset == offset
    (connection,) = running.node.listener.connections
    assert connection.shortcut is not None
    return client


@pytest.mark.parametrize("version", range(9, 14))
def test_requests_sent_together_are_answered_in_order_and_all_is_in_the_log(running: Any, version: int) -> None:
    client = running.connect()
    topic_id = create(client)
    name = {"topic_id": topic_id} if version >= 13 else {"name": "t"}
    batches = [batch([b"%d" % i] * (i + 1)) for i in range(6)] + [batch([b"x" * 40_000])]
    client.socket.sendall(b"".join(client.frame(PRODUCE, version, fields(name, each)) for each in batches))
    offsets = []
    for _ in batches:
        answer = client.receive(PRODUCE, version)
        (topic,) = answer.responses
        assert (topic.topic_id == topic_id) if version >= 13 else (topic.name == "t")
        (partition,) = topic.partition_responses
        assert (partition.index, partition.error_code, partition.log_start_offset) == (0, 0, 0)
        assert (partition.log_append_time, partition.record_errors, partition.error_message) == (-1, (), None)
        offsets.append(partition.base_offset)
    assert offsets == [0, 1, 3, 6, 10, 15, 21]
    (connection,) = running.node.listener.connections
    assert connection.shortcut is not None
    wanted = [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]}]
    plain = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 24, "isolation_level": 0}
    found = client.call(FETCH, 12, topics=wanted, **plain).responses[0].partitions[0]
    kept = list(read_batches(found.records))
    assert [each.base_offset for each in kept] == offsets
    assert all(each.is_valid() for each in kept)
    assert found.high_watermark == 22


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (b"", 87),
        (batch([b"a"]) + batch([b"b"]), 87),
        (batch([b"a"])[:16] + b"\1" + batch([b"a"])[17:], 87),
        (batch([b"a"])[:-1] + b"\xff", 2),
        (batch([b"a"], is_control=True), 87),
        (batch([b"a"], base_offset=5), 87),
        (batch([b"a" * 1_100_000]), 10),
        (batch([b"a"], is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0), 53),
        (batch([b"a"], timestamp=99_999_999_999_999), 32),
    ],
    ids=["none", "two", "magic", "crc", "control", "base offset", "too large", "transactional", "timestamp"],
)
def test_a_bad_batch_among_good_ones_is_refused(warm: BrokerClient, records: bytes, code: int) -> None:
    refused = warm.produce("t", records)
    assert (refused.error_code, refused.base_offset) == (code, -1)
    assert warm.produce("t", batch([b"fine"])).base_offset == 3


def test_sequences_duplicate_gap_and_new_epoch(warm: BrokerClient) -> None:
    def send(sequence: int, epoch: int = 0) -> tuple[int, int]:
        answer = warm.produce("t", batch([b"v"], producer_id=7, producer_epoch=epoch, base_sequence=sequence))
        return answer.error_code, answer.base_offset

    assert [send(i) for i in range(3)] == [(0, 3), (0, 4), (0, 5)]
    assert send(1) == (0, 4)  # a retry: the first append's offset
    assert send(4) == (45, -1)
    assert send(5, epoch=1) == (45, -1)
    assert send(0, epoch=1) == (0, 6)
    assert send(3) == (47, -1)


def test_a_sequence_that_passes_the_largest_number_goes_on_at_zero(warm: BrokerClient) -> None:
    def send(sequence: int, count: int) -> int:
        return int(
            warm.produce("t", batch([b"v"] * count, producer_id=7, producer_epoch=0, base_sequence=sequence)).error_code
        )

    assert send(0x7FFFFFFF - 3, 2) == 0
    assert send(0x7FFFFFFF - 1, 4) == 0  # ends with sequence 1
    assert send(2, 1) == 0
    assert send(4, 1) == 45


def test_another_partition_and_no_acks_in_between(warm: BrokerClient) -> None:
    assert warm.produce("t", batch([b"other"]), partition=1).base_offset == 0
    warm.socket.sendall(warm.frame(PRODUCE, 9, fields({"name": "t"}, batch([b"silent"]), acks=0)))
    assert warm.produce("t", batch([b"again"])).base_offset == 4
    assert warm.produce("t", batch([b"leader only"]), acks=1).base_offset == 5


def test_a_deleted_topic_is_gone_at_once(warm: BrokerClient) -> None:
    deleted = warm.call(DELETE_TOPICS, 6, topics=[{"name": "t", "topic_id": None}], timeout=1000)
    assert deleted.responses[0].error_code == 0
    assert warm.produce("t", batch([b"lost"])).error_code == UNKNOWN_TOPIC_OR_PARTITION
    create(warm)
    assert [warm.produce("t", batch([b"new"])).base_offset for _ in range(4)] == [0, 1, 2, 3]


def test_a_quota_holds_from_the_next_request_on(warm: BrokerClient) -> None:
    entity = [{"entity_type": "client-id", "entity_name": "test"}]
    ops = [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]
    answer = warm.call(ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": entity, "ops": ops}], validate_only=False)
    assert answer.entries[0].error_code == 0
    produced = warm.call(PRODUCE, 9, **fields({"name": "t"}, batch([b"x" * 100])))
    assert produced.responses[0].partition_responses[0].base_offset == 3
    assert produced.throttle_time > 0


def test_a_write_that_fails_is_answered_and_the_next_one_counts(
    running: Any, warm: BrokerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = running.node.replicas.get("t", 0).log.segments.active

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(segment, "append", full)
        failed = warm.produce("t", batch([b"lost"]))
    assert (failed.error_code, failed.base_offset) == (KAFKA_STORAGE_ERROR, -1)
    assert len(running.failures) == 1
    running.failures.clear()
    assert warm.produce("t", batch([b"kept"])).base_offset == 3


@pytest.mark.parametrize("cut", [2, 60, 75, 100])
def test_a_shortened_request_ends_the_connection_only(running: Any, warm: BrokerClient, cut: int) -> None:
    frame = warm.frame(PRODUCE, 9, fields({"name": "t"}, batch([b"v" * 50])))
    shorter = frame[4:-cut]
    warm.socket.sendall(struct.pack(">i", len(shorter)) + shorter)
    assert warm.socket.recv(1) == b""
    other = running.connect()
    assert other.produce("t", batch([b"fine"])).base_offset == 3


def test_a_size_that_never_ends_closes_the_connection_only(running: Any, warm: BrokerClient) -> None:
    frame = bytearray(warm.frame(PRODUCE, 9, fields({"name": "t"}, batch([b"v" * 50]))))
    position = frame.index(batch([b"v" * 50])[:8]) - 2
    frame[position : position + 6] = b"\xff" * 6
    warm.socket.sendall(frame)
    assert warm.socket.recv(1) == b""
    assert running.connect().produce("t", batch([b"fine"])).base_offset == 3
