"""Two sorted sources side by side: every row that only one of them has is in a window, at any cut into batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatools.pipeline.jobs.in_process.windows import unequal_windows

Row = tuple[int, int, bytes | None]
PLACE = ("partition", "offset")

SIDES = st.dictionaries(
    st.tuples(st.integers(0, 1), st.integers(0, 12)), st.none() | st.sampled_from([b"", b"a", b"b"]), max_size=20
)


def batches(rows: list[Row], size: int) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())])
    for start in range(0, len(rows), size):
        columns = list(zip(*rows[start : start + size], strict=True))
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_of(batch: pa.RecordBatch | None) -> list[Row]:
    return [] if batch is None else [tuple(row.values()) for row in batch.to_pylist()]


@pytest.mark.slow
@given(SIDES, SIDES, st.integers(1, 6), st.integers(1, 6))
def test_windows_hold_all_differences(
    left: dict[tuple[int, int], bytes | None], right: dict[tuple[int, int], bytes | None], left_size: int,
    right_size: int,
) -> None:  # fmt: skip
    first, second = (sorted((*place, value) for place, value in side.items()) for side in (left, right))
    found: tuple[set[Row], set[Row]] = (set(), set())
    for window in unequal_windows(batches(first, left_size), batches(second, right_size), PLACE):
        places = [{row[:2] for row in rows_of(side)} for side in window]
        for side, rows in zip(found, window, strict=True):
            assert side.isdisjoint(rows_of(rows))
            side.update(rows_of(rows))
        assert places[0] or places[1]
    assert set(first) - set(second) <= found[0] <= set(first)
    assert set(second) - set(first) <= found[1] <= set(second)
    assert found[0] - set(first).difference(second) == found[1] - set(second).difference(first)


def test_equal_sources_have_no_window() -> None:
    rows: list[Row] = [(0, number, b"v") for number in range(50)]
    assert list(unequal_windows(batches(rows, 7), batches(rows, 11), PLACE)) == []
