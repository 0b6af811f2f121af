"""Indexes, producer snapshots and transaction indexes from bytes, and decoders of keys and values."""

from __future__ import annotations

import pathlib
import re
import struct
import subprocess
import sys

import pytest
from crc32c import crc32c
from support.log_batches import make_batch

from kafkatools.core.log.dump.control_text import control_text
from kafkatools.core.log.dump.damage import Damage, Finding
from kafkatools.core.log.dump.decoders import (
    internal_decoder,
    plain_decoder,
    value_decoder,
)
from kafkatools.core.log.dump.file_kinds import base_offset_of, kind_of, snapshot_id_of
from kafkatools.core.log.dump.index_files import OffsetIndexFile, TimeIndexFile
from kafkatools.core.log.dump.records import DumpedRecord
from kafkatools.core.log.dump.segment_file import LARGEST_FILE, SegmentFile
from kafkatools.core.log.dump.segment_limits import wrongly_indexed_batch
from kafkatools.core.log.dump.state_files import read_producer_snapshot, read_producer_snapshot_file
from kafkatools.core.log.format.transaction_index import parse_entries


def offset_index(*entries: tuple[int, int], tail: bytes = b"") -> OffsetIndexFile:
    return OffsetIndexFile.parse(b"".join(struct.pack(">ii", *entry) for entry in entries) + tail, 100)


def test_lookup_gives_the_last_entry_at_or_below() -> None:
    index = offset_index((5, 50), (9, 90), (20, 200))
    assert [index.lookup(offset) for offset in (100, 104, 105, 108, 109, 119, 120, 999)] == [
        0,
        0,
        50,
        50,
        90,
        90,
        200,
        200,
    ]


def test_lookup_in_a_long_index_is_the_same_in_its_warm_and_cold_part() -> None:
    index = offset_index(*((number * 2, number) for number in range(1, 5000)))
    assert all(index.lookup(100 + number * 2 + 1) == number for number in range(1, 5000, 7))


def test_partial_entry_is_odd_and_not_read() -> None:
    index = offset_index((5, 50), tail=b"abc")
    assert (index.entries, index.odd_bytes) == (((105, 50),), 3)
    with pytest.raises(Damage, match="found 11 bytes which is neither positive nor a multiple of 8"):
        index.sanity_check("x.index")


def test_zero_entry_hides_what_follows() -> None:
    assert offset_index((5, 50), (0, 0), (9, 90)).unseen_from == 8
    assert offset_index((5, 50), (0, 0), (0, 0)).unseen_from < 0
    times = TimeIndexFile.parse(struct.pack(">qiqiqi", 1, 5, 0, 0, 2, 9), 100)
    assert times.unseen_from == 12


def test_time_index_that_ends_before_it_begins_is_not_sane() -> None:
    times = TimeIndexFile.parse(struct.pack(">qiqi", 50, 5, 40, 6), 100)
    with pytest.raises(Damage, match="last timestamp is 40 which is less than the first timestamp 50"):
        times.sanity_check("x.timeindex")


def snapshot(entries: bytes, count: int) -> bytes:
    body = struct.pack(">I", count) + entries
    return struct.pack(">hI", 1, crc32c(body)) + body


def test_producer_snapshot_gives_its_entries() -> None:
    entry = struct.pack(">qhiqiqiq", 7, 2, 1, 99, 3, 1000, 4, -1)
    (producer,) = read_producer_snapshot(snapshot(entry, 1))
    assert (producer.producer_id, producer.producer_epoch, producer.last_offset) == (7, 2, 99)
    # the sequences of the batch wrapped from 2147483647 to 0
    assert (producer.first_sequence, producer.last_sequence) == (2147483646, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "Snapshot failed schema validation: null"),
        (b"\x00\x09" + bytes(20), "Snapshot contained an unknown file version 9"),
        (snapshot(b"", 3), "Snapshot failed schema validation: null"),
        (snapshot(b"", 0)[:-1] + b"\x00!", r"Snapshot is corrupt \(CRC is no longer valid\)"),
    ],
)
def test_bad_producer_snapshots_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(Damage, match=message):
        read_producer_snapshot(data)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_producer_snapshot_is_read_from_its_file(tmp_path: pathlib.Path, count: int) -> None:
    entry = struct.pack(">qhiqiqiq", 7, 2, 1, 99, 3, 1000, 4, -1)
    path = tmp_path / "5.snapshot"
    path.write_bytes(snapshot(entry * count, count))
    assert read_producer_snapshot_file(str(path)) == read_producer_snapshot(path.read_bytes())
    assert len(read_producer_snapshot_file(str(path))) == count


def test_a_producer_snapshot_with_more_bytes_than_entries_has_the_checksum_of_all(tmp_path: pathlib.Path) -> None:
    entry = struct.pack(">qhiqiqiq", 7, 2, 1, 99, 3, 1000, 4, -1)
    path = tmp_path / "5.snapshot"
    path.write_bytes(snapshot(entry + b"more", 1))
    assert [producer.producer_id for producer in read_producer_snapshot_file(str(path))] == [7]
    for data in (snapshot(entry, 1) + b"more", snapshot(entry, 1)[:-1] + b"!"):
        path.write_bytes(data)
        with pytest.raises(Damage, match="CRC is no longer valid") as refused:
            read_producer_snapshot_file(str(path))
        assert refused.value.position == 2
    cut_off = bytearray(snapshot(entry, 2))
    cut_off[2] ^= 1
    path.write_bytes(bytes(cut_off))
    with pytest.raises(Damage, match="schema validation"):
        read_producer_snapshot_file(str(path))


def test_a_producer_snapshot_that_is_too_large_or_too_short_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "5.snapshot"
    for size, message, position in (
        (LARGEST_FILE + 1, "Required array size too large", 0),
        (LARGEST_FILE, "unknown file version 0", 0),
        (5, "schema validation", 0),
        (0, "schema validation", 0),
    ):
        with path.open("wb") as file:
            file.truncate(size)
        with pytest.raises(Damage, match=message) as refused:
            read_producer_snapshot_file(str(path))
        assert refused.value.position == position


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([], None),
        ([(5, 1)], None),
        ([(4, 1)], "last offset 5, but .* has 4 for this batch"),
        ([(1, 0)], "last offset 2, but .* has 1 for this batch"),
        ([(1, 0), (4, 1)], "has 4 for this batch"),
        ([(1, 0), (5, 1)], None),
        ([(9, 1)], None),
    ],
)
def test_the_last_index_entry_is_compared_with_its_batch(
    tmp_path: pathlib.Path, entries: list[tuple[int, int]], problem: str | None
) -> None:
    """Entries are a last offset and the number of a batch; the batches have offsets 0 to 2 and 3 to 5."""
    batches = [bytes(make_batch([b"v"] * 3, base_offset=offset)) for offset in (0, 3)]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(batches))
    with SegmentFile(str(path)) as log:
        assert wrongly_indexed_batch(log, str(path), 0) is None, "without an index"
        rows = [struct.pack(">ii", offset, len(batches[0]) * number) for offset, number in entries]
        path.with_suffix(".index").write_bytes(b"".join(rows))
        found = wrongly_indexed_batch(log, str(path), 0)
    if problem is None:
        assert found is None
    else:
        assert found is not None
        assert re.search(problem, str(found))
        assert found.position == entries[-1][1] * len(batches[0])


def test_half_an_aborted_transaction_is_not_read() -> None:
    data = struct.pack(">hqqqq", 0, 1, 2, 3, 4)
    (entry,) = parse_entries(data + data[:33])
    assert (entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset) == (1, 2, 3, 4)


def test_file_kinds() -> None:
    assert kind_of("a/00000000000000000000.log") == ".log"
    assert kind_of("a/00000000000000000000.log.deleted") is None
    assert kind_of("partition.metadata") is None
    assert base_offset_of("x/00000000000000000152.timeindex") == 152
    assert snapshot_id_of("00000000000000000243-0000000001.checkpoint") == (243, 1)
    assert snapshot_id_of("bootstrap.checkpoint") is None
    with pytest.raises(Damage, match='For input string: "abc"'):
        base_offset_of("abc.log")


def record(key: bytes | None, value: bytes | None) -> DumpedRecord:
    views = [None if data is None else memoryview(data) for data in (key, value)]
    return DumpedRecord(offset=4, timestamp=0, sequence=-1, key=views[0], value=views[1])


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("org.apache.kafka.tools.api.StringDecoder", b"abc", "abc"),
        ("IntegerDecoder", b"\xff\xff\xff\xfe\x00", "-2"),
        ("LongDecoder", bytes(7) + b"\x05", "5"),
        ("org.apache.kafka.tools.api.DefaultDecoder", b"\x00\xff", "AP8="),
    ],
)
def test_decoder_classes(name: str, value: bytes, shown: str) -> None:
    decoder = value_decoder(name)
    assert decoder is not None
    assert plain_decoder(decoder, decoder)(record(None, value)) == (None, shown)


def test_decoder_class_of_ones_own_is_not_known() -> None:
    assert value_decoder("com.example.Mine") is None


def test_number_of_too_few_bytes_is_damage() -> None:
    decoder = value_decoder("LongDecoder")
    assert decoder is not None
    with pytest.raises(Damage):
        plain_decoder(decoder, decoder)(record(None, b"1234"))


def test_wrong_decoders_say_so_in_the_words_of_kafka() -> None:
    assert internal_decoder("offsets-decoder")(record(b"\x6c\x69", b"")) == (
        "Unknown record type 27753 at offset 4, skipping.",
        None,
    )
    assert internal_decoder("cluster-metadata-decoder")(record(None, b"\x24")) == (
        None,
        "Error at 4, skipping. Could not deserialize metadata record due to unknown frame version 36"
        "(only frame version 1 is supported)",
    )
    assert internal_decoder("remote-log-metadata-decoder")(record(None, b"")) == (
        None,
        "Error at offset 4, skipping. Error while reading frame version",
    )
    with pytest.raises(Damage, match="message had a missing key"):
        internal_decoder("offsets-decoder")(record(None, b""))


@pytest.mark.parametrize(
    ("option", "own"),
    [
        ("offsets-decoder", "offsets"),
        ("transaction-log-decoder", "transaction_log"),
        ("cluster-metadata-decoder", "metadata"),
        ("remote-log-metadata-decoder", "remote_log_metadata"),
        ("share-group-state-decoder", "share_group_state"),
    ],
)
def test_a_decoder_imports_the_records_of_its_own_topic_only(option: str, own: str) -> None:
    topics = "offsets", "transaction_log", "metadata", "remote_log_metadata", "share_group_state"
    program = (
        "import sys; from kafkatools.core.log.dump.decoders import internal_decoder; "
        f"internal_decoder({option!r}); "
        f"print(*[name for name in {topics!r} if f'kafkatools.core.protocol.schemas.{{name}}' in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert ran.stdout.split() == [own]


def test_tombstone_is_shown_as_a_delete() -> None:
    key = b"\x00\x02\x00\x01g"
    assert internal_decoder("offsets-decoder")(record(key, None)) == ('{"type":"2","data":{"group":"g"}}', "<DELETE>")


def test_control_records() -> None:
    assert control_text(record(bytes((0, 0, 0, 1)), bytes((0, 0, 0, 0, 0, 7)))) == (
        " endTxnMarker: COMMIT coordinatorEpoch: 7"
    )
    assert control_text(record(bytes((0, 0, 0, 99)), b"")) == " controlType: UNKNOWN(99)"
    assert control_text(record(b"\x00\x00\xff\xff", b"")) == " controlType: UNKNOWN(-1)"
    for key in (None, b"", b"\x00\x00\x00"):
        with pytest.raises(Damage, match="Must have at least 4 bytes"):
            control_text(record(key, b""))
    with pytest.raises(Damage, match="Invalid version found for control record: -1"):
        control_text(record(b"\xff\xff\x00\x01", b""))
    for value in (None, bytes(5)):
        with pytest.raises(Damage, match="Must have at least 6 bytes"):
            control_text(record(bytes((0, 0, 0, 0)), value))
    with pytest.raises(Damage, match="^KRaftVersion cannot be read: the data ends early .at byte 0.$"):
        control_text(record(bytes((0, 0, 0, 5)), b""))


@pytest.mark.parametrize("problem", ["Size 3 is impossible in file 0.log.", "Size 3 is impossible in file 0.log"])
def test_a_finding_with_a_loss_has_one_punctuation_mark_between_its_parts(problem: str) -> None:
    """Apache Kafka's texts end with a full stop, and stay as they are at the end of a line."""
    expected = "0.log at byte 7: Size 3 is impossible in file 0.log; 9 bytes lost"
    assert Finding("0.log", 7, problem, "9 bytes lost").text() == expected
    assert Finding("0.log", 7, problem).text() == f"0.log at byte 7: {problem}"
