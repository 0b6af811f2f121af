"""Checkpoints, markers, snapshots and epochs: what is written is Kafka's text, what is damaged is named."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkatools.core.errors import CorruptSnapshot, KafkaStorageError
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import long_hash
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.format import checkpoints, filenames
from kafkatools.core.log.format.filenames import TopicPartition
from kafkatools.core.log.format.leader_epochs import EpochEntry, LeaderEpochCache
from kafkatools.core.log.producers.snapshot import SnapshotEntry, format_snapshot, parse_snapshot, read_snapshot

FILES = RealFileSystem()


def test_the_recorded_root_is_read_and_written_alike(golden: Callable[[str], Path], tmp_path: Path) -> None:
    root = golden("broker-root") / "log"
    properties = checkpoints.read_meta_properties(FILES, str(root / "meta.properties"))
    assert properties["node.id"] == "1" and properties["version"] == "1"
    recorded_at_ms = 1_795_230_009_000
    checkpoints.write_meta_properties(FILES, str(tmp_path / "meta.properties"), properties, recorded_at_ms)
    assert (tmp_path / "meta.properties").read_bytes() == (root / "meta.properties").read_bytes()
    marker = checkpoints.read_clean_shutdown(FILES, str(root / ".kafka_cleanshutdown"))
    assert marker is not None
    checkpoints.write_clean_shutdown(FILES, str(tmp_path / "marker"), marker.broker_epoch)
    assert (tmp_path / "marker").read_bytes() == (root / ".kafka_cleanshutdown").read_bytes()
    offsets = checkpoints.read_offset_checkpoint(FILES, str(root / "recovery-point-offset-checkpoint"))
    assert offsets[TopicPartition("payments", 0)] == 78
    checkpoints.write_offset_checkpoint(FILES, str(tmp_path / "points"), offsets)
    written = (tmp_path / "points").read_text().splitlines()
    expected = (root / "recovery-point-offset-checkpoint").read_text().splitlines()
    assert written[:2] == expected[:2] and sorted(written[2:]) == sorted(expected[2:])


def test_java_dates() -> None:
    assert checkpoints.java_date(0) == "Thu Jan 01 00:00:00 UTC 1970"
    assert checkpoints.java_date(951_827_696_789) == "Tue Feb 29 12:34:56 UTC 2000"


@pytest.mark.parametrize(
    "text", ["", "x\n1\n", "1\n0\n", "0\n2\na 0 5\n", "0\n1\na 0\n", "0\n1\na 0 x\n", "0\n1\na x 5\n"]
)
def test_a_damaged_checkpoint_is_refused_by_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_text(text)
    with pytest.raises(KafkaStorageError, match=r"recovery-point-offset-checkpoint"):
        checkpoints.read_offset_checkpoint(FILES, str(path))


@pytest.mark.parametrize("text", ["", "version: 0\n", "version: 1\ntopic_id: x", "garbage"])
def test_damaged_partition_metadata_is_refused_by_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    path.write_text(text)
    with pytest.raises(KafkaStorageError, match=r"partition.metadata"):
        checkpoints.read_partition_metadata(FILES, str(path))


def test_a_marker_without_content_is_a_clean_stop(tmp_path: Path) -> None:
    path = tmp_path / ".kafka_cleanshutdown"
    assert checkpoints.read_clean_shutdown(FILES, str(path)) is None
    path.write_bytes(b"")
    assert checkpoints.read_clean_shutdown(FILES, str(path)) == (0, -1)


def test_names() -> None:
    assert filenames.parse_partition_directory("my-topic-12") == ("my-topic", 12)
    assert filenames.parse_partition_directory("t-0.abc-delete") is None
    assert filenames.parse_partition_directory("-1") is None
    assert filenames.offset_from_name("00000000000000000152.timeindex") == 152
    assert filenames.offset_from_name("leader-epoch-checkpoint") is None
    long_name = filenames.deleted_directory_name("t" * 249, 100_000, "0" * 32)
    assert len(long_name) == 255 and long_name.endswith("-100000." + "0" * 32 + "-delete")


def test_snapshots_are_read_as_recorded(golden: Callable[[str], Path]) -> None:
    path = golden("txn-java") / "log" / f"{78:020d}.snapshot"
    entries = read_snapshot(str(path))
    assert [entry.producer_id for entry in entries] == [7, 8, 9, 10]
    last = entries[-1]
    assert last == SnapshotEntry(10, 0, 2, 72, 2, 1700000000610, -1, 70)
    assert format_snapshot(entries) == path.read_bytes()


def test_every_flipped_byte_of_a_snapshot_is_noticed(golden: Callable[[str], Path]) -> None:
    original = (golden("txn-java") / "log" / f"{78:020d}.snapshot").read_bytes()
    for position in range(len(original)):
        damaged = bytearray(original)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptSnapshot):
            parse_snapshot(bytes(damaged))
    for size in range(len(original)):
        with pytest.raises(CorruptSnapshot):
            parse_snapshot(original[:size])


def test_snapshot_entries_come_in_the_order_of_javas_map() -> None:
    assert hash_order([3, 1, 2], long_hash) == [1, 2, 3]
    assert hash_order([17, 1], long_hash) == [17, 1]
    assert hash_order([2**32 + 4, 3], long_hash) == [3, 2**32 + 4]
    assert hash_order(range(20, 0, -1), long_hash) == list(range(1, 21))


def cache(tmp_path: Path, *entries: tuple[int, int]) -> LeaderEpochCache:
    made = LeaderEpochCache(FILES, str(tmp_path / "leader-epoch-checkpoint"))
    for epoch, offset in entries:
        made.assign(epoch, offset)
    return made


def test_the_recorded_epochs(golden: Callable[[str], Path]) -> None:
    loaded = LeaderEpochCache(FILES, str(golden("leader-epochs") / "log" / "leader-epoch-checkpoint"))
    loaded.load()
    assert loaded.entries == [EpochEntry(0, 0), EpochEntry(2, 25), EpochEntry(4, 43)]
    assert [loaded.end_offset_for(epoch, 64) for epoch in (0, 1, 2, 4, 5)] == [
        (0, 25),
        (0, 25),
        (2, 43),
        (4, 64),
        (-1, -1),
    ]
    assert [loaded.epoch_for_offset(offset) for offset in (0, 24, 25, 60)] == [0, 0, 2, 4]


@pytest.mark.parametrize(
    ("batch", "entries"),
    [
        ((-1, 5), [(1, 0), (3, 10), (7, 40)]),
        ((3, 10), [(1, 0), (3, 10), (7, 40)]),
        ((3, 39), [(1, 0), (3, 10), (7, 40)]),
        ((7, 60), [(1, 0), (3, 10), (7, 40)]),
        ((8, 60), [(1, 0), (3, 10), (7, 40), (8, 60)]),
        ((1, 10), [(1, 0), (7, 40)]),
        ((1, 60), [(1, 0)]),
        ((3, 4), [(1, 0), (3, 4), (7, 40)]),
        ((5, 30), [(1, 0), (3, 10), (5, 30), (7, 40)]),
        ((7, 10), [(1, 0), (7, 10)]),
        ((0, 0), [(0, 0), (3, 10), (7, 40)]),
    ],
)
def test_a_batch_of_the_log_corrects_the_epochs(
    batch: tuple[int, int], entries: list[tuple[int, int]], tmp_path: Path
) -> None:
    made = cache(tmp_path, (1, 0), (3, 10), (7, 40))
    made.note_batch(*batch)
    assert made.entries == entries
    again = LeaderEpochCache(FILES, made.path)
    again.load()
    assert again.entries == entries


def test_a_forgotten_epoch_leaves_the_file_with_the_next_flush(tmp_path: Path) -> None:
    made = cache(tmp_path, (1, 0), (3, 10))
    made.flush()
    made.forget_from(10)
    assert made.needs_sync and Path(made.path).read_text() == "0\n2\n1 0\n3 10\n"
    assert made.flush() and not made.needs_sync
    assert Path(made.path).read_text() == "0\n1\n1 0\n"


def test_contradicting_epochs_are_dropped(tmp_path: Path) -> None:
    assert cache(tmp_path, (1, 0), (3, 10), (2, 20)).entries == [(1, 0), (2, 20)]
    assert cache(tmp_path, (1, 0), (2, 10), (3, 10)).entries == [(1, 0), (3, 10)]
    assert cache(tmp_path, (1, 0), (1, 10)).entries == [(1, 0)]


def test_epochs_are_cut_at_both_ends_and_saved(tmp_path: Path) -> None:
    made = cache(tmp_path, (0, 0), (1, 10), (2, 20), (3, 30))
    made.truncate_from_end(30)
    made.truncate_from_start(15)
    assert made.entries == [(1, 15), (2, 20)]
    again = LeaderEpochCache(FILES, made.path)
    again.load()
    assert again.entries == made.entries
    made.truncate_from_start(100)
    assert made.entries == [(2, 100)]
    made.clear()
    assert Path(made.path).read_text() == "0\n0\n"
