"""The record kernels, compiled or plain: import them from here.

`_kernel.py`, `_kernel_text.py` and `_scan_kernel.py` run as Python, and setup.py compiles them to C; the results are
the same. With KT_PURE_PYTHON=1 at run time the Python source is used even if the compiled module exists. `COMPILED` is
True when the C code runs.
"""

from __future__ import annotations

from kafkatools.core.records._kernel import (
    COMPILED,
    STATE_BASE_TIMESTAMP,
    STATE_DEFAULT_TIMESTAMP,
    STATE_MAX_TIMESTAMP,
    STATE_NEEDED,
    STATE_NEXT_DELTA,
    STATE_ORIGIN,
    STATE_POSITION,
    STATE_ROWS,
    STATE_SIZE,
    STATE_WRITE_LIMIT,
    STATUS_POSITION,
    STATUS_REASON,
    STATUS_ROW,
    STATUS_SIZE,
    STATUS_START,
    append_record,
    check_records,
    decode_records,
    encode_columns,
    new_ints,
    new_longs,
    read_varint,
    read_varlong,
    record_size,
    size_of_varint,
    varint,
)
from kafkatools.core.records._kernel_text import (
    find_lines,
    murmur2,
    partitions_for_keys,
    split_keys,
    write_keys_and_values,
    write_values,
)
from kafkatools.core.records._scan_kernel import (
    HEADER_WIDTH,
    SCAN_END,
    SCAN_FULL,
    SCAN_PARTIAL,
    SCAN_TOO_SMALL,
    scan_batches,
)

# glibc gives freed memory back to the system at once until a block of a megabyte or more has been freed; a batch's
# columns are just below, and taking their pages anew for every batch costs more than decoding it. So one untouched
# block is freed here; it never takes memory.
bytes(8 << 20)
