"""Select records by a regular expression over the raw bytes of keys, values and headers (--grep).

Rules: a record is selected when `re.search` finds the expression in one of its cells alone: in a key, a value, a
header's name or a header's value that is not null. So `^` and `$` are the start and the end of a cell, and nothing
matches across two cells. For speed there are three ways to find the candidates, of which each is then compared:

1. Texts that every match contains are searched in the buffer behind all records (`mark_rows`). If the expression is a
   text alone, the candidates are the result.
2. An expression whose matches do not depend on the bytes around them is searched in the whole buffer; each match leads
   to the record at its position. No record before the first match can match.
3. Otherwise all records are candidates.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.records import _search_kernel as kernel
from kafkatools.core.records.columns import RecordColumns
from kafkatools.core.records.kernel import new_ints
from kafkatools.tools.search.required_texts import shape_of

PARTS = {"key": kernel.IN_KEY, "value": kernel.IN_VALUE, "headers": kernel.IN_HEADERS}
_ENOUGH_BYTES = 2


class Grep:
    """Selects the records that contain the expression in one of the `parts`, the sum of values of PARTS. Raises
    re.error for an invalid expression."""

    def __init__(self, pattern: bytes, parts: int, *, ignores_case: bool = False) -> None:
        flags = re.IGNORECASE if ignores_case else 0
        self._search = re.compile(pattern, flags).search
        self._parts = parts
        self._shape = shape_of(pattern, flags)
        texts = self._shape.texts
        self._is_by_text = texts is not None and (
            min(map(len, texts)) >= _ENOUGH_BYTES or self._shape.is_exact or not self._shape.is_local
        )

    def rows(self, fetched: FetchedColumns) -> array[int] | None:
        """Return the rows with a match."""
        columns = fetched.columns
        extent = array("q", (0, 0))
        if not kernel.find_extent(columns.buffer, columns.places, self._parts, extent):
            return array("i")
        candidates: Iterable[int]
        if self._is_by_text and self._shape.texts is not None:
            candidates = self._rows_with(self._shape.texts, columns, *extent)
            if self._shape.is_exact:
                return candidates
        elif self._shape.is_local and kernel.is_ordered(columns.places):
            return self._rows_of_matches(columns, *extent)
        else:
            candidates = range(columns.count)
        return array("i", [row for row in candidates if self.is_match(columns, row)])

    def can_rule_out(self) -> bool:
        """Return whether every match contains one of some texts."""
        return self._is_by_text

    def first_possible(self, data: memoryview, start: int, end: int) -> int:
        """Return the position of the first of these texts in start..end, -1 if none occurs."""
        searched: memoryview | bytearray = data
        origin = 0
        if self._shape.ignores_case:
            searched, origin = bytearray(end - start), start
            kernel.lower_letters(data, start, searched)
        places = [kernel.find_text(searched, text, start - origin, end - origin) for text in self._shape.texts or ()]
        found = [place + origin for place in places if place >= 0]
        return min(found) if found else -1

    def failures(self) -> Sequence[str]:
        """Return no failures."""
        return ()

    def notes(self) -> Sequence[str]:
        """Return no notes."""
        return ()

    def is_match(self, columns: RecordColumns, row: int) -> bool:
        """Return whether the expression matches in one of the record's cells."""
        search = self._search
        if self._parts & kernel.IN_KEY:
            key = columns.key(row)
            if key is not None and search(key):
                return True
        if self._parts & kernel.IN_VALUE:
            value = columns.value(row)
            if value is not None and search(value):
                return True
        if self._parts & kernel.IN_HEADERS and columns.header_counts[row]:
            for name, header in columns.raw_headers(row):
                if search(name) or (header is not None and search(header)):
                    return True
        return False

    def _rows_with(self, texts: Sequence[bytes], columns: RecordColumns, first: int, last: int) -> array[int]:
        """Return the rows that contain one of the texts."""
        data, origin = columns.buffer, 0
        if self._shape.ignores_case:
            data, origin = bytearray(last - first), first
            kernel.lower_letters(columns.buffer, first, data)
        mask, marked = bytearray(columns.count), 0
        for text in texts:
            marked += kernel.mark_rows(data, origin, columns.places, self._parts, text, mask, last)
        rows = new_ints(min(marked, columns.count))
        return rows[: kernel.marked_rows(mask, rows)]

    def _rows_of_matches(self, columns: RecordColumns, first: int, last: int) -> array[int]:
        """Return the rows with a match, found by a search over the bytes of all records together."""
        data = bytes(columns.buffer[first:last])
        starts, count = columns.key_positions, columns.count
        rows = array("i")
        match = self._search(data)
        while match is not None:
            row = max(0, bisect_right(starts, first + match.start()) - 1)
            if self.is_match(columns, row):
                rows.append(row)
            if row + 1 == count:
                break
            match = self._search(data, starts[row + 1] - first)
        return rows
