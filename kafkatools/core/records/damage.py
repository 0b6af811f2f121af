"""What is wrong with a record that the kernel would not read, in the words of Kafka's DefaultRecord.readFrom.

It reads one record again, step by step. A stream (compressed) hands out one record's bytes at a time; a buffer lets a
record read on to its end, and only then is the size compared: so the same damage has different messages, in Kafka
too. The dump of segments, which reads records one by one, takes its words from here.
"""

from __future__ import annotations

from kafkatools.core.records.kernel import read_varint, read_varlong

Buffer = bytes | bytearray | memoryview

REMAINING = "Incorrect declared batch size, records still remaining in file"
PREMATURE_END = "Incorrect declared batch size, premature EOF reached"
STRUCTURE = "Found invalid record structure"


def too_large(size: int, left: int | None) -> str:
    """A record that says it is larger than what is left; None for a stream, of which nobody knows the end."""
    payload = (
        "the record payload reached EOF." if left is None else f"instead the buffer has only {left} remaining bytes."
    )
    return f"Invalid record size: expected {size} bytes in record payload, but {payload}"


def wrong_size(size: int, read: int) -> str:
    """A record whose parts take another size than it says."""
    return f"Invalid record size: expected to read {size} bytes in record payload, but instead read {read}"


def wrong_header_count(count: int) -> str:
    """A negative number of headers."""
    return f"Found invalid number of record headers {count}"


def header_count_too_large(count: int) -> str:
    """More headers than bytes are left."""
    return f"Found invalid number of record headers. {count} is larger than the remaining size of the buffer"


def wrong_header_key_size(size: int) -> str:
    """A header without a key."""
    return f"Invalid negative header key size {size}"


class _Invalid(Exception):
    """Carries the message out of the steps."""


def explain(data: Buffer, position: int, is_more_expected: bool, is_stream: bool) -> str:
    """Kafka's message for the record at `position`; when no more are expected, for there being one."""
    if not is_more_expected:
        return REMAINING
    size, start = read_varint(data, position)
    if start < 0:
        return PREMATURE_END if len(data) - position < 5 else STRUCTURE
    left = len(data) - start
    if size > left:
        return too_large(size, None if is_stream else left)
    try:
        end = _read_body(data, start, start + size if is_stream else len(data))
    except _Invalid as invalid:
        return str(invalid)
    return wrong_size(size, end - start)


def _read_body(data: Buffer, position: int, end: int) -> int:
    view = memoryview(data)[:end]
    if position >= end:
        raise _Invalid(STRUCTURE)
    _, position = read_varlong(view, position + 1)
    _, position = _varint(view, position)
    for _ in range(2):
        size, position = _varint(view, position)
        position = _skip(view, position, size)
    count, position = _varint(view, position)
    if count < 0:
        raise _Invalid(wrong_header_count(count))
    if count > end - position:
        raise _Invalid(header_count_too_large(count))
    for _ in range(count):
        size, position = _varint(view, position)
        if size < 0:
            raise _Invalid(wrong_header_key_size(size))
        position = _skip(view, position, size)
        size, position = _varint(view, position)
        position = _skip(view, position, size)
    return position


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    value, position = read_varint(view, position)
    if position < 0:
        raise _Invalid(STRUCTURE)
    return value, position


def _skip(view: memoryview, position: int, size: int) -> int:
    if size > len(view) - position:
        raise _Invalid(STRUCTURE)
    return position + max(size, 0)
