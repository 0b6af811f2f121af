"""Records of `__share_group_state` (KIP-932).

Source: share-coordinator/src/main/resources/common/message of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Any

from kafkatools.core.protocol.schemas.definition import Field, Schema
from kafkatools.core.protocol.schemas.framing import CoordinatorRecords

ShareSnapshotKey = Schema(
    "ShareSnapshotKey",
    0,
    "0",
    "none",
    (
        Field("groupId", "string", versions="0"),
        Field("topicId", "uuid", versions="0"),
        Field("partition", "int32", versions="0"),
    ),
)

ShareSnapshotValue = Schema(
    "ShareSnapshotValue",
    0,
    "0",
    "0+",
    (
        Field("snapshotEpoch", "int32"),
        Field("stateEpoch", "int32"),
        Field("leaderEpoch", "int32"),
        Field("startOffset", "int64"),
        Field("deliveryCompleteCount", "int32", tag=0, default=-1),
        Field("createTimestamp", "int64"),
        Field("writeTimestamp", "int64"),
        Field(
            "stateBatches",
            "[]StateBatch",
            fields=(
                Field("firstOffset", "int64"),
                Field("lastOffset", "int64"),
                Field("deliveryState", "int8"),
                Field("deliveryCount", "int16"),
            ),
        ),
    ),
)

ShareUpdateKey = Schema(
    "ShareUpdateKey",
    1,
    "0",
    "none",
    (
        Field("groupId", "string", versions="0"),
        Field("topicId", "uuid", versions="0"),
        Field("partition", "int32", versions="0"),
    ),
)

ShareUpdateValue = Schema(
    "ShareUpdateValue",
    1,
    "0",
    "0+",
    (
        Field("snapshotEpoch", "int32"),
        Field("leaderEpoch", "int32"),
        Field("startOffset", "int64"),
        Field("deliveryCompleteCount", "int32", tag=0, default=-1),
        Field(
            "stateBatches",
            "[]StateBatch",
            fields=(
                Field("firstOffset", "int64"),
                Field("lastOffset", "int64"),
                Field("deliveryState", "int8"),
                Field("deliveryCount", "int16"),
            ),
        ),
    ),
)

RECORDS = CoordinatorRecords([ShareSnapshotKey, ShareUpdateKey], [ShareSnapshotValue, ShareUpdateValue])


def decode_record(key: bytes | memoryview, value: bytes | memoryview | None) -> tuple[Any, Any | None]:
    """The entities of a record's key and value (None for a tombstone); raises RecordFormatError, UnknownRecordType."""
    return RECORDS.decode(key, value)


def encode_record(key: Any, value: Any | None) -> tuple[bytes, bytes | None]:
    """Key and value bytes of a pair of entities."""
    return RECORDS.encode(key, value)
