"""Scan of a segment's transactional batches by their headers, with vectorized checks of these."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kafkatools.core.log.reading import transaction_scan
from kafkatools.core.log.reading.transaction_scan import Header
from kafkatools.core.records import kernel, layout
from kafkatools.pipeline.sources.log import sections as table

Headers = NDArray[np.int64]


class TransactionScan(transaction_scan.TransactionScan):
    """Scans one segment for transactional batches, as the scan of core.log.reading."""

    def _headers(self, rows: int) -> Headers:
        width = kernel.HEADER_WIDTH
        return np.frombuffer(self._table, np.int64, rows * width).reshape(rows, width)

    def _doubtful(self, rows: int) -> list[int]:
        headers = self._headers(rows)
        first, magic = headers[:, table.BASE_OFFSET], headers[:, table.MAGIC]
        last = first + headers[:, table.LAST_DELTA]
        before = np.concatenate((np.array([self._last_offset], np.int64), last))[:rows]
        magic_before = np.concatenate((np.array([self._last_magic], np.int64), magic))[:rows]
        is_wrong = (
            (magic != magic_before) | (headers[:, table.ATTRIBUTES] & ~table.KNOWN_ATTRIBUTES != 0) | (last < first)
        )
        is_wrong |= (first <= before) | (first - before > table.LARGEST_OFFSET_GAP)
        doubtful: list[int] = np.flatnonzero(is_wrong).tolist()
        return doubtful

    def _transactional_headers(self, rows: int) -> list[Header]:
        headers = self._headers(rows)
        mask = (headers[:, table.MAGIC] == 2) & (headers[:, table.ATTRIBUTES] & layout.TRANSACTIONAL_BIT != 0)
        chosen: list[Header] = headers[mask].tolist()
        return chosen
