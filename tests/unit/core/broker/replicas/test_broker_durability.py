"""log.durability=fsync: what is answered is on the disk; a turn's appends share a sync; a sync that fails."""

import errno
import os
import pathlib
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.broker_client import BrokerClient, batch
from support.waiting import eventually

from kafkatools import Admin, ConsumerRecord, ShareConsumer
from kafkatools.errors import KafkaError

PRODUCE, FETCH, LIST_OFFSETS, API_VERSIONS, CREATE_TOPICS, INITIALIZE_SHARE_GROUP_STATE = 0, 1, 2, 18, 19, 83
NOT_COORDINATOR, STORAGE_ERROR = 16, 56
FSYNC = {"log.durability": "fsync"}


class Disk:
    """Stands in for fdatasync: counts, can hold the broker's syncs back and can let them fail."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.count = 0
        self.error: OSError | None = None
        self.sync = os.fdatasync

    def __call__(self, descriptor: int) -> None:
        self.count += 1
        self.entered.release()
        assert self.gate.wait(10)
        if self.error is not None:
            raise self.error
        self.sync(descriptor)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    made = Disk()
    monkeypatch.setattr(os, "fdatasync", made)
    yield made
    made.gate.set()


def create(client: BrokerClient, name: str = "t") -> uuid.UUID:
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1, "configs": []}]
    made = client.call(CREATE_TOPICS, 7, topics=topics, timeout=1000).topics[0]
    assert made.error_code == 0
    topic_id: uuid.UUID = made.topic_id
    return topic_id


def first_append(client: BrokerClient) -> None:
    """The first one syncs the directory too, which the listener's thread does."""
    create(client)
    assert client.produce("t", batch([b"first"])).base_offset == 0


def send(client: BrokerClient, acks: int, *values: bytes, timeout: int = 5000) -> None:
    data = [{"name": "t", "partition_data": [{"index": 0, "records": batch(list(values))}]}]
    fields = {"transactional_id": None, "acks": acks, "timeout": timeout, "topic_data": data}
    client.socket.sendall(client.frame(PRODUCE, 9, fields))


def outcome(client: BrokerClient) -> tuple[int, int]:
    answer = client.receive(PRODUCE, 9).responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


def end_offset(client: BrokerClient) -> int:
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    answer = client.call(LIST_OFFSETS, 1, replica_id=-1, topics=topics)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


@pytest.mark.parametrize("acks", [1, -1])
def test_nobody_is_answered_and_nobody_reads_before_the_disk_has_it(
    run_node: Callable[..., Any], disk: Disk, acks: int
) -> None:
    running = run_node(FSYNC)
    writer, reader = running.connect(), running.connect()
    first_append(writer)
    log = running.node.replicas.get("t", 0).log
    disk.gate.clear()
    send(writer, acks, b"a", b"b")
    assert disk.entered.acquire(timeout=10)
    assert end_offset(reader) == 1
    assert (log.log_end_offset, log.high_watermark, log.recovery_point) == (3, 1, 1)
    disk.gate.set()
    assert outcome(writer) == (0, 1)
    assert (log.high_watermark, log.recovery_point) == (3, 3)
    assert end_offset(reader) == 3


def test_what_arrives_during_a_sync_shares_the_next_one(run_node: Callable[..., Any], disk: Disk) -> None:
    running = run_node(FSYNC)
    writers = [running.connect() for _ in range(8)]
    first_append(writers[0])
    disk.gate.clear()
    send(writers[0], -1, b"v")
    assert disk.entered.acquire(timeout=10)
    log = running.node.replicas.get("t", 0).log
    other = running.connect()
    for number, writer in enumerate(writers[1:]):
        send(writer, 1 - 2 * (number % 2), b"v")
    while log.log_end_offset < 9:
        other.call(API_VERSIONS, 0)
    disk.gate.set()
    offsets = [outcome(writer) for writer in writers]
    assert sorted(offsets) == [(0, number) for number in range(1, 9)]
    assert disk.count == 2


def test_without_it_the_answer_does_not_wait(run_node: Callable[..., Any], disk: Disk) -> None:
    running = run_node()
    client = running.connect()
    first_append(client)
    assert client.produce("t", batch([b"v"])).base_offset == 1
    assert disk.count == 0
    assert running.node.replicas.get("t", 0).log.recovery_point == 0


def test_a_retry_of_what_is_not_on_the_disk_yet_waits_too(run_node: Callable[..., Any], disk: Disk) -> None:
    running = run_node(FSYNC)
    writer, again = running.connect(), running.connect()
    first_append(writer)
    data = batch([b"v"], producer_id=5, producer_epoch=0, base_sequence=0)
    fields = {"transactional_id": None, "acks": -1, "timeout": 5000}
    topic_data = [{"name": "t", "partition_data": [{"index": 0, "records": data}]}]
    disk.gate.clear()
    for client in (writer, again):
        client.socket.sendall(client.frame(PRODUCE, 9, {**fields, "topic_data": topic_data}))
    assert disk.entered.acquire(timeout=10)
    again.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        again.read(1)
    again.socket.settimeout(10)
    disk.gate.set()
    assert outcome(writer) == outcome(again) == (0, 1)


def test_a_sync_that_fails_is_a_storage_error_and_the_next_start_recovers(
    run_node: Callable[..., Any], disk: Disk, tmp_path: pathlib.Path
) -> None:
    running = run_node(FSYNC)
    client = running.connect()
    first_append(client)
    disk.error = OSError(errno.EIO, "Input/output error")
    send(client, -1, b"lost?")
    assert outcome(client)[0] == STORAGE_ERROR
    disk.error = None
    assert client.produce("t", batch([b"v"])).error_code == STORAGE_ERROR
    assert any("t-0" in line and "Input/output error" in line for line in running.failures)
    running.failures.clear()
    running.stop()
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    client = run_node(FSYNC).connect()
    assert client.produce("t", batch([b"v"])).base_offset == 2


def initialize_state(client: BrokerClient, topic_id: uuid.UUID, epoch: int) -> int:
    """The error code of an InitializeShareGroupState request."""
    partitions = [{"partition": 0, "state_epoch": epoch, "start_offset": 0}]
    topics = [{"topic_id": topic_id, "partitions": partitions}]
    answer = client.call(INITIALIZE_SHARE_GROUP_STATE, 0, group_id="g", topics=topics)
    return int(answer.results[0].partitions[0].error_code)


def test_a_share_state_whose_sync_fails_is_an_error(run_node: Callable[..., Any], disk: Disk) -> None:
    running = run_node(FSYNC)
    client = running.connect()
    topic_id = create(client)
    assert initialize_state(client, topic_id, 1) == 0
    disk.error = OSError(errno.EIO, "Input/output error")
    assert initialize_state(client, topic_id, 2) == NOT_COORDINATOR
    disk.error = None
    assert any("__share_group_state" in line and "Input/output error" in line for line in running.failures)
    running.failures.clear()


def test_an_acknowledgement_whose_sync_fails_is_not_confirmed(run_node: Callable[..., Any], disk: Disk) -> None:
    running = run_node(FSYNC)
    client = running.connect()
    create(client)
    assert client.produce("t", batch([b"one", b"two"])).error_code == 0
    config = {("group", "g"): {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "30000"}}
    with Admin(bootstrap_servers=running.node.bootstrap) as admin:
        admin.alter_configs(config)
    settings = {"group.id": "g", "share.acknowledgement.mode": "explicit"}
    records: list[ConsumerRecord] = []
    with ShareConsumer(settings, bootstrap_servers=running.node.bootstrap) as reader:
        reader.subscribe(["t"])
        eventually(lambda: bool(records.extend(reader.poll(200)) or records))
        reader.acknowledge(records[0])
        assert list(reader.commit_sync().values()) == [None]
        disk.error = OSError(errno.EIO, "Input/output error")
        reader.acknowledge(records[1])
        (error,) = reader.commit_sync().values()
        assert isinstance(error, KafkaError)
        disk.error = None
    assert any("__share_group_state" in line and "Input/output error" in line for line in running.failures)
    running.failures.clear()


def test_rolled_segments_and_the_metadata_are_durable_too(run_node: Callable[..., Any]) -> None:
    running = run_node({**FSYNC, "log.segment.bytes": "1048576"})
    client = running.connect()
    create(client)
    for number in range(5):
        assert client.produce("t", batch([b"x" * 400_000])).base_offset == number
        log = running.node.replicas.get("t", 0).log
        assert log.recovery_point == number + 1
    assert len(log.segments) == 3
    metadata = running.node.metadata_log.log
    assert metadata.recovery_point == metadata.log_end_offset
