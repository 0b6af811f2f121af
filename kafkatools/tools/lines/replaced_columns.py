"""Record columns with other keys, values or headers, over a buffer of their own."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from kafkatools.core.records.columns import RecordColumns, encode_headers, gather_cells
from kafkatools.core.records.kernel import varint

RawHeaders = Sequence[tuple[bytes, bytes | None]]


def replaced_columns(
    columns: RecordColumns,
    keys: Sequence[bytes | None] | None = None,
    values: Sequence[bytes | None] | None = None,
    headers: Sequence[RawHeaders] | None = None,
) -> RecordColumns:
    """Return the records with these keys, values and headers; None keeps those of `columns`. All bytes are copied, so
    nothing of the replaced contents is in the new buffer."""
    rows = range(columns.count)
    data = bytearray()
    key_places = gather_cells(data, [columns.key(row) for row in rows] if keys is None else keys)
    value_places = gather_cells(data, [columns.value(row) for row in rows] if values is None else values)
    header_places = _append_headers(data, [columns.raw_headers(row) for row in rows] if headers is None else headers)
    longs = columns.offsets[:], columns.timestamps[:]
    return RecordColumns(bytes(data), longs, (*key_places, *value_places, *header_places), columns.timestamp_type)


def _append_headers(data: bytearray, headers: Sequence[RawHeaders]) -> tuple[array[int], array[int]]:
    positions, counts = array("i"), array("i")
    for pairs in headers:
        count = len(pairs)
        positions.append(len(data) + len(varint(count)))
        counts.append(count)
        data += encode_headers(pairs)
    return positions, counts
