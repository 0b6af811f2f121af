# cython: language_level=3, annotation_typing=False, infer_types=False
"""What `Producer.send` does for every record: its row among the records of its topic, and the row's future.

The classes run as Python and, compiled, as C types, which takes a third of the time. Their attributes are public, since
the classes of `unbatched` extend them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from kafkatools.core.producer.futures import RecordFuture
    from kafkatools.core.producer.producer_batch import Callback

RECORD_BYTES = 32
"""What a record counts beside its key and value."""
NO_ROOM = -1


class RecordRows:
    """Serialized records of one topic, for one partition or for the partitioner (None). `room_bytes`: the space for
    more records; none should be added when it is used up. `keys` is empty before the first key. `stamps` are the
    different timestamps in ms since 1970, and `first_rows` the row at which each begins. `callbacks` by row."""

    __slots__ = (
        "topic", "partition", "room_bytes", "count", "keys", "values", "callbacks", "last_ms", "first_rows", "stamps",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int | None, room_bytes: int) -> None:
        self.topic = topic
        self.partition = partition
        self.room_bytes = room_bytes
        self.count = 0
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.callbacks: dict[int, Callback] = {}
        self.last_ms = -1
        self.first_rows: list[int] = []
        self.stamps: list[int] = []

    def append(self, key: bytes | None, value: bytes | None, timestamp: int) -> int:
        """Append a record and return its row. `timestamp` in ms since 1970."""
        row = self.count
        self.count = row + 1
        room_bytes = self.room_bytes - RECORD_BYTES
        if value is not None:
            room_bytes -= len(value)
        self.values.append(value)
        if timestamp != self.last_ms:
            self.last_ms = timestamp
            self.first_rows.append(row)
            self.stamps.append(timestamp)
        if key is not None:
            room_bytes -= len(key)
            if not self.keys:
                self.keys = [None] * row
            self.keys.append(key)
        elif self.keys:
            self.keys.append(None)
        self.room_bytes = room_bytes
        return row

    def offer(self, partition: int | None, key: bytes | None, value: bytes | None, timestamp: int) -> int:
        """Append a record unless it is for another partition, or its key or value is larger than the room. Return its
        row, or NO_ROOM."""
        room_bytes = self.room_bytes
        if room_bytes <= 0 or (value is not None and len(value) >= room_bytes):
            return NO_ROOM
        if self.partition != partition or (key is not None and len(key) >= room_bytes):
            return NO_ROOM
        return self.append(key, value, timestamp)


class RowFuture:
    """A row of `records`, whose result is asked for later."""

    __slots__ = ("records", "row")

    def __init__(self, records: RecordRows, row: int) -> None:
        self.records = records
        self.row = row


class OpenRows:
    """The records by topic to which others may be added. `lock` guards them; `make_future` makes the future of records
    and a row."""

    __slots__ = ("collected", "lock", "make_future")

    def __init__(
        self,
        collected: Mapping[str, RecordRows],
        lock: threading.Lock,
        make_future: Callable[[RecordRows, int], RecordFuture],
    ) -> None:
        self.collected = collected
        self.lock = lock
        self.make_future = make_future

    def accept(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        callback: Callback | None,
    ) -> RecordFuture | None:
        """Add a record to those of its topic and return its future; None when a new collection has to be begun."""
        with self.lock:
            records = self.collected.get(topic)
            if records is None:
                return None
            row = records.offer(partition, key, value, timestamp)
            if row < 0:
                return None
            if callback is not None:
                records.callbacks[row] = callback
            return self.make_future(records, row)
