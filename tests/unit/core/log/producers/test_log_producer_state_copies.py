"""What a log knows of producers follows from its batches alone: a wiped follower that fetches all of it, one that
truncates and fetches again, and a log that is recovered know the same as the leader that checked each batch."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.log_batches import NOW_MS, TRANSACTIONAL, make_batch, make_marker, split_batches

from kafkatools.core.errors import OutOfOrderSequenceNumber
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.producers.append import AppendOrigin

SETTINGS: dict[str, Any] = {"segment_bytes": 1500}
"""More than an answer of a fetch holds here, as such an answer comes from one segment."""
PRODUCERS = (1, 2, 3)


def open_log(directory: Path, name: str, *, clean: bool = True) -> PartitionLog:
    return PartitionLog.open(
        str(directory / name), LogConfig(**SETTINGS), now_ms=NOW_MS, had_clean_shutdown=clean, log_start_offset=0
    )


class Client:
    """A transactional producer; with `bumps_epoch` each transaction has an epoch of its own (transaction version 2)."""

    def __init__(self, producer_id: int, *, bumps_epoch: bool) -> None:
        self.producer_id, self.bumps_epoch = producer_id, bumps_epoch
        self.epoch = self.sequence = 0
        self.is_open = False

    def write(self, log: PartitionLog, leader_epoch: int, count: int) -> None:
        batch = self.batch(self.sequence, count)
        log.append_as_leader(memoryview(batch), leader_epoch=leader_epoch, now_ms=NOW_MS)
        self.sequence += count
        self.is_open = True

    def batch(self, sequence: int, count: int) -> bytearray:
        return make_batch(
            [b"v" * 40] * count,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL,
        )

    def end(self, log: PartitionLog, leader_epoch: int, *, commit: bool) -> None:
        if self.bumps_epoch:
            self.epoch, self.sequence = self.epoch + 1, 0
        marker = make_marker(self.producer_id, self.epoch, commit=commit)
        origin = AppendOrigin.COORDINATOR
        log.append_as_leader(memoryview(marker), leader_epoch=leader_epoch, now_ms=NOW_MS, origin=origin)
        self.is_open = False


def fill(log: PartitionLog, source: Random, length: int) -> list[Client]:
    """Transactions that begin, end and interleave under several leader epochs."""
    clients = [Client(producer_id, bumps_epoch=source.random() < 0.5) for producer_id in PRODUCERS]
    leader_epoch = 0
    for _ in range(length):
        client = source.choice(clients)
        if client.is_open and source.random() < 0.4:
            client.end(log, leader_epoch, commit=source.random() < 0.6)
        else:
            client.write(log, leader_epoch, source.randint(1, 3))
        leader_epoch += source.random() < 0.1
        log.update_high_watermark(log.log_end_offset)
    return clients


def batches(log: PartitionLog) -> Iterator[bytearray]:
    for path in sorted(Path(log.directory).glob("*.log")):
        yield from split_batches(path.read_bytes())


def fetch(log: PartitionLog, leader: PartitionLog, source: Random) -> None:
    """Append what is missing, in answers of several batches."""
    missing = [batch for batch in batches(leader) if int.from_bytes(batch[:8], "big") >= log.log_end_offset]
    while missing:
        count = source.randint(1, 5)
        log.append_as_follower(memoryview(bytearray(b"".join(missing[:count]))), NOW_MS)
        log.update_high_watermark(log.log_end_offset)
        missing = missing[count:]


def known(log: PartitionLog) -> dict[int, tuple[int, ...]]:
    state = log.producer_state
    return {
        producer_id: (
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_data_offset,
            entry.current_txn_first_offset,
            entry.coordinator_epoch,
        )
        for producer_id, entry in state.producers.items()
    } | {-1: (-1 if log.first_unstable_offset is None else log.first_unstable_offset, state.map_end_offset)}


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 32), length=st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_copies_of_a_log_know_the_same_of_producers(seed: int, length: int) -> None:
    source = Random(seed)
    directory = Path(tempfile.mkdtemp())
    leader, follower = open_log(directory, "leader-0"), open_log(directory, "follower-0")
    try:
        fill(leader, source, length)
        expected = known(leader)
        fetch(follower, leader, source)
        assert known(follower) == expected, "a wiped follower that fetched everything"
        for _ in range(3):
            bases = [int.from_bytes(batch[:8], "big") for batch in batches(leader)]
            follower.truncate_to(source.choice(bases), NOW_MS)
            fetch(follower, leader, source)
            assert known(follower) == expected, "a follower that truncated and fetched again"
        follower.close()
        follower = open_log(directory, "follower-0", clean=False)
        follower.update_high_watermark(follower.log_end_offset)
        assert known(follower) == expected, "a follower that was recovered"
    finally:
        leader.close()
        follower.close()
        shutil.rmtree(directory)


@pytest.mark.parametrize("bumps_epoch", [False, True])
def test_a_refilled_replica_that_leads_takes_the_next_transaction_and_no_gap(tmp_path: Path, bumps_epoch: bool) -> None:
    leader, follower = open_log(tmp_path, "leader-0"), open_log(tmp_path, "follower-0")
    client = Client(1, bumps_epoch=bumps_epoch)
    client.write(leader, 0, 2)
    client.end(leader, 0, commit=False)
    fetch(follower, leader, Random(0))
    end = follower.log_end_offset
    with pytest.raises(OutOfOrderSequenceNumber):
        follower.append_as_leader(memoryview(client.batch(client.sequence + 1, 1)), leader_epoch=1, now_ms=NOW_MS)
    client.write(follower, 1, 1)
    assert follower.log_end_offset == end + 1, (
        "the first batch of the next transaction is no duplicate of an aborted one"
    )
    leader.close()
    follower.close()
