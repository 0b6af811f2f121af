"""The offsets of a partition in a source and in its target, as runs of consecutive records."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from kafkatools.tools.backup.restored_batches import RestoredBatch


class OffsetRuns:
    """Maps source offsets to target offsets. A run takes 24 bytes; gaps and left-out batches begin another one."""

    def __init__(self, target_start: int) -> None:
        self._target_start = target_start
        self._sources = array("q")
        self._targets = array("q")
        self._counts = array("q")

    def add(self, batch: RestoredBatch, target: int) -> None:
        """Add the records of a batch, which begin at `target`. Batches come in order."""
        if batch.offsets is None:
            self._add(batch.first_offset, target, batch.record_count)
            return
        for index, offset in enumerate(batch.offsets):
            self._add(offset, target + index, 1)

    def _add(self, source: int, target: int, count: int) -> None:
        if self._counts:
            length = self._counts[-1]
            if (self._sources[-1] + length, self._targets[-1] + length) == (source, target):
                self._counts[-1] += count
                return
        self._sources.append(source)
        self._targets.append(target)
        self._counts.append(count)

    def target_of(self, offset: int) -> int:
        """Return the target offset of the record at a source offset, or of the next record that was written."""
        index = bisect_right(self._sources, offset) - 1
        if index < 0:
            return self._target_start
        return self._targets[index] + min(offset - self._sources[index], self._counts[index])
