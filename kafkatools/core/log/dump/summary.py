"""The text that Kafka's tool prints on stderr after all files: indexes that contradict their log, and gaps in offsets.

Files are named by their absolute paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from kafkatools.core.log.dump.index_checks import CheckedEntry


@dataclass
class Summary:
    """Index mismatches and offset gaps of all files of a dump, by the file's absolute path."""

    mismatches: dict[str, list[CheckedEntry]] = field(default_factory=dict)
    wrong_times: dict[str, list[CheckedEntry]] = field(default_factory=dict)
    times_out_of_order: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    offsets_not_found: dict[str, list[CheckedEntry]] = field(default_factory=dict)
    gaps: dict[str, dict[int, int]] = field(default_factory=dict)

    @property
    def has_damage(self) -> bool:
        """Return whether anything here is damage. Not damage are offset gaps, and differences that compaction and old
        brokers cause."""
        mismatches = chain(*self.mismatches.values(), *self.wrong_times.values())
        is_harmful = any(not entry.is_harmless for entry in mismatches)
        return is_harmful or bool(self.times_out_of_order) or bool(self.offsets_not_found)

    def lines(self) -> Iterator[str]:
        """Yield the lines of Kafka's summary, in Kafka's order."""
        yield from self._offset_index_lines()
        yield from self._time_index_lines()
        for path, gaps in self.gaps.items():
            if gaps:
                yield f"Non-consecutive offsets in {path}"
                for before, after in sorted(gaps.items()):
                    yield f"  {before} is followed by {after}"

    def _offset_index_lines(self) -> Iterator[str]:
        for path, entries in self.mismatches.items():
            yield f"Mismatches in :{path}"
            for entry in sorted(entries, key=lambda entry: -entry.first):
                yield f"  Index offset: {entry.first}, log offset: {entry.log_offset}"

    def _time_index_lines(self) -> Iterator[str]:
        for path, entries in self.wrong_times.items():
            yield f"Found timestamp mismatch in :{path}"
            for entry in entries:
                yield f"  Index timestamp: {entry.first}, log timestamp: {entry.largest_timestamp}"
        for path, pairs in self.times_out_of_order.items():
            yield f"Found out of order timestamp in :{path}"
            for timestamp, before in pairs:
                yield f"  Index timestamp: {timestamp}, Previously indexed timestamp: {before}"
        for path, entries in self.offsets_not_found.items():
            yield f"The following indexed offsets are not found in :{path}"
            for entry in entries:
                yield f"Indexed offset: {entry.second}, found log offset: {entry.log_offset}"
