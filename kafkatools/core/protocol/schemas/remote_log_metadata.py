"""Records of `__remote_log_metadata` (KIP-405).

Source: storage/src/main/resources/message of Apache Kafka 4.3; framed like the cluster's metadata but with frame
version 0 (BytesApiMessageSerde).
"""

from __future__ import annotations

from kafkatools.core.protocol.schemas.definition import Field, Schema

RemoteLogSegmentMetadataRecord = Schema(
    "RemoteLogSegmentMetadataRecord",
    0,
    "0",
    "0+",
    (
        Field(
            "remoteLogSegmentId",
            "RemoteLogSegmentIdEntry",
            fields=(
                Field(
                    "topicIdPartition",
                    "TopicIdPartitionEntry",
                    fields=(
                        Field("name", "string"),
                        Field("id", "uuid"),
                        Field("partition", "int32"),
                    ),
                ),
                Field("id", "uuid"),
            ),
        ),
        Field("startOffset", "int64"),
        Field("endOffset", "int64"),
        Field("brokerId", "int32"),
        Field("maxTimestampMs", "int64"),
        Field("eventTimestampMs", "int64"),
        Field(
            "segmentLeaderEpochs",
            "[]SegmentLeaderEpochEntry",
            fields=(
                Field("leaderEpoch", "int32"),
                Field("offset", "int64"),
            ),
        ),
        Field("segmentSizeInBytes", "int32"),
        Field("customMetadata", "bytes", nullable="0+", default=None),
        Field("remoteLogSegmentState", "int8"),
        Field("txnIndexEmpty", "bool", tag=0),
    ),
)

RemoteLogSegmentMetadataUpdateRecord = Schema(
    "RemoteLogSegmentMetadataUpdateRecord",
    1,
    "0",
    "0+",
    (
        Field(
            "remoteLogSegmentId",
            "RemoteLogSegmentIdEntry",
            fields=(
                Field(
                    "topicIdPartition",
                    "TopicIdPartitionEntry",
                    fields=(
                        Field("name", "string"),
                        Field("id", "uuid"),
                        Field("partition", "int32"),
                    ),
                ),
                Field("id", "uuid"),
            ),
        ),
        Field("brokerId", "int32"),
        Field("eventTimestampMs", "int64"),
        Field("customMetadata", "bytes", nullable="0+", default=None),
        Field("remoteLogSegmentState", "int8"),
    ),
)

RemotePartitionDeleteMetadataRecord = Schema(
    "RemotePartitionDeleteMetadataRecord",
    2,
    "0",
    "0+",
    (
        Field(
            "topicIdPartition",
            "TopicIdPartitionEntry",
            fields=(
                Field("name", "string"),
                Field("id", "uuid"),
                Field("partition", "int32"),
            ),
        ),
        Field("brokerId", "int32"),
        Field("eventTimestampMs", "int64"),
        Field("remotePartitionDeleteState", "int8"),
    ),
)

RemoteLogSegmentMetadataSnapshotRecord = Schema(
    "RemoteLogSegmentMetadataSnapshotRecord",
    3,
    "0",
    "0+",
    (
        Field("segmentId", "uuid"),
        Field("startOffset", "int64"),
        Field("endOffset", "int64"),
        Field("brokerId", "int32"),
        Field("maxTimestampMs", "int64"),
        Field("eventTimestampMs", "int64"),
        Field(
            "segmentLeaderEpochs",
            "[]SegmentLeaderEpochEntry",
            fields=(
                Field("leaderEpoch", "int32"),
                Field("offset", "int64"),
            ),
        ),
        Field("segmentSizeInBytes", "int32"),
        Field("customMetadata", "bytes", nullable="0+", default=None),
        Field("remoteLogSegmentState", "int8"),
        Field("txnIndexEmpty", "bool", tag=0),
    ),
)
