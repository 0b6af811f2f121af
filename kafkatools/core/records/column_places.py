"""The type of record columns that the kernels take: positions of keys and values in a buffer."""

from __future__ import annotations

from array import array
from typing import Protocol


class KeyAndValuePlaces(Protocol):
    """The key and value columns of records. Positions and lengths in bytes, length -1 for null."""

    count: int
    buffer: bytes | bytearray | memoryview
    key_positions: array[int]
    key_lengths: array[int]
    value_positions: array[int]
    value_lengths: array[int]
