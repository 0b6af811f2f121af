# cython: language_level=3, annotation_typing=False, infer_types=False, boundscheck=False, wraparound=False
"""What `Producer.send` does for every record: its row among the records of its topic, and the row's future.

The classes run as Python and, compiled, as C types, which takes a fifth of the time. Attributes are public, since the
classes of `unbatched` and `Producer` extend these.

Compiled, a record is added without the lock: between the look-up of its topic's records and the last change of them no
Python code runs, so no thread can take the GIL. What may run some comes before: cells that are no bytes, and new
objects that the garbage collector tracks, which can start a collection with its callbacks (the future, the columns).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

try:
    import cython
except ImportError:
    from kafkatools.core import uncompiled as cython

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from kafkatools.core.producer.futures import RecordFuture
    from kafkatools.core.producer.producer_batch import Callback
    from kafkatools.core.producer.producer_record import AnyHeaders, ProducerRecord
    from kafkatools.core.producer.serializers import Serializer

if not cython.compiled:
    # What the .pxd has in C.
    def _appended_int(column: array[int], value: int) -> None:
        column.append(value)

    def _appended_gaps(column: array[int], count: int, byte: int) -> None:
        column.frombytes(bytes((byte,)) * (4 * (count - len(column))))

    def _appended_bytes(rows: RecordRows, cell: bytes) -> None:
        rows.data += cell

    put_int = put_long = _appended_int
    put_bytes = _appended_bytes
    put_gaps = _appended_gaps

RECORD_BYTES = 32
"""Bytes counted for each record in addition to key and value."""
NO_ROOM = -1
LAST_POSITION = 0x7FFFFFFF


class RecordRows:
    """Serialized records of one topic, for one partition or for the partitioner (None), as columns over `data`.

    `room_bytes`: the space for more records; none should be added when it is used up. `key_positions` and `key_lengths`
    are empty before the first key. A null has length -1. `timestamps` in ms since 1970. `callbacks` by row."""

    __slots__ = (
        "topic", "partition", "room_bytes", "count", "data", "reserved_bytes", "key_positions", "key_lengths",
        "value_positions", "value_lengths", "timestamps", "callbacks",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int | None, room_bytes: int) -> None:
        self.topic = topic
        self.partition = partition
        self.room_bytes = room_bytes
        self.count = 0
        self.data = bytearray()
        self.reserved_bytes = 0
        self.key_positions = array("i")
        self.key_lengths = array("i")
        self.value_positions = array("i")
        self.value_lengths = array("i")
        self.timestamps = array("q")
        self.callbacks: dict[int, Callback] = {}

    def append(self, key: bytes | None, value: bytes | None, timestamp: int) -> int:
        """Append a record and return its row. `timestamp` in ms since 1970. Raises TypeError for a key or value that
        has no bytes, OverflowError for records of more than 2 GiB."""
        return self._add(bytes_of(key), bytes_of(value), timestamp)

    def _add(self, key: bytes | None, value: bytes | None, timestamp: int) -> int:
        row = self.count
        position = len(self.data)
        key_bytes = value_bytes = -1
        stop = position
        if value is not None:
            value_bytes = len(value)
            stop += value_bytes
        if key is not None:
            key_bytes = len(key)
            stop += key_bytes
        if stop > LAST_POSITION:
            raise OverflowError(f"records of {stop} bytes are too many for one collection")
        put_int(self.value_positions, position)
        put_int(self.value_lengths, value_bytes)
        put_long(self.timestamps, timestamp)
        if value is not None:
            put_bytes(self, value)
        if key is not None or len(self.key_lengths) > 0:
            put_gaps(self.key_positions, row, 0)
            put_gaps(self.key_lengths, row, 0xFF)
            put_int(self.key_positions, 0 if key is None else stop - key_bytes)
            put_int(self.key_lengths, key_bytes)
            if key is not None:
                put_bytes(self, key)
        self.room_bytes -= RECORD_BYTES + stop - position
        self.count = row + 1
        return row

    def offer(self, partition: int | None, key: bytes | None, value: bytes | None, timestamp: int) -> int:
        """Append a record unless it is for another partition, or its key or value is larger than the room. Return its
        row, or NO_ROOM. Raises as `append`."""
        return self._offer(partition, bytes_of(key), bytes_of(value), timestamp)

    def _offer(self, partition: int | None, key: bytes | None, value: bytes | None, timestamp: int) -> int:
        room_bytes = self.room_bytes
        if room_bytes <= 0 or (value is not None and len(value) >= room_bytes):
            return NO_ROOM
        if self.partition is not partition and self.partition != partition:
            return NO_ROOM
        if key is not None and len(key) >= room_bytes:
            return NO_ROOM
        return self._add(key, value, timestamp)


def bytes_of(cell: object) -> bytes | None:
    """Return a key or value as bytes. Raises TypeError for one that has no bytes."""
    if cell is None or type(cell) is bytes:
        return cell
    return bytes(memoryview(cell))  # type: ignore[arg-type]


class RowFuture:
    """The future of one row of `records`."""

    __slots__ = ("records", "row")

    def __init__(self, records: RecordRows, row: int) -> None:
        self.records = records
        self.row = row


class OpenRows:
    """The records by topic to which others may be added. `lock` guards them, from Python code; `future_type` is the
    class of the futures."""

    __slots__ = ("collected", "lock", "future_type")

    def __init__(self, collected: Mapping[str, RecordRows], lock: threading.Lock, future_type: type[RowFuture]) -> None:
        self.collected = collected
        self.lock = lock
        self.future_type = future_type

    def accept(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        callback: Callback | None,
    ) -> RowFuture | None:
        """Add a record to those of its topic and return its future; None when a new collection has to be begun. Raises
        TypeError for a key or value that has no bytes."""
        return self._accept(topic, partition, key, value, timestamp, callback)

    def _accept(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        callback: Callback | None,
    ) -> RowFuture | None:
        if partition is not None and type(partition) is not int:
            return None
        key, value = bytes_of(key), bytes_of(value)
        future: RowFuture = RowFuture.__new__(self.future_type)
        if cython.compiled:
            return self._take(future, topic, partition, key, value, timestamp, callback)
        with self.lock:
            return self._take(future, topic, partition, key, value, timestamp, callback)

    def _take(
        self,
        future: RowFuture,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        callback: Callback | None,
    ) -> RowFuture | None:
        records = self.collected.get(topic)
        if records is None:
            return None
        row = records._offer(partition, key, value, timestamp)
        if row < 0:
            return None
        if callback is not None:
            records.callbacks[row] = callback
        future.records = records
        future.row = row
        return future


class PlainSends:
    """The `send` of a producer. `open_rows`: where it adds records that have only a value, a key and a partition; None
    sends every record by `_send_one`. `is_plain`: values that are bytes need no serializer. `wall_ns`: the time since
    1970."""

    __slots__ = ("is_plain", "open_rows", "serialize_key", "serialize_value", "wall_ns")

    open_rows: OpenRows | None
    is_plain: bool
    serialize_key: Serializer
    serialize_value: Serializer
    wall_ns: Callable[[], int]

    def _send_one(
        self,
        record: str | ProducerRecord,
        value: object,
        key: object,
        partition: int | None,
        timestamp: int | None,
        headers: AnyHeaders,
        callback: Callback | None,
    ) -> RecordFuture:
        raise NotImplementedError

    def _begin_plain(
        self,
        topic: str,
        cells: tuple[object, object],
        partition: int | None,
        serialized: tuple[int, bytes | None, bytes | None],
        callback: Callback | None,
    ) -> RecordFuture:
        raise NotImplementedError

    def _send_record(
        self,
        record: str | ProducerRecord,
        value: object = None,
        key: object = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: AnyHeaders = (),
        callback: Callback | None = None,
    ) -> RecordFuture | RowFuture:
        """Queue a record and return its future."""
        if self.open_rows is None or type(record) is not str or timestamp is not None or headers:
            return self._send_one(record, value, key, partition, timestamp, headers, callback)
        return self._send_plain(record, value, key, partition, callback)

    def _send_plain(
        self, topic: str, value: object, key: object, partition: int | None, callback: Callback | None
    ) -> RecordFuture | RowFuture:
        rows = self.open_rows
        assert rows is not None
        key_bytes = None if key is None else self.serialize_key(topic, key)
        if self.is_plain and (value is None or type(value) is bytes):
            value_bytes = value
        else:
            value_bytes = self.serialize_value(topic, value)
        wall_ns = self.wall_ns()
        wall_ms = wall_ns // 1_000_000
        future = rows._accept(topic, partition, key_bytes, value_bytes, wall_ms, callback)
        if future is not None:
            return future
        return self._begin_plain(topic, (key, value), partition, (wall_ms, key_bytes, value_bytes), callback)
