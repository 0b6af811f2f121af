"""The kernel that writes columns by a format, in use and plain, against rows that are written one by one."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records_truth import plain_kernel

from kafkatools.core.records import _format_kernel
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import RecordColumns

CELL = st.none() | st.binary(max_size=20)
ROWS = st.lists(st.tuples(st.integers(-1, 1 << 62), CELL, CELL), min_size=1, max_size=6)
TEXT = b"-literal text-"
PARTS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 6), st.integers(0, 8)), max_size=6)


@pytest.fixture(params=["in use", "plain"])
def kernel(request: pytest.FixtureRequest) -> Any:
    return _format_kernel if request.param == "in use" else plain_kernel("_format_kernel")


def columns_of(rows: list[tuple[int, bytes | None, bytes | None]]) -> RecordColumns:
    builder = BatchBuilder(1 << 16, base_offset=1 << 40)
    for row in rows:
        builder.append(*row)
    return RecordBatch(builder.close()).columns()


def one_by_one(rows: list[tuple[int, bytes | None, bytes | None]], parts: list[tuple[int, int, int]]) -> bytes:
    out = b""
    for index, (timestamp, key, value) in enumerate(rows):
        size = -1 if value is None else len(value)
        key_size = -1 if key is None else len(key)
        texts = [
            b"", value or b"", key or b"", b"%d" % size, b"%d" % key_size, size.to_bytes(4, "big", signed=True),
            b"%d" % ((1 << 40) + index), b"%d" % timestamp,
        ]  # fmt: skip
        out += b"".join(texts[kind] if kind else TEXT[start : start + length] for kind, start, length in parts)
    return out


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(ROWS, PARTS)
def test_all_parts_of_all_rows(rows: Any, parts: Any) -> None:
    flat = array("i", [number for part in parts for number in part])
    for kernel in (_format_kernel, plain_kernel("_format_kernel")):
        out = bytearray(b"before")
        assert kernel.write_parts(columns_of(rows), out, flat, TEXT) == len(rows)
        assert out == b"before" + one_by_one(rows, parts)


def test_cell_outside_its_buffer_ends_the_rows(kernel: Any) -> None:
    columns = columns_of([(1, b"k", b"v"), (2, b"k", b"v")])
    columns.value_lengths[1] = 1 << 30
    out = bytearray()
    assert kernel.write_parts(columns, out, array("i", [1, 0, 0]), b"-") == 1
    assert out == b"v"
