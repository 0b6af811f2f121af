"""The kernel that makes columns of a table out of batches, compiled or plain: import it from here (see kernel.py)."""

from __future__ import annotations

from kafkatools.core.records import _choose_kernel as _choose_kernel
from kafkatools.core.records._gather_kernel import (
    COLUMN_BYTES,
    COLUMN_NEXT,
    COLUMN_NULLS,
    COLUMN_ROWS,
    COLUMN_SIZE,
    PLACE_KEY,
    PLACE_OFFSET,
    PLACE_TIMESTAMP,
    PLACE_VALUE,
    PLACE_WIDTH,
    RUN_DAMAGED,
    RUN_DONE,
    RUN_FULL,
    RUN_IMPOSSIBLE,
    RUN_LEFT_OVER,
    RUN_POSITION,
    RUN_REASON,
    RUN_RECORD,
    RUN_ROW,
    RUN_SIZE,
    decode_batches,
    gather_cells,
    list_headers,
)
