"""Records of `__consumer_offsets`: streams groups (KIP-1071).

Source: group-coordinator/src/main/resources/common/message of Apache Kafka 4.3.
"""

from __future__ import annotations

from kafkatools.core.protocol.schemas.definition import Field, Schema

StreamsGroupMetadataKey = Schema(
    "StreamsGroupMetadataKey",
    17,
    "0",
    "none",
    (Field("groupId", "string", versions="0"),),
)

_STREAMS_GROUP_METADATA_VALUE_LAST_ASSIGNMENT_CONFIG = (
    Field("key", "string"),
    Field("value", "string"),
)
StreamsGroupMetadataValue = Schema(
    "StreamsGroupMetadataValue",
    17,
    "0",
    "0+",
    (
        Field("epoch", "int32"),
        Field("metadataHash", "int64"),
        Field("validatedTopologyEpoch", "int32", tag=0, default=-1),
        Field(
            "lastAssignmentConfigs",
            "[]LastAssignmentConfig",
            nullable="0+",
            tag=1,
            fields=_STREAMS_GROUP_METADATA_VALUE_LAST_ASSIGNMENT_CONFIG,
        ),
    ),
)

StreamsGroupMemberMetadataKey = Schema(
    "StreamsGroupMemberMetadataKey",
    19,
    "0",
    "none",
    (
        Field("groupId", "string", versions="0"),
        Field("memberId", "string", versions="0"),
    ),
)

_STREAMS_GROUP_MEMBER_METADATA_VALUE_ENDPOINT = (
    Field("host", "string"),
    Field("port", "uint16"),
)
_STREAMS_GROUP_MEMBER_METADATA_VALUE_KEY_VALUE = (
    Field("key", "string"),
    Field("value", "string"),
)
StreamsGroupMemberMetadataValue = Schema(
    "StreamsGroupMemberMetadataValue",
    19,
    "0",
    "0+",
    (
        Field("instanceId", "string", nullable="0+"),
        Field("rackId", "string", nullable="0+"),
        Field("clientId", "string"),
        Field("clientHost", "string"),
        Field("rebalanceTimeoutMs", "int32", default=-1),
        Field("topologyEpoch", "int32"),
        Field("processId", "string"),
        Field(
            "userEndpoint",
            "Endpoint",
            nullable="0+",
            default=None,
            fields=_STREAMS_GROUP_MEMBER_METADATA_VALUE_ENDPOINT,
        ),
        Field("clientTags", "[]KeyValue", fields=_STREAMS_GROUP_MEMBER_METADATA_VALUE_KEY_VALUE),
    ),
)

StreamsGroupTargetAssignmentMetadataKey = Schema(
    "StreamsGroupTargetAssignmentMetadataKey",
    20,
    "0",
    "none",
    (Field("groupId", "string", versions="0"),),
)

StreamsGroupTargetAssignmentMetadataValue = Schema(
    "StreamsGroupTargetAssignmentMetadataValue",
    20,
    "0",
    "0+",
    (
        Field("assignmentEpoch", "int32"),
        Field("assignmentTimestamp", "int64", tag=0),
    ),
)

StreamsGroupTargetAssignmentMemberKey = Schema(
    "StreamsGroupTargetAssignmentMemberKey",
    21,
    "0",
    "none",
    (
        Field("groupId", "string", versions="0"),
        Field("memberId", "string", versions="0"),
    ),
)

_STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE_TASK_IDS = (
    Field("subtopologyId", "string"),
    Field("partitions", "[]int32"),
)
StreamsGroupTargetAssignmentMemberValue = Schema(
    "StreamsGroupTargetAssignmentMemberValue",
    21,
    "0",
    "0+",
    (
        Field("activeTasks", "[]TaskIds", fields=_STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE_TASK_IDS),
        Field("standbyTasks", "[]TaskIds", fields=_STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE_TASK_IDS),
        Field("warmupTasks", "[]TaskIds", fields=_STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE_TASK_IDS),
    ),
)

StreamsGroupCurrentMemberAssignmentKey = Schema(
    "StreamsGroupCurrentMemberAssignmentKey",
    22,
    "0",
    "none",
    (
        Field("groupId", "string", versions="0"),
        Field("memberId", "string", versions="0"),
    ),
)

_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TASK_IDS = (
    Field("subtopologyId", "string"),
    Field("partitions", "[]int32"),
    Field("assignmentEpochs", "[]int32", nullable="0+", tag=0),
)
StreamsGroupCurrentMemberAssignmentValue = Schema(
    "StreamsGroupCurrentMemberAssignmentValue",
    22,
    "0",
    "0+",
    (
        Field("memberEpoch", "int32"),
        Field("previousMemberEpoch", "int32"),
        Field("state", "int8"),
        Field("activeTasks", "[]TaskIds", fields=_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TASK_IDS),
        Field("standbyTasks", "[]TaskIds", fields=_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TASK_IDS),
        Field("warmupTasks", "[]TaskIds", fields=_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TASK_IDS),
        Field(
            "activeTasksPendingRevocation", "[]TaskIds", fields=_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TASK_IDS
        ),
        Field(
            "standbyTasksPendingRevocation", "[]TaskIds", fields=_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TASK_IDS
        ),
        Field(
            "warmupTasksPendingRevocation", "[]TaskIds", fields=_STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TASK_IDS
        ),
    ),
)

StreamsGroupTopologyKey = Schema(
    "StreamsGroupTopologyKey",
    23,
    "0",
    "none",
    (Field("groupId", "string", versions="0"),),
)

_STREAMS_GROUP_TOPOLOGY_VALUE_TOPIC_CONFIG = (
    Field("key", "string"),
    Field("value", "string"),
)
_STREAMS_GROUP_TOPOLOGY_VALUE_TOPIC_INFO = (
    Field("name", "string"),
    Field("partitions", "int32"),
    Field("replicationFactor", "int16"),
    Field("topicConfigs", "[]TopicConfig", fields=_STREAMS_GROUP_TOPOLOGY_VALUE_TOPIC_CONFIG),
)
StreamsGroupTopologyValue = Schema(
    "StreamsGroupTopologyValue",
    23,
    "0",
    "0+",
    (
        Field("epoch", "int32"),
        Field(
            "subtopologies",
            "[]Subtopology",
            fields=(
                Field("subtopologyId", "string"),
                Field("sourceTopics", "[]string"),
                Field("sourceTopicRegex", "[]string"),
                Field("stateChangelogTopics", "[]TopicInfo", fields=_STREAMS_GROUP_TOPOLOGY_VALUE_TOPIC_INFO),
                Field("repartitionSinkTopics", "[]string"),
                Field("repartitionSourceTopics", "[]TopicInfo", fields=_STREAMS_GROUP_TOPOLOGY_VALUE_TOPIC_INFO),
                Field(
                    "copartitionGroups",
                    "[]CopartitionGroup",
                    fields=(
                        Field("sourceTopics", "[]int16"),
                        Field("sourceTopicRegex", "[]int16"),
                        Field("repartitionSourceTopics", "[]int16"),
                    ),
                ),
            ),
        ),
    ),
)
