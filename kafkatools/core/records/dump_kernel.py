"""The kernel of dump-log's lines, compiled or plain: import it from here (see kernel.py)."""

from __future__ import annotations

from kafkatools.core.records import _choose_kernel as _choose_kernel
from kafkatools.core.records._dump_kernel import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    BATCH_LINE_BYTES,
    COMPILED,
    COUNT,
    LAST_DELTA,
    LEADER_EPOCH,
    MAX_TIMESTAMP,
    NUMBER_APPEND_TIME,
    NUMBER_BASE_SEQUENCE,
    NUMBER_GAPS,
    NUMBER_HAS_APPEND_TIME,
    NUMBER_LAST_OFFSET,
    NUMBER_ROWS,
    NUMBER_SHOWS_CONTENTS,
    NUMBER_SHOWS_METADATA,
    NUMBERS_SIZE,
    POSITION,
    RECORD_LINE_BYTES,
    SIZE,
    first_irregular,
    format_batches,
    format_records,
)
