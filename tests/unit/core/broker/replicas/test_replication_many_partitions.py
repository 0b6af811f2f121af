"""Followers of very many partitions: their fetches are worked off in slices, and no request, response or change of
in-sync replicas grows with the number of partitions. The times are processor time, with wide margins."""

from __future__ import annotations

import pathlib
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.broker_turns import LONGEST_TURN_SECONDS
from support.cluster_nodes import ClusterNodes, has_response
from support.replica_simulation import batch_of

from kafkatools.core.broker.metadata.controller import leader_reports
from kafkatools.core.broker.replicas import follower_sessions, isr_changes, replica_fetcher
from kafkatools.core.broker.replicas.fetch_messages import FetchResponse, decode_response, encode_request
from kafkatools.core.broker.replicas.fetch_partition import FetchPartition
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.server.slow_lane import SlowLane
from kafkatools.core.protocol.api_versions import ApiKey

PARTITIONS = 30
VERSION, LIMITS = 18, (0, 1, 1 << 26)
NONE, SESSION_ID_NOT_FOUND = 0, 70


class Pair:
    """Two brokers; the first leads all partitions of `t`, and the test fetches in the name of the second."""

    def __init__(self, root: pathlib.Path) -> None:
        settings = {"broker.session.timeout.ms": "600000", "replica.lag.time.max.ms": "2000"}
        self.nodes = ClusterNodes(root, 2, settings).start()
        assignments = [{"partition_index": index, "broker_ids": [1, 2]} for index in range(PARTITIONS)]
        topic = {"name": "t", "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
        self.nodes.ask(1, ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=5000)
        self.nodes.run_until(lambda: all(len(self.partitions(node_id)) == PARTITIONS for node_id in (1, 2)))
        self.leader, self.topic_id = self.nodes.nodes[1], self.nodes.nodes[1].image.topics["t"].topic_id
        self.longest = self.total = 0.0

    def partitions(self, node_id: int) -> dict[int, Partition]:
        return self.nodes.nodes[node_id].replicas.partitions.get("t", {})

    def append(self) -> None:
        """A record in each partition."""
        for partition in self.partitions(1).values():
            partition.append(batch_of(1), self.leader.clock.wall_ms())
            self.leader.replicas.note_append(partition)

    def are_equal(self) -> bool:
        """Whether both brokers have the same records and high watermarks."""
        leader, follower = ([each.log for each in self.partitions(node_id).values()] for node_id in (1, 2))
        return all(
            log.log_end_offset == other.log_end_offset == log.high_watermark == other.high_watermark
            for log, other in zip(leader, follower, strict=True)
        )

    def frame(self, indexes: list[int], session: tuple[int, int] = (0, 0)) -> bytes:
        """A fetch of the second broker, from offset 0."""
        epoch = self.leader.image.brokers[2].epoch
        wanted = [FetchPartition(None, self.topic_id, index, 0, 1 << 20, 0, -1, 0) for index in indexes]
        body = encode_request(LIMITS, session, wanted, [], (2, epoch))
        head = struct.pack(">hhih", ApiKey.FETCH, VERSION, 1, -1) + b"\0"
        return struct.pack(">i", len(head) + len(body)) + head + body

    def turn(self) -> None:
        begun = time.process_time()
        self.leader.run_once(0)
        seconds = time.process_time() - begun
        self.longest, self.total = max(self.longest, seconds), self.total + seconds

    def fetch(self, indexes: list[int], session: tuple[int, int] = (0, 0)) -> FetchResponse:
        client = self.nodes.client(1)
        send(client, self.frame(indexes, session))
        return self.receive(client)

    def receive(self, client: BrokerClient) -> FetchResponse:
        while not has_response(client):
            self.turn()
        size = struct.unpack(">i", client.read(4))[0]
        return decode_response(memoryview(client.read(size))[5:])


def send(client: BrokerClient, frame: bytes) -> None:
    client.socket.sendall(frame)


@pytest.fixture
def pair(tmp_path: pathlib.Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.nodes.close()


@pytest.mark.slow
def test_the_positions_of_a_follower_are_taken_in_slices(pair: Pair) -> None:
    pair.append()
    opened = pair.fetch(list(range(PARTITIONS)) * 1000)
    assert pair.longest < max(pair.total / 3, 0.03)
    assert pair.longest < LONGEST_TURN_SECONDS
    assert [(each.partition_index, each.error_code) for each in opened.partitions] == [
        (index, NONE) for index in range(PARTITIONS)
    ]
    found = pair.fetch([], (opened.session_id, 1))
    assert {each.partition_index for each in found.partitions if each.records} == set(range(PARTITIONS))


def test_a_response_has_records_of_some_partitions_and_the_next_ones_of_the_others(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_sessions, "MOST_READ", 8)
    monkeypatch.setattr(follower_sessions, "MOST_NEWS", 5)
    pair.append()
    opened = pair.fetch(list(range(PARTITIONS)))
    assert len(opened.partitions) == PARTITIONS
    named = [[each.partition_index for each in opened.partitions if each.records]]
    for epoch in range(1, 4):
        found = pair.fetch([], (opened.session_id, epoch))
        named.append([each.partition_index for each in found.partitions if each.records])
    assert [len(each) for each in named] == [8, 8, 8, 6]
    assert sorted(sum(named, [])) == list(range(PARTITIONS))


@pytest.mark.slow
def test_a_session_that_ends_while_its_request_is_worked_off_is_an_error(pair: Pair) -> None:
    pair.leader.listener.lane = SlowLane(slice_ns=0)
    client, sessions = pair.nodes.client(1), pair.leader.replicas.replication.sessions  # type: ignore[union-attr]
    others = set(sessions._sessions)
    send(client, pair.frame(list(range(PARTITIONS)) * 40))
    while not (begun := [each for key, each in sessions._sessions.items() if key not in others and each.partitions]):
        pair.turn()
    (session,) = begun
    sessions._end(session)
    assert pair.receive(client).error_code == SESSION_ID_NOT_FOUND
    assert not any(each.session is session for part in pair.partitions(1).values() for each in part.sessions)


def test_a_look_at_all_partitions_of_a_large_session_goes_through_the_slow_lane(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_sessions, "MANY_PARTITIONS", PARTITIONS - 1)
    opened = pair.fetch(list(range(PARTITIONS)))
    pair.leader.listener.lane = SlowLane(slice_ns=0)
    pair.nodes.clock.advance_ms(follower_sessions.FULL_PASS_MS)
    client = pair.nodes.client(1)
    send(client, pair.frame([], (opened.session_id, 1)))
    while not pair.leader.listener.lane.is_busy:
        pair.turn()
    assert pair.receive(client).error_code == NONE
    assert not pair.leader.listener.lane.is_busy


@pytest.mark.slow
def test_a_follower_names_some_partitions_in_a_request_and_gets_all_of_them(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[int] = []

    def counted(limits: Any, session: Any, wanted: Any, *rest: Any) -> bytes:
        requests.append(len(wanted))
        return encode_request(limits, session, wanted, *rest)

    monkeypatch.setattr(replica_fetcher, "encode_request", counted)
    monkeypatch.setattr(replica_fetcher, "MOST_CHANGES", 7)
    pair.append()
    pair.nodes.run_until(pair.are_equal)
    assert max(requests) == 7


@pytest.mark.slow
def test_changes_of_in_sync_replicas_are_asked_for_in_portions(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    portions: list[int] = []
    alter = leader_reports.alter_partitions

    def counted(control: Any, entity: Any) -> Any:
        portions.append(sum(len(topic.partitions) for topic in entity.topics))
        return alter(control, entity)

    monkeypatch.setattr(leader_reports, "alter_partitions", counted)
    monkeypatch.setattr(isr_changes, "MOST_CHANGES", 9)
    with monkeypatch.context() as patch:
        patch.setattr(replica_fetcher.ReplicaFetcher, "tick", lambda self, now_ms: None)
        pair.append()
        pair.nodes.run_until(lambda: all(len(each.isr) == 1 for each in pair.partitions(1).values()))
    assert sorted(portions) == [3, 9, 9, 9]
    pair.nodes.run_until(lambda: all(len(each.isr) == 2 for each in pair.partitions(1).values()))
    pair.nodes.run_until(pair.are_equal)
    assert max(portions) == 9
