"""Fetches of many partitions: read in slices while others are answered, whatever happens to logs between two slices;
and fetches that wait, which read again only what changed. The length of a turn is its number of calls, which does
not depend on the machine."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from support.broker_client import batch
from support.broker_turns import Turns

from kafkatools.core.broker.replicas import fetch_session
from kafkatools.core.broker.replicas.fetch_partition import FetchPartition
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.server.slow_lane import SlowLane
from kafkatools.core.records.batch import read_batches

FETCH, METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, ALTER_QUOTAS = 1, 3, 18, 19, 20, 49
NONE, OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, STORAGE_ERROR, UNKNOWN_TOPIC_ID = 0, 1, 3, 56, 100
BY_NAME, BY_ID = 12, 13
OTHER = {"client_software_name": "a", "client_software_version": "1"}
PARTITIONS = 120
LARGE = b"x" * 9000  # sent from the file
SMALL = b"y"


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of more than 100 partitions is read in slices; partitions take long to create."""
    monkeypatch.setattr(fetch_session, "MANY_PARTITIONS", 100)


class Topic:
    """A topic and the client that fetches it."""

    def __init__(self, broker: Turns, count: int, **configs: str) -> None:
        self.broker = broker
        self.client = broker.connect()
        entries = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topic = {"name": "t", "num_partitions": count, "replication_factor": 1, "configs": entries}
        answer = broker.call(self.client, CREATE_TOPICS, 7, {"topics": [topic], "timeout": 5000})
        self.topic_id = answer.topics[0].topic_id
        self.partitions = broker.node.replicas.partitions["t"]
        broker.longest = broker.total = 0.0

    def append(self, index: int, *values: bytes) -> None:
        partition = self.partitions[index]
        for value in values:
            partition.append(memoryview(bytearray(batch([value]))), self.broker.node.clock.wall_ms())
            self.broker.node.replicas.note_append(partition)

    def request(self, indexes: list[int], version: int = BY_NAME, **fields: Any) -> dict[str, Any]:
        """A Fetch request of partitions, which may stand there several times."""
        name = {"topic_id": self.topic_id} if version >= BY_ID else {"topic": "t"}
        parts = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for index in indexes]
        plain = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 26, "session_epoch": -1}
        return {**plain, "topics": [{**name, "partitions": parts}] if parts else [], **fields}

    def fetch(self, indexes: list[int], version: int = BY_NAME, **fields: Any) -> Any:
        return self.broker.call(self.client, FETCH, version, self.request(indexes, version, **fields))

    def session(self) -> dict[str, Any]:
        """The fields of the first incremental request of a session with all partitions. It is handled in slices of a
        few partitions."""
        self.broker.node.listener.lane = SlowLane(slice_ns=0)
        opened = self.fetch(list(self.partitions), BY_ID, session_epoch=0)
        return {"session_id": opened.session_id, "session_epoch": 1}

    def count_reads(self) -> list[int]:
        """The partitions that are read from now on."""
        replicas, found = self.broker.node.replicas, []
        read_one = replicas.read_one

        def counted(wanted: FetchPartition, *rest: Any) -> Any:
            found.append(wanted.index)
            return read_one(wanted, *rest)

        replicas.read_one = counted  # type: ignore[method-assign]
        return found


def values(partition: Any) -> list[bytes | None]:
    return [record.value for each in read_batches(partition.records or b"") for record in each.records()]


def calls_of_turns(broker: Turns, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of calls of Python and C functions in each turn from now on, in all threads."""
    counts: list[int] = []
    turn = broker.node.run_once

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            counts[-1] += 1

    def counted(timeout_ms: int) -> None:
        counts.append(0)
        threading.setprofile(note)  # of the threads of the slow lane
        sys.setprofile(note)
        try:
            turn(timeout_ms)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    monkeypatch.setattr(broker.node, "run_once", counted)
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("version", [4, BY_NAME, BY_ID])
def test_another_connection_is_answered_while_a_fetch_of_15000_partitions_is_worked_off(
    broker: Turns, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic(broker, 30)
    broker.node.listener.lane = SlowLane(slice_ns=0)  # a turn ends at each pause
    calls = calls_of_turns(broker, monkeypatch)
    topic.append(0, SMALL)
    topic.append(1, LARGE)
    other, indexes = broker.connect(), list(range(30)) * 500
    broker.send(topic.client, topic.client.frame(FETCH, version, topic.request(indexes, version)))
    broker.send(other, other.frame(API_VERSIONS, 3, OTHER))
    assert broker.turn_until_readable(topic.client, other) == [other.socket]
    (found,) = broker.receive(topic.client, FETCH, version).responses
    assert [(each.partition_index, each.error_code) for each in found.partitions] == [
        (index, NONE) for index in indexes
    ]
    assert [values(each) for each in found.partitions[:3]] == [[SMALL], [LARGE], []]
    assert {each.high_watermark for each in found.partitions if each.partition_index > 1} == {0}
    assert max(calls) < sum(calls) / 50


@pytest.mark.slow
def test_a_small_request_of_a_session_with_many_partitions_is_worked_off_in_slices(broker: Turns) -> None:
    topic = Topic(broker, PARTITIONS)
    request = topic.request([], BY_ID, **topic.session())
    topic.append(7, SMALL)
    broker.send(topic.client, topic.client.frame(FETCH, BY_ID, request))
    broker.turn_until(lambda: broker.node.listener.lane.is_busy)
    assert received(topic) == {7: [SMALL]}


def waiting(topic: Topic, **fields: Any) -> list[int]:
    """Let a fetch of all partitions wait, in slices when there are many; the partitions that are read from then on."""
    broker, is_large = topic.broker, len(topic.partitions) == PARTITIONS
    session, indexes = (topic.session(), []) if is_large else ({}, list(topic.partitions))
    request = topic.request(indexes, BY_ID, max_wait=600_000, **session, **fields)
    broker.send(topic.client, topic.client.frame(FETCH, BY_ID, request))
    if is_large:
        broker.turn_until(lambda: broker.node.listener.lane.is_busy)
    broker.turn_until(lambda: broker.node.fetch_purgatory.entry_count() > 0 and not broker.node.listener.lane.is_busy)
    return topic.count_reads()


def received(topic: Topic) -> dict[int, list[bytes | None]]:
    """The records of the next response."""
    (found,) = topic.broker.receive(topic.client, FETCH, BY_ID).responses
    return {each.partition_index: values(each) for each in found.partitions if each.records}


@pytest.mark.parametrize("count", [20, PARTITIONS])
def test_a_waiting_fetch_reads_again_only_the_partition_that_got_a_record(broker: Turns, count: int) -> None:
    topic = Topic(broker, count)
    reads = waiting(topic)
    topic.append(11, SMALL)
    assert received(topic) == {11: [SMALL]}
    assert reads == [11]


@pytest.mark.slow
@pytest.mark.parametrize("count", [20, PARTITIONS])
def test_min_bytes_are_counted_over_all_partitions(broker: Turns, count: int) -> None:
    topic = Topic(broker, count)
    topic.append(3, LARGE)
    reads = waiting(topic, min_bytes=20_000)
    topic.append(5, LARGE)
    broker.turn()
    assert reads == []
    topic.append(4, LARGE)
    assert received(topic) == {3: [LARGE], 4: [LARGE], 5: [LARGE]}
    assert reads == [3, 4, 5]


@pytest.mark.slow
@pytest.mark.parametrize("count", [20, PARTITIONS])
def test_a_waiting_fetch_is_answered_when_one_of_its_partitions_goes_away(broker: Turns, count: int) -> None:
    topic = Topic(broker, count)
    waiting(topic)
    broker.call(broker.connect(), DELETE_TOPICS, 5, {"topic_names": ["t"], "timeout": 5000})
    (found,) = broker.receive(topic.client, FETCH, BY_ID).responses
    assert UNKNOWN_TOPIC_ID in {each.error_code for each in found.partitions}


def test_a_large_fetch_that_waits_in_vain_is_answered_at_its_time_out(broker: Turns) -> None:
    topic = Topic(broker, PARTITIONS)
    assert topic.fetch([], BY_ID, max_wait=50, **topic.session()).responses == ()
    assert broker.call(topic.client, METADATA, 9, {"topics": []}).topics == ()


def test_the_connection_of_a_large_fetch_that_waits_may_be_closed(broker: Turns) -> None:
    topic = Topic(broker, PARTITIONS)
    waiting(topic)
    next(each for each in broker.node.listener.connections if each.is_muted).close()
    topic.append(0, SMALL)
    for _ in range(3):
        broker.turn()
    assert not broker.node.listener.lane.is_busy
    assert broker.reports == []


def test_a_fetch_in_slices_above_its_quota_throttles_the_connection(broker: Turns) -> None:
    topic = Topic(broker, 30)
    topic.append(0, *[LARGE] * 10)
    entity = [{"entity_type": "client-id", "entity_name": "test"}]
    quota = {"entity": entity, "ops": [{"key": "consumer_byte_rate", "value": 1000.0, "remove": False}]}
    broker.call(topic.client, ALTER_QUOTAS, 1, {"entries": [quota], "validate_only": False})
    found = topic.fetch(list(range(30)) * 50)
    assert found.throttle_time > 0
    assert found.responses == ()
    assert any(each.is_throttled for each in broker.node.listener.connections)


def delete(topic: Topic, partition: Partition) -> None:
    client = topic.broker.connect()
    topic.broker.call(client, DELETE_TOPICS, 5, {"topic_names": ["t"], "timeout": 5000})


def truncate_and_append(topic: Topic, partition: Partition) -> None:
    partition.log.truncate_to(0)
    topic.append(partition.index, b"z" * 9000)


def delete_segment(topic: Topic, partition: Partition) -> None:
    partition.log.roll(1)
    topic.append(partition.index, b"z" * 9000)
    partition.log.increment_log_start_offset(1)
    assert partition.log.delete_retention_segments(1) == 1


def lose_directory(topic: Topic, partition: Partition) -> None:
    partition.log.go_offline(OSError("the disk failed"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "error_code", "found_values"),
    [
        (truncate_and_append, NONE, [b"z" * 9000]),
        (delete_segment, OFFSET_OUT_OF_RANGE, []),
        (lose_directory, STORAGE_ERROR, []),
        (delete, UNKNOWN_TOPIC, []),
    ],
)
def test_a_log_that_changes_between_two_slices_is_answered_as_it_is_at_the_end(
    broker: Turns, change: Callable[[Topic, Partition], None], error_code: int, found_values: list[bytes]
) -> None:
    """A response holds regions of files, which may be other bytes by the time they are sent."""
    topic = Topic(broker, 30)
    for index in range(30):
        topic.append(index, LARGE if index % 2 else SMALL)
    broker.node.listener.lane = SlowLane(slice_ns=0)
    reads = topic.count_reads()
    frame = topic.client.frame(FETCH, BY_NAME, topic.request(list(range(30)) * 40))
    broker.send(topic.client, frame)
    broker.turn_until(lambda: len(reads) >= 40)
    assert len(reads) < 600
    change(topic, topic.partitions[1])
    (found,) = broker.receive(topic.client, FETCH, BY_NAME).responses
    codes = {each.error_code for each in found.partitions if each.partition_index == 1}
    assert codes == {error_code}
    assert [values(each) for each in found.partitions if each.partition_index == 1][0] == found_values
    first = [values(each) for each in found.partitions[:30] if each.partition_index != 1]
    assert first[0] == [SMALL]  # copied when it was read
    if change is not delete:
        assert first[1:] == [[LARGE if index % 2 else SMALL] for index in range(2, 30)]
    assert broker.reports == [] or change is lose_directory


def test_two_requests_of_one_session_in_the_slow_lane_leave_it_whole(broker: Turns) -> None:
    topic = Topic(broker, PARTITIONS)
    session = topic.session()
    clients = [topic.client, broker.connect()]
    for epoch, client in enumerate(clients, 1):
        request = topic.request(list(range(0, PARTITIONS, 2)), BY_ID, **{**session, "session_epoch": epoch})
        broker.send(client, client.frame(FETCH, BY_ID, request))
    assert [broker.receive(client, FETCH, BY_ID).error_code for client in clients] == [NONE, NONE]
    kept = broker.node.fetch_sessions.sessions[session["session_id"]]
    assert (kept.epoch, len(kept.partitions)) == (3, PARTITIONS)
