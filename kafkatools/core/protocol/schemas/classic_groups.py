"""Records of `__consumer_offsets`: committed offsets and groups of the classic protocol.

Source: group-coordinator/src/main/resources/common/message of Apache Kafka 4.3.
"""

from __future__ import annotations

from kafkatools.core.protocol.schemas.definition import Field, Schema

LegacyOffsetCommitKey = Schema(
    "LegacyOffsetCommitKey",
    0,
    "0",
    "none",
    (
        Field("group", "string", versions="0"),
        Field("topic", "string", versions="0"),
        Field("partition", "int32", versions="0"),
    ),
)

LegacyOffsetCommitValue = Schema(
    "LegacyOffsetCommitValue",
    0,
    "0",
    "none",
    (
        Field("offset", "int64", versions="0"),
        Field("metadata", "string", versions="0"),
        Field("commitTimestamp", "int64", versions="0"),
    ),
)

OffsetCommitKey = Schema(
    "OffsetCommitKey",
    1,
    "0",
    "none",
    (
        Field("group", "string", versions="0"),
        Field("topic", "string", versions="0"),
        Field("partition", "int32", versions="0"),
    ),
)

OffsetCommitValue = Schema(
    "OffsetCommitValue",
    1,
    "0-4",
    "4+",
    (
        Field("offset", "int64"),
        Field("leaderEpoch", "int32", versions="3+", default=-1),
        Field("metadata", "string"),
        Field("commitTimestamp", "int64"),
        Field("expireTimestamp", "int64", versions="1", default=-1),
        Field("topicId", "uuid", versions="4+", tag=0),
    ),
)

GroupMetadataKey = Schema(
    "GroupMetadataKey",
    2,
    "0",
    "none",
    (Field("group", "string", versions="0"),),
)

_GROUP_METADATA_VALUE_MEMBER_METADATA = (
    Field("memberId", "string"),
    Field("groupInstanceId", "string", versions="3+", nullable="3+", default=None),
    Field("clientId", "string"),
    Field("clientHost", "string"),
    Field("rebalanceTimeout", "int32", versions="1+", default=-1),
    Field("sessionTimeout", "int32"),
    Field("subscription", "bytes"),
    Field("assignment", "bytes"),
)
GroupMetadataValue = Schema(
    "GroupMetadataValue",
    2,
    "0-4",
    "4+",
    (
        Field("protocolType", "string"),
        Field("generation", "int32"),
        Field("protocol", "string", nullable="0+"),
        Field("leader", "string", nullable="0+"),
        Field("currentStateTimestamp", "int64", versions="2+", default=-1),
        Field("members", "[]MemberMetadata", fields=_GROUP_METADATA_VALUE_MEMBER_METADATA),
    ),
)
