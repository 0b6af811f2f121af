"""The columns of a table of batch headers (kernel.scan_batches), and limits of their values."""

from __future__ import annotations

from kafkatools.core.records import kernel

WIDTH = kernel.HEADER_WIDTH
POSITION, BASE_OFFSET, SIZE, MAGIC, LEADER_EPOCH, CRC, ATTRIBUTES, LAST_DELTA = range(8)
BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, COUNT = range(8, 14)

KNOWN_ATTRIBUTES = 0x7F
LARGEST_OFFSET_GAP = 1 << 31
"""Two offsets of one segment differ by less."""
