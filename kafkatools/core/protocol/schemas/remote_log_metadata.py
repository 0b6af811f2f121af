"""Records of `__remote_log_metadata` (KIP-405), and their text as Java prints them.

Source: storage/src/main/resources/message of Apache Kafka 4.3; framed like the cluster metadata.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas.framing import FramedRecords
from kafkatools.core.protocol.schemas.schema import Schema
from kafkatools.core.protocol.uuids import uuid_text

RemoteLogSegmentMetadataRecord = Schema("RemoteLogSegmentMetadataRecord")
RemoteLogSegmentMetadataUpdateRecord = Schema("RemoteLogSegmentMetadataUpdateRecord")
RemotePartitionDeleteMetadataRecord = Schema("RemotePartitionDeleteMetadataRecord")
RemoteLogSegmentMetadataSnapshotRecord = Schema("RemoteLogSegmentMetadataSnapshotRecord")

RECORDS = FramedRecords(schema for schema in list(globals().values()) if isinstance(schema, Schema))
SEGMENT_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
decode_record = RECORDS.decode
encode_record = RECORDS.encode


def describe(entity: Entity) -> str:
    """Return a record's text as the `toString` of Kafka's class gives it."""
    return _DESCRIPTIONS[entity.__api_key__](entity)


def _object(name: str, members: Iterable[tuple[str, object]]) -> str:
    return name + "{" + ", ".join(f"{label}={value}" for label, value in members) + "}"


def _partition(entry: Entity) -> str:
    return f"{uuid_text(entry.id)}:{entry.name}-{entry.partition}"


def _segment_id(entry: Entity) -> str:
    members = [("topicIdPartition", _partition(entry.topic_id_partition)), ("id", uuid_text(entry.id))]
    return _object("RemoteLogSegmentId", members)


def _state(states: tuple[str, ...], number: int) -> str:
    return states[number] if 0 <= number < len(states) else str(number)


def _custom(data: bytes | None) -> str:
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _epochs(entity: Entity) -> str:
    pairs = sorted((entry.leader_epoch, entry.offset) for entry in entity.segment_leader_epochs)
    return "{" + ", ".join(f"{epoch}={offset}" for epoch, offset in pairs) + "}"


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _segment(entity: Entity) -> str:
    return _object(
        "RemoteLogSegmentMetadata",
        [
            ("remoteLogSegmentId", _segment_id(entity.remote_log_segment_id)),
            ("startOffset", entity.start_offset),
            ("endOffset", entity.end_offset),
            ("brokerId", entity.broker_id),
            ("maxTimestampMs", entity.max_timestamp_ms),
            ("eventTimestampMs", entity.event_timestamp_ms),
            ("segmentLeaderEpochs", _epochs(entity)),
            ("segmentSizeInBytes", entity.segment_size_in_bytes),
            ("customMetadata", _custom(entity.custom_metadata)),
            ("state", _state(SEGMENT_STATES, entity.remote_log_segment_state)),
            ("txnIdxEmpty", _boolean(entity.txn_index_empty)),
        ],
    )


def _segment_update(entity: Entity) -> str:
    return _object(
        "RemoteLogSegmentMetadataUpdate",
        [
            ("remoteLogSegmentId", _segment_id(entity.remote_log_segment_id)),
            ("customMetadata", _custom(entity.custom_metadata)),
            ("state", _state(SEGMENT_STATES, entity.remote_log_segment_state)),
            ("eventTimestampMs", entity.event_timestamp_ms),
            ("brokerId", entity.broker_id),
        ],
    )


def _partition_delete(entity: Entity) -> str:
    return _object(
        "RemotePartitionDeleteMetadata",
        [
            ("topicPartition", _partition(entity.topic_id_partition)),
            ("state", _state(PARTITION_STATES, entity.remote_partition_delete_state)),
            ("eventTimestampMs", entity.event_timestamp_ms),
            ("brokerId", entity.broker_id),
        ],
    )


def _segment_snapshot(entity: Entity) -> str:
    return _object(
        "RemoteLogSegmentMetadataSnapshot",
        [
            ("segmentId", uuid_text(entity.segment_id)),
            ("startOffset", entity.start_offset),
            ("endOffset", entity.end_offset),
            ("maxTimestampMs", entity.max_timestamp_ms),
            ("segmentLeaderEpochs", _epochs(entity)),
            ("segmentSizeInBytes", entity.segment_size_in_bytes),
            ("customMetadata", _custom(entity.custom_metadata)),
            ("state", _state(SEGMENT_STATES, entity.remote_log_segment_state)),
            ("txnIdxEmpty", _boolean(entity.txn_index_empty)),
        ],
    )


_DESCRIPTIONS = {0: _segment, 1: _segment_update, 2: _partition_delete, 3: _segment_snapshot}
