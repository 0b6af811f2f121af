"""Compaction inside a broker: the thread, the swap on the listener's side, the checkpoint."""

import errno
import os
import struct
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.last_values import last_values
from support.log_batches import NOW_MS, TRANSACTIONAL, emptied, make_batch, make_marker, split_batches
from support.manual_clock import ManualClock

from kafkatools.core import config as tables
from kafkatools.core.broker.replicas import log_cleaner
from kafkatools.core.broker.replicas.log_cleaner import REST_MS, LogCleaner, Throttle
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.clock import SystemClock
from kafkatools.core.config import Config
from kafkatools.core.log.cleaner.planning import measure, plan
from kafkatools.core.log.files import RealFileSystem, RealLogFile
from kafkatools.core.log.format.checkpoints import read_offset_checkpoint
from kafkatools.core.log.format.filenames import CLEANER_OFFSET_CHECKPOINT, TopicPartition
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.log_manager import LogManager
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.producers.append import AppendOrigin

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.01)
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class Owner:
    """The listener's thread of this test: turns the cleaner whenever it asks."""

    def __init__(self, directory: Path, clock: SystemClock | None = None, **settings: str) -> None:
        self.logs = LogManager(RealFileSystem(), str(directory))
        self.logs.start()
        self.asked = threading.Semaphore(0)
        self.failures: list[Exception] = []
        config = Config(tables.BROKER, {"log.cleaner.dedupe.buffer.size": "100000", "node.id": "1", **settings})
        clock = clock or SystemClock()
        self.cleaner = LogCleaner(self.logs, config, clock, self.asked.release, self.failures.append)

    def log(self, name: str) -> PartitionLog:
        return self.logs.get_or_create(TopicPartition(name, 0), TOPIC_ID, CONFIG, NOW_MS)

    def fill(self, name: str, count: int = 20) -> PartitionLog:
        log = self.log(name)
        for number in range(count):
            batch = make_batch([b"%d" % number], keys=[b"k%d" % (number % 3)])
            log.append_as_leader(memoryview(batch), leader_epoch=0, now_ms=NOW_MS)
        log.update_high_watermark(log.log_end_offset)
        log.roll(NOW_MS)
        return log

    def turn_until(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            assert self.asked.acquire(timeout=20)
            self.cleaner.turn()


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    made = Owner(tmp_path)
    yield made
    made.cleaner.close()


class FullDisk(RealFileSystem):
    """A disk that takes nothing of a cleaner."""

    def open(self, path: str, *, create: bool = False) -> RealLogFile:
        if create and path.endswith(".cleaned"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().open(path, create=create)


def test_a_full_disk_is_reported_and_tried_again_later(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    full, log = FullDisk(), owner.fill("one")
    monkeypatch.setattr(owner.cleaner, "_files", full)
    owner.cleaner.check()
    owner.turn_until(lambda: not owner.cleaner.is_busy)
    (failure,) = owner.failures
    assert "Compaction of one-0 failed and will be retried" in str(failure) and "No space left" in str(failure)
    assert offsets(log) == list(range(20)) and owner.cleaner.manager.uncleanable == {}
    owner.cleaner.check()
    assert not owner.cleaner.is_busy


def test_compact_and_delete_together(owner: Owner) -> None:
    config = replace(CONFIG, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000, segment_bytes=400)
    now_ms = SystemClock().wall_ms()
    log = owner.logs.get_or_create(TopicPartition("both", 0), TOPIC_ID, config, now_ms)
    for number in range(20):
        time_ms = now_ms - 60_000 if number < 10 else now_ms + 60_000
        batch = make_batch([b"%d" % number], keys=[b"k%d" % (number % 3)], timestamps=[time_ms])
        log.append_as_leader(memoryview(batch), leader_epoch=0, now_ms=now_ms)
    log.update_high_watermark(20)
    log.roll(now_ms)
    first_young = next(s.base_offset for s in log.segments if s.max_timestamp_so_far.timestamp > now_ms)
    owner.cleaner.check()
    owner.turn_until(lambda: not owner.cleaner.is_busy)
    assert log.log_start_offset == first_young
    assert offsets(log) == [17, 18, 19]
    assert owner.failures == []


def test_a_log_under_cleaning_is_left_alone_by_retention(owner: Owner) -> None:
    log = owner.fill("one")
    log.update_config(replace(CONFIG, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=0))
    log.cleaning = plan(log, measure(log, NOW_MS))
    assert owner.logs.cleanup(NOW_MS * 2) == 0
    log.cleaning = None
    assert owner.logs.cleanup(NOW_MS * 2) > 0


def transaction(log: PartitionLog, sequence: int, key: bytes, value: bytes) -> None:
    """One committed record."""
    producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": sequence}
    for data in (
        make_batch([value], keys=[key], attributes=TRANSACTIONAL, **producer),
        make_marker(5, 0, commit=True),
    ):
        log.append_as_leader(memoryview(data), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)


def test_a_compacted_offsets_topic_is_read_back(owner: Owner) -> None:
    log = owner.log("offsets")
    for number in range(6):
        transaction(log, number, b"k%d" % (number % 2), b"%d" % number)
    for _ in range(3):  # what is left of transactions shrinks to a marker with a horizon, then to an empty batch
        log.update_config(replace(CONFIG, delete_retention_ms=0))
        log.update_high_watermark(log.log_end_offset)
        log.roll(NOW_MS)
        owner.cleaner.check()
        owner.turn_until(lambda: not owner.cleaner.is_busy)
        data = make_batch([b"x"], keys=[b"other"])
        log.append_as_leader(memoryview(data), leader_epoch=0, now_ms=NOW_MS)
    failures: list[Exception] = []
    partition = Partition("offsets", uuid.UUID(int=1), 0, 0, log)
    assert last_values(partition, failures.append) == {b"k0": b"4", b"k1": b"5", b"other": b"x"}
    assert failures == [] and owner.failures == []


def test_an_emptied_marker_ends_nothing(owner: Owner) -> None:
    log = owner.log("offsets")
    transaction(log, 0, b"k", b"v")
    empty = emptied(make_marker(5, 0, commit=True))
    struct.pack_into(">q", empty, 0, 2)  # outside of the checksum
    log.append_as_follower(memoryview(empty), NOW_MS)
    failures: list[Exception] = []
    assert last_values(Partition("offsets", uuid.UUID(int=1), 0, 0, log), failures.append) == {b"k": b"v"}
    assert failures == []


def offsets(log: PartitionLog) -> list[int]:
    found = []
    for segment in log.segments:
        found += [int.from_bytes(b[:8], "big") for b in split_batches(segment.log.read_at(0, segment.size_bytes))]
    return found


def test_dirty_logs_are_cleaned_one_after_the_other_and_the_checkpoint_says_so(owner: Owner, tmp_path: Path) -> None:
    one, two = owner.fill("one"), owner.fill("two", 30)
    owner.cleaner.check()
    owner.turn_until(lambda: not owner.cleaner.is_busy)
    assert offsets(one) == [17, 18, 19] and offsets(two) == [27, 28, 29]
    owner.cleaner.close()
    path = str(tmp_path / CLEANER_OFFSET_CHECKPOINT)
    expected = {TopicPartition("one", 0): 20, TopicPartition("two", 0): 30}
    assert read_offset_checkpoint(RealFileSystem(), path) == expected
    assert owner.failures == []
    again = Owner(tmp_path)
    assert again.log("one").first_dirty_offset == 20


def test_a_partition_deleted_meanwhile_is_forgotten(owner: Owner, tmp_path: Path) -> None:
    owner.fill("one")
    owner.cleaner.check()
    assert owner.asked.acquire(timeout=20)  # the swap is asked for, nobody has answered
    owner.logs.delete(TopicPartition("one", 0), NOW_MS)
    owner.asked.release()
    owner.turn_until(lambda: not owner.cleaner.is_busy)
    assert owner.failures == [] and owner.cleaner.manager.uncleanable == {}
    owner.logs.tasks.run_due(1 << 62)
    assert not [name for name in os.listdir(tmp_path) if name.startswith("one-")]


def test_closing_in_the_middle_leaves_the_log_as_it_was(owner: Owner) -> None:
    log = owner.fill("one")
    owner.cleaner.check()
    assert owner.asked.acquire(timeout=20)
    owner.cleaner.close()
    owner.logs.close(1)
    assert offsets(owner.log("one")) == list(range(20))
    assert log.first_dirty_offset is None


class NoticedClock(SystemClock):
    """Says when the cleaner sleeps because of its throttle."""

    def __init__(self) -> None:
        self.is_throttled = threading.Event()

    def sleep_ms(self, duration_ms: int) -> None:
        if duration_ms > REST_MS:
            self.is_throttled.set()
        super().sleep_ms(duration_ms)


@pytest.mark.parametrize("limit", ["0", "10"])
def test_closing_does_not_wait_for_the_throttle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(log_cleaner, "THROTTLE_CHECK_MS", 0)
    clock = NoticedClock()
    owner = Owner(tmp_path, clock, **{"log.cleaner.io.max.bytes.per.second": limit})
    log = owner.fill("one", 100)
    owner.cleaner.check()
    assert clock.is_throttled.wait(timeout=10)
    closing = threading.Thread(target=owner.cleaner.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    owner.logs.close(1)
    assert log.first_dirty_offset is None


def test_a_damaged_partition_is_reported_once_and_the_others_go_on(owner: Owner) -> None:
    bad, good = owner.fill("bad"), owner.fill("good")
    bad.segments.first.log.write_at(66, b"\xff")
    owner.cleaner.check()
    owner.turn_until(lambda: not owner.cleaner.is_busy)
    owner.cleaner.check()
    if owner.cleaner.is_busy:
        owner.turn_until(lambda: not owner.cleaner.is_busy)
    assert offsets(good) == [17, 18, 19]
    (failure,) = owner.failures
    assert "bad-0 is no longer compacted" in str(failure) and "stored crc" in str(failure)
    owner.logs.delete(TopicPartition("bad", 0), NOW_MS)
    owner.cleaner.check()
    assert owner.cleaner.manager.uncleanable == {}


def test_the_throttle_waits_for_what_came_too_fast() -> None:
    clock = ManualClock(now_ms=0)
    throttle = Throttle(clock, 1000.0)
    throttle.note(250, lambda: None)
    assert clock.now_ms() == 0  # looked at every 300 ms
    clock.advance_ms(300)
    throttle.note(250, lambda: None)
    assert clock.now_ms() == 500
    clock.advance_ms(400)
    throttle.note(100, lambda: None)
    assert clock.now_ms() == 900
    naps: list[int] = []

    def raise_the_limit() -> None:
        naps.append(clock.now_ms())
        if len(naps) == 3:
            throttle.max_bytes_per_second = 1e9

    clock.advance_ms(300)
    throttle.note(1_000_000, raise_the_limit)
    assert naps == [1200, 1250, 1300]
    assert clock.now_ms() == 1350
