"""Records of `__transaction_state`.

Source: transaction-coordinator/src/main/resources/common/message of Apache Kafka 4.3.
"""

from __future__ import annotations

from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas.framing import CoordinatorRecords
from kafkatools.core.protocol.schemas.schema import Schema

TransactionLogKey = Schema("TransactionLogKey")
TransactionLogValue = Schema("TransactionLogValue")

RECORDS = CoordinatorRecords([TransactionLogKey], [TransactionLogValue])


def decode_record(key: bytes | memoryview, value: bytes | memoryview | None) -> tuple[Entity, Entity | None]:
    """The entities of a record's key and value (None for a tombstone); raises RecordFormatError, UnknownRecordType."""
    return RECORDS.decode(key, value)


def encode_record(key: Entity, value: Entity | None) -> tuple[bytes, bytes | None]:
    """Key and value bytes of a pair of entities."""
    return RECORDS.encode(key, value)
