"""Records of `__consumer_offsets`: groups of the consumer protocol (KIP-848).

Source: group-coordinator/src/main/resources/common/message of Apache Kafka 4.3.
"""

from __future__ import annotations

from kafkatools.core.protocol.schemas.definition import Field, Schema

ConsumerGroupMetadataKey = Schema(
    "ConsumerGroupMetadataKey",
    3,
    "0",
    "none",
    (Field("groupId", "string", versions="0"),),
)

ConsumerGroupMetadataValue = Schema(
    "ConsumerGroupMetadataValue",
    3,
    "0",
    "0+",
    (
        Field("epoch", "int32"),
        Field("metadataHash", "int64", tag=0),
    ),
)

ConsumerGroupPartitionMetadataKey = Schema(
    "ConsumerGroupPartitionMetadataKey",
    4,
    "0",
    "none",
    (Field("groupId", "string", versions="0"),),
)

ConsumerGroupPartitionMetadataValue = Schema(
    "ConsumerGroupPartitionMetadataValue",
    4,
    "0",
    "0+",
    (
        Field(
            "topics",
            "[]TopicMetadata",
            fields=(
                Field("topicId", "uuid"),
                Field("topicName", "string"),
                Field("numPartitions", "int32"),
                Field(
                    "partitionMetadata",
                    "[]PartitionMetadata",
                    fields=(
                        Field("partition", "int32"),
                        Field("racks", "[]string"),
                    ),
                ),
            ),
        ),
    ),
)

ConsumerGroupMemberMetadataKey = Schema(
    "ConsumerGroupMemberMetadataKey",
    5,
    "0",
    "none",
    (
        Field("groupId", "string", versions="0"),
        Field("memberId", "string", versions="0"),
    ),
)

ConsumerGroupMemberMetadataValue = Schema(
    "ConsumerGroupMemberMetadataValue",
    5,
    "0",
    "0+",
    (
        Field("instanceId", "string", nullable="0+"),
        Field("rackId", "string", nullable="0+"),
        Field("clientId", "string"),
        Field("clientHost", "string"),
        Field("subscribedTopicNames", "[]string"),
        Field("subscribedTopicRegex", "string", nullable="0+"),
        Field("rebalanceTimeoutMs", "int32", default=-1),
        Field("serverAssignor", "string", nullable="0+"),
        Field(
            "classicMemberMetadata",
            "ClassicMemberMetadata",
            nullable="0+",
            tag=0,
            fields=(
                Field("sessionTimeoutMs", "int32"),
                Field(
                    "supportedProtocols",
                    "[]ClassicProtocol",
                    fields=(
                        Field("name", "string"),
                        Field("metadata", "bytes"),
                    ),
                ),
            ),
        ),
    ),
)

ConsumerGroupTargetAssignmentMetadataKey = Schema(
    "ConsumerGroupTargetAssignmentMetadataKey",
    6,
    "0",
    "none",
    (Field("groupId", "string", versions="0"),),
)

ConsumerGroupTargetAssignmentMetadataValue = Schema(
    "ConsumerGroupTargetAssignmentMetadataValue",
    6,
    "0",
    "0+",
    (
        Field("assignmentEpoch", "int32"),
        Field("assignmentTimestamp", "int64", tag=0),
    ),
)

ConsumerGroupTargetAssignmentMemberKey = Schema(
    "ConsumerGroupTargetAssignmentMemberKey",
    7,
    "0",
    "none",
    (
        Field("groupId", "string", versions="0"),
        Field("memberId", "string", versions="0"),
    ),
)

ConsumerGroupTargetAssignmentMemberValue = Schema(
    "ConsumerGroupTargetAssignmentMemberValue",
    7,
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

ConsumerGroupCurrentMemberAssignmentKey = Schema(
    "ConsumerGroupCurrentMemberAssignmentKey",
    8,
    "0",
    "none",
    (
        Field("groupId", "string", versions="0"),
        Field("memberId", "string", versions="0"),
    ),
)

_CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TOPIC_PARTITIONS = (
    Field("topicId", "uuid"),
    Field("partitions", "[]int32"),
    Field("assignmentEpochs", "[]int32", nullable="0+", tag=0),
)
ConsumerGroupCurrentMemberAssignmentValue = Schema(
    "ConsumerGroupCurrentMemberAssignmentValue",
    8,
    "0",
    "0+",
    (
        Field("memberEpoch", "int32"),
        Field("previousMemberEpoch", "int32"),
        Field("state", "int8"),
        Field(
            "assignedPartitions",
            "[]TopicPartitions",
            fields=_CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TOPIC_PARTITIONS,
        ),
        Field(
            "partitionsPendingRevocation",
            "[]TopicPartitions",
            fields=_CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TOPIC_PARTITIONS,
        ),
    ),
)

ConsumerGroupRegularExpressionKey = Schema(
    "ConsumerGroupRegularExpressionKey",
    16,
    "0",
    "none",
    (
        Field("groupId", "string", versions="0"),
        Field("regularExpression", "string", versions="0"),
    ),
)

ConsumerGroupRegularExpressionValue = Schema(
    "ConsumerGroupRegularExpressionValue",
    16,
    "0",
    "0+",
    (
        Field("topics", "[]string"),
        Field("version", "int64"),
        Field("timestamp", "int64"),
    ),
)
