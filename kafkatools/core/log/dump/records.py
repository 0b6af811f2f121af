"""Read the records of one batch for the dump, and fail where Kafka's reader fails.

Sources: DefaultRecordBatch.iterator, DefaultRecord, AbstractLegacyRecordBatch.DeepRecordsIterator, LegacyRecord. The
records of an uncompressed batch are read one by one, so those before a damaged one are shown. A compressed batch is
read completely before its first record is shown. Inner offsets of magic 1 are relative, and the wrapper has the offset
of the last inner message. With LogAppendTime the wrapper's timestamp is that of all messages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkatools.core.errors import KafkaError
from kafkatools.core.java.longs import wrapped
from kafkatools.core.log.dump.batch_headers import (
    LEGACY_HEADER_V0,
    LEGACY_HEADER_V1,
    Header,
    LegacyHeader,
    V2Header,
    codec_name,
)
from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.records.damage import REMAINING, DamagedRecord, RawRecord, RecordReader, read_record
from kafkatools.core.records.header import increment_sequence
from kafkatools.core.records.layout import HEADER_SIZE, LOG_OVERHEAD, SMALLEST_OVERHEAD

if TYPE_CHECKING:
    from kafkatools.core.records.columns import RecordColumns

_INT = struct.Struct(">i")
_PREFIX = struct.Struct(">qi")

LARGEST_INNER_MESSAGE = 1 << 28
"""A wrapped message that claims more than this is damage; Kafka's tool runs out of memory on it."""


@dataclass(slots=True)
class DumpedRecord:
    """A record of any message format in the dump. `timestamp` is in ms; `sequence` is -1 without one. `key_size` and
    `value_size` are -1 for null. `crc` and `is_valid` are set for magic 0 and 1 only."""

    offset: int
    timestamp: int
    sequence: int
    key: bytes | memoryview | None
    value: bytes | memoryview | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    crc: int | None = None
    is_valid: bool | None = None
    key_size: int = -1
    value_size: int = -1


def records_of(header: Header) -> Iterator[DumpedRecord]:
    """Return an iterator over the records of a batch of any format. With a damaged uncompressed batch the records
    before the damage are returned first. Raises Damage, at once or during the iteration."""
    if not isinstance(header, V2Header):
        return _wrapped(header) if header.codec else iter((_message(header, header.offset),))
    if header.record_count == 0:
        return iter(())
    sound = _sound_records(header) if header.is_valid else None
    if sound is not None:
        return sound
    if header.codec == 0:
        return _records(header, header.view[HEADER_SIZE:])
    return iter(list(_records(header, _decompressed(header.codec, header.view[HEADER_SIZE:], 2))))


def _sound_records(header: V2Header) -> Iterator[DumpedRecord] | None:
    """Read a valid batch by the record kernel. Return None for damaged records or records with headers, which are read
    one by one."""
    from kafkatools.core.records.batch import RecordBatch

    try:
        columns = RecordBatch(header.view).columns()
    except (KafkaError, ValueError):
        return None
    return None if any(columns.header_counts) else _records_of_columns(header, columns)


def _records_of_columns(header: V2Header, columns: RecordColumns) -> Iterator[DumpedRecord]:
    base_offset, base_sequence = header.base_offset, header.base_sequence
    is_append_time = header.attributes & 8
    for row, offset in enumerate(columns.offsets):
        yield DumpedRecord(
            offset,
            header.max_timestamp if is_append_time else columns.timestamps[row],
            increment_sequence(base_sequence, wrapped(offset - base_offset)) if base_sequence >= 0 else -1,
            columns.key(row),
            columns.value(row),
            key_size=columns.key_lengths[row],
            value_size=columns.value_lengths[row],
        )


def _records(header: V2Header, data: memoryview) -> Iterator[DumpedRecord]:
    if header.record_count < 0:
        raise Damage(f"Found invalid record count {header.record_count} in magic v{header.magic} batch")
    reader = RecordReader(data)
    for number in range(1, header.record_count + 1):
        try:
            raw = read_record(reader)
        except DamagedRecord as problem:
            raise Damage(str(problem)) from None
        if number == header.record_count and reader.remaining:
            raise Damage(REMAINING)
        yield _dumped(header, raw)


def _dumped(header: V2Header, raw: RawRecord) -> DumpedRecord:
    is_append_time = header.attributes & 8
    return DumpedRecord(
        offset=wrapped(header.base_offset + raw.offset_delta),
        timestamp=header.max_timestamp if is_append_time else wrapped(header.base_timestamp + raw.timestamp_delta),
        sequence=increment_sequence(header.base_sequence, raw.offset_delta) if header.base_sequence >= 0 else -1,
        key=raw.key,
        value=raw.value,
        headers=raw.headers,
        key_size=max(raw.key_size, -1),
        value_size=max(raw.value_size, -1),
    )


def _decompressed(codec: int, data: memoryview, magic: int) -> memoryview:
    """Decompress the records of a batch. Raises Damage."""
    from kafkatools.core.records.compression import CompressionType, decompress

    name = codec_name(codec)
    try:
        return memoryview(decompress(CompressionType(codec), data, magic=magic))
    except KafkaError as problem:
        raise Damage(f"the {name} data cannot be decompressed: {problem}") from problem


def _length_at(view: memoryview, position: int) -> int:
    if not 0 <= position <= len(view) - 4:
        raise Damage("the lengths of key and value do not fit in the message")
    return int(_INT.unpack_from(view, position)[0])


def _message(header: LegacyHeader, offset: int) -> DumpedRecord:
    view = header.view
    key_at = LEGACY_HEADER_V0 if header.magic == 0 else LEGACY_HEADER_V1
    key_size = _length_at(view, key_at)
    value_at = key_at + 4 + max(key_size, 0)
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
    """Yield the messages in a compressed message. Raises Damage."""
    if header.codec == 4:
        raise Damage(f"ZSTD compression is not supported for magic {header.magic}")
    wrapper = _message(header, header.offset)
    if wrapper.value is None:
        raise Damage(f"Found invalid compressed record set with null value (magic = {header.magic})")
    if wrapper.value_size > len(wrapper.value):
        raise Damage(f"newLimit > capacity: ({wrapper.value_size} > {len(wrapper.value)})")
    data = _decompressed(header.codec, memoryview(wrapper.value), header.magic)
    inner = list(_inner_messages(data))
    if not inner:
        raise Damage("Found invalid compressed record set with no inner records")
    base = _absolute_base(header, inner[-1].offset) if header.magic == 1 else 0
    for message in inner:
        if message.codec:
            raise Damage("Inner messages must not be compressed")
        if header.magic == 1 and header.attributes & 8:
            message.max_timestamp = header.max_timestamp
        yield _message(message, wrapped(base + message.offset))


def _absolute_base(header: LegacyHeader, last_inner: int) -> int:
    if header.offset == 0:  # some versions of librdkafka send 0
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
            raise Damage(f"a wrapped message claims {size} bytes, more than {LARGEST_INNER_MESSAGE}")
        if position + LOG_OVERHEAD + size > len(data):
            return
        yield LegacyHeader(data[position : position + LOG_OVERHEAD + size], position, LOG_OVERHEAD + size)
        position += LOG_OVERHEAD + size
