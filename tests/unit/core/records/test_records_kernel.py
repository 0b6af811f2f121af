"""The kernels, in use and plain: known values, agreement, and what they do with what is wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from array import array
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from records_truth import plain_kernel, segments
from support.file_batches import read_file_batches

from kafkatools.core.records import kernel
from kafkatools.core.records.columns import RecordColumns, RowColumns

LOOSE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)

# Apache Kafka's ByteUtilsTest
VARINTS = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    8191: "fe7f",
    -8192: "ff7f",
    8192: "808001",
    -8193: "818001",
    1048575: "feff7f",
    -1048576: "ffff7f",
    1048576: "80808001",
    134217727: "feffff7f",
    134217728: "8080808001",
    2147483647: "feffffff0f",
    -2147483648: "ffffffff0f",
}
VARLONGS = VARINTS | {
    17179869183: "feffffff7f",
    17179869184: "808080808001",
    9223372036854775807: "feffffffffffffffff01",
    -9223372036854775808: "ffffffffffffffffff01",
}

# Apache Kafka's UtilsTest
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("value", "encoded"), VARINTS.items())
def test_varint_known_values(kernels: Any, value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert kernels.read_varint(data + b"\xff", 0) == (value, len(data))
    assert kernels.varint(value) == data
    assert kernels.size_of_varint(value) == len(data)
    for cut in range(len(data)):
        assert kernels.read_varint(data[:cut], 0)[1] == -1


@pytest.mark.parametrize(("value", "encoded"), VARLONGS.items())
def test_varlong_known_values(kernels: Any, value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert kernels.read_varlong(data, 0) == (value, len(data))
    assert kernels.varint(value) == data
    assert kernels.read_varlong(data[:-1], 0)[1] == -1


def test_varint_with_too_many_bytes_is_malformed(kernels: Any) -> None:
    assert kernels.read_varint(b"\xff\xff\xff\xff\xff\x01", 0) == (0, -1)
    assert kernels.read_varlong(b"\xff" * 10 + b"\x01", 0) == (0, -1)


def test_varint_outside_the_data_is_not_read(kernels: Any) -> None:
    assert kernels.read_varint(b"\x02", 1) == (0, -1)
    assert kernels.read_varint(b"\x02", -1) == (0, -1)
    assert kernels.read_varint(b"", 0) == (0, -1)


@given(st.binary(max_size=12), st.integers(-2, 13))
def test_varints_agree_on_any_bytes(data: bytes, position: int) -> None:
    plain = plain_kernel("_kernel")
    assert kernel.read_varint(data, position) == plain.read_varint(data, position)
    assert kernel.read_varlong(data, position) == plain.read_varlong(data, position)


@pytest.mark.parametrize("name", ["plain-java", "txn-java"])
def test_check_records_finds_recorded_batches_sound(kernels: Any, name: str) -> None:
    checked = 0
    for batch in read_file_batches(segments(name)[0]):
        if batch.header[5] & 7:
            continue
        data = batch.to_bytes()
        timestamps = [record.timestamp for record in batch.records()]
        assert kernels.check_records(data, 61, len(timestamps), batch.base_timestamp) == (
            len(timestamps),
            len(data),
            max(timestamps),
        )
        assert kernels.check_records(data, 61, len(timestamps) + 1, 0)[:2] == (len(timestamps), len(data))
        assert kernels.check_records(data, 61, len(timestamps) - 1, 0)[0] == len(timestamps) - 1
        checked += 1
    assert checked


@pytest.mark.slow
@LOOSE
@given(st.data())
def test_check_records_agrees_on_damaged_records(data: st.DataObject) -> None:
    plain = plain_kernel("_kernel")
    batches = [batch for batch in read_file_batches(segments("plain-java")[0]) if not batch.header[5] & 7]
    batch = data.draw(st.sampled_from(batches))
    damaged = bytearray(batch.to_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        damaged[data.draw(st.integers(61, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(62, len(damaged))) :]
    base = data.draw(st.sampled_from([0, -(2**63), 2**63 - 1, batch.base_timestamp]))
    expected = plain.check_records(damaged, 61, batch.record_count, base)
    assert kernel.check_records(damaged, 61, batch.record_count, base) == expected
    assert 61 <= expected[1] <= len(damaged)


@pytest.mark.parametrize(("key", "expected"), MURMUR2.items())
def test_murmur2_known_values(kernels: Any, key: bytes, expected: int) -> None:
    assert kernels.murmur2(key) == expected


@given(st.binary(max_size=40))
def test_murmur2_agrees(key: bytes) -> None:
    assert kernel.murmur2(key) == plain_kernel("_kernel_text").murmur2(key)


def test_partitions_for_keys(kernels: Any) -> None:
    rows = RowColumns.of_values([None] * 3, [b"foobar", None, b"21"])
    partitions = array("i", [9, 9, 9])
    assert rows.key_positions is not None and rows.key_lengths is not None
    count = kernels.partitions_for_keys(rows.buffer, rows.key_positions, rows.key_lengths, 7, partitions)
    assert count == 3
    assert list(partitions) == [(-790332482 & 0x7FFFFFFF) % 7, -1, (-973932308 & 0x7FFFFFFF) % 7]


def test_partitions_for_a_key_outside_the_data_is_refused(kernels: Any) -> None:
    for position, length in ((0, 4), (-1, 2), (2, 2), (2147483647, 1), (0, 2147483647)):
        cells = array("i", [position]), array("i", [length])
        assert kernels.partitions_for_keys(b"abc", *cells, 3, array("i", [0])) == -1
    assert kernels.partitions_for_keys(b"abc", array("i", [0]), array("i", [1]), 0, array("i", [0])) == -1


def lines_of(kernels: Any, data: bytes, is_end: bool, room: int = 100) -> tuple[list[bytes], int]:
    positions, lengths, status = array("i", bytes(4 * room)), array("i", bytes(4 * room)), array("q", [0, 0])
    count = kernels.find_lines(data, 0, is_end, positions, lengths, status)
    return [data[positions[i] : positions[i] + lengths[i]] for i in range(count)], status[0]


@pytest.mark.slow
@LOOSE
@given(st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"bc", b""]), max_size=30).map(b"".join))
def test_lines_are_those_of_a_buffered_reader(kernels: Any, data: bytes) -> None:
    expected = re.split(rb"\r\n|\r|\n", data)
    if not expected[-1]:
        expected.pop()
    assert lines_of(kernels, data, True) == (expected, len(data))


@pytest.mark.slow
@LOOSE
@given(st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"bc"]), max_size=30).map(b"".join), st.integers(0, 40))
def test_lines_of_pieces_are_those_of_the_whole(kernels: Any, data: bytes, cut: int) -> None:
    cut = min(cut, len(data))
    first, after = lines_of(kernels, data[:cut], False)
    rest, _ = lines_of(kernels, data[after:], True)
    assert first + rest == lines_of(kernels, data, True)[0]


def test_lines_stop_at_the_room_there_is(kernels: Any) -> None:
    assert lines_of(kernels, b"a\nb\nc\n", True, room=2) == ([b"a", b"b"], 4)


def test_split_keys(kernels: Any) -> None:
    rows = RowColumns.of_values([b"k::v", b"::", b"a:b::c::d", b"none"])
    keys = array("i", bytes(16)), array("i", bytes(16))
    values = rows.value_positions, rows.value_lengths
    assert kernels.split_keys(rows.buffer, b"::", values, keys, 0, 4) == 3
    cells = [(keys[0][i], keys[1][i], values[0][i], values[1][i]) for i in range(3)]
    data = rows.buffer
    assert [(data[a : a + b], data[c : c + d]) for a, b, c, d in cells] == [
        (b"k", b"v"),
        (b"", b""),
        (b"a:b", b"c::d"),
    ]
    assert values[1][3] == 4


def columns_of(rows: list[tuple[bytes | None, bytes | None]]) -> RecordColumns:
    cells = RowColumns.of_values([value for _, value in rows], [key for key, _ in rows])
    assert cells.key_positions is not None and cells.key_lengths is not None
    count = len(rows)
    ints = (cells.key_positions, cells.key_lengths, cells.value_positions, cells.value_lengths)
    nothing = array("i", bytes(4 * count))
    return RecordColumns(
        cells.buffer, (array("q", range(count)), array("q", bytes(8 * count))), (*ints, nothing, nothing)
    )


def test_values_are_appended_with_separators(kernels: Any) -> None:
    columns = columns_of([(b"k", b"one"), (None, None), (b"", b"")])
    out = bytearray(b">")
    assert kernels.write_values(columns, out, b"\r\n", b"null") == 3
    assert out == b">one\r\nnull\r\n\r\n"
    out = bytearray()
    assert kernels.write_keys_and_values(columns, out, b"\t", b"\n", b"NULL") == 3
    assert out == b"k\tone\nNULL\tNULL\n\t\n"


def test_values_outside_the_buffer_are_not_written(kernels: Any) -> None:
    columns = columns_of([(None, b"one"), (None, b"two"), (None, b"three")])
    columns.value_lengths[1] = 1000
    out = bytearray()
    assert kernels.write_values(columns, out, b"\n", b"null") == 1
    assert out == b"one\n"


def test_arrays_of_another_kind_are_refused(kernels: Any) -> None:
    status = array("q", [0, 0])
    with pytest.raises(TypeError):
        kernels.find_lines(b"a\n", 0, True, array("b", [0]), array("b", [0]), status)
    with pytest.raises(TypeError):
        kernels.partitions_for_keys(b"a", array("h", [0]), array("i", [1]), 1, array("i", [0]))


def table_of(kernels: Any, data: bytes, room: int = 4000) -> tuple[list[list[int]], int, int]:
    width = kernels.HEADER_WIDTH
    table, status = array("q", bytes(8 * width * room)), array("q", [0, 0])
    count = kernels.scan_batches(data, 0, len(data), table, status)
    return [list(table[i * width : (i + 1) * width]) for i in range(count)], *status


@pytest.mark.parametrize("name", ["plain-java", "txn-java", "compacted", "message-set-v1-gzip", "codec-lz4-java"])
def test_scanned_headers_are_those_of_the_batches(kernels: Any, name: str) -> None:
    for segment in segments(name):
        rows, position, reason = table_of(kernels, segment)
        assert (position, reason) == (len(segment), kernels.SCAN_END)
        expected = []
        for b in read_file_batches(segment):
            row = [b.position, b.last_offset, b.size_bytes, b.magic] + [0] * 10
            if b.magic == 2:
                row[1] = b.base_offset
                row[4:] = [b.partition_leader_epoch, b.crc, b.attributes, b.last_offset_delta, b.base_timestamp]
                row += [b.max_timestamp, b.producer_id, b.producer_epoch, b.base_sequence, b.record_count]
            expected.append(row)
        assert rows == expected


def test_scan_stops_where_kafka_stops(kernels: Any) -> None:
    segment = segments("plain-java")[0]
    batches = list(read_file_batches(segment))
    last = batches[-1].position
    for cut in (1, 8, 12, 16, 17, 18, 60, 61, 100):
        rows, position, reason = table_of(kernels, segment[: last + cut])
        assert (len(rows), position, reason) == (len(batches) - 1, last, kernels.SCAN_PARTIAL)
    damaged = bytearray(segment)
    damaged[last + 8 : last + 12] = (13).to_bytes(4, "big")
    assert table_of(kernels, bytes(damaged))[1:] == (last, kernels.SCAN_TOO_SMALL)
    assert table_of(kernels, segment, room=2)[1:] == (batches[2].position, kernels.SCAN_FULL)


@pytest.mark.slow
@LOOSE
@given(st.binary(max_size=200), st.integers(-5, 210), st.integers(-5, 210))
def test_scans_agree_on_any_bytes(data: bytes, start: int, end: int) -> None:
    plain = plain_kernel("_scan_kernel")
    tables = array("q", bytes(14 * 8 * 5)), array("q", bytes(14 * 8 * 5))
    states = array("q", [0, 0]), array("q", [0, 0])
    assert kernel.scan_batches(data, start, end, tables[0], states[0]) == plain.scan_batches(
        data, start, end, tables[1], states[1]
    )
    assert (tables[0], states[0]) == (tables[1], states[1])


def decoded(kernels: Any, data: bytes, count: int, base: tuple[int, int]) -> Any:
    longs = array("q", bytes(8 * count)), array("q", bytes(8 * count))
    ints = tuple(array("i", bytes(4 * count)) for _ in range(6))
    status = array("q", [0, 0])
    rows = kernels.decode_records(data, count, *base, longs, ints, status)
    return rows, status, [column[:rows] for column in (*longs, *ints)]


LONGS = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.slow
@LOOSE
@given(st.data())
def test_decoding_agrees_on_damaged_records(data: st.DataObject) -> None:
    payload = bytearray(next(iter(read_file_batches(segments("plain-java")[0], 888))).payload())
    for _ in range(data.draw(st.integers(0, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    part = bytes(payload[: data.draw(st.integers(0, len(payload)))])
    base = data.draw(st.tuples(LONGS, LONGS))
    plain = plain_kernel("_kernel")
    assert decoded(kernel, part, 20, base) == decoded(plain, part, 20, base)


def test_batches_can_be_decoded_into_the_same_columns(kernels: Any) -> None:
    segment = segments("plain-java")[0]
    batches = list(read_file_batches(segment))[:3]
    total = sum(batch.record_count for batch in batches)
    longs = array("q", bytes(8 * total)), array("q", bytes(8 * total))
    ints = tuple(array("i", bytes(4 * total)) for _ in range(6))
    status, row = array("q", bytes(32)), 0
    for batch in batches:
        status[kernels.STATUS_START], status[kernels.STATUS_ROW] = batch.position + 61, row
        end = batch.position + batch.size_bytes
        base = batch.base_offset, batch.base_timestamp
        row = kernels.decode_records(segment[:end], row + batch.record_count, *base, longs, ints, status)
        assert status[kernels.STATUS_POSITION] == end
    assert row == total
    joined = RecordColumns(segment, longs, ints)
    assert list(joined.records()) == [record for batch in batches for record in batch.records()]


def test_arrays_of_no_size_are_empty(kernels: Any) -> None:
    assert len(kernels.new_longs(-1)) == len(kernels.new_ints(0)) == 0
    assert (kernels.new_longs(3).itemsize, len(kernels.new_ints(3))) == (8, 3)


def test_timestamps_and_offsets_wrap_as_in_java(kernels: Any) -> None:
    record = bytes.fromhex("0e00") + bytes.fromhex("02") + bytes.fromhex("02") + b"\x01\x02A\x00"
    rows, _, columns = decoded(kernels, record, 1, (2**63 - 1, 2**63 - 1))
    assert rows == 1
    assert (columns[0][0], columns[1][0]) == (-(2**63), -(2**63))


@pytest.mark.slow
@LOOSE
@given(st.data())
def test_encoding_agrees_on_any_columns(data: st.DataObject) -> None:
    cells = st.lists(st.integers(-3, 40) | st.integers(-(2**31), 2**31 - 1), min_size=4, max_size=4)
    columns = [array("i", data.draw(cells)) for _ in range(4)]
    times = array("q", data.draw(st.lists(LONGS, min_size=4, max_size=4)))
    if data.draw(st.booleans()):
        columns[:2] = [None, None]  # type: ignore[list-item]
    start, stop = data.draw(st.integers(-3, 6)), data.draw(st.integers(-3, 9))
    size, limit = data.draw(st.integers(0, 200)), data.draw(st.integers(-5, 300))
    factor = data.draw(st.sampled_from([1.0, 0.5]))
    outcomes = []
    for kernels in (kernel, plain_kernel("_kernel")):
        state = array("q", [0, 0, 0, -1, 0, limit, 0, 7, 0])
        target = bytearray(size)
        rows = kernels.encode_columns(target, state, bytes(40), (*columns, times), start, stop, factor)
        outcomes.append((rows, state, target))
    assert outcomes[0] == outcomes[1]


def test_the_plain_kernel_needs_no_cython() -> None:
    program = (
        "import sys; sys.modules['cython'] = None\n"
        "from kafkatools.core.records import kernel\n"
        "from kafkatools.core.records.builder import BatchBuilder\n"
        "from kafkatools.core.records.batch import RecordBatch\n"
        "builder = BatchBuilder(100); builder.append(1, b'k', b'v')\n"
        "print(kernel.COMPILED, next(RecordBatch(builder.close()).records()).value)"
    )
    environment = {**os.environ, "KT_PURE_PYTHON": "1"}
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=True)
    assert shown.stdout == b"False b'v'\n"
