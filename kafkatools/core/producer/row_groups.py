"""Group rows in columns by partition, which keeps the order of rows within a partition, and find rows that are too
large."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from kafkatools.core.config import Config
from kafkatools.core.producer.producer_batch import rows_size_upper_bound
from kafkatools.core.records import _arrow_kernel as arrow_kernel
from kafkatools.core.records import _search_kernel as search_kernel
from kafkatools.core.records import kernel
from kafkatools.core.records.columns import RowColumns

Partitions: TypeAlias = "int | array[int] | None"
"""The partition of all rows, one for each row, or None: the producer chooses."""

_OVERHEAD_BYTES = 200  # more than a batch with one record has beside key and value


def partitions_of_keys(columns: RowColumns, partition_count: int) -> array[int]:
    """The partition of each row by the murmur2 hash of its key; -1 for a null key. Raises ValueError when a key lies
    outside the buffer."""
    assert columns.key_positions is not None and columns.key_lengths is not None
    partitions = kernel.new_ints(columns.count)
    row_count = kernel.partitions_for_keys(
        columns.buffer, columns.key_positions, columns.key_lengths, partition_count, partitions
    )
    if row_count != columns.count:
        raise ValueError("a key lies outside the buffer")
    return partitions


def group_rows(columns: RowColumns, partitions: array[int]) -> Iterator[tuple[int, RowColumns, array[int]]]:
    """Group rows by partition, from -1 on: (partition, its rows as columns over the same buffer, their row numbers)."""
    order, ends = kernel.new_ints(columns.count), array("i", bytes(4 * (max(partitions, default=-1) + 2)))
    if arrow_kernel.rows_by_number(partitions, ends, order) < columns.count:
        raise ValueError("a row has a partition below -1")
    start = 0
    for slot, stop in enumerate(ends):
        if stop > start:
            rows = order[start:stop]
            yield slot - 1, _gather(columns, rows), rows
            start = stop


def _gather(columns: RowColumns, rows: array[int]) -> RowColumns:
    def pick(column: array[int] | None) -> array[int] | None:
        if column is None:
            return None
        target = kernel.new_ints(len(rows))
        search_kernel.take_ints(column, rows, target)
        return target

    timestamps = None
    if columns.timestamps is not None:
        timestamps = kernel.new_longs(len(rows))
        search_kernel.take_longs(columns.timestamps, rows, timestamps)
    positions, lengths = pick(columns.value_positions), pick(columns.value_lengths)
    assert positions is not None and lengths is not None
    return RowColumns(
        columns.buffer,
        positions,
        lengths,
        pick(columns.key_positions),
        pick(columns.key_lengths),
        timestamps,
        None if columns.headers is None else [columns.headers[row] for row in rows],
    )


def shifted(rows: Sequence[int], numbers: Sequence[int]) -> Sequence[int]:
    """Return rows of a part with their numbers in the whole; `numbers` are consecutive, those of the part's rows."""
    first = numbers[0] if len(numbers) else 0
    if isinstance(rows, array) and first:
        arrow_kernel.shift_numbers(rows, first)
        return rows
    return range(first, first + len(rows)) if isinstance(rows, range) else rows


def cells_of(rows: RowColumns) -> list[tuple[bytes | None, bytes | None]]:
    """The (key, value) of each row as bytes; None is a null."""
    return [(rows.key(row), rows.value(row)) for row in range(rows.count)]


def oversized_rows(rows: RowColumns, config: Config) -> list[int]:
    """The rows above max.request.size for which a batch may have room behind other rows. Returns at once when no row
    can be so large, which is the usual case."""
    limit: int = config.max_request_size
    if config.compression_type == "none" and config.batch_size <= limit:
        return []
    if rows.headers is not None:
        return [row for row in range(rows.count) if rows_size_upper_bound(rows, row) > limit]
    columns = [column for column in (rows.value_lengths, rows.key_lengths) if column is not None]
    # Key and value may be the same bytes, so each of them can be as long as the buffer.
    largest = limit - _OVERHEAD_BYTES
    if len(columns) * len(rows.buffer) <= largest or sum(max(column, default=0) for column in columns) <= largest:
        return []
    return [row for row in range(rows.count) if rows_size_upper_bound(rows, row) > limit]
