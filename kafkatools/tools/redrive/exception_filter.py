"""Select dead-letter records by their exception (--exception)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.tools.redrive.dead_letters import failure_texts


class ExceptionFilter:
    """Selects records whose exception class or message contains a text; upper and lower case are equal."""

    def __init__(self, text: str) -> None:
        self._text = text.casefold()

    def rows(self, fetched: FetchedColumns) -> array[int]:
        """Return the rows with such an exception."""
        columns = fetched.columns
        return array("i", [row for row in range(columns.count) if self._is_match(columns.raw_headers(row))])

    def _is_match(self, headers: Sequence[tuple[bytes, bytes | None]]) -> bool:
        return any(self._text in text.casefold() for text in failure_texts(headers))

    def failures(self) -> Sequence[str]:
        """Return no failures: headers without an exception are no error."""
        return ()

    def notes(self) -> Sequence[str]:
        """Return no notes: the filter has nothing to report."""
        return ()
