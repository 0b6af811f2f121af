"""Record values of the producer performance test: random letters, entries of a file, or increasing numbers.

Rules: values are made per batch, not per record. Random values are slices of one pool of letters, from one of 64 random
positions for each batch. File payloads are drawn once into a random order that repeats. A batch has about `CHUNK_BYTES`
of values at most, or one larger value, because its records count as sent together.
"""

from __future__ import annotations

import random
import re
from array import array
from collections.abc import Sequence
from typing import Protocol

from kafkatools.core.records.columns import RowColumns
from kafkatools.tools.lines.record_transactions import rows_slice

CHUNK_BYTES = 65_536
_POOL_BYTES = 4 << 20
_PREPARED = 64
_DRAWN = 65_536
_MAX_BUFFER = (1 << 31) - 1
_LETTERS = bytes(65 + number % 26 for number in range(234)) + bytes(range(65, 87))
"""Translation table from random bytes to the letters A to Z."""


class Payloads(Protocol):
    """A source of record values."""

    def rows(self, first: int, max_rows: int) -> RowColumns:
        """The next record values: at least one and at most `max_rows`. `first` is the number of records before them."""


class RandomPayloads:
    """Values of `size` random letters, with a fixed seed as in Kafka's tool."""

    def __init__(self, size: int) -> None:
        source = random.Random(0)
        pool = source.randbytes(max(size, _POOL_BYTES)).translate(_LETTERS)
        count = max(1, CHUNK_BYTES // size)
        lengths = array("i", [size]) * count
        starts = [source.randrange(len(pool) - count * size + 1) for _ in range(_PREPARED)]
        self._source = source
        self._prepared = [
            RowColumns(pool, array("i", range(start, start + count * size, size)), lengths) for start in starts
        ]

    def rows(self, first: int, max_rows: int) -> RowColumns:
        """The next random values: at least one and at most `max_rows`."""
        return rows_slice(self._prepared[int(self._source.random() * _PREPARED)], 0, max_rows)


class ListedPayloads:
    """Values drawn from a list in random order. Raises ValueError for more than 2 GiB."""

    def __init__(self, values: Sequence[bytes]) -> None:
        source = random.Random(0)
        if len(values) < _DRAWN:
            order = source.choices(range(len(values)), k=_DRAWN)
        else:
            order = source.sample(range(len(values)), len(values))
        lengths = array("i", map(len, values))
        positions, end = [], 0
        for length in lengths:
            positions.append(end)
            end += length
        if end > _MAX_BUFFER:
            raise ValueError(f"{end} bytes of payloads are more than {_MAX_BUFFER}")
        self._buffer = b"".join(values)
        self._positions = array("i", [positions[index] for index in order])
        self._lengths = array("i", [lengths[index] for index in order])
        self._count = max(1, CHUNK_BYTES * len(values) // max(1, end))
        self._next = 0

    def rows(self, first: int, max_rows: int) -> RowColumns:
        """The next drawn values: at least one and at most `max_rows`."""
        start = self._next
        stop = min(len(self._positions), start + min(max_rows, self._count))
        self._next = stop if stop < len(self._positions) else 0
        return RowColumns(self._buffer, self._positions[start:stop], self._lengths[start:stop])


class MonotonicPayloads:
    """The numbers from 0 on as text."""

    def rows(self, first: int, max_rows: int) -> RowColumns:
        """The numbers from `first` on: at most `max_rows`, all with the same number of digits."""
        digits = len(str(first))
        stop = min(first + max_rows, 10**digits, first + CHUNK_BYTES // digits)
        text = "".join(map(str, range(first, stop))).encode()
        count = stop - first
        return RowColumns(text, array("i", range(0, count * digits, digits)), array("i", [digits]) * count)


def split_payloads(data: bytes, delimiter: str, pattern: re.Pattern[str] | None = None) -> list[bytes]:
    """Split a payload file as java.util.Scanner does: an empty payload counts between two delimiters, not at either
    end. `pattern` is the delimiter if it is a regular expression."""
    if pattern is None:
        parts = data.split(delimiter.encode("utf-8", "surrogateescape"))
    else:
        text = data.decode("utf-8", "surrogateescape")
        parts = [part.encode("utf-8", "surrogateescape") for part in _split(text, pattern)]
    if parts and not parts[0]:
        del parts[0]
    if parts and not parts[-1]:
        del parts[-1]
    return parts


def _split(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Split text at non-empty matches. Unlike re.split, groups of the pattern add no parts."""
    parts, start = [], 0
    for match in pattern.finditer(text):
        if match.end() > match.start():
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]
