"""The kernel that makes columns of a table out of batches, in use and plain: against the recorded records, on damaged
bytes, and at the ends of what it may write to.
"""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from records_truth import plain_kernel, segments, true_records
from support.file_batches import read_file_batches

from kafkatools.core.records import _gather_kernel as gather_kernel
from kafkatools.core.records import kernel
from kafkatools.core.records.builder import BatchBuilder

LOOSE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
WIDTH = 8
BATCH_WIDTH = 14


@pytest.fixture(params=["in use", "plain"])
def gather(request: pytest.FixtureRequest) -> Any:
    return gather_kernel if request.param == "in use" else plain_kernel("_gather_kernel")


def table_of(data: bytes) -> tuple[array[int], int]:
    table, status = array("q", bytes(8 * BATCH_WIDTH * 300)), array("q", bytes(16))
    return table, kernel.scan_batches(data, 0, len(data), table, status)


def places_of(gather: Any, data: bytes, room: int = 1000) -> tuple[list[list[int]], list[int], list[list[int]]]:
    """Places of all records of all batches, the records of each batch, and where it stopped each time; batches that
    cannot be read are passed over.
    """
    table, rows = table_of(data)
    places, run = array("q", bytes(8 * WIDTH * room)), array("q", bytes(8 * gather.RUN_SIZE))
    found: list[list[int]] = []
    per_batch = [0] * rows
    stops = []
    while run[gather.RUN_ROW] < rows:
        counts = array("i", bytes(4 * rows))
        count = gather.decode_batches(data, table, rows, places, counts, run)
        found += [places[i * WIDTH : (i + 1) * WIDTH].tolist() for i in range(count)]
        per_batch = [each + more for each, more in zip(per_batch, counts, strict=True)]
        stops.append(run.tolist())
        if run[gather.RUN_REASON] not in (gather.RUN_DONE, gather.RUN_FULL):
            run[gather.RUN_ROW], run[gather.RUN_RECORD] = run[gather.RUN_ROW] + 1, 0
    return found, per_batch, stops


def cells_of(gather: Any, data: bytes, places: list[list[int]], column: int) -> tuple[Any, ...]:
    flat = array("q", [number for row in places for number in row])
    rows = len(places)
    offsets, target, validity = (
        array("i", bytes(4 * (rows + 1))),
        bytearray(1 << 16),
        bytearray(b"\xff" * (rows // 8 + 1)),
    )
    state = array("q", bytes(8 * gather.COLUMN_SIZE))
    assert gather.gather_cells(data, flat, column, rows, offsets, target, validity, state) == rows
    cells = [
        bytes(target[offsets[i] : offsets[i + 1]]) if validity[i >> 3] >> (i & 7) & 1 else None for i in range(rows)
    ]
    return cells, state.tolist()


@pytest.mark.parametrize("room", [1000, 7])
def test_recorded_records_are_found_batch_by_batch(gather: Any, room: int) -> None:
    data = segments("plain-java")[0]
    want = true_records("plain-java")
    places, per_batch, stops = places_of(gather, data, room)
    assert per_batch == [batch.record_count for batch in read_file_batches(data)]
    assert [tuple(row[:2]) for row in places] == [record[:2] for record in want]
    assert {stop[gather.RUN_REASON] for stop in stops} == ({0} if room == 1000 else {0, gather.RUN_FULL})
    keys, state = cells_of(gather, data, places, gather.PLACE_KEY)
    assert keys == [record[2] for record in want]
    assert state[gather.COLUMN_NULLS] == keys.count(None) > 0
    assert cells_of(gather, data, places, gather.PLACE_VALUE)[0] == [record[3] for record in want]


def test_timestamps_of_log_append_time_are_the_batches(gather: Any) -> None:
    for data in segments("log-append-time"):
        batches = list(read_file_batches(data))
        plain = [batch for batch in batches if not batch.attributes & 7]
        for batch in plain:
            places, _, _ = places_of(gather, batch.to_bytes())
            assert {row[gather.PLACE_TIMESTAMP] for row in places} == {batch.max_timestamp}


@pytest.mark.parametrize("room", [40, 3])
def test_headers_are_listed(gather: Any, room: int) -> None:
    data = segments("plain-java")[0]
    want = [record[4] for record in true_records("plain-java")]
    places, _, _ = places_of(gather, data)
    flat = array("q", [number for row in places for number in row])
    ends, validity = array("i", bytes(4 * (len(places) + 1))), bytearray(b"\xff" * (len(places) // 8 + 1))
    headers, state = array("q", bytes(8 * WIDTH * room)), array("q", bytes(8 * gather.COLUMN_SIZE))
    names: list[Any] = []
    values: list[Any] = []
    while state[gather.COLUMN_NEXT] < len(places):
        before = state[gather.COLUMN_NEXT]
        count = gather.list_headers(data, flat, len(places), ends, validity, headers, state)
        if state[gather.COLUMN_NEXT] == before:  # the headers of one record do not fit
            headers = array("q", bytes(16 * len(headers)))
            continue
        rows = [headers[i * WIDTH : (i + 1) * WIDTH].tolist() for i in range(count)]
        names += cells_of(gather, data, rows, gather.PLACE_KEY)[0]
        values += cells_of(gather, data, rows, gather.PLACE_VALUE)[0]
    pairs = [(name.decode(), value) for name, value in zip(names, values, strict=True)]
    assert [tuple(pairs[ends[i] : ends[i + 1]]) for i in range(len(places))] == want
    nulls = [i for i in range(len(places)) if not validity[i >> 3] >> (i & 7) & 1]
    assert nulls == [i for i, each in enumerate(want) if not each]
    assert state[gather.COLUMN_BYTES] == len(pairs)


def test_what_is_wrong_with_a_batch_is_told_apart(gather: Any) -> None:
    builder = BatchBuilder(4096)
    for number in range(3):
        builder.append(1000, None, b"value %d" % number)
    sound = bytes(builder.close())
    assert places_of(gather, sound)[1:] == ([3], [[1, 0, len(sound), gather.RUN_DONE]])
    more = bytearray(sound)
    more[57:61] = (4).to_bytes(4, "big")
    assert places_of(gather, bytes(more))[1:] == ([3], [[0, 3, len(sound), gather.RUN_DAMAGED]])
    fewer = bytearray(sound)
    fewer[57:61] = (2).to_bytes(4, "big")
    assert places_of(gather, bytes(fewer))[2][0][:2] == [0, 2]
    assert places_of(gather, bytes(fewer))[2][0][3] == gather.RUN_LEFT_OVER
    none = bytearray(sound)
    none[57:61] = (-1).to_bytes(4, "big", signed=True)
    assert places_of(gather, bytes(none))[1:] == ([0], [[0, 0, 0, gather.RUN_IMPOSSIBLE]])
    broken = bytearray(sound)
    broken[61] = 0x7E  # the first record claims 63 bytes
    assert places_of(gather, bytes(broken))[2] == [[0, 0, 61, gather.RUN_DAMAGED]]
    table, _ = table_of(sound)
    places, counts = array("q", bytes(8 * WIDTH)), array("i", [0])
    for position, size in ((-62, 100), (0, len(sound) + 1), (0, 60)):
        table[0], table[2] = position, size
        run = array("q", (0, 0, 0, 0))
        assert gather.decode_batches(sound, table, 1, places, counts, run) == 0
        assert run[gather.RUN_REASON] == gather.RUN_IMPOSSIBLE


def test_cells_stop_where_there_is_no_room(gather: Any) -> None:
    data = bytes(range(200))
    flat = array("q", [0, 0, 10, 5, 20, 30, 0, 0] * 4)
    for offsets, target, validity, reached in (
        (5, 200, 1, 4),
        (3, 200, 1, 2),
        (5, 89, 1, 2),
        (5, 29, 1, 0),
        (5, 200, 0, 0),
    ):
        ends, out, bits = array("i", bytes(4 * offsets)), bytearray(target), bytearray(b"\xff" * validity)
        state = array("q", bytes(32))
        assert gather.gather_cells(data, flat, gather.PLACE_VALUE, 9, ends, out, bits, state) == reached
        assert state.tolist() == [reached, reached, 30 * reached, 0]
        assert out == (data[20:50] * reached).ljust(target, b"\0")
    outside = array("q", [0, 0, 0, -1, 190, 11, 0, 0])
    state = array("q", bytes(32))
    assert gather.gather_cells(data, outside, 4, 1, array("i", [0, 0]), bytearray(99), bytearray(1), state) == 0


@pytest.mark.slow
@LOOSE
@given(st.data())
def test_places_and_cells_agree_on_damaged_batches(data: st.DataObject) -> None:
    plain = plain_kernel("_gather_kernel")
    damaged = bytearray(segments("plain-java")[0][888:3000])
    for _ in range(data.draw(st.integers(0, 4))):
        damaged[data.draw(st.integers(17, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    part = bytes(damaged)
    room = data.draw(st.sampled_from([1000, 11]))
    found = places_of(gather_kernel, part, room)
    assert found == places_of(plain, part, room)
    for column in (plain.PLACE_KEY, plain.PLACE_VALUE):
        assert cells_of(gather_kernel, part, found[0], column) == cells_of(plain, part, found[0], column)


@pytest.mark.slow
@LOOSE
@given(st.binary(min_size=1, max_size=60), st.lists(st.integers(-3, 70), min_size=8, max_size=8), st.integers(0, 12))
def test_headers_agree_on_any_places(data: bytes, places: list[int], room: int) -> None:
    results = []
    for gather in (gather_kernel, plain_kernel("_gather_kernel")):
        flat, ends, validity = array("q", places), array("i", [0, 0]), bytearray(b"\xff")
        headers, state = array("q", bytes(8 * WIDTH * room)), array("q", bytes(32))
        count = gather.list_headers(data, flat, 1, ends, validity, headers, state)
        results.append((count, headers[: count * WIDTH], ends, validity, state))
    assert results[0] == results[1]
