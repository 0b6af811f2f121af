"""Records of `__consumer_offsets`: committed offsets and the groups of every protocol.

`RECORDS` joins the tables of `classic_groups`, `consumer_groups`, `share_groups` and `streams_groups`.
"""

from __future__ import annotations

from typing import Any

from kafkatools.core.protocol.schemas import classic_groups, consumer_groups, share_groups, streams_groups
from kafkatools.core.protocol.schemas.classic_groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkatools.core.protocol.schemas.definition import Schema
from kafkatools.core.protocol.schemas.framing import CoordinatorRecords

__all__ = [
    "RECORDS",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "LegacyOffsetCommitKey",
    "LegacyOffsetCommitValue",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "decode_record",
    "encode_record",
]


def _schemas(ending: str) -> list[Schema]:
    tables = (classic_groups, consumer_groups, share_groups, streams_groups)
    found = (item for table in tables for item in vars(table).values() if isinstance(item, Schema))
    return [schema for schema in found if schema.name.endswith(ending)]


RECORDS = CoordinatorRecords(_schemas("Key"), _schemas("Value"))


def decode_record(key: bytes | memoryview, value: bytes | memoryview | None) -> tuple[Any, Any | None]:
    """The entities of a record's key and value (None for a tombstone); raises RecordFormatError, UnknownRecordType."""
    return RECORDS.decode(key, value)


def encode_record(key: Any, value: Any | None) -> tuple[bytes, bytes | None]:
    """Key and value bytes of a pair of entities."""
    return RECORDS.encode(key, value)
