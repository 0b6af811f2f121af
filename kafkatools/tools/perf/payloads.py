"""The values that the producer performance test sends, as rows: random letters, lines of a file, increasing numbers.

Rules: there is no work per record. Random values are cut from one pool of letters, for each batch from another place.
So the records of a batch differ, and a codec compresses them no better than fresh random values. Payloads of a file
are drawn once into a random order that repeats. At most `CHUNK_BYTES` of values are returned at a time, because records
of one chunk count as sent at the same moment.
"""

from __future__ import annotations

import random
import re
from array import array
from collections.abc import Sequence
from typing import Protocol

from kafkatools.core.records.columns import RowColumns

CHUNK_BYTES = 65_536
_POOL_BYTES = 4 << 20
_PREPARED = 64
_DRAWN = 65_536
_MAX_BUFFER = (1 << 31) - 1
_LETTERS = bytes(65 + number % 26 for number in range(234)) + bytes(range(65, 87))
"""Turns random bytes into A to Z."""


class Payloads(Protocol):
    def rows(self, sent: int, most: int) -> RowColumns:
        """The next rows, at least one and at most `most`, when `sent` went before."""


class RandomPayloads:
    """Values of `size` random letters, the same in each run (the seed is fixed, as in Kafka's tool)."""

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

    def rows(self, sent: int, most: int) -> RowColumns:
        """As Payloads."""
        return first_rows(self._prepared[int(self._source.random() * _PREPARED)], most)


class ListedPayloads:
    """Values drawn from a list (of more than 2 GiB in all: ValueError)."""

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

    def rows(self, sent: int, most: int) -> RowColumns:
        """As Payloads."""
        start = self._next
        stop = min(len(self._positions), start + min(most, self._count))
        self._next = stop if stop < len(self._positions) else 0
        return RowColumns(self._buffer, self._positions[start:stop], self._lengths[start:stop])


class MonotonicPayloads:
    """0, 1, 2, ... as text."""

    def rows(self, sent: int, most: int) -> RowColumns:
        """As Payloads; numbers of one length come together."""
        digits = len(str(sent))
        stop = min(sent + most, 10**digits, sent + CHUNK_BYTES // digits)
        text = "".join(map(str, range(sent, stop))).encode()
        count = stop - sent
        return RowColumns(text, array("i", range(0, count * digits, digits)), array("i", [digits]) * count)


def first_rows(rows: RowColumns, most: int) -> RowColumns:
    """The first rows of plain values, over the same buffer."""
    if most >= rows.count:
        return rows
    return RowColumns(rows.buffer, rows.value_positions[:most], rows.value_lengths[:most])


def split_payloads(data: bytes, delimiter: str, pattern: re.Pattern[str] | None = None) -> list[bytes]:
    """The payloads of a file as java.util.Scanner finds them: an empty one in front of the first delimiter or behind
    the last one is none, one between two delimiters is. `pattern`: the delimiter, where it is more than plain text."""
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
    """Between the matches; groups of the pattern add nothing (as they do with re.split)."""
    parts, start = [], 0
    for match in pattern.finditer(text):
        if match.end() > match.start():
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]
