"""A checksum of records that does not depend on how they are divided into batches.

Keys, values, their lengths, timestamps and headers each have a CRC-32C of their own, over all records in order. So the
columns of a fetch are added with few calls, and a checksum can be stored and continued.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from kafkatools.core.records.columns import RecordColumns
from kafkatools.core.records.crc import crc32c


class RecordChecksum(NamedTuple):
    """The number of records and the CRC-32C of each part of them."""

    records: int = 0
    timestamps: int = 0
    lengths: int = 0
    keys: int = 0
    values: int = 0
    headers: int = 0

    def plus(self, columns: RecordColumns) -> RecordChecksum:
        """Return the checksum with these records added."""
        lengths = crc32c(_pairs(columns.key_lengths, columns.value_lengths), self.lengths)
        return RecordChecksum(
            self.records + columns.count,
            crc32c(columns.timestamps.tobytes(), self.timestamps),
            lengths,
            crc32c(_joined(columns, columns.key_positions, columns.key_lengths), self.keys),
            crc32c(_joined(columns, columns.value_positions, columns.value_lengths), self.values),
            crc32c(_headers(columns), self.headers),
        )


def _pairs(keys: array[int], values: array[int]) -> bytes:
    """Both lengths of each record, record by record: the bytes for several records are those of each in turn."""
    pairs = array("i", bytes(8 * len(keys)))
    pairs[::2], pairs[1::2] = keys, values
    return pairs.tobytes()


def _joined(columns: RecordColumns, positions: array[int], lengths: array[int]) -> bytes:
    """The bytes of all keys or of all values, one after the other."""
    if max(lengths, default=0) <= 0:
        return b""
    buffer = memoryview(columns.buffer)
    return b"".join(
        [
            buffer[position : position + length]
            for position, length in zip(positions, lengths, strict=True)
            if length > 0
        ]
    )


def _headers(columns: RecordColumns) -> bytes:
    """The headers of all records as they are encoded; a record without headers has its count, 0."""
    if not any(columns.header_counts):
        return bytes(columns.count)
    return b"".join([columns.encoded_headers(row) for row in range(columns.count)])
