"""Read messages of magic 0 and 1 for the dump, plain or wrapped in a compressed message.

Source: AbstractLegacyRecordBatch.DeepRecordsIterator and LegacyRecord. Inner offsets of magic 1 are relative, and the
wrapper has the offset of the last inner message. With LogAppendTime the wrapper's timestamp is that of all messages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kafkatools.core.log.dump.batch_headers import (
    LEGACY_HEADER_V0,
    LEGACY_HEADER_V1,
    LegacyHeader,
)
from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.dump.dumped_record import DumpedRecord, decompressed
from kafkatools.core.records.layout import LOG_OVERHEAD, SMALLEST_OVERHEAD

_INT = struct.Struct(">i")
_PREFIX = struct.Struct(">qi")

LARGEST_INNER_MESSAGE = 1 << 28
"""A wrapped message that claims more than this is damage; Kafka's tool runs out of memory on it."""


def legacy_records_of(header: LegacyHeader) -> Iterator[DumpedRecord]:
    """Yield the messages of one message set entry. Raises Damage."""
    if header.codec == 0:
        yield _message(header.view, header.offset, header)
        return
    yield from _wrapped(header)


def value_position(view: memoryview, magic: int) -> int:
    """Return the position of the value's length field in a message. Raises Damage when the key's length points outside
    the message."""
    at = LEGACY_HEADER_V0 if magic == 0 else LEGACY_HEADER_V1
    return at + 4 + max(_length_at(view, at), 0)


def _length_at(view: memoryview, position: int) -> int:
    if not 0 <= position <= len(view) - 4:
        raise Damage("the lengths of key and value do not fit in the message")
    return int(_INT.unpack_from(view, position)[0])


def _message(view: memoryview, offset: int, header: LegacyHeader) -> DumpedRecord:
    magic = header.magic
    key_at = LEGACY_HEADER_V0 if magic == 0 else LEGACY_HEADER_V1
    key_size = _length_at(view, key_at)
    value_at = value_position(view, magic)
    value_size = _length_at(view, value_at)
    return DumpedRecord(
        offset=offset,
        timestamp=header.max_timestamp,
        sequence=-1,
        key=_bytes_at(view, key_at, key_size),
        value=_bytes_at(view, value_at, value_size),
        crc=header.crc,
        is_valid=header.is_valid,
        key_size=key_size,
        value_size=value_size,
    )


def _bytes_at(view: memoryview, at: int, size: int) -> memoryview | None:
    return None if size < 0 else view[at + 4 : at + 4 + size]


def _wrapped(header: LegacyHeader) -> Iterator[DumpedRecord]:
    if header.codec == 4:
        raise Damage(f"ZSTD compression is not supported for magic {header.magic}")
    at = value_position(header.view, header.magic)
    size = _length_at(header.view, at)
    if size < 0:
        raise Damage(f"Found invalid compressed record set with null value (magic = {header.magic})")
    if size > len(header.view) - at - 4:
        raise Damage(f"newLimit > capacity: ({size} > {len(header.view) - at - 4})")
    data = decompressed(header.codec, header.view[at + 4 : at + 4 + size], header.magic)
    inner = list(_inner_messages(data))
    if not inner:
        raise Damage("Found invalid compressed record set with no inner records")
    base = _absolute_base(header, inner[-1].offset) if header.magic == 1 else 0
    messages = []
    for message in inner:
        if header.magic == 1 and header.attributes & 8:
            message.max_timestamp = header.max_timestamp
        messages.append(message)
    for message in messages:
        if message.codec:
            raise Damage("Inner messages must not be compressed")
        yield _message(message.view, base + message.offset, message)


def _absolute_base(header: LegacyHeader, last_inner: int) -> int:
    if header.offset == 0:  # certain versions of librdkafka
        return 0
    if header.offset < last_inner:
        raise Damage(
            f"Found invalid wrapper offset in compressed v1 message set, wrapper offset '{header.offset}' "
            f"is less than the last inner message offset '{last_inner}' and it is not zero."
        )
    return header.offset - last_inner


def _inner_messages(data: memoryview) -> Iterator[LegacyHeader]:
    position = 0
    while position + LOG_OVERHEAD <= len(data):
        _, size = _PREFIX.unpack_from(data, position)
        if size < SMALLEST_OVERHEAD:
            raise Damage(f"Record size {size} is less than the minimum record overhead ({SMALLEST_OVERHEAD})")
        if size > LARGEST_INNER_MESSAGE:
            raise Damage(f"a wrapped message claims {size} bytes")
        if position + LOG_OVERHEAD + size > len(data):
            return
        yield LegacyHeader(data[position : position + LOG_OVERHEAD + size], position, LOG_OVERHEAD + size)
        position += LOG_OVERHEAD + size
