"""Requests that would hold everybody up: worked off in slices while others are answered, or refused before they are
decoded. What is counted is processor time, with wide margins."""

from __future__ import annotations

import gc
import struct
import time
from collections import Counter
from typing import Any

import pytest
from support.broker_turns import LONGEST_TURN_SECONDS, Turns
from support.readiness import readable

from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset
from kafkatools.core.broker.server.requests import CloseConnection, Request
from kafkatools.core.broker.server.slow_lane import SlowLane
from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.frames import decode_request_header
from kafkatools.core.protocol.slices import paced, pausing

UNKNOWN_TOPIC_OR_PARTITION, INVALID_COMMIT_OFFSET_SIZE, INVALID_REQUEST = 3, 28, 42
INVALID_REGULAR_EXPRESSION = 128
TOPIC_ALREADY_EXISTS = 36
METADATA, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, INCREMENTAL_ALTER_CONFIGS = 3, 19, 20, 37, 44


def names(count: int) -> dict[str, Any]:
    return {"topics": [{"name": f"t{number}"} for number in range(count)], "allow_auto_topic_creation": False}


@pytest.mark.slow
def test_another_connection_is_answered_while_a_large_request_is_worked_off(broker: Turns) -> None:
    large, other = broker.connect(), broker.connect()
    broker.send(large, large.frame(3, 9, names(60_000)))
    broker.send(other, other.frame(18, 3, {"client_software_name": "a", "client_software_version": "1"}))
    assert broker.turn_until_readable(large, other) == [other.socket]
    answer = broker.receive(large, 3, 9)
    assert [topic.name for topic in answer.topics] == [f"t{number}" for number in range(60_000)]
    assert broker.longest < LONGEST_TURN_SECONDS
    assert broker.total > 0.1  # the request is worth slices


def test_a_request_with_too_many_elements_is_refused_before_it_is_decoded(broker: Turns) -> None:
    client, other = broker.connect(), broker.connect()
    one = client.frame(3, 9, names(1))
    head, count = one[4:-3], 5_000_000
    start = head.rindex(b"\x02\x03t0\x00")
    body = head[:start] + _varint(count + 1) + b"\x03t0\x00" * count + one[-3:]
    broker.send(client, struct.pack(">i", len(body)) + body)
    broker.send(other, other.frame(18, 3, {"client_software_name": "a", "client_software_version": "1"}))
    assert other.socket in broker.turn_until_readable(other, client)
    with pytest.raises(EOFError):
        broker.receive(client, 3, 9)
    assert broker.total < 2
    assert broker.longest < LONGEST_TURN_SECONDS
    assert len(broker.reports) == 1
    assert "metadata request from 127.0.0.1 with more than 250000 elements was refused" in broker.reports[0]


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes((number,))


@pytest.mark.slow
def test_a_refusal_is_an_error_where_the_answer_has_a_place_for_it(broker: Turns) -> None:
    client = broker.connect()
    protocols = [{"name": f"p{number}", "metadata": b""} for number in range(30_000)]
    fields = {"group_id": "g", "protocol_type": "consumer", "session_timeout": 10_000, "protocols": protocols}
    for _ in range(2):
        broker.send(client, client.frame(11, 9, fields))
        assert int(broker.receive(client, 11, 9).error_code) == INVALID_REQUEST
    assert len(broker.reports) == 1


def test_a_refused_api_versions_request_has_a_response_header_that_any_client_reads(broker: Turns) -> None:
    """ApiVersions responses have header version 0 in every version (KIP-511)."""
    client = broker.connect()
    one = client.frame(18, 4, {"client_software_name": "a", "client_software_version": "1"})
    body = one[4:-1] + _varint(5_000_000) + b"\xff" * 20_000
    broker.send(client, struct.pack(">i", len(body)) + body)
    assert int(broker.receive(client, 18, 4).error_code) == INVALID_REQUEST


@pytest.mark.slow
def test_a_large_request_that_is_legal_is_answered_in_full(broker: Turns) -> None:
    client = broker.connect()
    topics = [{"name": "t", "partition_indexes": range(100_000)}]
    fields = {"groups": [{"group_id": "g", "topics": topics}], "require_stable": False}
    broker.send(client, client.frame(9, 8, fields))
    (topic,) = broker.receive(client, 9, 8).groups[0].topics
    assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [
        (index, -1) for index in range(100_000)
    ]
    assert broker.longest < LONGEST_TURN_SECONDS


@pytest.mark.slow
def test_a_large_commit_and_a_small_read_of_all_of_it_are_worked_off_in_slices(broker: Turns) -> None:
    client = broker.connect()
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    broker.send(client, client.frame(19, 5, {"topics": [topic], "timeout": 5000}))
    broker.receive(client, 19, 5)

    def commit(group_id: str, count: int) -> set[int]:
        partitions = [{"partition_index": 0, "committed_offset": number} for number in range(count)]
        topics = [{"name": "t", "partitions": partitions}]
        fields = {"group_id": group_id, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        broker.send(client, client.frame(8, 8, fields))
        return {int(each.error_code) for each in broker.receive(client, 8, 8).topics[0].partitions}

    assert commit("first", 1) == {0}  # makes the topic of offsets
    broker.longest = broker.total = 0
    assert commit("g", 16_000) == {0}
    assert commit("g", 48_000) == {INVALID_COMMIT_OFFSET_SIZE}
    assert broker.longest < broker.total / 4
    places = [((f"t{number}", 0), CommittedOffset(number)) for number in range(50_000)]
    broker.node.groups.offsets.put_all("large", places)
    broker.longest = broker.total = 0
    groups = [{"group_id": "large", "topics": None}]
    broker.send(client, client.frame(9, 8, {"groups": groups, "require_stable": False}))
    topics = broker.receive(client, 9, 8).groups[0].topics
    found = [((each.name, 0), each.partitions[0].committed_offset) for each in topics]
    assert found == sorted((place, committed.offset) for place, committed in places)
    assert broker.longest < broker.total / 4


@pytest.mark.slow
def test_a_large_commit_of_a_transaction_is_worked_off_in_slices(broker: Turns) -> None:
    client, (group_id, transactional_id) = broker.connect(), ("g", "tx")
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    broker.call(client, 19, 5, {"topics": [topic], "timeout": 5000})
    for key_type, key in enumerate((group_id, transactional_id)):  # makes the internal topics
        broker.call(client, 10, 4, {"coordinator_keys": [key], "key_type": key_type})
    new = {"producer_id": -1, "producer_epoch": -1, "transactional_id": transactional_id, "transaction_timeout": 60_000}
    producer = broker.call(client, 22, 4, new)
    identity = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}

    def commit(count: int) -> Counter[tuple[int, int]]:
        """Numbers of results by partition and error code; Apache Kafka lists errors first."""
        partitions = [{"partition_index": number % 2, "committed_offset": number} for number in range(count)]
        fields = {"transactional_id": transactional_id, "group_id": group_id, "generation_id": -1, "member_id": ""}
        topics = [{"name": "t", "partitions": partitions}]
        answer = broker.call(client, 28, 5, {**fields, **identity, "group_instance_id": None, "topics": topics})
        return Counter((each.partition_index, int(each.error_code)) for each in answer.topics[0].partitions)

    assert commit(1) == {(0, 0): 1}
    broker.longest = broker.total = 0
    assert commit(30_000) == {(0, 0): 15_000, (1, UNKNOWN_TOPIC_OR_PARTITION): 15_000}
    assert broker.longest < broker.total / 2
    assert commit(99_000) == {(0, INVALID_COMMIT_OFFSET_SIZE): 49_500, (1, UNKNOWN_TOPIC_OR_PARTITION): 49_500}
    assert broker.longest < broker.total / 4
    pending = broker.node.groups.offsets.pending
    assert pending.is_pending(group_id, ("t", 0))
    end = {**identity, "transactional_id": transactional_id, "committed": True}
    assert int(broker.call(client, 26, 3, end).error_code) == 0
    broker.turn_until(lambda: not pending)
    assert broker.node.groups.offsets.get(group_id, ("t", 0)) is not None


@pytest.mark.slow
def test_topics_that_a_metadata_request_creates_are_created_in_slices(broker: Turns) -> None:
    client, wanted = broker.connect(), {**names(300), "allow_auto_topic_creation": True}
    topics = broker.call(client, METADATA, 9, wanted).topics
    assert {int(each.error_code) for each in topics} == {UNKNOWN_TOPIC_OR_PARTITION}
    broker.turn_until(lambda: len(broker.node.replicas.partitions) == 300)
    assert {int(each.error_code) for each in broker.call(client, METADATA, 9, wanted).topics} == {0}
    assert broker.longest < max(broker.total / 5, 0.03)


def test_the_partitions_of_topics_that_a_small_metadata_request_creates_are_created_in_later_turns(
    broker: Turns,
) -> None:
    client = broker.connect()
    frame = client.frame(METADATA, 9, {**names(40), "allow_auto_topic_creation": True})
    assert len(frame) < 256
    broker.send(client, frame)
    broker.receive(client, METADATA, 9)
    assert len(broker.node.image.topics) == 40
    assert len(broker.node.replicas.partitions) < 40
    broker.turn_until(lambda: len(broker.node.replicas.partitions) == 40)


@pytest.mark.slow
def test_changes_of_many_topics_are_made_in_slices(broker: Turns) -> None:
    client, all_names = broker.connect(), [f"t{number}" for number in range(300)]

    def change(api_key: int, version: int, fields: dict[str, Any]) -> Any:
        gc.collect()
        broker.longest = broker.total = 0
        answer = broker.call(client, api_key, version, fields)
        assert broker.longest < max(broker.total / 5, 0.03)
        results = getattr(answer, "topics", None) or getattr(answer, "results", None) or answer.responses
        assert [int(each.error_code) for each in results] == [0] * 300

    new = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in all_names]
    change(CREATE_TOPICS, 7, {"topics": new, "timeout": 5000, "validate_only": True})
    change(CREATE_TOPICS, 7, {"topics": new, "timeout": 5000})
    grown = [{"name": name, "count": 2, "assignments": None} for name in all_names]
    change(CREATE_PARTITIONS, 3, {"topics": grown, "timeout": 5000})
    configs = [{"name": "retention.ms", "config_operation": 0, "value": "1000000"}]
    resources = [{"resource_type": 2, "resource_name": name, "configs": configs} for name in all_names]
    change(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": resources, "validate_only": False})
    partitions = broker.node.replicas.partitions
    assert {part.log.config.retention_ms for name in all_names for part in partitions[name].values()} == {1_000_000}
    gone = [{"name": name, "topic_id": None} for name in all_names]
    change(DELETE_TOPICS, 6, {"topics": gone, "timeout": 5000})
    assert not partitions


def test_two_requests_that_create_the_same_topics_in_slices_create_each_once(broker: Turns) -> None:
    broker.node.listener.lane = SlowLane(slice_ns=0)
    clients = [broker.connect(), broker.connect()]
    new = [{"name": f"t{number}", "num_partitions": 1, "replication_factor": 1} for number in range(60)]
    for client, topics in zip(clients, (new, new[::-1]), strict=True):
        broker.send(client, client.frame(CREATE_TOPICS, 7, {"topics": topics, "timeout": 60_000}))
    codes = [
        {each.name: int(each.error_code) for each in broker.receive(client, CREATE_TOPICS, 7).topics}
        for client in clients
    ]
    for topic in new:
        assert sorted(found[topic["name"]] for found in codes) == [0, TOPIC_ALREADY_EXISTS]
    assert {0, TOPIC_ALREADY_EXISTS} == set(codes[0].values()) == set(codes[1].values())
    assert {len(broker.node.image.topics[topic["name"]].partitions) for topic in new} == {1}
    assert len(broker.node.image.topics_by_id) == len(broker.node.image.topics)


@pytest.mark.slow
def test_a_request_of_100_mib_is_received_without_copies_of_it(broker: Turns) -> None:
    client = broker.connect()
    records = bytes(100 * 1024 * 1024 - 200)
    data = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
    frame = client.frame(0, 9, {"transactional_id": None, "acks": 1, "timeout": 5000, "topic_data": data})
    broker.send(client, client.frame(3, 9, names(1)))
    broker.receive(client, 3, 9)
    broker.longest = broker.total = 0
    broker.send(client, frame)
    assert int(broker.receive(client, 0, 9).responses[0].partition_responses[0].error_code) != 0
    assert broker.longest < broker.total / 3
    broker.send(client, client.frame(3, 9, names(1)))
    assert len(broker.receive(client, 3, 9).topics) == 1
    (connection,) = broker.node.listener.connections
    assert broker.node.listener.buffered_bytes == len(connection._buffer) == 256 * 1024


@pytest.mark.slow
def test_a_connection_that_pipelines_costly_requests_takes_turns_with_others(broker: Turns) -> None:
    greedy, other = broker.connect(), broker.connect()
    frame = greedy.frame(3, 9, names(900))
    assert len(frame) < 8192
    broker.send(greedy, frame * 30)
    broker.longest = 0
    broker.send(other, other.frame(18, 3, {"client_software_name": "a", "client_software_version": "1"}))
    answered = 0
    while broker.turn_until_readable(greedy, other) != [other.socket]:
        answered += len(greedy.socket.recv(1 << 20)) > 0
        if readable([other.socket], 0):
            break
    for _ in range(30):
        broker.turn()
    assert broker.longest < LONGEST_TURN_SECONDS


@pytest.mark.slow
def test_the_request_of_a_closed_connection_is_given_up(broker: Turns) -> None:
    client, other = broker.connect(), broker.connect()
    broker.send(client, client.frame(3, 9, names(100_000)))
    while not broker.node.listener.lane.is_busy:
        broker.turn()
    client.close()
    (connection,) = (each for each in broker.node.listener.connections if each.is_muted)
    connection.close()
    broker.turn()
    assert not broker.node.listener.lane.is_busy
    broker.send(other, other.frame(3, 9, names(2)))
    assert len(broker.receive(other, 3, 9).topics) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("api_key", "version", "make"),
    [
        (44, 1, lambda n: {"resources": [{"resource_type": 2, "resource_name": f"r{i}"} for i in range(n)]}),
        (37, 3, lambda n: {"topics": [{"name": f"r{i}", "count": 1} for i in range(n)], "timeout": 1000}),
        (20, 6, lambda n: {"topics": [{"name": f"r{i}", "topic_id": None} for i in range(n)], "timeout": 1000}),
        (50, 0, lambda n: {"users": [{"name": f"r{i}"} for i in range(n)]}),
    ],
)
def test_names_that_may_stand_only_once_take_linear_time(broker: Turns, api_key: int, version: int, make: Any) -> None:
    def seconds(count: int) -> float:
        client = broker.connect()
        broker.send(client, client.frame(api_key, version, make(count)))
        broker.total = 0
        broker.receive(client, api_key, version)
        return broker.total

    seconds(10)
    assert seconds(16_000) < 9 * seconds(4000)  # 4 times the names; quadratic: 16 times the time


def test_a_pattern_of_transactional_ids_takes_linear_time(broker: Turns) -> None:
    client = broker.connect()
    for name in ("a" * 26, "a" * 26 + "b", "\u00e4" * 26):
        fields = {"transactional_id": name, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        broker.send(client, client.frame(10, 4, {"coordinator_keys": [name], "key_type": 1}))  # makes the topic
        broker.receive(client, 10, 4)
        broker.send(client, client.frame(22, 4, fields))
        assert int(broker.receive(client, 22, 4).error_code) == 0
    for pattern, found in (("(a+)+b", ["a" * 26 + "b"]), ("(\u00e4+)+", ["\u00e4" * 26]), ("(a+)+c", [])):
        broker.longest = 0
        broker.send(client, client.frame(66, 2, {"transactional_id_pattern": pattern, "duration_filter": -1}))
        answer = broker.receive(client, 66, 2)
        assert (int(answer.error_code), [each.transactional_id for each in answer.transaction_states]) == (0, found)
        assert broker.longest < LONGEST_TURN_SECONDS
    broker.send(client, client.frame(66, 2, {"transactional_id_pattern": "(?=a)", "duration_filter": -1}))
    assert int(broker.receive(client, 66, 2).error_code) == INVALID_REGULAR_EXPRESSION


def test_a_header_with_millions_of_tagged_fields_is_malformed() -> None:
    frame = struct.pack(">hhih", 3, 9, 1, -1) + _varint(5_000_000) + b"\x00\x00" * 5_000_000
    begun = time.thread_time()
    with pytest.raises(DecodeError):
        decode_request_header(frame)
    assert time.thread_time() - begun < 0.2


class Client:
    """A connection that notes how its request ended."""

    def __init__(self) -> None:
        self.outcomes: list[Any] = []

    def end_slices(self, outcome: Any) -> None:
        self.outcomes.append(outcome)


def lane_request(client: Client) -> Request:
    connection: Any = client
    return Request(connection, memoryview(b""), (18, 0, 1))


def test_requests_in_the_lane_take_turns() -> None:
    lane, order = SlowLane(slice_ns=0), []
    clients = [Client(), Client()]
    for name, client in zip("ab", clients, strict=True):
        request = lane_request(client)

        def work(name: str = name, request: Any = request) -> Any:
            with pausing(request.pause):
                for number in paced(range(48)):
                    if number % 16 == 0:
                        order.append(name)
            return (name.encode(),)

        lane.submit(request, work)
    while lane.is_busy:
        lane.turn()
    assert "".join(order) in ("ababab", "aababb")
    assert [client.outcomes for client in clients] == [[(b"a",)], [(b"b",)]]


def test_the_garbage_collector_makes_no_full_collection_while_requests_are_active() -> None:
    lanes, usual, thresholds = [SlowLane(slice_ns=0), SlowLane(slice_ns=0)], gc.get_threshold(), []
    for lane in lanes:
        request = lane_request(Client())

        def work(request: Any = request) -> Any:
            with pausing(request.pause):
                for _ in paced(range(48)):
                    thresholds.append(gc.get_threshold())
            return ()

        lane.submit(request, work)
    while lanes[0].is_busy or lanes[1].is_busy:
        for lane in lanes:
            lane.turn()
    assert {each[:2] for each in thresholds} == {usual[:2]}
    assert {each[2] for each in thresholds} == {(1 << 31) - 1}
    assert gc.get_threshold() == usual


def test_a_request_that_fails_in_the_lane_ends_its_connection() -> None:
    lane, client = SlowLane(), Client()

    def work() -> Any:
        raise ZeroDivisionError("broken")

    lane.submit(lane_request(client), work)
    lane.turn()
    (outcome,) = client.outcomes
    assert isinstance(outcome, CloseConnection)
    assert "broken" in str(outcome)


def test_closing_the_lane_ends_what_is_under_way() -> None:
    lane, client = SlowLane(slice_ns=0), Client()
    request = lane_request(client)
    done = []

    def work() -> Any:
        with pausing(request.pause):
            for number in paced(range(1000)):
                done.append(number)
        return ()

    lane.submit(request, work)
    lane.turn()
    lane.close()
    assert len(done) < 1000
    assert client.outcomes == []
    assert gc.get_threshold()[2] != (1 << 31) - 1
