"""Where the keys and values of records lie in their buffer, as the kernels read it."""

from __future__ import annotations

from array import array
from typing import Protocol


class KeyAndValuePlaces(Protocol):
    """The part of RecordColumns with keys and values: an entry a record, places in bytes, a length of -1 for null."""

    count: int
    buffer: bytes | bytearray | memoryview
    key_positions: array[int]
    key_lengths: array[int]
    value_positions: array[int]
    value_lengths: array[int]
