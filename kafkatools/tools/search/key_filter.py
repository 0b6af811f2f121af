"""Select the records with one key (--key)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.records import _search_kernel as kernel
from kafkatools.core.records.kernel import new_ints


class KeyFilter:
    """Selects the records whose key has exactly these bytes; a record with a null key is never selected."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def rows(self, fetched: FetchedColumns) -> array[int]:
        """Return the rows with the key."""
        columns = fetched.columns
        mask = bytearray(columns.count)
        count = kernel.mark_equal(columns.buffer, columns.key_positions, columns.key_lengths, self._key, mask)
        rows = new_ints(count)
        kernel.marked_rows(mask, rows)
        return rows

    def can_rule_out(self) -> bool:
        """Return whether the key has any bytes."""
        return bool(self._key)

    def first_possible(self, data: memoryview, start: int, end: int) -> int:
        """Return the position of the key's bytes in start..end, -1 if they do not occur."""
        return kernel.find_text(data, self._key, start, end)

    def failures(self) -> Sequence[str]:
        """Return no failures."""
        return ()

    def notes(self) -> Sequence[str]:
        """Return no notes."""
        return ()
