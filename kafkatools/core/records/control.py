"""Control records: transaction markers and KRaft's control records in the log.

A control batch has the control bit in its attributes. The key of a control record is version (int16) and type (int16),
the value depends on the type. Source: org.apache.kafka.common.record.ControlRecordType, EndTransactionMarker; KIP-98,
KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

import struct
from enum import IntEnum, unique
from typing import NamedTuple

from kafkatools.core.errors import CorruptRecord
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.header import InvalidBatchContents

CONTROL_KEY_VERSION = 0
END_TRANSACTION_VERSION = 0

_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")
# a marker with its batch: 61 + length, attributes, timestamp and offset deltas, key size, key, value size, value,
# header count
MARKER_BATCH_SIZE = 78


@unique
class ControlRecordType(IntEnum):
    """The types of control records, with Kafka's numbers."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6

    @property
    def is_end_transaction(self) -> bool:
        return self in (ControlRecordType.ABORT, ControlRecordType.COMMIT)

    def key(self) -> bytes:
        """Return the record key of this control record type."""
        return _KEY.pack(CONTROL_KEY_VERSION, self.value)


def parse_control_type(key: bytes | None) -> ControlRecordType:
    """Return the type in a control record's key, UNKNOWN for an unknown number (ControlRecordType.parse). Raises
    InvalidBatchContents for a null or short key, or a negative version."""
    if key is None:
        raise InvalidBatchContents("Control record without a key")
    if len(key) < _KEY.size:
        raise InvalidBatchContents(
            f"Invalid value size found for control record key. Must have at least {_KEY.size} bytes, "
            f"but found only {len(key)}"
        )
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidBatchContents(f"Invalid version found for control record: {version}. May indicate data corruption")
    return ControlRecordType(kind) if 0 <= kind <= ControlRecordType.KRAFT_VOTERS else ControlRecordType.UNKNOWN


class EndTransactionMarker(NamedTuple):
    """A transaction marker: COMMIT or ABORT, and the transaction coordinator's epoch."""

    type: ControlRecordType
    coordinator_epoch: int

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> EndTransactionMarker:
        """Parse the key and value of a transaction marker. Raises CorruptRecord for any other record."""
        kind = parse_control_type(key)
        if not kind.is_end_transaction:
            raise CorruptRecord(f"Expected end transaction marker type, but found {kind.name}")
        if value is None or len(value) < _MARKER.size:
            raise InvalidBatchContents(
                f"Invalid value size found for end transaction marker. Must have at least {_MARKER.size} bytes, "
                f"but found only {len(value or b'')}"
            )
        version, coordinator_epoch = _MARKER.unpack_from(value)
        if version < 0:
            raise InvalidBatchContents(
                f"Invalid version found for end transaction marker: {version}. May indicate data corruption"
            )
        return cls(kind, coordinator_epoch)

    @classmethod
    def of_batch(cls, batch: RecordBatch) -> EndTransactionMarker | None:
        """Parse the transaction marker in a control batch; None for a batch that the cleaner has emptied. Raises
        CorruptRecord for another or a damaged record."""
        columns = batch.columns()
        return cls.parse(columns.key(0), columns.value(0)) if columns.count else None

    def value(self) -> bytes:
        """Return the marker's record value."""
        return _MARKER.pack(END_TRANSACTION_VERSION, self.coordinator_epoch)


def write_end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytearray:
    """Return a control batch with one marker (MemoryRecords.withEndTransactionMarker). `timestamp` in ms."""
    builder = BatchBuilder(
        MARKER_BATCH_SIZE,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        partition_leader_epoch=partition_leader_epoch,
    )
    builder.append(timestamp, marker.type.key(), marker.value())
    return bytearray(builder.close())
