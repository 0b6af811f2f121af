"""A partition as a leader: who is in sync, where the high watermark is, what writers are told."""

from __future__ import annotations

import errno
import uuid
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from support.faulty_files import Fault, FaultyFileSystem
from support.manual_clock import ManualClock
from support.replica_simulation import batch_of

from kafkatools.core.broker.metadata.image import BrokerState, MetadataImage, PartitionState
from kafkatools.core.broker.replicas.group_commit import GroupCommit
from kafkatools.core.broker.replicas.partition import Partition, PendingIsr
from kafkatools.core.broker.replicas.replication import replica_in_rack
from kafkatools.core.errors import (
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    UnknownLeaderEpoch,
)
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.records.batch import stamp_batch

NOW, LAG = 1_000_000, 30_000
WALL_MS = 1_700_000_000_000
EPOCH = 7
ISR_OF_ALL = (1, 2, 3)


class FakeReplication:
    """What a partition asks of the broker around it."""

    def __init__(self) -> None:
        self.max_lag_ms = LAG
        self.now_ms = NOW
        self.ineligible: set[int] = set()
        self.submitted: list[PendingIsr] = []
        self.isr_changes = SimpleNamespace(submit=lambda partition, pending: self.submitted.append(pending))

    def is_eligible(self, replica: Any) -> bool:
        return replica.broker_id not in self.ineligible

    def is_alive(self, broker_id: int) -> bool:
        return broker_id not in self.ineligible

    def is_joining(self, partition: Partition, replica: Any) -> bool:
        end = partition.log.log_end_offset
        return replica.is_caught_up(end, self.now_ms, LAG) and self.is_eligible(replica)


class Leader:
    """Broker 1 leads, 2 and 3 follow."""

    def __init__(self, *, isr: tuple[int, ...] = ISR_OF_ALL, min_isr: int = 2, waits_for_disk: bool = False) -> None:
        files = FaultyFileSystem()
        files.make_directory("/t-0")
        config = LogConfig(min_insync_replicas=min_isr)
        log = PartitionLog.open("/t-0", config, files)  # type: ignore[arg-type]
        self.replication = FakeReplication()
        self.partition = Partition("t", uuid.UUID(int=1), 0, -1, log, self.replication, waits_for_disk)  # type: ignore[arg-type]
        self.state = PartitionState(0, ISR_OF_ALL, isr, 1, EPOCH, 0)
        self.partition.make_leader(self.state, 1, NOW)

    def write(self, count: int = 1, *, acks: int = -1) -> None:
        for value in range(count):
            self.partition.append(batch_of(value), WALL_MS, required_acks=acks)

    def fetch(self, broker_id: int, offset: int, *, now_ms: int = NOW, epoch: int = 100, start: int = 0) -> bool:
        replica = self.partition.follower(broker_id, EPOCH)
        end = self.partition.log.log_end_offset
        return self.partition.update_follower(replica, (offset, start), end, epoch, now_ms)

    @property
    def high_watermark(self) -> int:
        return self.partition.log.high_watermark


def test_the_high_watermark_is_the_least_end_of_the_isr() -> None:
    leader = Leader()
    leader.write(5)
    assert leader.high_watermark == 0
    assert leader.fetch(2, 5) is False
    assert leader.fetch(3, 3) is True
    assert leader.high_watermark == 3
    leader.fetch(3, 5)
    assert leader.high_watermark == 5


def test_a_follower_that_has_not_fetched_in_this_epoch_holds_the_high_watermark() -> None:
    leader = Leader()
    leader.write(2)
    leader.fetch(2, 2)
    leader.fetch(3, 2)
    state = replace(leader.state, leader=2, leader_epoch=EPOCH + 1, partition_epoch=1)
    leader.partition.make_follower(state, 1)
    leader.partition.make_leader(replace(state, leader=1, leader_epoch=EPOCH + 2, partition_epoch=2), 1, NOW)
    leader.write(1)
    leader.fetch(2, 3)
    assert leader.high_watermark == 2


def test_a_leader_with_fsync_counts_what_it_synced_as_a_follower() -> None:
    leader = Leader(waits_for_disk=True)
    follows = replace(leader.state, leader=2, leader_epoch=EPOCH + 1, partition_epoch=1)
    leader.partition.make_follower(follows, 1)
    records = batch_of(1, 2, 3)
    stamp_batch(records, 0, base_offset=0, leader_epoch=EPOCH + 1)
    leader.partition.log.append_as_follower(records, WALL_MS)
    leader.partition.log.flush(WALL_MS)  # as the fetcher does
    leads = replace(follows, leader=1, leader_epoch=EPOCH + 2, partition_epoch=2)
    leader.partition.make_leader(leads, 1, NOW)
    for broker_id in (2, 3):
        leader.fetch(broker_id, 3)
    assert leader.high_watermark == 3


def test_a_leader_with_fsync_does_not_count_what_was_durable_before_a_truncation() -> None:
    leader = Leader(waits_for_disk=True)
    leader.write(4)
    leader.partition.log.flush(WALL_MS)
    leader.partition.note_durable(4)
    follows = replace(leader.state, leader=2, leader_epoch=EPOCH + 1, partition_epoch=1)
    leader.partition.make_follower(follows, 1)
    leader.partition.log.truncate_to(2)
    leads = replace(follows, leader=1, leader_epoch=EPOCH + 2, partition_epoch=2)
    leader.partition.make_leader(leads, 1, NOW)
    leader.write(2)
    for broker_id in (2, 3):
        leader.fetch(broker_id, 4)
    assert leader.high_watermark == 2
    leader.partition.note_durable(4)
    assert leader.high_watermark == 4


def test_a_sync_that_ends_after_a_truncation_says_nothing_of_what_was_written_since() -> None:
    leader = Leader(waits_for_disk=True)
    partition = leader.partition
    failures: list[Exception] = []
    commits = GroupCommit(ManualClock(), lambda: None, lambda partition: None, failures.append)
    commits.max_threads = 0  # syncs run when the test says so
    for count in (1, 3):
        leader.write(count)
        commits.note(partition)
        commits.turn()
    follows = replace(leader.state, leader=2, leader_epoch=EPOCH + 1, partition_epoch=1)
    partition.make_follower(follows, 1)
    partition.log.truncate_to(1)
    partition.make_leader(replace(follows, leader=1, leader_epoch=EPOCH + 2, partition_epoch=2), 1, NOW)
    leader.write(1)
    for broker_id in (2, 3):
        leader.fetch(broker_id, 2)
    commits.run_pending()
    partition.log.files.operations.clear()  # type: ignore[attr-defined]
    commits.turn()
    assert (leader.high_watermark, failures) == (2, [])
    assert "fsync 00000000000000000000.log" in partition.log.files.operations  # type: ignore[attr-defined]


def test_a_sync_that_began_before_the_partition_followed_another_leader_takes_back_no_durable_record() -> None:
    leader = Leader(waits_for_disk=True)
    partition = leader.partition
    commits = GroupCommit(ManualClock(), lambda: None, lambda partition: None, lambda error: None)
    commits.max_threads = 0  # syncs run when the test says so
    for count in (1, 3):
        leader.write(count)
        commits.note(partition)
        commits.turn()
    follows = replace(leader.state, leader=2, leader_epoch=EPOCH + 1, partition_epoch=1)
    partition.make_follower(follows, 1)
    records = batch_of(1, 2)
    stamp_batch(records, 0, base_offset=4, leader_epoch=EPOCH + 1)
    partition.log.append_as_follower(records, WALL_MS)
    partition.log.flush(WALL_MS)  # as the fetcher does
    partition.make_leader(replace(follows, leader=1, leader_epoch=EPOCH + 2, partition_epoch=2), 1, NOW)
    commits.run_pending()
    commits.turn()
    for broker_id in (2, 3):
        leader.fetch(broker_id, 6)
    assert leader.high_watermark == 6


def test_a_sync_that_ends_after_a_truncation_and_a_close_fails_no_log() -> None:
    leader = Leader(waits_for_disk=True)
    partition = leader.partition
    failures: list[Exception] = []
    commits = GroupCommit(ManualClock(), lambda: None, lambda partition: None, failures.append)
    commits.max_threads = 0  # syncs run when the test says so
    for count in (1, 3):
        leader.write(count)
        commits.note(partition)
        commits.turn()
    partition.make_follower(replace(leader.state, leader=2, leader_epoch=EPOCH + 1, partition_epoch=1), 1)
    partition.log.truncate_to(1)
    partition.log.close()
    commits.run_pending()
    partition.log.files.fail_after(0, Fault(errno.EIO, is_permanent=True))  # type: ignore[attr-defined]
    for _ in range(2):
        commits.turn()
        commits.run_pending()
    assert (failures, partition.log.failure, commits.has_new) == ([], None, False)


def test_no_file_of_a_closed_log_is_opened_to_sync_it() -> None:
    """Appends and a deletion of the topic in one turn: an open file would keep the space of the deleted log."""
    leader = Leader(waits_for_disk=True)
    partition = leader.partition
    settled: list[Partition] = []
    commits = GroupCommit(ManualClock(), lambda: None, settled.append, lambda error: None)
    commits.max_threads = 0  # syncs run when the test says so
    leader.write(1)
    commits.note(partition)
    commits.turn()
    leader.write(1)
    commits.note(partition)
    partition.mark_deleted()
    partition.log.release()
    partition.log.files.operations.clear()  # type: ignore[attr-defined]
    commits.turn()
    commits.run_pending()
    assert (partition.log.files.operations, len(settled), commits.has_new) == ([], 2, False)  # type: ignore[attr-defined]


def test_who_is_out_of_sync_does_not_count() -> None:
    leader = Leader(isr=(1, 2))
    leader.write(4)
    leader.fetch(2, 4)
    assert leader.high_watermark == 4
    leader.fetch(3, 0)
    leader.write(1)
    leader.fetch(2, 5)
    assert leader.high_watermark == 5


def test_who_is_about_to_join_counts() -> None:
    """A follower that is caught up is waited for, else the high watermark would always be ahead of it."""
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 0)
    assert leader.replication.submitted == [PendingIsr((1, 2, 3), EPOCH)]
    leader.partition.revert_isr()
    leader.write(4)
    leader.fetch(2, 4)
    assert leader.high_watermark == 0
    leader.replication.now_ms = NOW + LAG + 1
    leader.partition.maybe_increment_high_watermark()
    assert leader.high_watermark == 4


def test_the_larger_isr_counts_while_a_change_is_asked_for() -> None:
    leader = Leader()
    leader.write(3)
    leader.fetch(2, 3)
    leader.fetch(3, 1)
    assert leader.partition.maybe_shrink_isr(NOW + LAG + 1)
    assert leader.replication.submitted == [PendingIsr((1, 2), EPOCH)]
    leader.write(1)
    leader.fetch(2, 4)
    assert leader.high_watermark == 1
    leader.replication.now_ms = NOW + LAG + 1
    assert leader.partition.commit_isr((1, 2), 1)
    assert leader.high_watermark == 4


def test_the_isr_shrinks_by_those_who_did_not_catch_up_for_too_long() -> None:
    leader = Leader()
    leader.write(3)
    leader.fetch(2, 3, now_ms=NOW + 20_000)
    leader.fetch(3, 2, now_ms=NOW + 20_000)
    assert not leader.partition.maybe_shrink_isr(NOW + LAG)
    assert leader.partition.maybe_shrink_isr(NOW + LAG + 1)
    assert leader.replication.submitted == [PendingIsr((1, 2), EPOCH)]
    assert not leader.partition.maybe_shrink_isr(NOW + 10 * LAG), "one change at a time"


def test_a_follower_with_the_whole_log_is_in_sync_however_long_it_is_silent() -> None:
    leader = Leader()
    leader.write(3)
    leader.fetch(2, 3)
    leader.fetch(3, 3)
    assert not leader.partition.maybe_shrink_isr(NOW + 100 * LAG)


def test_a_slow_follower_was_caught_up_when_it_had_the_end_of_its_last_fetch() -> None:
    leader = Leader()
    leader.write(3)
    leader.fetch(2, 1, now_ms=NOW + 1000)
    leader.write(3)
    leader.fetch(2, 3, now_ms=NOW + 2000)
    replica = leader.partition.followers[2]
    assert replica.last_caught_up_ms == NOW + 1000


@pytest.mark.parametrize(("offset", "joins"), [(3, False), (4, True), (6, True)])
def test_the_isr_grows_by_who_has_the_high_watermark_and_the_start_of_the_epoch(offset: int, joins: bool) -> None:
    leader = Leader(isr=(1, 2))
    leader.write(4)
    leader.fetch(2, 4)
    state = replace(leader.state, isr=(1, 2), leader_epoch=EPOCH + 1, partition_epoch=1)
    leader.partition.make_leader(state, 1, NOW)
    leader.write(2)
    leader.replication.submitted.clear()
    replica = leader.partition.follower(3, EPOCH + 1)
    leader.partition.update_follower(replica, (offset, 0), 6, 100, NOW)
    assert bool(leader.replication.submitted) is joins


def test_a_fenced_broker_does_not_join_the_isr() -> None:
    leader = Leader(isr=(1, 2))
    leader.replication.ineligible.add(3)
    leader.fetch(3, 0)
    assert leader.replication.submitted == []


def test_a_fetch_of_an_earlier_life_of_a_broker_is_refused() -> None:
    leader = Leader()
    leader.fetch(2, 0, epoch=105)
    with pytest.raises(NotLeaderOrFollower):
        leader.fetch(2, 0, epoch=104)


def test_the_isr_is_asked_for_with_the_epochs_that_were_seen() -> None:
    leader = Leader()
    leader.fetch(2, 0, epoch=105)
    assert leader.partition.isr_with_epochs((1, 2, 3), 99) == [(1, 99), (2, 105), (3, -1)]


def test_a_stranger_is_no_follower() -> None:
    leader = Leader()
    with pytest.raises(UnknownLeaderEpoch):
        leader.partition.follower(9, EPOCH)
    with pytest.raises(NotLeaderOrFollower):
        leader.partition.follower(9, -1)


def test_too_small_an_isr_takes_no_writes_with_acks_all_and_commits_none_without() -> None:
    leader = Leader(isr=(1,))
    with pytest.raises(NotEnoughReplicas):
        leader.write()
    leader.write(acks=1)
    assert (leader.partition.log.log_end_offset, leader.high_watermark) == (1, 0)


def test_min_insync_replicas_is_at_most_the_number_of_replicas() -> None:
    leader = Leader(min_isr=5)
    assert leader.partition.min_isr == 3


def test_a_write_that_outlived_its_isr_is_told_so() -> None:
    leader = Leader()
    leader.write(2)
    assert leader.partition.replication_outcome(2) is None
    leader.fetch(2, 2)
    leader.fetch(3, 2)
    assert leader.partition.replication_outcome(2) == 0
    leader.partition.commit_isr((1,), 1)
    assert leader.partition.replication_outcome(2) == NotEnoughReplicasAfterAppend.code
    state = replace(leader.state, leader=2, leader_epoch=EPOCH + 1, partition_epoch=2)
    leader.partition.make_follower(state, 1)
    assert leader.partition.replication_outcome(2) == NotLeaderOrFollower.code


def test_a_new_leader_says_nothing_about_the_end_until_its_epoch_is_committed() -> None:
    leader = Leader()
    leader.write(3)
    leader.fetch(2, 1)
    leader.fetch(3, 1)
    leader.partition.make_leader(replace(leader.state, leader_epoch=EPOCH + 1, partition_epoch=1), 1, NOW)
    with pytest.raises(OffsetNotAvailable):
        leader.partition.offset_for_timestamp(-1, 0)
    assert leader.partition.offset_for_timestamp(-1, 2).offset == 3
    assert leader.partition.offset_for_timestamp(-2, 0).offset == 0
    for broker_id in (2, 3):
        replica = leader.partition.follower(broker_id, EPOCH + 1)
        leader.partition.update_follower(replica, (3, 0), 3, 100, NOW)
    assert leader.partition.offset_for_timestamp(-1, 0).offset == 3


def test_older_metadata_changes_nothing() -> None:
    leader = Leader()
    leader.partition.commit_isr((1, 2), 4)
    assert not leader.partition.make_leader(replace(leader.state, partition_epoch=3), 1, NOW)
    assert leader.partition.isr == (1, 2)


def test_metadata_ends_a_change_that_was_asked_for() -> None:
    leader = Leader()
    leader.write(1)
    leader.partition.maybe_shrink_isr(NOW + LAG + 1)
    leader.partition.make_leader(replace(leader.state, isr=(1, 3), partition_epoch=1), 1, NOW)
    assert (leader.partition.pending, leader.partition.isr) == (None, (1, 3))


def test_the_low_watermark_is_that_of_the_living() -> None:
    leader = Leader()
    leader.write(6)
    leader.fetch(2, 6, start=2)
    leader.fetch(3, 6, start=0)
    leader.partition.log.increment_log_start_offset(4)
    assert leader.partition.low_watermark == 0
    leader.replication.ineligible.add(3)
    assert leader.partition.low_watermark == 2


def test_a_consumer_is_sent_to_a_replica_in_its_rack_that_has_what_it_wants() -> None:
    leader = Leader()
    leader.write(6)
    leader.fetch(2, 6)
    leader.fetch(3, 4)
    image = MetadataImage()
    for broker_id, rack in ((1, "a"), (2, "b"), (3, "b")):
        image.brokers[broker_id] = BrokerState(broker_id, 1, None, (), rack, False)

    def choose(offset: int, rack: str) -> int | None:
        return replica_in_rack(image, leader.partition, offset, rack)

    assert (choose(0, "a"), choose(0, "b"), choose(5, "b"), choose(0, "c")) == (None, 2, 2, None)
    leader.partition.commit_isr((1, 3), 1)
    assert (choose(0, "b"), choose(5, "b")) == (3, None)
