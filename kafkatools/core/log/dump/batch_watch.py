"""Readers of a segment's batches that print nothing: the methods of `file_dump.Lines` that they share, and their fast
path over windows of valid batches."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from kafkatools.core.log.dump.gaps import GapFinder
from kafkatools.core.log.dump.options import DumpOptions
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.dump.segment_limits import UNLIMITED, SegmentLimits
from kafkatools.core.log.dump.sound_stretch import SoundStretch

TakeBatches = Callable[["array[int]", int, int, memoryview], None]
"""Takes the kernel's header table, the number of its rows that are valid, and the window with its file position."""


class SilentLines:
    """An implementation of file_dump.Lines, but for `stretch` and `batch`, that prints nothing."""

    def _ignore(self, *arguments: Any, **names: Any) -> None:
        """Print nothing."""

    file = log = snapshot = trailing = empty_index = sane_index = _ignore
    offset_entry = time_entry = producer = aborted_transaction = _ignore


class WatchedStretch(SoundStretch):
    """The fast path over windows of valid batches: it passes their headers to `take` and prints nothing. With `deep` a
    batch is valid only if its records can be read."""

    def __init__(
        self,
        file: SegmentFile,
        end: int,
        deep: bool,
        gaps: GapFinder,
        take: TakeBatches,
        limits: SegmentLimits = UNLIMITED,
    ) -> None:
        super().__init__(file, end, DumpOptions(deep=deep), gaps, len, limits)
        self._take = take
        self._is_deep = deep

    def _show(self, window: memoryview, position: int, stop: int, state: array[int]) -> int:
        row_count = super()._show(window, position, stop, state) if self._is_deep else stop
        self._take(self._table, row_count, position, window)
        return row_count
