"""The kernel between record columns and Arrow's buffers, in use and plain: against pyarrow and plain Python, and at the
ends of what it may read and write."""

from __future__ import annotations

from array import array
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from records_truth import plain_kernel

from kafkatools.core.records import _arrow_kernel

LOOSE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
CELLS = st.lists(st.none() | st.binary(max_size=30), max_size=40)


@pytest.fixture(params=["in use", "plain"])
def arrow(request: pytest.FixtureRequest) -> Any:
    return _arrow_kernel if request.param == "in use" else plain_kernel("_arrow_kernel")


def places_of(cells: list[bytes | None], before: bytes = b"") -> tuple[bytes, array[int], array[int]]:
    data, positions, lengths = bytearray(before), array("i"), array("i")
    for cell in cells:
        positions.append(len(data))
        lengths.append(-1 if cell is None else len(cell))
        data += cell or b""
    return bytes(data), positions, lengths


def bits_of(rows: int) -> bytearray:
    return bytearray(b"\xff") * (rows // 8 + 1)


@pytest.mark.slow
@LOOSE
@given(runs=st.lists(CELLS, max_size=4))
def test_cells_of_several_runs_become_a_column(arrow: Any, runs: list[list[bytes | None]]) -> None:
    cells = [cell for run in runs for cell in run]
    size = sum(len(cell or b"") for cell in cells)
    state, validity = array("q", bytes(24)), bits_of(len(cells))
    offsets, target = array("i", bytes(4 * (len(cells) + 1))), bytearray(size + 1)
    views_state, views_validity, views = array("q", bytes(24)), bits_of(len(cells)), bytearray(16 * len(cells))
    buffers = []
    for number, run in enumerate(runs):
        data, positions, lengths = places_of(run, b"before")
        assert arrow.cells_size(lengths) == sum(len(cell or b"") for cell in run)
        assert arrow.copy_cells(data, positions, lengths, offsets, target, validity, state) == len(run)
        assert arrow.view_cells(data, positions, lengths, number, views, views_validity, views_state) == len(run)
        buffers.append(pa.py_buffer(data))
    nulls = sum(cell is None for cell in cells)
    assert (state[0], state[1], state[2], views_state[0], views_state[2]) == (
        len(cells),
        size,
        nulls,
        len(cells),
        nulls,
    )
    column = [pa.py_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(target)]
    assert pa.Array.from_buffers(pa.binary(), len(cells), column).to_pylist() == cells
    viewed = pa.Array.from_buffers(
        pa.binary_view(), len(cells), [pa.py_buffer(views_validity), pa.py_buffer(views), *buffers]
    )
    viewed.validate(full=True)
    assert viewed.to_pylist() == cells


@LOOSE
@given(cells=CELLS, skipped=st.integers(0, 9))
def test_places_of_an_arrow_column_and_of_its_slices(arrow: Any, cells: list[bytes | None], skipped: int) -> None:
    column = pa.array(cells, pa.binary())[skipped:]
    rest = cells[skipped:]
    validity, offset_buffer, data = column.buffers()
    offsets = array("i")
    offsets.frombytes(memoryview(offset_buffer).cast("B")[4 * column.offset : 4 * (column.offset + len(column) + 1)])
    positions, lengths = array("i", bytes(4 * len(rest))), array("i", bytes(4 * len(rest)))
    bits = b"" if validity is None else memoryview(validity).cast("B")
    assert arrow.cell_places(offsets, bits, column.offset, 0, positions, lengths) == len(rest)
    content = b"" if data is None else data.to_pybytes()
    found = [
        None if length < 0 else content[start : start + length]
        for start, length in zip(positions, lengths, strict=True)
    ]
    assert found == rest


@LOOSE
@given(numbers=st.lists(st.integers(-1, 6), max_size=60))
def test_rows_in_the_order_of_their_numbers(arrow: Any, numbers: list[int]) -> None:
    items, ends, order = array("i", numbers), array("i", bytes(4 * 8)), array("i", bytes(4 * len(numbers)))
    assert arrow.rows_by_number(items, ends, order) == len(numbers)
    assert order.tolist() == sorted(range(len(numbers)), key=numbers.__getitem__)
    assert ends.tolist() == [sum(number < slot for number in numbers) for slot in range(8)]
    arrow.shift_numbers(order, 5)
    assert order.tolist() == [row + 5 for row in sorted(range(len(numbers)), key=numbers.__getitem__)]


def test_nothing_is_read_or_written_outside_of_the_buffers(arrow: Any) -> None:
    for start, length in ((3, 2), (-1, 1), (0, 5), (2**31 - 1, 2**31 - 1)):
        positions, lengths = array("i", (0, start)), array("i", (1, length))
        state, offsets, target = array("q", bytes(24)), array("i", bytes(12)), bytearray(8)
        assert arrow.copy_cells(b"abcd", positions, lengths, offsets, target, bits_of(2), state) == 1
        assert target == b"a" + bytes(7)
        state = array("q", bytes(24))
        assert arrow.view_cells(b"abcd", positions, lengths, 0, bytearray(32), bits_of(2), state) == 1
    cells = places_of([b"abc", b"de", None])
    for rows, room, bits in ((1, 9, 1), (3, 4, 1), (3, 9, 0)):
        state, offsets = array("q", bytes(24)), array("i", bytes(4 * (rows + 1)))
        done = arrow.copy_cells(*cells, offsets, bytearray(room), bytearray(b"\xff" * bits), state)
        assert done == min(rows, 1 if room < 5 else 3, 8 * bits)
    places = array("i", bytes(12)), array("i", bytes(12))
    assert arrow.cell_places(array("i", (0, 3, 1, 4)), b"", 0, 0, *places) == 1  # offsets that decrease
    assert arrow.cell_places(array("i", (0, 1, 2, 3)), b"\xff", 6, 0, *places) == 2  # bits that end
    assert arrow.cell_places(array("i", (0, 1)), b"\xff", -1, 0, *places) == 0
    for numbers, room in (((0, -2), 2), ((0, 3), 2), ((0, 0), 1)):
        items, order = array("i", numbers), array("i", bytes(4 * room))
        assert arrow.rows_by_number(items, array("i", bytes(16)), order) == 0 and not any(order)
    assert arrow.rows_by_number(array("i", (0, 1)), array("i", (1, 0, 0)), array("i", bytes(8))) == 0
