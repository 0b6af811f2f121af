"""Produce and Fetch over a real socket, every version; sessions, waiting, limits and errors."""

import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.broker_client import BrokerClient, batch

from kafkatools.core.records.batch import read_batches

PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS = 0, 1, 2, 3, 19


def create(client: BrokerClient, name: str = "t", partitions: int = 1, **configs: str) -> Any:
    entries = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topics = [{"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": entries}]
    result = client.call(CREATE_TOPICS, 7, topics=topics, timeout=1000).topics[0]
    assert result.error_code == 0, result
    return result.topic_id


def wanted(version: int, topic: str, topic_id: Any, *offsets: int, max_bytes: int = 1 << 20) -> list[dict[str, Any]]:
    name = {"topic_id": topic_id} if version >= 13 else {"topic": topic}
    parts = [{"partition": i, "fetch_offset": at, "partition_max_bytes": max_bytes} for i, at in enumerate(offsets)]
    return [{**name, "partitions": parts}]


def fetch(client: BrokerClient, version: int, topics: list[dict[str, Any]], **fields: Any) -> Any:
    plain = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 24, "isolation_level": 0, "topics": topics, **fields}
    if version < 15:
        plain["replica_id"] = -1
    return client.call(FETCH, version, **plain)


def values(records: bytes | None) -> list[bytes | None]:
    return [record.value for each in read_batches(records or b"") for record in each.records()]


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_of_produce_appends(client: BrokerClient, version: int) -> None:
    topic_id = create(client)
    name = {"topic_id": topic_id} if version >= 13 else {"name": "t"}
    for base_offset in (0, 2):
        data = [{**name, "partition_data": [{"index": 0, "records": batch([b"a", b"b"])}]}]
        answer = client.call(PRODUCE, version, transactional_id=None, acks=-1, timeout=1000, topic_data=data)
        (topic,) = answer.responses
        assert (topic.topic_id == topic_id) if version >= 13 else (topic.name == "t")
        (partition,) = topic.partition_responses
        assert (partition.index, partition.error_code, partition.base_offset) == (0, 0, base_offset)
        if version >= 5:
            assert partition.log_start_offset == 0
        if version >= 8:
            assert (partition.record_errors, partition.error_message) == ((), None)


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("size", [10, 9000])
def test_every_version_of_fetch_reads_inline_and_by_sendfile(client: BrokerClient, version: int, size: int) -> None:
    topic_id = create(client, partitions=2)
    client.produce("t", batch([b"x" * size, b"y" * size]))
    answer = fetch(client, version, wanted(version, "t", topic_id, 0, 0))
    (topic,) = answer.responses
    assert (topic.topic_id == topic_id) if version >= 13 else (topic.topic == "t")
    first, second = topic.partitions
    assert (first.error_code, first.high_watermark, first.last_stable_offset) == (0, 2, 2)
    assert values(first.records) == [b"x" * size, b"y" * size]
    assert (second.error_code, second.high_watermark, values(second.records)) == (0, 0, [])
    assert first.aborted_transactions is None


def test_records_carry_the_brokers_offset_and_leader_epoch_and_a_valid_crc(client: BrokerClient) -> None:
    create(client)
    client.produce("t", batch([b"a"]))
    client.produce("t", batch([b"b"]))
    (topic,) = fetch(client, 12, wanted(12, "t", None, 0)).responses
    found = list(read_batches(topic.partitions[0].records))
    assert [(each.base_offset, each.is_valid()) for each in found] == [(0, True), (1, True)]
    assert found[0].partition_leader_epoch == 0  # type: ignore[union-attr]


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
def test_bad_batches_are_refused_with_kafkas_code_and_nothing_is_appended(
    client: BrokerClient, records: bytes, code: int
) -> None:
    create(client)
    refused = client.produce("t", records)
    assert (refused.error_code, refused.base_offset) == (code, -1)
    assert client.produce("t", batch([b"fine"])).base_offset == 0


def test_sequences_duplicate_gap_and_new_epoch(client: BrokerClient) -> None:
    create(client)

    def send(sequence: int, epoch: int = 0) -> tuple[int, int]:
        answer = client.produce("t", batch([b"v"], producer_id=7, producer_epoch=epoch, base_sequence=sequence))
        return answer.error_code, answer.base_offset

    assert [send(i) for i in range(3)] == [(0, 0), (0, 1), (0, 2)]
    assert send(1) == (0, 1)  # a retry: the first append's offset
    assert send(4) == (45, -1)
    assert send(5, epoch=1) == (45, -1)
    assert send(0, epoch=1) == (0, 3)
    assert send(3) == (47, -1)


@pytest.mark.parametrize(("topic", "partition", "acks", "code"), [("no", 0, 1, 3), ("t", 9, 1, 3), ("t", 0, 5, 21)])
def test_unknown_partitions_and_acks(client: BrokerClient, topic: str, partition: int, acks: int, code: int) -> None:
    create(client)
    assert client.produce(topic, batch([b"v"]), partition=partition, acks=acks).error_code == code


def test_acks_0_is_silent_when_it_works_and_closes_when_it_does_not(run_node: Callable[..., Any]) -> None:
    running = run_node()
    client = running.connect()
    create(client)
    for name in ("t", "no"):
        data = [{"name": name, "partition_data": [{"index": 0, "records": batch([b"v"])}]}]
        fields = {"transactional_id": None, "acks": 0, "timeout": 1000, "topic_data": data}
        client.socket.sendall(client.frame(PRODUCE, 9, fields))
        if name == "t":
            assert client.produce("t", batch([b"w"])).base_offset == 1
    with pytest.raises(EOFError):
        client.read(1)


def test_a_fetch_at_the_end_waits_for_the_next_record(run_node: Callable[..., Any]) -> None:
    running = run_node()
    reader, writer = running.connect(), running.connect()
    create(writer)
    frame = reader.frame(
        FETCH, 12, {"max_wait": 20_000, "min_bytes": 1, "max_bytes": 1 << 20, "topics": wanted(12, "t", None, 0)}
    )
    reader.socket.sendall(frame + reader.frame(60, 0, {}))
    timer = threading.Timer(0, lambda: writer.produce("t", batch([b"now"])))
    timer.start()
    (topic,) = reader.receive(FETCH, 12).responses
    assert values(topic.partitions[0].records) == [b"now"]
    assert reader.receive(60, 0).controller_id == 1  # what was sent behind the waiting fetch comes after it
    timer.join()


def test_a_fetch_that_waits_in_vain_answers_empty_at_its_time_out(client: BrokerClient) -> None:
    create(client)
    (topic,) = fetch(client, 12, wanted(12, "t", None, 0), max_wait=30).responses
    assert (topic.partitions[0].error_code, values(topic.partitions[0].records)) == (0, [])


def test_limits_always_give_one_batch_and_no_more_than_asked(client: BrokerClient) -> None:
    create(client, partitions=2)
    for index in (0, 1):
        for _ in range(3):
            client.produce("t", batch([b"v" * 5000]), partition=index)
    (topic,) = fetch(client, 12, wanted(12, "t", None, 0, 0), max_bytes=100).responses
    assert [len(values(p.records)) for p in topic.partitions] == [1, 0]
    (topic,) = fetch(client, 12, wanted(12, "t", None, 0, 0, max_bytes=6000)).responses
    sizes = [len(p.records) for p in topic.partitions]
    assert sizes[0] >= 5000
    assert max(sizes) <= 6000


def test_a_part_of_a_first_batch_is_never_sent(client: BrokerClient) -> None:
    """A client takes it for a record that is larger than anything it may fetch (ReplicaManager.readFromLog)."""
    create(client, partitions=2)
    for index in (0, 1):
        client.produce("t", batch([b"v" * 5000]), partition=index)
    (topic,) = fetch(client, 12, wanted(12, "t", None, 0, 0, max_bytes=100), isolation_level=1).responses
    first, second = topic.partitions
    assert (values(first.records), first.aborted_transactions) == ([b"v" * 5000], ())
    assert (second.records, second.error_code, second.high_watermark) == (b"", 0, 1)
    assert second.aborted_transactions is None


def abort(client: BrokerClient, producer_id: int, sequence: int) -> None:
    """A transaction of one batch of 5 kB, aborted."""
    names = [{"name": "t", "partitions": [0]}]
    who = {"transactional_id": "x", "producer_id": producer_id, "producer_epoch": 0}
    old = {f"v3_and_below_{field}": value for field, value in who.items()}
    (topic,) = client.call(24, 3, v3_and_below_topics=names, **old).results_by_topic_v3_and_below
    assert topic.results_by_partition[0].partition_error_code == 0
    header = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
    records = batch([b"v" * 5000], int(time.time() * 1000), **header)  # markers bear the broker's time
    data = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
    answer = client.call(PRODUCE, 9, transactional_id="x", acks=-1, timeout=1000, topic_data=data)
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert client.call(26, 3, committed=False, **who).error_code == 0


def test_aborted_transactions_are_told_as_far_as_the_records_reach(run_node: Callable[..., Any]) -> None:
    """The lists are Apache Kafka 4.3.1's. With all up to the end, each fetch of a topic with many would carry all."""
    client = run_node({"transaction.state.log.num.partitions": "1"}).connect()
    create(client)
    assert client.call(10, 4, key_type=1, coordinator_keys=["x"]).coordinators[0].error_code == 0
    fields = {"transactional_id": "x", "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    producer_id = client.call(22, 4, **fields).producer_id
    for number in range(12):
        abort(client, producer_id, number)
    told = {}
    for offset, max_bytes in ((0, 6000), (0, 11000), (4, 1), (4, 6000), (4, 11000), (4, 1 << 20), (23, 1), (24, 1)):
        read = fetch(client, 12, wanted(12, "t", None, offset, max_bytes=max_bytes), isolation_level=1)
        aborted = read.responses[0].partitions[0].aborted_transactions
        told[offset, max_bytes] = [each.first_offset for each in aborted]
    assert told == {
        (0, 6000): [0, 2],
        (0, 11000): [0, 2, 4],
        (4, 1): [4],
        (4, 6000): [4, 6],
        (4, 11000): [4, 6, 8],
        (4, 1 << 20): [4, 6, 8, 10, 12, 14, 16, 18, 20, 22],
        (23, 1): [22],
        (24, 1): [],
    }


@pytest.mark.parametrize("offset", [-5, 1, 99])
def test_offsets_outside_of_the_log(client: BrokerClient, offset: int) -> None:
    create(client)
    (topic,) = fetch(client, 12, wanted(12, "t", None, offset)).responses
    assert (topic.partitions[0].error_code, topic.partitions[0].high_watermark) == (1, -1)


def test_leader_epochs_of_the_client(client: BrokerClient) -> None:
    create(client)
    codes = []
    for epoch in (0, 1):
        topics = wanted(12, "t", None, 0)
        topics[0]["partitions"][0]["current_leader_epoch"] = epoch
        codes.append(fetch(client, 12, topics).responses[0].partitions[0].error_code)
    assert codes == [0, 75]


def test_unknown_topics_by_name_and_by_id(client: BrokerClient) -> None:
    import uuid

    assert fetch(client, 12, wanted(12, "no", None, 0)).responses[0].partitions[0].error_code == 3
    assert fetch(client, 13, wanted(13, "", uuid.uuid4(), 0)).responses[0].partitions[0].error_code == 100


def test_a_session_names_only_news(client: BrokerClient) -> None:
    topic_id = create(client, partitions=2)
    client.produce("t", batch([b"a"]))
    opened = fetch(client, 17, wanted(17, "t", topic_id, 0, 0), session_id=0, session_epoch=0)
    assert opened.session_id > 0
    assert len(opened.responses[0].partitions) == 2
    moved = wanted(17, "t", topic_id, 1)
    quiet = fetch(client, 17, moved, session_id=opened.session_id, session_epoch=1)
    assert (quiet.error_code, quiet.session_id, quiet.responses) == (0, opened.session_id, ())
    client.produce("t", batch([b"b"]), partition=1)
    news = fetch(client, 17, [], session_id=opened.session_id, session_epoch=2)
    assert [(p.partition_index, values(p.records)) for p in news.responses[0].partitions] == [(1, [b"b"])]
    forgotten = [{"topic_id": topic_id, "partitions": [1]}]
    rest = fetch(client, 17, [], session_id=opened.session_id, session_epoch=3, forgotten_topics_data=forgotten)
    assert rest.responses == ()
    assert fetch(client, 17, [], session_id=opened.session_id, session_epoch=9).error_code == 71
    assert fetch(client, 17, [], session_id=12345, session_epoch=1).error_code == 70
    closed = fetch(client, 17, [], session_id=opened.session_id, session_epoch=-1)
    assert closed.error_code == 0
    assert fetch(client, 17, [], session_id=opened.session_id, session_epoch=4).error_code == 70


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets(client: BrokerClient, version: int) -> None:
    create(client)
    for i in range(3):
        client.produce("t", batch([b"v"], timestamp=1_700_000_000_000 + 10 * i))

    def ask(timestamp: int) -> tuple[int, int, int]:
        partitions = [{"partition_index": 0, "timestamp": timestamp}]
        fields: dict[str, Any] = {"replica_id": -1, "topics": [{"name": "t", "partitions": partitions}]}
        found = client.call(LIST_OFFSETS, version, **fields).topics[0].partitions[0]
        return found.error_code, found.offset, found.timestamp

    assert ask(-1) == (0, 3, -1)
    assert ask(-2) == (0, 0, -1)
    assert ask(1_700_000_000_005) == (0, 1, 1_700_000_000_010)
    assert ask(1_700_000_000_021) == (0, -1, -1)
    assert ask(-3) == ((0, 2, 1_700_000_000_020) if version >= 7 else (35, -1, -1))
    assert ask(-4) == ((0, 0, -1) if version >= 8 else (35, -1, -1))
    assert ask(-5) == ((0, -1, -1) if version >= 9 else (35, -1, -1))
    assert ask(-7) == (35, -1, -1)


def test_deleted_records_are_out_of_range_and_stay_so_after_a_restart(run_node: Callable[..., Any]) -> None:
    running = run_node()
    client = running.connect()
    create(client)
    for _ in range(4):
        client.produce("t", batch([b"v"]))

    def delete(offset: int) -> tuple[int, int]:
        topics = [{"name": "t", "partitions": [{"partition_index": 0, "offset": offset}]}]
        found = client.call(21, 2, topics=topics, timeout=1000).topics[0].partitions[0]
        return found.error_code, found.low_watermark

    assert delete(3) == (0, 3)
    assert delete(9) == (1, -1)
    assert delete(-2) == (1, -1)
    assert fetch(client, 12, wanted(12, "t", None, 2)).responses[0].partitions[0].error_code == 1
    running.stop()
    client = run_node().connect()
    (topic,) = fetch(client, 12, wanted(12, "t", None, 3)).responses
    assert (topic.partitions[0].log_start_offset, values(topic.partitions[0].records)) == (3, [b"v"])
    assert fetch(client, 12, wanted(12, "t", None, 0)).responses[0].partitions[0].error_code == 1


@pytest.mark.slow
def test_a_reader_that_does_not_read_costs_the_broker_nothing_and_gets_everything_in_the_end(
    run_node: Callable[..., Any],
) -> None:
    """Its requests wait in its socket; others are served meanwhile; a segment that is deleted under the waiting
    answer is still sent."""
    running = run_node({"log.segment.delete.delay.ms": "0"})
    slow, other = running.connect(), running.connect()
    create(other)
    for _ in range(20):
        other.produce("t", batch([b"x" * 900_000]))
    frame = slow.frame(
        FETCH, 12, {"max_wait": 0, "max_bytes": 1 << 25, "topics": wanted(12, "t", None, 0, max_bytes=1 << 25)}
    )
    slow.socket.sendall(frame * 3)
    assert other.produce("t", batch([b"still served"])).base_offset == 20
    waiting: list[Any] = []
    for _ in range(1000):  # until its first request was handled; each round is a turn of the broker
        waiting = [c for c in running.node.listener.connections.copy() if c._queued_bytes > 1_000_000]
        if waiting:
            break
        other.call(METADATA, 1, topics=[])
    (connection,) = waiting
    assert len(connection._output) <= 4
    other.call(20, 4, topic_names=["t"])
    (topic,) = slow.receive(FETCH, 12).responses
    assert [len(value or b"") for value in values(topic.partitions[0].records)][:20] == [900_000] * 20
    assert slow.receive(FETCH, 12).responses[0].partitions[0].error_code == 3


def test_retention_deletes_what_is_too_old_and_readers_learn_it(run_node: Callable[..., Any]) -> None:
    settings = {
        "log.initial.task.delay.ms": "10",
        "log.retention.check.interval.ms": "10",
        "log.segment.delete.delay.ms": "0",
    }
    client = run_node(settings).connect()
    create(client, retention_ms="1000", segment_bytes="1048576")
    assert client.produce("t", batch([b"old"], timestamp=1_000)).base_offset == 0
    partitions = [{"partition_index": 0, "timestamp": -2}]
    earliest = 0
    while earliest != 1:
        answer = client.call(LIST_OFFSETS, 6, replica_id=-1, topics=[{"name": "t", "partitions": partitions}])
        earliest = answer.topics[0].partitions[0].offset
    assert fetch(client, 12, wanted(12, "t", None, 0)).responses[0].partitions[0].error_code == 1
    assert client.produce("t", batch([b"new"])).base_offset == 1


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (3, b"\xff\xff" + b"\0\1" + bytes(4) + b"\0\0\0\1" + b"\xff\xff" + bytes(4)),
        (3, b"\xff\xff" + b"\0\1" + bytes(4) + b"\0\0\0\1" + b"\x80\0" + bytes(4)),
        (9, b"\0" + b"\0\1" + bytes(4) + b"\2" + b"\0" + b"\1\0\0"),
        (9, b"\0" + b"\0\1" + bytes(4) + b"\2" + b"\x81\x80\x02" + b"a" * 32_768 + b"\1\0\0"),
    ],
    ids=["null", "negative length", "compact null", "too long"],
)
def test_a_topic_name_that_no_answer_can_repeat_closes_the_connection(
    client: BrokerClient, version: int, body: bytes
) -> None:
    frame = struct.pack(">hhih", 0, version, 1, -1) + (b"\0" if version >= 9 else b"") + body
    client.socket.sendall(struct.pack(">i", len(frame)) + frame)
    with pytest.raises(EOFError):
        client.read(1)
