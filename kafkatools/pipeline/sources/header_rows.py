"""Rows that the headers of batches determine, so that their records need not be decompressed or decoded.

A header of magic 2 has the number of records, the first and the last offset, the producer and the leader epoch. Where
there are as many records as offsets, no compaction has removed one, and each offset and sequence number is known. The
timestamps are known if the broker set them (LogAppendTime). Keys, values and headers of records are never known.

The callers have verified the checksums and have left out control batches. A batch that is too small for its number of
records is decoded, which finds the damage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kafkatools.core.log.reading import header_columns as table
from kafkatools.core.records.batch import MINIMUM_RECORD_SIZE
from kafkatools.core.records.layout import HEADER_SIZE, TIMESTAMP_TYPE_BIT
from kafkatools.pipeline.sources.record_bounds import MAX_LONG, RecordBounds
from kafkatools.tools.arrow.columns import HeaderChunk, Longs

_CODEC = 7
_LAST_CODEC = 4
_LARGEST_RATIO = 1024
"""A batch that would have to be compressed better than this to hold its records is decoded."""

_OF_BATCHES = frozenset(
    (
        "topic", "partition", "timestamptype", "leaderepoch", "producerid", "producerepoch", "transaction",
        "batchposition",
    )
)  # fmt: skip
_OF_OFFSETS = frozenset(("offset", "sequence"))
_OF_TIMES = frozenset(("timestamp",))

Mask = npt.NDArray[np.bool_]


class HeaderRows:
    """Selects the batches whose rows the headers determine, for columns and bounds, and makes chunks of their rows."""

    def __init__(self, columns: Iterable[str], bounds: RecordBounds) -> None:
        names = frozenset(name.lower() for name in columns)
        self._bounds = bounds
        self._is_possible = names <= _OF_BATCHES | _OF_OFFSETS | _OF_TIMES
        self._needs_offsets = not names.isdisjoint(_OF_OFFSETS)
        self._needs_times = not names.isdisjoint(_OF_TIMES) or bounds.has_timestamps

    def select(self, headers: Longs, candidates: Mask, *, is_first: bool) -> Mask:
        """Return a mask of those candidates whose rows the headers determine. `is_first`: no rows come before. The
        first and the last batch with gaps are decoded, so that the offsets of the first and the last row are exact."""
        if not self._is_possible:
            return np.zeros(len(headers), np.bool_)
        counts, attributes = headers[:, table.COUNT], headers[:, table.ATTRIBUTES]
        codecs, offsets = attributes & _CODEC, headers[:, table.LAST_DELTA] + 1
        room = (headers[:, table.SIZE] - HEADER_SIZE) * np.where(codecs == 0, 1, _LARGEST_RATIO) // MINIMUM_RECORD_SIZE
        selected: Mask = candidates & (headers[:, table.MAGIC] == 2) & (codecs <= _LAST_CODEC)
        selected &= (counts >= 0) & (counts <= np.minimum(room, offsets))
        starts = headers[:, table.BASE_OFFSET]  # no checksum covers it
        selected &= (starts >= 0) & (starts < MAX_LONG - offsets)
        if self._needs_times:
            selected &= attributes & TIMESTAMP_TYPE_BIT != 0
        is_certain: Mask = (counts == offsets) | (counts == 0)
        if self._needs_offsets:
            selected &= is_certain
            return selected
        is_within = (starts >= self._bounds.start_offset) & (starts + offsets <= self._bounds.end_offset)
        with_rows = np.flatnonzero(selected & is_within & (counts > 0) & self._within_timestamps(headers))
        if len(with_rows):
            is_within[with_rows[-1]] = False
            if is_first:
                is_within[with_rows[0]] = False
        selected &= is_certain | is_within
        return selected

    def _within_timestamps(self, headers: Longs) -> Mask:
        """Return a mask of the batches with LogAppendTime whose timestamp is within the bounds."""
        times = headers[:, table.MAX_TIMESTAMP]
        mask: Mask = times >= self._bounds.start_timestamp_ms
        if self._bounds.end_timestamp_ms < MAX_LONG:
            mask &= times < self._bounds.end_timestamp_ms
        return mask

    def chunks(
        self, headers: Longs, positions: Longs, states: Sequence[str | None] | None, limit: int
    ) -> Iterator[HeaderChunk]:
        """Yield the rows of selected batches within the bounds, in chunks of at most `limit` rows. `positions` and
        `states` are those of the batches."""
        firsts, counts = self._rows_within(headers)
        stops = np.cumsum(counts)
        total = int(stops[-1]) if len(stops) else 0
        for start in range(0, total, limit):
            stop = min(start + limit, total)
            batches = slice(int(np.searchsorted(stops, start, "right")), int(np.searchsorted(stops, stop, "left")) + 1)
            begins = stops[batches] - counts[batches]
            taken = np.minimum(stops[batches], stop) - np.maximum(begins, start)
            yield HeaderChunk(
                headers[batches], taken, positions[batches], None if states is None else states[batches],
                firsts[batches] + np.maximum(start - begins, 0),
            )  # fmt: skip

    def _rows_within(self, headers: Longs) -> tuple[Longs, Longs]:
        """Return the first offset and the number of records within the bounds of each selected batch. A batch that is
        partly outside has a record for each offset, or none."""
        bounds, counts = self._bounds, headers[:, table.COUNT]
        starts = headers[:, table.BASE_OFFSET]
        firsts = np.maximum(starts, bounds.start_offset)
        ends = np.minimum(starts + counts, bounds.end_offset)
        is_whole = (firsts == starts) & (starts + headers[:, table.LAST_DELTA] < bounds.end_offset)
        within = np.where(is_whole, counts, np.maximum(ends - firsts, 0))
        return firsts, within * self._within_timestamps(headers) if bounds.has_timestamps else within
