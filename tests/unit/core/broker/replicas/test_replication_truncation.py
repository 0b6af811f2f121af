"""What a follower cuts off: the schedules of KIP-101 and KIP-279, out of range, and who leads after an unclean
election."""

from __future__ import annotations

from dataclasses import replace

from support.replica_simulation import ReplicaSimulation, SimulatedBroker, batch_of, values_by_offset


def end_of(broker: SimulatedBroker) -> int:
    assert broker.partition is not None
    return broker.partition.log.log_end_offset


def values(broker: SimulatedBroker) -> list[int]:
    return list(values_by_offset(broker.content(0)).values())


def two_brokers() -> ReplicaSimulation:
    cluster = ReplicaSimulation(1, broker_count=2, min_insync_replicas=1)
    cluster.run(30)
    return cluster


def write(broker: SimulatedBroker, *written: int) -> None:
    for value in written:
        broker.do(lambda value=value: broker.produce(value, acks=1))  # type: ignore[misc]


def test_a_follower_that_restarts_keeps_what_lies_above_its_high_watermark() -> None:
    """KIP-101, scenario 1: A follows B, has m2, does not know yet that it is committed, and restarts. Truncation to the
    high watermark would lose m2 if B dies before A has it again."""
    cluster = two_brokers()
    leader, follower = cluster.brokers[1], cluster.brokers[2]
    cluster.produce(1)
    cluster.run_until(lambda: cluster.acknowledged == {0: 1})
    cluster.produce(1)
    cluster.run_until(lambda: len(cluster.acknowledged) == 2)
    assert follower.partition is not None
    assert end_of(follower) == 2
    assert follower.partition.log.high_watermark < 2
    follower.stop(loses_power=False)
    cluster.cut = {(1, 2), (2, 1)}
    cluster.start(2)
    cluster.run(50)
    assert follower.partition is not None
    assert follower.partition.log.high_watermark < 2, "it has heard nothing of its leader yet"
    leader.stop(loses_power=False)
    cluster.cut = set()
    cluster.change(leader=2, isr=(2,))
    cluster.run(30)
    assert values(follower) == [1, 2]
    cluster.start(1)
    cluster.run_until(cluster.is_settled)
    cluster.check()


def test_replicas_do_not_diverge_when_both_lose_their_tails() -> None:
    """KIP-101, scenario 2: both lose power; B comes back with m1 alone and, as the leader, takes m3 where A has m2."""
    cluster = two_brokers()
    one, other = cluster.brokers[1], cluster.brokers[2]
    write(one, 1)
    cluster.run_until(lambda: end_of(other) == 1)
    for broker in (one, other):
        assert broker.partition is not None
        broker.partition.log.flush()
    write(one, 2)
    cluster.run_until(lambda: end_of(other) == 2)
    assert one.partition is not None
    one.partition.log.flush()
    one.stop(loses_power=True)
    other.stop(loses_power=True)
    cluster.change(leader=2, isr=(2,))
    cluster.start(2)
    cluster.run(30)
    assert values(other) == [1]
    write(other, 3)
    cluster.run(30)
    cluster.start(1)
    cluster.run_until(cluster.is_settled)
    cluster.check()
    assert values(one) == values(other) == [1, 3]


def test_a_follower_that_does_not_know_the_leaders_epoch_asks_further() -> None:
    """KIP-279: A leads epoch 0, B leads 1 and writes alone, A leads 2 and writes alone, then both meet: the leader does
    not know epoch 1, its answer is for epoch 0, and what B wrote goes."""
    cluster = two_brokers()
    one, other = cluster.brokers[1], cluster.brokers[2]
    write(one, 10, 11)
    cluster.run_until(lambda: end_of(other) == 2)
    one.stop(loses_power=False)
    cluster.change(leader=2, isr=(2,))
    cluster.run(20)
    write(other, 20, 21, 22)
    cluster.run(5)
    other.stop(loses_power=False)
    cluster.change(leader=1, isr=(1,))
    cluster.start(1)
    cluster.run(20)
    write(one, 30)
    cluster.run(5)
    assert values(one) == [10, 11, 30]
    cluster.start(2)
    cluster.run_until(cluster.is_settled)
    cluster.check()
    assert values(other) == [10, 11, 30]
    assert other.partition is not None
    assert [tuple(entry) for entry in other.partition.log.epochs.entries] == [(0, 0), (2, 2)]


def test_many_turns_of_alone_writing_end_in_the_leaders_log() -> None:
    """KIP-279 with more epochs than either side knows: the truncation takes several rounds."""
    cluster = two_brokers()
    one, other = cluster.brokers[1], cluster.brokers[2]
    write(one, 1)
    cluster.run_until(lambda: end_of(other) == 1)
    one.stop(loses_power=False)
    other.stop(loses_power=False)
    for turn in range(4):
        writer_id = 2 - turn % 2
        writer = cluster.brokers[writer_id]
        cluster.change(leader=writer_id, isr=(writer_id,))
        cluster.start(writer_id)
        cluster.run(20)
        write(writer, 100 + 2 * turn, 101 + 2 * turn)
        cluster.run(5)
        writer.stop(loses_power=False)
    cluster.change(leader=1, isr=(1,))
    cluster.start(1)
    cluster.run(20)
    cluster.start(2)
    cluster.run_until(cluster.is_settled)
    cluster.check()
    assert values(one) == values(other) == [1, 102, 103, 106, 107]


def test_a_follower_below_the_leaders_start_begins_there() -> None:
    cluster = two_brokers()
    one, other = cluster.brokers[1], cluster.brokers[2]
    write(one, *range(5))
    cluster.run_until(lambda: end_of(other) == 5)
    cluster.kill(2)
    cluster.run(20)
    write(one, *range(5, 20))
    cluster.run(20)
    assert one.partition is not None
    one.partition.delete_records(12)
    cluster.start(2)
    cluster.run_until(cluster.is_settled)
    assert other.partition is not None
    assert other.partition.log.log_start_offset == 12
    assert other.content(12) == one.content(12)
    assert values_by_offset(other.content(12)) == {offset: offset for offset in range(12, 20)}


def test_a_new_follower_of_a_log_that_starts_within_a_batch_takes_the_whole_batch() -> None:
    """Records were deleted up to the middle of a batch: the leader sends the batch, which begins before the log start
    offset, and the follower's empty log is at that offset (UnexpectedAppendOffsetException in Partition)."""
    cluster = two_brokers()
    one, other = cluster.brokers[1], cluster.brokers[2]
    cluster.kill(2)
    cluster.run(20)
    leader = one.partition
    assert leader is not None
    for values_of_batch in ((0, 1, 2), (3, 4, 5)):
        leader.append(batch_of(*values_of_batch), cluster.clock.wall_ms(), required_acks=1)
    cluster.run(20)
    leader.delete_records(4)
    other.files = type(other.files)()
    other.files.make_directory("/data")
    cluster.start(2)
    cluster.run_until(cluster.is_settled)
    assert other.partition is not None
    log = other.partition.log
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (4, 6, 6)
    assert values_by_offset(other.content(3)) == {3: 3, 4: 4, 5: 5}


def test_a_follower_beyond_an_uncleanly_elected_leader_is_cut_to_its_end() -> None:
    """The leader's epochs are gone (an empty disk), so its answer is out of range and the ends decide."""
    cluster = two_brokers()
    one, other = cluster.brokers[1], cluster.brokers[2]
    write(one, *range(6))
    cluster.run_until(lambda: end_of(other) == 6)
    for broker in (one, other):
        broker.stop(loses_power=False)
    two_files = type(other.files)()
    two_files.make_directory("/data")
    other.files = two_files
    cluster.change(leader=2, isr=(2,))
    cluster.start(2)
    cluster.run(20)
    write(other, 70, 71)
    cluster.run(5)
    cluster.start(1)
    cluster.run_until(cluster.is_settled)
    cluster.check()
    assert values(one) == [70, 71]


def test_the_log_start_of_the_leader_reaches_its_followers_and_theirs_reach_it() -> None:
    cluster = ReplicaSimulation(3)
    cluster.run(30)
    cluster.produce(10)
    cluster.run_until(lambda: len(cluster.acknowledged) == 10)
    leader = cluster.leader
    assert leader.partition is not None
    leader.do(lambda: leader.partition.delete_records(7))  # type: ignore[union-attr, arg-type, return-value]
    assert leader.partition.low_watermark == 0
    cluster.run_until(lambda: leader.partition.low_watermark == 7)  # type: ignore[union-attr]
    for broker in cluster.brokers.values():
        assert broker.partition is not None
        assert broker.partition.log.log_start_offset == 7


def test_a_segment_that_is_larger_than_segments_may_be_now_is_followed() -> None:
    cluster = ReplicaSimulation(1, broker_count=2, min_insync_replicas=1, segment_bytes=100_000)
    cluster.run(20)
    one, other = cluster.brokers[1], cluster.brokers[2]
    cluster.kill(2)
    write(one, *range(40))
    cluster.run(20)
    cluster.log_config = replace(cluster.log_config, segment_bytes=500)
    cluster.start(2)
    cluster.run_until(cluster.is_settled)
    cluster.check()
    assert other.partition is not None
    assert max(segment.size_bytes for segment in other.partition.log.segments) <= 500
