"""The batches that a restore writes, against records that were put into the stored batches here."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence

import pytest

from kafkatools.core.records.batch import RecordBatch, TimestampType
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.control import ControlRecordType, EndTransactionMarker, write_end_transaction_marker
from kafkatools.exit_status import CommandError
from kafkatools.tools.backup.batch_scan import AbortedTransaction, BatchDamage, BatchScan
from kafkatools.tools.backup.manifest import (
    GroupOffset,
    Manifest,
    PartitionBackup,
    QuotaBackup,
    StoredObject,
    TopicBackup,
    decode_manifest,
    encode_manifest,
)
from kafkatools.tools.backup.object_reader import read_pieces
from kafkatools.tools.backup.partition_restore import PartitionRestore, find_cut
from kafkatools.tools.backup.restored_batches import RestoredBatch, Selection
from kafkatools.tools.backup.store import LocalStore

START = 1_700_000_000_000
GZIP = 1


def stored(offsets: Sequence[int], codec: int = 0, last: int | None = None, **header: object) -> bytes:
    """A batch with a record at each offset: its key is the offset, its timestamp START plus the offset."""
    builder = BatchBuilder(1 << 16, codec, base_offset=offsets[0], partition_leader_epoch=3, **header)  # type: ignore[arg-type]
    for offset in offsets:
        builder.append_with_offset(offset, START + offset, b"%d" % offset, None, [("h", b"x")] if offset % 2 else ())
    if last is not None:
        builder.override_last_offset(last)
    return bytes(builder.close())


def marker(offset: int, producer_id: int, kind: ControlRecordType) -> bytes:
    return bytes(
        write_end_transaction_marker(
            EndTransactionMarker(kind, 0),
            timestamp=START,
            producer_id=producer_id,
            producer_epoch=0,
            base_offset=offset,
        )
    )


def restored(selection: Selection, *batches: bytes) -> list[RestoredBatch]:
    return list(selection.restored(memoryview(b"".join(batches))))


def keys(batches: Iterable[RestoredBatch]) -> list[int]:
    """The keys of records; each batch is one that a broker takes from a producer."""
    found: list[int] = []
    for item in batches:
        batch = RecordBatch(item.data)
        assert (batch.base_offset, batch.last_offset_delta + 1, batch.record_count) == (0, *[item.record_count] * 2)
        assert (batch.producer_id, batch.is_transactional, batch.delete_horizon_ms) == (-1, False, None)
        assert batch.timestamp_type is TimestampType.CREATE_TIME
        records = list(batch.records())
        assert [record.timestamp - START for record in records] == [int(record.key or b"-1") for record in records]
        assert [bool(record.headers) for record in records] == [int(record.key or b"0") % 2 == 1 for record in records]
        found += [int(record.key or b"-1") for record in records]
    return found


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_without_gaps_keeps_its_compressed_records(codec: int) -> None:
    batch = stored(range(5, 9), codec, producer_id=7, producer_epoch=1, base_sequence=4, is_transactional=True)
    (item,) = restored(Selection(0, 100), batch)
    assert keys([item]) == [5, 6, 7, 8]
    assert bytes(item.data[61:]) == batch[61:]
    assert [item.records_before(offset) for offset in (0, 5, 7, 9, 50)] == [0, 0, 2, 4, 4]


@pytest.mark.parametrize("codec", [0, GZIP])
def test_gaps_of_compaction_are_closed_and_mapped(codec: int) -> None:
    batches = restored(Selection(0, 100), stored([10, 12, 17], codec), stored([20, 21], codec, last=29))
    assert keys(batches) == [10, 12, 17, 20, 21]
    assert [batches[0].records_before(offset) for offset in (10, 11, 12, 13, 17, 18)] == [0, 1, 1, 2, 2, 3]
    assert batches[1].next_offset == 30
    rest = batches[0].without(1)
    assert (keys([rest]), rest.offsets, rest.next_offset) == ([12, 17], [12, 17], 18)


def test_a_delete_horizon_does_not_change_timestamps() -> None:
    assert keys(restored(Selection(0, 100), stored([10, 11], delete_horizon_ms=START + 5000))) == [10, 11]


def test_append_times_become_the_timestamps_of_records() -> None:
    kind = TimestampType.LOG_APPEND_TIME
    (item,) = restored(Selection(0, 100), stored([1, 2], timestamp_type=kind, log_append_time=START + 77))
    batch = RecordBatch(item.data)
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert [record.timestamp - START for record in batch.records()] == [77, 77]


def test_a_range_may_begin_and_end_inside_of_batches() -> None:
    batches = restored(Selection(12, 22), stored(range(10, 15), GZIP), stored(range(15, 20)), stored(range(20, 25)))
    assert keys(batches) == list(range(12, 22))
    assert (batches[0].first_offset, batches[-1].next_offset) == (12, 22)


def test_markers_aborted_and_open_transactions_are_left_out() -> None:
    def data(offset: int, producer_id: int) -> bytes:
        return stored([offset], producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)

    log = (
        data(1, 5), data(2, 6), stored([3]), marker(4, 5, ControlRecordType.ABORT), data(5, 5),
        marker(6, 5, ControlRecordType.COMMIT), marker(7, 6, ControlRecordType.COMMIT), data(8, 6), data(9, 5),
    )  # fmt: skip
    scan = BatchScan(0)
    assert scan.scan(memoryview(b"".join(log))) == sum(map(len, log))
    assert scan.summary.aborted == [AbortedTransaction(5, 1, 4)]
    assert scan.open == {6: 8, 5: 9}
    selection = Selection(0, 100, scan.summary.aborted, scan.open)
    assert keys(restored(selection, *log)) == [2, 3, 5]


def test_a_flipped_byte_is_not_blessed_with_a_new_checksum() -> None:
    batch = bytearray(stored([1, 2]))
    batch[-2] ^= 1
    with pytest.raises(BatchDamage, match="Record is corrupt"):
        restored(Selection(0, 100), bytes(batch))


def test_a_scan_refuses_offsets_that_go_back() -> None:
    scan = BatchScan(4)
    with pytest.raises(BatchDamage, match="base offset 3, and 7 or more was expected") as caught:
        scan.scan(memoryview(stored(range(3, 7)) + stored([3])))
    assert (caught.value.position, caught.value.offset) == (len(stored(range(3, 7))), 7)
    assert scan.summary.next_offset == 7


def test_an_object_is_read_in_whole_batches(tmp_path: pathlib.Path) -> None:
    large = BatchBuilder(6 << 20)
    large.append(START, b"large", bytes(5 << 20))
    content = stored([1]) + bytes(large.close()) + stored([2, 3]) + b"rest"
    (tmp_path / "object").write_bytes(content)
    pieces = [bytes(piece) for piece in read_pieces(LocalStore(str(tmp_path)), "object")]
    assert b"".join(pieces) == content
    assert pieces[-1] == b"rest"


def partition(directory: pathlib.Path, *batches: bytes) -> PartitionBackup:
    """A backup of one object."""
    scan = BatchScan(0)
    scan.scan(memoryview(b"".join(batches)))
    (directory / "object").write_bytes(b"".join(batches))
    found = StoredObject.of("object", scan.begin_object(), scan.open)
    return PartitionBackup("logs", 0, found.next_offset, objects=[found])


def test_group_offsets_are_counted_over_what_is_there_already(tmp_path: pathlib.Path) -> None:
    backup = partition(tmp_path, stored([2, 3, 4]), stored([10, 15], GZIP), stored([20]))
    store = LocalStore(str(tmp_path))
    for present, expected in ((0, [2, 3, 4, 10, 15, 20]), (1, [3, 4, 10, 15, 20]), (4, [15, 20]), (6, [])):
        item = PartitionRestore(store, backup, find_cut(store, backup, None), (0, 3, 5, 12, 15, 21, 99))
        item.target_start, item.present = 100, present
        found = list(item.batches())
        assert keys(batch for _, batch in found) == expected
        assert [offset for offset, _ in found][:1] == ([100 + present] if expected else [])
        assert item.mapped == {0: 100, 3: 101, 5: 103, 12: 104, 15: 104, 21: 106, 99: 106}


def test_a_time_cuts_before_its_first_record_and_opens_later_transactions(tmp_path: pathlib.Path) -> None:
    transactional = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    batches = (
        stored([1, 2]), stored([3], **transactional), stored([4, 5, 6]), stored([7], **transactional),
        marker(8, 5, ControlRecordType.COMMIT),
    )  # fmt: skip
    backup = partition(tmp_path, *batches)
    store = LocalStore(str(tmp_path))
    for until, offset, expected in ((5, 5, [1, 2, 4]), (7, 7, [1, 2, 4, 5, 6]), (1, 1, []), (99, 9, range(1, 8))):
        cut = find_cut(store, backup, START + until)
        item = PartitionRestore(store, backup, cut)
        assert (cut.offset, keys(batch for _, batch in item.batches())) == (offset, list(expected))


def test_a_manifest_reads_back_and_a_changed_one_is_refused() -> None:
    found = StoredObject(
        "logs/t-0/0.log", 0, 9, 100, "00000001", 1, 2, [(0, 0)], [AbortedTransaction(1, 2, 3)], {10: 4, 9: 5}
    )
    topic = TopicBackup(
        "id", 5, 3, {"retention.ms": "-1"}, ["secret"], [PartitionBackup("logs", 0, 9, [(3, 4)], [found])]
    )
    manifest = Manifest(7, "cluster", 1, 2, {"t": topic}, {"g": [GroupOffset("t", 0, 5, -1, "é")]})
    manifest.quotas = [QuotaBackup([("user", None)], {"producer_byte_rate": 1.5})]
    data = encode_manifest(manifest)
    assert decode_manifest("m", data) == manifest
    for position in range(20, len(data) - 2, 37):
        changed = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        with pytest.raises(CommandError, match="m is damaged"):
            decode_manifest("m", changed)
    with pytest.raises(CommandError, match="m is damaged"):
        decode_manifest("m", data[:50])
