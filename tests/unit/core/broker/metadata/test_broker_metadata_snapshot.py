"""Snapshots of the metadata log: written, read at start, old ones and the log below them removed."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from support.faulty_files import Fault, FaultyFileSystem, InjectedCrash

from kafkatools.core.broker.metadata.image import MetadataImage
from kafkatools.core.broker.metadata.image_records import image_records
from kafkatools.core.broker.metadata.metadata_log import MetadataLog, SnapshotRules
from kafkatools.core.broker.metadata.quorum.election_store import ElectionStore
from kafkatools.core.broker.metadata.quorum.raft_log import RaftLog
from kafkatools.core.broker.metadata.quorum.sole_voter import SoleVoter
from kafkatools.core.broker.metadata.quorum.voter_set import EndPoint
from kafkatools.core.broker.metadata.snapshot import (
    SnapshotId,
    decode_snapshot,
    encode_snapshot,
    parse_name,
)
from kafkatools.core.errors import CorruptRecord
from kafkatools.core.log.files import FileSystem, RealFileSystem
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.protocol.schemas.metadata import ConfigRecord
from kafkatools.core.protocol.schemas.snapshot import KRaftVersionRecord, VotersRecord, encode_record
from kafkatools.core.records.batch import read_batches

NOW_MS = 1_795_230_000_000
RULES = SnapshotRules(
    max_record_bytes_between_snapshots=2000,
    max_snapshot_interval_ms=1000,
    max_retention_bytes=6000,
    log_config=LogConfig(retention_ms=-1, segment_bytes=2000, file_delete_delay_ms=0),
)


DIRECTORY_ID = uuid.UUID(int=7 << 80)


class Quorum:
    """A quorum of one with its metadata log and its image, as a node alone has them."""

    def __init__(
        self,
        root: Path | str,
        rules: SnapshotRules = RULES,
        files: FileSystem | None = None,
        directory_id: uuid.UUID | None = None,
    ) -> None:
        self.image = MetadataImage()
        self.replayed = 0
        self.wall_ms = NOW_MS
        self.log = MetadataLog(files or RealFileSystem(), str(root), rules)
        self.log.open(0, NOW_MS, is_clean=True)
        self.raft_log = RaftLog(self.log, lambda: self.wall_ms, commits_at_once=True)
        store = ElectionStore(files or RealFileSystem(), self.log.directory, [1])
        self.voter = SoleVoter(
            1, ("127.0.0.1", 9092), self.raft_log, store, directory_id, EndPoint("CONTROLLER", "127.0.0.1", 9093)
        )
        self.voter.start(self.replay)

    def replay(self, record: Any) -> None:
        self.replayed += 1
        self.image.replay(record)

    def set(self, name: str, value: str, wall_ms: int = NOW_MS) -> None:
        self.wall_ms = wall_ms
        record = ConfigRecord(resource_type=2, resource_name="topic", name=name, value=value)
        self.voter.append([record], wall_ms)
        self.image.replay(record)

    def maybe_snapshot(self, now_ms: int = 0, wall_ms: int = NOW_MS) -> bool:
        self.wall_ms = wall_ms
        return self.raft_log.maybe_snapshot(lambda: image_records(self.image), now_ms)

    def take_snapshot(self, wall_ms: int = NOW_MS) -> SnapshotId:
        self.wall_ms = wall_ms
        return self.raft_log.take_snapshot(image_records(self.image), 0)

    @property
    def configs(self) -> Any:
        return self.image.configs


def test_a_snapshot_comes_after_enough_bytes_and_is_where_a_start_begins(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path)
    for number in range(40):
        assert not quorum.maybe_snapshot() or number > 10
        quorum.set(f"name-{number % 5}", f"value-{number}")
    (first, *_) = quorum.log.snapshots.ids()
    assert 10 < first.offset < 40 and first.epoch == 1
    expected = dict(quorum.configs)
    newest = quorum.log.snapshots.ids()[-1]
    end = quorum.voter.end_offset
    quorum.log.close()
    again = Quorum(tmp_path)
    assert again.configs == expected
    assert again.replayed == 5 + end - newest.offset  # five settings, then the log; the leader change is no record


def test_a_snapshot_has_the_voter_that_an_upgrade_of_kraft_version_wrote(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, directory_id=DIRECTORY_ID)
    quorum.set("a", "1")
    quorum.voter.upgrade_kraft_version(1, validate_only=False)
    quorum.take_snapshot()
    quorum.log.close()
    for log in (tmp_path / "__cluster_metadata-0").glob("*.log"):
        log.unlink()
    again = Quorum(tmp_path, directory_id=DIRECTORY_ID)
    assert again.voter.kraft_version == 1
    (voter,) = again.voter.describe(0).voters
    assert voter.replica_directory_id == DIRECTORY_ID


def test_a_snapshot_comes_after_some_time_when_something_changed(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path)
    quorum.set("a", "1")
    assert not quorum.maybe_snapshot(999)
    assert quorum.maybe_snapshot(1000)
    assert not quorum.maybe_snapshot(5000)
    quorum.set("a", "2")
    assert quorum.maybe_snapshot(5001)
    never = SnapshotRules(max_snapshot_interval_ms=0)
    quiet = Quorum(tmp_path / "other", never)
    quiet.set("a", "1")
    assert not quiet.maybe_snapshot(10**9)


def test_retention_by_size_keeps_the_last_snapshot_and_the_log_behind_it(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path)
    for number in range(300):
        quorum.set(f"name-{number % 5}", "v" * 50)
        quorum.maybe_snapshot()
    ids = quorum.log.snapshots.ids()
    directory = tmp_path / "__cluster_metadata-0"
    logs = sorted(directory.glob("*.log"))
    total = sum(path.stat().st_size for path in [*logs, *directory.glob("*.checkpoint")])
    assert total < 6000 + 2 * 2000
    assert quorum.log.log.log_start_offset > 100
    assert quorum.log.log.log_start_offset in [snapshot.offset for snapshot in ids]
    expected = dict(quorum.configs)
    quorum.log.close()
    assert Quorum(tmp_path).configs == expected


def test_retention_by_time(tmp_path: Path) -> None:
    rules = SnapshotRules(max_retention_ms=10_000, max_snapshot_interval_ms=0)
    quorum = Quorum(tmp_path, rules)
    for number in range(3):
        quorum.set("a", str(number), NOW_MS + number * 6000)
        quorum.take_snapshot(NOW_MS + number * 6000)
    assert quorum.log.clean(NOW_MS + 9_999) == 0
    assert quorum.log.clean(NOW_MS + 10_001) == 1
    assert quorum.log.clean(NOW_MS + 10**9) == 1
    assert len(quorum.log.snapshots.ids()) == 1


def test_a_damaged_snapshot_is_passed_over_while_the_log_reaches_back(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, SnapshotRules())
    quorum.set("a", "1")
    quorum.take_snapshot()
    quorum.set("a", "2")
    newest = quorum.take_snapshot()
    quorum.log.close()
    path = tmp_path / "__cluster_metadata-0" / newest.file_name
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:100], b"", whole[:-5] + b"\xff" + whole[-4:], whole[: -len(whole) // 3]):
        path.write_bytes(damaged)
        again = Quorum(tmp_path, SnapshotRules())
        assert again.configs == {(2, "topic"): {"a": "2"}}
        again.log.close()


def test_a_log_that_no_snapshot_reaches_is_refused(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path)
    for number in range(300):
        quorum.set(f"name-{number % 5}", "v" * 50)
        quorum.maybe_snapshot()
    quorum.log.close()
    for path in (tmp_path / "__cluster_metadata-0").glob("*.checkpoint"):
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorruptRecord, match="no valid snapshot"):
        Quorum(tmp_path)


def test_the_voters_of_the_log_are_carried_from_snapshot_to_snapshot(tmp_path: Path) -> None:
    version = encode_record(KRaftVersionRecord(version=0, k_raft_version=1))
    voter = {"voter_id": 1, "voter_directory_id": None, "endpoints": []}
    versions = {"min_supported_version": 0, "max_supported_version": 1}
    voters = encode_record(VotersRecord(voters=[{**voter, "k_raft_version_feature": versions}]))
    data = encode_snapshot([], 0, last_contained_timestamp=-1, wall_ms=NOW_MS, quorum_records=[version, voters])
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (directory / SnapshotId(0, 0).file_name).write_bytes(data)
    quorum = Quorum(tmp_path, SnapshotRules())
    quorum.set("a", "1")
    written = quorum.take_snapshot()
    assert list(quorum.log.snapshots.read(written).quorum_records) == [version, voters]
    first = next(iter(read_batches((directory / written.file_name).read_bytes())))
    assert [record.key[3] for record in first.records() if record.key] == [3, 5, 6]


def test_a_log_that_ends_below_its_snapshot_begins_anew_at_it(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, SnapshotRules())
    quorum.set("a", "1")
    written = quorum.take_snapshot()
    quorum.log.log.truncate_to(1)
    quorum.log.close()
    again = Quorum(tmp_path, SnapshotRules())
    assert again.log.log.log_start_offset == written.offset
    assert again.configs == {(2, "topic"): {"a": "1"}}
    assert again.voter.end_offset == written.offset + 1


def test_a_crash_while_writing_leaves_the_old_state_or_the_new() -> None:
    operation = 0
    while True:
        files = FaultyFileSystem()
        files.make_directory("/")
        quorum = Quorum("/data", SnapshotRules(), files)
        for number in range(3):
            quorum.set("a", str(number))
        quorum.log.log.flush()
        files.fsync_directory("/data/__cluster_metadata-0")
        files.fail_after(operation, Fault(is_crash=True, short_write_bytes=30))
        try:
            quorum.take_snapshot()
            quorum.log.clean(NOW_MS)
        except InjectedCrash:
            files.crash()
        else:
            break
        again = Quorum("/data", SnapshotRules(), files)
        assert again.configs == {(2, "topic"): {"a": "2"}}
        assert not [e.name for e in files.list_directory("/data/__cluster_metadata-0") if e.name.endswith(".part")]
        operation += 1
    assert operation > 3


def test_names() -> None:
    assert SnapshotId(12, 3).file_name == "00000000000000000012-0000000003.checkpoint"
    assert parse_name("00000000000000000012-0000000003.checkpoint") == SnapshotId(12, 3)
    for other in ("bootstrap.checkpoint", "0-0.checkpoint", "00000000000000000012-0000000003.checkpoint.part", "a-b"):
        assert parse_name(other) is None


def test_what_is_no_snapshot_is_told() -> None:
    with pytest.raises(CorruptRecord):
        decode_snapshot(SnapshotId(0, 0), b"\0" * 100)
