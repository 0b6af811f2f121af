"""Fetch between brokers: the hand-made framing against the generated codec, and what a leader answers a follower."""

from __future__ import annotations

import struct
import uuid
from typing import Any

import pytest
from support.replica_simulation import TOPIC_ID, ReplicaSimulation, SimulatedBroker
from support.whole_messages import decode_all

from kafkatools.core.broker.replicas.fetch_messages import (
    FetchResponse,
    decode_response,
    encode_request,
    parse_request,
)
from kafkatools.core.broker.replicas.fetch_partition import FetchPartition
from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol import messages

FETCH, VERSION = 1, 18
ONE, TWO = uuid.UUID(int=1), uuid.UUID(int=2)
LIMITS, REPLICA = (500, 1, 10_485_760), (2, 77)


def wanted(topic_id: uuid.UUID, index: int, offset: int, epoch: int = 3, last_epoch: int = 2) -> FetchPartition:
    return FetchPartition(None, topic_id, index, offset, 1_048_576, epoch, last_epoch, 5)


def test_a_followers_request_is_that_of_the_generated_codec() -> None:
    parts = [wanted(ONE, 0, 10), wanted(ONE, 3, 11), wanted(TWO, 1, 2**40)]
    body = encode_request(LIMITS, (12, 34), parts, [(ONE, 9), (TWO, 8)], REPLICA)
    entity = decode_all(messages.request_type(FETCH, VERSION), body)
    assert messages.encode(entity) == body
    assert (entity.replica_state.replica_id, entity.replica_state.replica_epoch) == REPLICA
    assert (entity.session_id, entity.session_epoch, entity.min_bytes, entity.max_bytes) == (12, 34, 1, 10_485_760)
    assert [(each.topic_id, tuple(each.partitions)) for each in entity.forgotten_topics_data] == [
        (ONE, (9,)),
        (TWO, (8,)),
    ]
    first = entity.topics[0].partitions[1]
    assert (first.partition, first.fetch_offset, first.current_leader_epoch, first.last_fetched_epoch) == (3, 11, 3, 2)
    assert (first.log_start_offset, first.partition_max_bytes) == (5, 1_048_576)


@pytest.mark.parametrize("version", range(13, 19))
def test_requests_of_every_version_are_read(version: int) -> None:
    fields: dict[str, Any] = {
        "max_wait": 250,
        "min_bytes": 3,
        "max_bytes": 4000,
        "isolation_level": 1,
        "session_id": 5,
        "session_epoch": 6,
        "topics": [
            {
                "topic_id": ONE,
                "partitions": [
                    {
                        "partition": 4,
                        "current_leader_epoch": 8,
                        "fetch_offset": 99,
                        "last_fetched_epoch": 7,
                        "log_start_offset": 2,
                        "partition_max_bytes": 100,
                    }
                ],
            }
        ],
        "forgotten_topics_data": [{"topic_id": TWO, "partitions": [1, 2]}],
        "rack_id": "räck",
    }
    state = {"replica_id": 3, "replica_epoch": 12}
    fields |= {"replica_state": state} if version >= 15 else {"replica_id": 3}
    body = messages.encode(messages.build(messages.request_type(FETCH, version), fields))
    data = parse_request(memoryview(bytearray(body)), 0, version)
    assert data == (
        250,
        3,
        4000,
        1,
        5,
        6,
        [FetchPartition(None, ONE, 4, 99, 100, 8, 7, 2)],
        [(TWO, 1), (TWO, 2)],
        "räck",
        3,
        12 if version >= 15 else -1,
    )


def test_a_request_that_is_cut_off_is_malformed() -> None:
    body = memoryview(bytearray(encode_request(LIMITS, (0, 0), [wanted(ONE, 0, 10)], [(TWO, 1)], REPLICA)))
    for size in range(len(body) - 14):
        with pytest.raises(DecodeError):
            parse_request(body[:size], 0, VERSION)


def response_of(*partitions: dict[str, Any]) -> bytes:
    kind = messages.response_type(FETCH, VERSION)
    fields = {"session_id": 9, "responses": [{"topic_id": ONE, "partitions": list(partitions)}]}
    return messages.encode(messages.build(kind, fields))


def test_a_leaders_response_is_read() -> None:
    body = response_of(
        {
            "partition_index": 1,
            "error_code": 0,
            "high_watermark": 50,
            "last_stable_offset": 40,
            "log_start_offset": 3,
            "aborted_transactions": [{"producer_id": 1, "first_offset": 2}],
            "records": b"x" * 200,
        },
        {
            "partition_index": 2,
            "error_code": 6,
            "high_watermark": -1,
            "current_leader": {"leader_id": 3, "leader_epoch": 4},
            "records": None,
        },
        {
            "partition_index": 3,
            "error_code": 0,
            "high_watermark": 7,
            "diverging_epoch": {"epoch": 2, "end_offset": 6},
            "records": b"",
        },
    )
    found = decode_response(memoryview(body))
    first, second, third = found.partitions
    assert (found.session_id, found.error_code) == (9, 0)
    assert (first.topic_id, first.partition_index, first.high_watermark, first.log_start_offset) == (ONE, 1, 50, 3)
    assert first.records is not None
    assert bytes(first.records) == b"x" * 200
    assert (second.error_code, second.current_leader, second.records) == (6, (3, 4), None)
    assert (third.diverging, third.records) == ((2, 6), None)


def test_a_response_that_is_cut_off_is_malformed() -> None:
    body = memoryview(response_of({"partition_index": 1, "error_code": 0, "high_watermark": 1, "records": b"abc"}))
    for size in range(len(body) - 1):
        with pytest.raises(DecodeError):
            decode_response(body[:size])


class Follower:
    """Broker 2, by hand: it sends what the test says."""

    def __init__(self, cluster: ReplicaSimulation) -> None:
        self.cluster = cluster
        self.session = (0, 0)
        self.epoch = cluster.registered[2].epoch

    def fetch(
        self, *parts: FetchPartition, replica_id: int = 2, wait_ms: int = 0, session: tuple[int, int] | None = None
    ) -> FetchResponse:
        answers: list[bytes] = []
        body = encode_request((wait_ms, 1, 1 << 20), session or self.session, list(parts), [], (replica_id, self.epoch))
        leader = self.cluster.leader
        leader.do(lambda: leader.serve(2, FETCH, VERSION, body, answers.append))
        self.cluster.run_until(lambda: bool(answers), 1000)
        raw = answers[0]
        entity = decode_all(messages.response_type(FETCH, VERSION), raw[9:])
        assert messages.encode(entity) == raw[9:], "the answer is that of the generated codec"
        assert struct.unpack_from(">i", raw) == (len(raw) - 4,)
        found = decode_response(memoryview(raw)[9:])
        self.session = (found.session_id, self.session[1] + 1)
        return found


@pytest.fixture
def cluster() -> ReplicaSimulation:
    """Broker 1 leads with ten records; 2 is down, so that the test can speak for it."""
    made = ReplicaSimulation(1, broker_count=2, min_insync_replicas=1)
    made.run(20)
    leader = made.brokers[1]
    leader.do(lambda: [leader.produce(value, acks=1) for value in range(10)] and None)
    made.brokers[2].stop(loses_power=False)
    made.run(200)
    return made


def place(offset: int, epoch: int = 0, last_epoch: int = 0, start: int = 0) -> FetchPartition:
    return FetchPartition(None, TOPIC_ID, 0, offset, 1 << 20, epoch, last_epoch, start)


def leader_partition(broker: SimulatedBroker) -> Any:
    return broker.partition


def test_a_follower_reads_beyond_the_high_watermark(cluster: ReplicaSimulation) -> None:
    leader = leader_partition(cluster.leader)
    assert leader.log.high_watermark == 0
    found = Follower(cluster).fetch(place(0)).partitions[0]
    assert found.records is not None
    assert len(found.records) == leader.log.size_bytes


def test_a_fetch_moves_the_high_watermark_and_the_next_answer_tells_it(cluster: ReplicaSimulation) -> None:
    follower = Follower(cluster)
    follower.fetch(place(0))
    answer = follower.fetch(place(10))
    assert leader_partition(cluster.leader).log.high_watermark == 10
    assert [(each.high_watermark, each.records) for each in answer.partitions] == [(10, None)]
    assert follower.fetch().partitions == [], "there is nothing new"


@pytest.mark.parametrize(
    ("part", "code"),
    [
        (place(0, epoch=5), 75),
        (place(11, last_epoch=-1), 1),
        (FetchPartition(None, TOPIC_ID, 4, 0, 100, 0, -1, 0), 6),
        (FetchPartition(None, uuid.UUID(int=99), 0, 0, 100, 0, -1, 0), 100),
    ],
)
def test_errors_are_of_one_partition(cluster: ReplicaSimulation, part: FetchPartition, code: int) -> None:
    assert [each.error_code for each in Follower(cluster).fetch(part).partitions] == [code]


def test_an_older_leader_epoch_is_fenced(cluster: ReplicaSimulation) -> None:
    cluster.change(leader=1)
    cluster.run(50)
    assert Follower(cluster).fetch(place(0, epoch=0)).partitions[0].error_code == 74


def test_a_replica_that_is_not_assigned_is_told_to_wait_for_metadata(cluster: ReplicaSimulation) -> None:
    assert Follower(cluster).fetch(place(0), replica_id=9).partitions[0].error_code == 75


def test_a_log_below_the_leaders_start_is_out_of_range(cluster: ReplicaSimulation) -> None:
    leader_partition(cluster.leader).log.update_high_watermark(10)
    leader_partition(cluster.leader).log.increment_log_start_offset(5)
    assert Follower(cluster).fetch(place(4)).partitions[0].error_code == 1


def test_a_diverging_log_is_told_where(cluster: ReplicaSimulation) -> None:
    cluster.change(leader=1)
    cluster.run(50)
    found = Follower(cluster).fetch(place(12, epoch=1, last_epoch=0)).partitions[0]
    assert (found.error_code, found.diverging) == (0, (0, 10))
    assert leader_partition(cluster.leader).followers[2].log_end_offset == 0, "12 is no position in this log"


def test_sessions_must_follow_one_another(cluster: ReplicaSimulation) -> None:
    follower = Follower(cluster)
    session_id = follower.fetch(place(0)).session_id
    assert follower.fetch(session=(session_id, 7)).error_code == 71
    assert follower.fetch(session=(session_id + 1, 1)).error_code == 70
    assert follower.fetch(place(0), session=(0, -1)).session_id == 0


def test_a_fetch_waits_for_records_and_no_longer_than_it_says(cluster: ReplicaSimulation) -> None:
    follower = Follower(cluster)
    follower.fetch(place(10))
    before = cluster.clock.now_ms()
    assert follower.fetch(wait_ms=40).partitions == []
    assert cluster.clock.now_ms() - before >= 40
    leader = cluster.leader
    cluster.at(cluster.clock.now_ms() + 5, lambda: leader.do(lambda: leader.produce(10, acks=1)))
    before = cluster.clock.now_ms()
    found = follower.fetch(wait_ms=400)
    assert found.partitions[0].records is not None
    assert cluster.clock.now_ms() - before < 100


def test_a_fetch_that_waits_is_answered_when_the_leader_changes(cluster: ReplicaSimulation) -> None:
    follower = Follower(cluster)
    follower.fetch(place(10))
    leader = cluster.leader
    answers: list[bytes] = []
    body = encode_request((5000, 1, 1 << 20), follower.session, [], [], (2, follower.epoch))
    leader.do(lambda: leader.serve(2, FETCH, VERSION, body, answers.append))
    cluster.change(leader=2, isr=(2,))
    cluster.run(60)
    found = decode_response(memoryview(answers[0])[9:])
    assert [each.error_code for each in found.partitions] == [6]
