"""Apache Kafka's cleaner and this one clean the same log and leave the same files; it opens what is cleaned here."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.apache_kafka import ApacheKafka
from support.log_batches import TRANSACTIONAL, make_batch, make_marker
from support.waiting import eventually

from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.cleaner.cleaner import Cleaner
from kafkatools.core.log.cleaner.manager import LogCleanerManager
from kafkatools.core.log.delayed_tasks import DelayedTasks
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.format.checkpoints import read_offset_checkpoint
from kafkatools.core.log.format.filenames import CLEANER_OFFSET_CHECKPOINT, TopicPartition
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.partition.segment_swap import swap_in
from kafkatools.core.log.producers.append import AppendOrigin
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.compression import CompressionType

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

Tool = Callable[..., subprocess.CompletedProcess[bytes]]

TOPIC = "to-clean"
RETENTION_MS = 50_000
SEGMENT_BYTES = 1 << 20
PLAIN = LogConfig(segment_bytes=SEGMENT_BYTES, index_interval_bytes=500)
COMPACTED = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=SEGMENT_BYTES,
    index_interval_bytes=500,
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=RETENTION_MS,
)


class Story:
    """Writes a log with everything that the cleaner treats in its own way."""

    def __init__(self, log: PartitionLog, now_ms: int, codecs: Sequence[CompressionType]) -> None:
        self.log = log
        self.codecs = codecs
        self.now_ms = now_ms
        self.sequences: dict[int, int] = {}

    def put(self, data: bytearray, *, is_client: bool = False) -> None:
        origin = AppendOrigin.CLIENT if is_client else AppendOrigin.COORDINATOR
        self.log.append_as_leader(memoryview(data), leader_epoch=0, now_ms=self.now_ms, origin=origin)

    def batch(self, number: int, *, producer_id: int = -1, attributes: int = 0) -> None:
        """A few records of a few keys; some values are null, times go back and forth."""
        rows = range(number % 4 + 1)
        keys = [b"key-%d" % ((number * 7 + row * 3) % 41) for row in rows]
        values = [None if (number + row) % 9 == 0 else b"%d.%d " % (number, row) * (number % 13 + 1) for row in rows]
        times = [self.now_ms + (number * 31 + row * 17) % 500 - 250 for row in rows]
        producer: dict[str, int] = {}
        if producer_id >= 0:
            sequence = self.sequences.get(producer_id, 0)
            producer = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
            self.sequences[producer_id] = sequence + len(rows)
        self.put(make_batch(values, keys=keys, timestamps=times, attributes=attributes, **producer))

    def packed(self, number: int, codec: CompressionType) -> None:
        """A compressed batch with headers."""
        builder = BatchBuilder(1 << 16, codec)
        for row in range(30):
            value = None if row % 11 == 5 else b"packed %d " % number * 5
            key = b"key-%d" % ((number + row) % 55)
            builder.append(self.now_ms + row, key, value, [(f"h{row}", b"x" * (row % 3))])
        self.put(bytearray(builder.close()))

    def transaction(self, number: int, producer_id: int, *, commit: bool) -> None:
        """Two batches and their marker, another producer's batch between them."""
        self.batch(number, producer_id=producer_id, attributes=TRANSACTIONAL)
        self.batch(number + 1)
        self.batch(number + 2, producer_id=producer_id, attributes=TRANSACTIONAL)
        self.put(make_marker(producer_id, 0, commit=commit))

    def tell(self, numbers: range) -> None:
        for number in numbers:
            if number % 10 == 3:
                self.transaction(number, 100 + number % 20, commit=number % 4 != 1)
            elif number % 10 == 6:
                self.packed(number, self.codecs[number // 10 % len(self.codecs)])
            elif number % 10 == 8:
                self.put(make_batch([b"no key"], timestamps=[self.now_ms]))
            else:
                self.batch(number, producer_id=7 if number % 3 else -1)
            if number % 40 == 39:
                self.log.roll(self.now_ms)


def contents(directory: Path) -> dict[str, bytes]:
    """The segments' files, the one that is written apart."""
    suffixes = (".log", ".index", ".timeindex", ".txnindex")
    names = sorted(path.name for path in directory.iterdir() if path.suffix in suffixes)
    active = max(name for name in names if name.endswith(".log"))
    return {name: (directory / name).read_bytes() for name in names if name[:20] != active[:20]}


def described(data: bytes) -> list[object]:
    """Batches without what a compression library decides: length and checksum."""
    found: list[object] = []
    for batch in read_batches(data):
        assert isinstance(batch, RecordBatch)
        batch.ensure_valid()
        found.append((batch.base_offset, *batch.header[2:4], *batch.header[5:], list(batch.records())))
    return found


def assert_same(ours: dict[str, bytes], theirs: dict[str, bytes], *, is_plain: bool) -> None:
    assert sorted(ours) == sorted(theirs)
    for name, data in theirs.items():
        if is_plain or name.endswith((".txnindex", ".timeindex")):
            assert ours[name] == data, name
        elif name.endswith(".log"):
            assert described(ours[name]) == described(data)


def cleaned_at_ms(directory: Path) -> int:
    """When the newest round began, by the delete horizons that it wrote."""
    horizons = []
    for path in sorted(directory.glob("*.log")):
        for batch in read_batches(path.read_bytes()):
            assert isinstance(batch, RecordBatch)
            if batch.delete_horizon_ms is not None:
                horizons.append(batch.delete_horizon_ms - RETENTION_MS)
    return max(horizons)


def clean(directory: Path, first_dirty_offset: int | None, now_ms: int) -> int:
    log = PartitionLog(str(directory), COMPACTED, RealFileSystem(), DelayedTasks())
    log.first_dirty_offset = first_dirty_offset
    log.load(0, 0, now_ms, had_clean_shutdown=True)
    log.update_high_watermark(log.log_end_offset)
    manager = LogCleanerManager()
    grabbed = manager.grab_filthiest_log([log], now_ms)
    assert grabbed is not None
    wanted = grabbed[1]
    stats = Cleaner(RealFileSystem(), dedupe_buffer_bytes=1 << 20).clean(
        wanted, now_ms, lambda plan, cleaned: swap_in(log, plan, cleaned, now_ms)
    )
    assert manager.done_cleaning(log, wanted, stats, now_ms)
    log.close()
    log.tasks.run_due(1 << 62)
    return stats.end_offset


def wait_until_clean(cluster: ApacheKafka, ends: dict[int, int]) -> None:
    path = str(cluster.log_dir() / CLEANER_OFFSET_CHECKPOINT)
    expected = {TopicPartition(TOPIC, partition): end for partition, end in ends.items()}

    def is_clean() -> bool:
        with contextlib.suppress(KafkaStorageError):  # the file is empty at first
            return expected.items() <= read_offset_checkpoint(RealFileSystem(), path).items()
        return False

    eventually(is_clean)


CODECS = {0: [CompressionType.NONE], 1: list(CompressionType)}


def test_both_cleaners_leave_the_same_files(
    new_kafka: Callable[..., ApacheKafka], kafka_tool: Tool, tmp_path: Path
) -> None:
    cluster = new_kafka(settings={"log.cleaner.backoff.ms": "50", "log.cleaner.dedupe.buffer.size": "2000000"})
    cluster.start()
    configs = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": str(RETENTION_MS),
        "segment.bytes": str(SEGMENT_BYTES),
        "index.interval.bytes": "500",
    }
    options = [part for name, value in configs.items() for part in ("--config", f"{name}={value}")]
    cluster.tool("topics", "--create", "--topic", TOPIC, "--partitions", "2", *options)
    cluster.stop()
    ends: dict[int, int] = {}
    for numbers in (range(200), range(200, 290)):
        first_dirty = dict(ends)
        for partition, codecs in CODECS.items():
            ends[partition] = tell(cluster.log_dir() / f"{TOPIC}-{partition}", numbers, codecs)
            copy = tmp_path / str(numbers.start) / f"{TOPIC}-{partition}"
            shutil.copytree(cluster.log_dir() / copy.name, copy)
        cluster.start(format_first=False)
        wait_until_clean(cluster, ends)
        cluster.stop()
        for partition in CODECS:
            theirs = cluster.log_dir() / f"{TOPIC}-{partition}"
            ours = tmp_path / str(numbers.start) / theirs.name
            assert clean(ours, first_dirty.get(partition), cleaned_at_ms(theirs)) == ends[partition]
            assert_same(contents(ours), contents(theirs), is_plain=partition == 0)
    ours_in_its_place(cluster, kafka_tool, tmp_path / "200")


def tell(directory: Path, numbers: range, codecs: Sequence[CompressionType]) -> int:
    now_ms = time.time_ns() // 1_000_000
    log = PartitionLog.open(str(directory), PLAIN, now_ms=now_ms)
    Story(log, now_ms, codecs).tell(numbers)
    log.roll(now_ms)
    log.close()
    return log.log_end_offset


def ours_in_its_place(cluster: ApacheKafka, kafka_tool: Tool, directory: Path) -> None:
    """Apache Kafka's dump tool has no complaint about what was cleaned here, and its broker opens it."""
    count = 0
    for partition in CODECS:
        place = cluster.log_dir() / f"{TOPIC}-{partition}"
        shutil.rmtree(place)
        shutil.copytree(directory / place.name, place)
        names = ",".join(sorted(path.name for path in place.iterdir() if path.suffix in (".log", ".index")))
        done = kafka_tool("dump-log", "--files", names, "--deep-iteration", "--index-sanity-check", cwd=place)
        text = (done.stdout + done.stderr).decode()
        assert done.returncode == 0
        for word in ("ismatch", "Exception", "corrupt", "isvalid: false", "invalid bytes"):
            assert word not in text
        cleaned = [read_batches(data) for name, data in contents(place).items() if name.endswith(".log")]
        count += sum(batch.record_count for batches in cleaned for batch in batches if not batch.is_control)
    (cluster.log_dir() / ".kafka_cleanshutdown").unlink()
    (cluster.log_dir() / "recovery-point-offset-checkpoint").unlink()
    cluster.start(format_first=False)
    options = ("--from-beginning", "--max-messages", str(count), "--timeout-ms", "120000")
    assert len(cluster.tool("console-consumer", "--topic", TOPIC, *options).splitlines()) == count > 100
