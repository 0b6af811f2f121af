"""Records of `__transaction_state`.

Source: transaction-coordinator/src/main/resources/common/message of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Any

from kafkatools.core.protocol.schemas.definition import Field, Schema
from kafkatools.core.protocol.schemas.framing import CoordinatorRecords

TransactionLogKey = Schema(
    "TransactionLogKey",
    0,
    "0",
    "none",
    (Field("transactionalId", "string", versions="0"),),
)

TransactionLogValue = Schema(
    "TransactionLogValue",
    0,
    "0-1",
    "1+",
    (
        Field("producerId", "int64"),
        Field("previousProducerId", "int64", versions="1+", tag=0, default=-1),
        Field("nextProducerId", "int64", versions="1+", tag=1, default=-1),
        Field("producerEpoch", "int16"),
        Field("nextProducerEpoch", "int16", versions="1+", tag=3, default=-1),
        Field("transactionTimeoutMs", "int32"),
        Field("transactionStatus", "int8"),
        Field(
            "transactionPartitions",
            "[]PartitionsSchema",
            nullable="0+",
            fields=(
                Field("topic", "string"),
                Field("partitionIds", "[]int32"),
            ),
        ),
        Field("transactionLastUpdateTimestampMs", "int64"),
        Field("transactionStartTimestampMs", "int64"),
        Field("clientTransactionVersion", "int16", versions="1+", tag=2),
    ),
)

RECORDS = CoordinatorRecords([TransactionLogKey], [TransactionLogValue])


def decode_record(key: bytes | memoryview, value: bytes | memoryview | None) -> tuple[Any, Any | None]:
    """The entities of a record's key and value (None for a tombstone); raises RecordFormatError, UnknownRecordType."""
    return RECORDS.decode(key, value)


def encode_record(key: Any, value: Any | None) -> tuple[bytes, bytes | None]:
    """Key and value bytes of a pair of entities."""
    return RECORDS.encode(key, value)
