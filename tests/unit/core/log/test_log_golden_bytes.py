"""The same appends give the same files, byte for byte, as Apache Kafka 4.3.1 recorded them."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.log_batches import CONTROL, HEADER, NOW_MS, contents, read_log, set_crc

from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.format.checkpoints import read_partition_metadata
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.producers.append import AppendOrigin

FOREVER = 2**62

# settings of the recorded topics, and the offsets at which the broker had been stopped and started again
CASES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "multi-segment": ({"segment_bytes": 16384, "index_interval_bytes": 512, "segment_index_bytes": 4096}, ()),
    "txn-java": ({"segment_bytes": 2600, "index_interval_bytes": 200, "segment_index_bytes": 2048}, ()),
    "txn-librdkafka": ({"index_interval_bytes": 256}, ()),
    "leader-epochs": ({"segment_bytes": 3000, "index_interval_bytes": 256, "segment_index_bytes": 2048}, (25, 43)),
    "log-append-time": ({"index_interval_bytes": 512, "message_timestamp_type": "LogAppendTime"}, ()),
    "codec-lz4-java": ({"index_interval_bytes": 1024}, ()),
    "plain-librdkafka": ({}, ()),
}


def as_the_producer_sent_it(batch: bytearray) -> None:
    """Take away what the broker added: offset, leader epoch, append time."""
    fields = HEADER.unpack_from(batch)
    attributes, base_timestamp = fields[5], fields[7]
    if not attributes & CONTROL:
        struct.pack_into(">q", batch, 0, 0)
    struct.pack_into(">i", batch, 12, -1)
    if attributes & 0x08:
        struct.pack_into(">h", batch, 21, attributes & ~0x08)
        struct.pack_into(">q", batch, 35, base_timestamp)
        set_crc(batch)


def append_all(source: Path, target: Path, config: LogConfig, restarts: tuple[int, ...]) -> None:
    log = PartitionLog.open(str(target), config, now_ms=NOW_MS)
    log.assign_topic_id(read_partition_metadata(RealFileSystem(), str(source / "partition.metadata")).topic_id)
    for batch in read_log(source):
        fields = HEADER.unpack_from(batch)
        offset, epoch, attributes, max_timestamp = fields[0], fields[2], fields[5], fields[8]
        if offset in restarts:
            log.flush()
            log.close()
            log = PartitionLog.open(str(target), config, now_ms=NOW_MS)
        if epoch != log.latest_epoch:
            log.assign_epoch_start_offset(epoch)
        as_the_producer_sent_it(batch)
        info = log.append_as_leader(
            memoryview(batch),
            leader_epoch=epoch,
            now_ms=max_timestamp,
            origin=AppendOrigin.COORDINATOR if attributes & CONTROL else AppendOrigin.CLIENT,
        )
        assert info.first_offset == offset
    log.close()


@pytest.mark.parametrize("name", CASES)
def test_same_appends_give_the_recorded_files(name: str, golden: Callable[[str], Path], tmp_path: Path) -> None:
    settings, restarts = CASES[name]
    recorded = golden(name) / "log"
    config = LogConfig(segment_ms=FOREVER, message_timestamp_after_max_ms=FOREVER, **settings)
    append_all(recorded, tmp_path / "topic-0", config, restarts)
    expected, written = contents(recorded), contents(tmp_path / "topic-0")
    assert sorted(written) == sorted(expected)
    for file_name, data in expected.items():
        assert written[file_name] == data, file_name


UNTOUCHED = [
    *(name for name in CASES if name != "leader-epochs"),
    "compacted",
    "consumer-offsets",
    "message-set-v1-segments",
]


@pytest.mark.parametrize("name", UNTOUCHED)
def test_opening_and_closing_a_recorded_log_changes_nothing(name: str, golden: Callable[[str], Path]) -> None:
    directory = golden(name) / "log"
    before = contents(directory)
    log = PartitionLog.open(str(directory), LogConfig(segment_ms=FOREVER), now_ms=NOW_MS)
    log.close()
    after = contents(directory)
    assert {file: data for file, data in after.items() if file in before} == before
    assert all(file.endswith(".snapshot") for file in set(after) - set(before))


@pytest.mark.parametrize("name", ["tail", "bit", "zero", "noindex", "garbage"])
def test_recovery_gives_what_kafka_made_of_the_same_damage(name: str, golden: Callable[[str], Path]) -> None:
    case = golden(f"recovery-{name}")
    config = LogConfig(segment_ms=FOREVER, segment_bytes=8192, index_interval_bytes=256, segment_index_bytes=2048)
    recover_and_close(case / "before", config)
    assert contents(case / "before") == contents(case / "log")


def test_recovery_after_kill_gives_kafkas_files(golden: Callable[[str], Path]) -> None:
    killed = golden("unclean-kill9") / "log" / "firehose-0"
    config = LogConfig(segment_ms=FOREVER, segment_bytes=32768, index_interval_bytes=512, segment_index_bytes=4096)
    recover_and_close(killed, config)
    assert contents(killed) == contents(golden("unclean-kill9-recovered") / "log")


def recover_and_close(directory: Path, config: LogConfig) -> None:
    log = PartitionLog.open(str(directory), config, now_ms=NOW_MS, had_clean_shutdown=False)
    log.assign_epoch_start_offset(4)
    log.flush()
    log.close()
    log.tasks.run_due(1 << 62)
