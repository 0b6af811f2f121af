"""Select records by a condition in SQL (--where).

Rules: a record for which the condition is null is not selected. A record on which the condition fails, such as a cast
of a text that is no number, counts as null, and so does a value that is not JSON for `->>`; both are counted. From the
first failure on, DuckDB evaluates the condition within TRY, which is slower.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.exit_status import CommandError
from kafkatools.tools.search.record_filter import RecordFilter
from kafkatools.tools.search.sql import SqlError

_USES_JSON = re.compile(r"->|\bjson", re.IGNORECASE)
_NOT_JSON = "value IS NOT NULL AND NOT json_valid(value)"
_TRIED = "try((\n{}\n))"
_FAILED = "try((\n{}\n) IS NULL) IS NULL"

_Mask = npt.NDArray[np.bool_]


class Where:
    """Selects the records for which the condition is true. Raises SqlError for an invalid condition, and ImportError
    without the packages of the extra `sql`. `hides_contents`: DuckDB's errors, which quote values, are not shown."""

    def __init__(self, condition: str, *, hides_contents: bool = False) -> None:
        self._condition = condition
        self._filter = RecordFilter(condition)
        self._reads_json = _USES_JSON.search(condition) is not None
        self._not_json: RecordFilter | None = None
        self._failed: RecordFilter | None = None
        self._not_json_count = 0
        self._failed_count = 0
        self._hides_contents = hides_contents
        self._first_error = ""

    def rows(self, fetched: FetchedColumns) -> array[int]:
        """Return the rows for which the condition is true. Raises CommandError if it fails and DuckDB cannot evaluate
        it within TRY."""
        try:
            matches, nulls = self._evaluate(fetched)
        except SqlError as error:
            first = f"{fetched.topic_partition} at or after offset {fetched.columns.offsets[0]}"
            raise CommandError(
                f"--where failed on a record of {first}: {self._first_error or self._shown(error)}"
            ) from None
        if nulls.any():
            self._count(fetched._replace(columns=fetched.columns.take(_numbers(nulls))))
        return _numbers(matches)

    def _count(self, unknown: FetchedColumns) -> None:
        """Count the records for which the condition is null by reason."""
        if self._failed is not None:
            self._failed_count += int(self._failed.mask(unknown).sum())
        if self._reads_json:
            self._not_json = self._not_json or RecordFilter(_NOT_JSON)
            self._not_json_count += int(self._not_json.mask(unknown).sum())

    def _evaluate(self, fetched: FetchedColumns) -> tuple[_Mask, _Mask]:
        try:
            return self._filter.evaluate(fetched)
        except SqlError as error:
            if self._failed is not None:
                raise
            self._first_error = self._shown(error)
        tried = RecordFilter(_TRIED.format(self._condition))
        self._failed = RecordFilter(_FAILED.format(self._condition))
        self._filter.close()
        self._filter = tried
        return tried.evaluate(fetched)

    def _shown(self, error: SqlError) -> str:
        return "the reason may quote contents, so --mask hides it" if self._hides_contents else str(error)

    def failures(self) -> Sequence[str]:
        """Return no failures."""
        return ()

    def notes(self) -> list[str]:
        """Return how many records could not be compared."""
        lines = []
        if self._not_json_count:
            lines.append(f"--where: {self._not_json_count:,} values are not JSON; the condition is null for them")
        if self._failed_count:
            lines.append(
                f"--where: the condition failed on {self._failed_count:,} records, which are not selected: "
                f"{self._first_error}"
            )
        return lines


def _numbers(mask: _Mask) -> array[int]:
    """Return the numbers of the rows where the mask is true."""
    rows = array("i")
    rows.frombytes(np.flatnonzero(mask).astype(np.intc).tobytes())
    return rows
