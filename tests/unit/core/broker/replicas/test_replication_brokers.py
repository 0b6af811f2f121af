"""What brokers with replicas do as a whole: whom they send clients to, what becomes of replicas that are taken away,
who hears of elections, what followers know of producers, throttles."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any

import pytest
from support.faulty_files import Fault
from support.replica_simulation import SETTINGS, TOPIC, TOPIC_ID, ReplicaSimulation, SimulatedBroker, batch_of

from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.replicas.throttles import FOLLOWER_RATE, LEADER_RATE
from kafkatools.core.protocol import messages

PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2
OFFSET_OUT_OF_RANGE, NOT_LEADER = 1, 6


def partition_of(broker: SimulatedBroker) -> Partition:
    assert broker.partition is not None
    return broker.partition


@pytest.fixture
def cluster() -> ReplicaSimulation:
    """Broker 1 leads; ten records are committed and known to be."""
    made = ReplicaSimulation(1)
    made.run(30)
    made.produce(10)
    made.run_until(lambda: len(made.acknowledged) == 10)
    made.run(150)
    return made


def produce(broker: SimulatedBroker, version: int, acks: int = -1) -> Any:
    topic = {"topic_id": TOPIC_ID} if version >= 13 else {"name": TOPIC}
    fields = {
        "acks": acks,
        "timeout": 300,
        "transactional_id": None,
        "topic_data": [{**topic, "partition_data": [{"index": 0, "records": bytes(batch_of(1))}]}],
    }
    return broker.ask(PRODUCE, version, messages.encode_fields(messages.request_type(PRODUCE, version), fields))


def fetch(
    broker: SimulatedBroker,
    version: int,
    *,
    offset: int = 0,
    rack: str = "",
    epoch: int = -1,
    session: tuple[int, int] = (0, -1),
) -> Any:
    topic = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": TOPIC}
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": epoch}
    fields = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": session[0],
        "session_epoch": session[1],
        "rack_id": rack,
        "topics": [{**topic, "partitions": [part]}],
        "forgotten_topics_data": [],
    }
    return broker.ask(FETCH, version, messages.encode_fields(messages.request_type(FETCH, version), fields))


@pytest.mark.parametrize(("has_contact", "error"), [(True, OFFSET_OUT_OF_RANGE), (False, NOT_LEADER)])
def test_a_leader_without_a_controller_does_not_judge_an_offset_behind_its_log(
    cluster: ReplicaSimulation, has_contact: bool, error: int
) -> None:
    leader = cluster.brokers[1]
    leader.has_contact = has_contact
    errors = [
        int(
            fetch(leader, 13, offset=offset, epoch=partition_of(leader).leader_epoch)
            .responses[0]
            .partitions[0]
            .error_code
        )
        for offset in (3, 10, 11)
    ]
    assert errors == [0, 0, error]


@pytest.mark.parametrize("version", [9, 10, 12, 13])
def test_a_writer_at_the_wrong_broker_is_told_the_leader(cluster: ReplicaSimulation, version: int) -> None:
    answer = produce(cluster.brokers[2], version)
    result = answer.responses[0].partition_responses[0]
    assert int(result.error_code) == NOT_LEADER
    if version >= 10:
        assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (1, 0)
        (endpoint,) = answer.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack) == (1, "host1", 9001, "rack1")


def test_a_writer_is_answered_when_all_have_it(cluster: ReplicaSimulation) -> None:
    result = produce(cluster.brokers[1], 13).responses[0].partition_responses[0]
    assert (int(result.error_code), result.base_offset) == (0, 10)
    assert all(partition_of(broker).log.log_end_offset == 11 for broker in cluster.brokers.values())


def test_a_write_that_loses_its_leader_while_it_waits_says_so(cluster: ReplicaSimulation) -> None:
    for other in (2, 3):
        cluster.cut |= {(1, other), (other, 1)}
    leader = cluster.brokers[1]
    cluster.at(cluster.clock.now_ms() + 20, lambda: cluster.elect(2))
    answer = produce(leader, 13)
    result = answer.responses[0].partition_responses[0]
    assert int(result.error_code) == NOT_LEADER
    assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (2, 1)


def test_a_write_that_no_follower_takes_times_out(cluster: ReplicaSimulation) -> None:
    for other in (2, 3):
        cluster.cut |= {(1, other), (other, 1)}
    partition_of(cluster.brokers[1]).replication.max_lag_ms = 10**9  # type: ignore[union-attr]
    assert int(produce(cluster.brokers[1], 13).responses[0].partition_responses[0].error_code) == 7


@pytest.mark.parametrize("version", [10, 11, 12, 16, 18])
def test_a_follower_serves_consumers_of_newer_versions(cluster: ReplicaSimulation, version: int) -> None:
    data = fetch(cluster.brokers[2], version).responses[0].partitions[0]
    if version < 11:
        assert int(data.error_code) == NOT_LEADER
        return
    assert int(data.error_code) == 0
    assert data.high_watermark == 10
    assert len(data.records) == partition_of(cluster.brokers[2]).log.size_bytes


def test_a_follower_with_fsync_whose_sync_fails_tells_the_leader_of_no_record(cluster: ReplicaSimulation) -> None:
    leader, follower = partition_of(cluster.brokers[1]), partition_of(cluster.brokers[2])
    follower.waits_for_disk = True
    cluster.brokers[2].files.fail_after(1, Fault(code=errno.EIO))  # the write passes, its sync does not
    cluster.produce(1)
    cluster.run(150)
    assert follower.log.failure is not None
    assert (leader.log.log_end_offset, leader.followers[2].log_end_offset) == (11, 10)


def test_a_follower_with_fsync_tells_the_leader_of_no_record_before_its_sync(cluster: ReplicaSimulation) -> None:
    """Also of those before a batch that does not fit into its segments."""
    leader, follower = partition_of(cluster.brokers[1]), partition_of(cluster.brokers[2])
    follower.waits_for_disk = True
    for partition, segment_bytes in ((leader, 5000), (follower, 500)):
        partition.log.update_config(replace(partition.log.config, segment_bytes=segment_bytes))
    cluster.brokers[2].is_paused = True
    for size in (1, 1, 50):
        leader.append(batch_of(*range(size)), cluster.clock.wall_ms(), required_acks=1)
    cluster.run(30)
    cluster.brokers[2].resume()
    cluster.run_until(lambda: leader.followers[2].log_end_offset == 12)
    assert (follower.log.log_end_offset, follower.log.recovery_point) == (12, 12)


def test_a_follower_shows_nothing_above_its_high_watermark(cluster: ReplicaSimulation) -> None:
    cluster.brokers[3].is_paused = True
    cluster.produce(5, acks=1)
    cluster.run(60)
    follower = partition_of(cluster.brokers[2])
    assert (follower.log.log_end_offset, follower.log.high_watermark) == (15, 10)
    data = fetch(cluster.brokers[2], 18, offset=10).responses[0].partitions[0]
    assert (int(data.error_code), bytes(data.records or b"")) == (0, b"")


def test_an_older_leader_epoch_is_fenced_and_told_the_leader(cluster: ReplicaSimulation) -> None:
    cluster.elect(2)
    cluster.run(50)
    answer = fetch(cluster.brokers[1], 18, epoch=0)
    data = answer.responses[0].partitions[0]
    assert int(data.error_code) == 74
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 1)
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(2, 9002)]


def test_consumers_are_sent_to_their_rack_when_the_broker_selects_by_it() -> None:
    cluster = ReplicaSimulation(1, settings=SETTINGS._replace(selects_by_rack=True))
    cluster.run(30)
    cluster.produce(3)
    cluster.run_until(lambda: len(cluster.acknowledged) == 3)
    leader = cluster.brokers[1]
    chosen = {
        rack: fetch(leader, 18, rack=rack).responses[0].partitions[0].preferred_read_replica
        for rack in ("rack1", "rack2", "rack3", "elsewhere")
    }
    assert chosen == {"rack1": -1, "rack2": 2, "rack3": 3, "elsewhere": -1}
    assert not fetch(leader, 18, rack="rack2").responses[0].partitions[0].records


def test_a_consumer_whose_session_is_open_is_sent_to_a_follower_that_is_in_sync_again() -> None:
    cluster = ReplicaSimulation(1, settings=SETTINGS._replace(selects_by_rack=True))
    cluster.run(30)
    leader, follower = cluster.brokers[1], cluster.brokers[2]
    follower.is_paused = True
    cluster.produce(3)
    cluster.run_until(lambda: 2 not in partition_of(leader).isr and len(cluster.acknowledged) == 3)
    opened = fetch(leader, 18, offset=3, rack="rack2", session=(0, 0))
    assert opened.responses[0].partitions[0].preferred_read_replica == -1
    assert fetch(leader, 18, offset=3, rack="rack2", session=(opened.session_id, 1)).responses == ()
    follower.resume()
    cluster.run_until(lambda: 2 in partition_of(leader).isr)
    answer = fetch(leader, 18, offset=3, rack="rack2", session=(opened.session_id, 2))
    assert [part.preferred_read_replica for topic in answer.responses for part in topic.partitions] == [2]


def test_offsets_are_told_by_the_leader_alone(cluster: ReplicaSimulation) -> None:
    def latest(broker: SimulatedBroker, replica_id: int) -> tuple[int, int]:
        part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
        fields = {
            "replica_id": replica_id,
            "isolation_level": 0,
            "topics": [{"name": TOPIC, "partitions": [part]}],
        }
        body = messages.encode_fields(messages.request_type(LIST_OFFSETS, 11), fields)
        found = broker.ask(LIST_OFFSETS, 11, body).topics[0].partitions[0]
        return int(found.error_code), found.offset

    cluster.brokers[2].is_paused = cluster.brokers[3].is_paused = True
    cluster.produce(2, acks=1)
    assert latest(cluster.brokers[1], -1) == (0, 10)
    assert latest(cluster.brokers[1], 2) == (0, 12)
    cluster.brokers[2].resume()
    assert latest(cluster.brokers[2], -1) == (NOT_LEADER, -1)


@pytest.mark.parametrize(("version", "code"), [(4, 5), (5, 78), (11, 78)])
def test_a_new_leader_has_no_end_to_tell_yet(cluster: ReplicaSimulation, version: int, code: int) -> None:
    """LEADER_NOT_AVAILABLE to clients that do not know OFFSET_NOT_AVAILABLE."""
    cluster.produce(2, acks=1)
    cluster.cut = {(one, other) for one in (1, 2, 3) for other in (1, 2, 3)}
    cluster.run(5)
    cluster.elect(1)
    cluster.run(40)
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    fields = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": TOPIC, "partitions": [part]}]}
    body = messages.encode_fields(messages.request_type(LIST_OFFSETS, version), fields)
    found = cluster.brokers[1].ask(LIST_OFFSETS, version, body).topics[0].partitions[0]
    assert int(found.error_code) == code


def test_a_replica_that_is_taken_away_goes_with_its_files(cluster: ReplicaSimulation) -> None:
    gone = cluster.brokers[3]
    assert gone.files.exists("/data/t-0")
    cluster.change(replicas=(1, 2), isr=(1, 2))
    cluster.run(50)
    assert gone.partition is None
    assert not gone.files.exists("/data/t-0")
    gone.logs.tasks.run_due(cluster.clock.wall_ms() + 60_000)
    assert [entry.name for entry in gone.files.list_directory("/data") if entry.is_directory] == []
    cluster.produce(3)
    cluster.run_until(lambda: len(cluster.acknowledged) == 13)
    cluster.change(replicas=(1, 2, 3))
    cluster.run_until(cluster.is_settled)
    cluster.check()


def test_elections_are_told(cluster: ReplicaSimulation) -> None:
    heard = cluster.elections
    heard.clear()
    cluster.elect(2)
    cluster.run(60)
    assert sorted(heard) == [(1, "resigned", 1), (2, "elected", 1)]
    heard.clear()
    cluster.change(isr=(2, 3))
    cluster.run(60)
    assert heard == [], "another ISR is no election"
    cluster.change(replicas=(3, 1), leader=3, isr=(3,))
    cluster.run(60)
    assert sorted(heard) == [(2, "resigned", 1), (3, "elected", 2)]


def test_followers_know_the_producers(cluster: ReplicaSimulation) -> None:
    leader = cluster.leader
    batch = batch_of(1, 2, 3, producer=(77, 4, 0))
    leader.do(lambda: partition_of(leader).append(batch, cluster.clock.wall_ms()) and None)
    leader.do(lambda: leader.replicas.note_append(partition_of(leader)))
    cluster.run(60)
    for broker in cluster.brokers.values():
        entry = partition_of(broker).log.producer_state.producers[77]
        assert (entry.producer_epoch, entry.last_sequence) == (4, 2)
    cluster.elect(3)
    cluster.run(60)
    again = partition_of(cluster.brokers[3]).append(batch_of(1, 2, 3, producer=(77, 4, 0)), cluster.clock.wall_ms())
    assert (again.is_duplicate, again.first_offset) == (True, 10)


def test_the_high_watermark_comes_back_from_the_checkpoint(cluster: ReplicaSimulation) -> None:
    broker = cluster.brokers[2]
    broker.logs.checkpoint_high_watermarks()
    cluster.cut |= {(2, 1), (1, 2)}
    broker.stop(loses_power=False)
    cluster.start(2)
    cluster.run(50)
    assert partition_of(broker).log.high_watermark == 10
    assert partition_of(broker).log.log_end_offset == 10


@pytest.mark.parametrize("rate", [LEADER_RATE, FOLLOWER_RATE])
def test_a_throttle_holds_a_follower_that_is_not_in_sync(rate: str) -> None:
    cluster = ReplicaSimulation(
        1,
        broker_count=2,
        min_insync_replicas=1,
        segment_bytes=1 << 20,
        settings=SETTINGS._replace(quota_windows=(200, 3), fetch_max_bytes=2000, fetch_wait_max_ms=10),
        leader_replication_throttled_replicas=frozenset({"0:1"}),
        follower_replication_throttled_replicas=frozenset({"*"}),
    )
    cluster.run(20)
    cluster.kill(2)
    leader = cluster.leader
    for _ in range(110):
        leader.do(lambda: partition_of(leader).append(batch_of(*range(100)), cluster.clock.wall_ms()) and None)
    size = partition_of(leader).log.size_bytes
    cluster.rates[rate] = 40_000
    cluster.start(2)
    cluster.run_until(lambda: cluster.brokers[2].partition is not None)
    began_ms = cluster.clock.now_ms()
    cluster.run_until(lambda: partition_of(cluster.brokers[2]).log.size_bytes == size, 30_000)
    took_ms = cluster.clock.now_ms() - began_ms
    assert abs(size * 1000 / took_ms / 40_000 - 1) < 0.2
    cluster.rates.clear()
    cluster.run_until(cluster.is_settled)
    cluster.check()
