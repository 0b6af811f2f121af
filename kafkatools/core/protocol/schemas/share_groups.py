"""Records of `__consumer_offsets`: share groups (KIP-932).

Source: group-coordinator/src/main/resources/common/message of Apache Kafka 4.3.
"""

from __future__ import annotations

from kafkatools.core.protocol.schemas.definition import Field, Schema

ShareGroupMemberMetadataKey = Schema(
    "ShareGroupMemberMetadataKey",
    10,
    "0",
    "none",
    (
        Field("groupId", "string", versions="0"),
        Field("memberId", "string", versions="0"),
    ),
)

ShareGroupMemberMetadataValue = Schema(
    "ShareGroupMemberMetadataValue",
    10,
    "0",
    "0+",
    (
        Field("rackId", "string", nullable="0+"),
        Field("clientId", "string"),
        Field("clientHost", "string"),
        Field("subscribedTopicNames", "[]string"),
    ),
)

ShareGroupMetadataKey = Schema(
    "ShareGroupMetadataKey",
    11,
    "0",
    "none",
    (Field("groupId", "string", versions="0"),),
)

ShareGroupMetadataValue = Schema(
    "ShareGroupMetadataValue",
    11,
    "0",
    "0+",
    (
        Field("epoch", "int32"),
        Field("metadataHash", "int64"),
    ),
)

ShareGroupTargetAssignmentMetadataKey = Schema(
    "ShareGroupTargetAssignmentMetadataKey",
    12,
    "0",
    "none",
    (Field("groupId", "string", versions="0"),),
)

ShareGroupTargetAssignmentMetadataValue = Schema(
    "ShareGroupTargetAssignmentMetadataValue",
    12,
    "0",
    "0+",
    (
        Field("assignmentEpoch", "int32"),
        Field("assignmentTimestamp", "int64", tag=0),
    ),
)

ShareGroupTargetAssignmentMemberKey = Schema(
    "ShareGroupTargetAssignmentMemberKey",
    13,
    "0",
    "none",
    (
        Field("groupId", "string", versions="0"),
        Field("memberId", "string", versions="0"),
    ),
)

ShareGroupTargetAssignmentMemberValue = Schema(
    "ShareGroupTargetAssignmentMemberValue",
    13,
    "0",
    "0+",
    (
        Field(
            "topicPartitions",
            "[]TopicPartition",
            fields=(
                Field("topicId", "uuid"),
                Field("partitions", "[]int32"),
            ),
        ),
    ),
)

ShareGroupCurrentMemberAssignmentKey = Schema(
    "ShareGroupCurrentMemberAssignmentKey",
    14,
    "0",
    "none",
    (
        Field("groupId", "string", versions="0"),
        Field("memberId", "string", versions="0"),
    ),
)

_SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TOPIC_PARTITIONS = (
    Field("topicId", "uuid"),
    Field("partitions", "[]int32"),
)
ShareGroupCurrentMemberAssignmentValue = Schema(
    "ShareGroupCurrentMemberAssignmentValue",
    14,
    "0",
    "0+",
    (
        Field("memberEpoch", "int32"),
        Field("previousMemberEpoch", "int32"),
        Field("state", "int8"),
        Field(
            "assignedPartitions",
            "[]TopicPartitions",
            fields=_SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TOPIC_PARTITIONS,
        ),
    ),
)

ShareGroupStatePartitionMetadataKey = Schema(
    "ShareGroupStatePartitionMetadataKey",
    15,
    "0",
    "none",
    (Field("groupId", "string", versions="0"),),
)

_SHARE_GROUP_STATE_PARTITION_METADATA_VALUE_TOPIC_PARTITIONS_INFO = (
    Field("topicId", "uuid"),
    Field("topicName", "string"),
    Field("partitions", "[]int32"),
)
_SHARE_GROUP_STATE_PARTITION_METADATA_VALUE_TOPIC_INFO = (
    Field("topicId", "uuid"),
    Field("topicName", "string"),
)
ShareGroupStatePartitionMetadataValue = Schema(
    "ShareGroupStatePartitionMetadataValue",
    15,
    "0",
    "0+",
    (
        Field(
            "initializingTopics",
            "[]TopicPartitionsInfo",
            fields=_SHARE_GROUP_STATE_PARTITION_METADATA_VALUE_TOPIC_PARTITIONS_INFO,
        ),
        Field(
            "initializedTopics",
            "[]TopicPartitionsInfo",
            fields=_SHARE_GROUP_STATE_PARTITION_METADATA_VALUE_TOPIC_PARTITIONS_INFO,
        ),
        Field("deletingTopics", "[]TopicInfo", fields=_SHARE_GROUP_STATE_PARTITION_METADATA_VALUE_TOPIC_INFO),
    ),
)
