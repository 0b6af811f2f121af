"""Records of `__consumer_offsets`: committed offsets, and the groups of every protocol.

Source: group-coordinator/src/main/resources/common/message of Apache Kafka 4.3.
"""

from __future__ import annotations

from kafkatools.core.protocol.schemas.framing import CoordinatorRecords
from kafkatools.core.protocol.schemas.schema import Schema

OffsetCommitKey = Schema("OffsetCommitKey")
OffsetCommitValue = Schema("OffsetCommitValue")
GroupMetadataKey = Schema("GroupMetadataKey")
GroupMetadataValue = Schema("GroupMetadataValue")
ConsumerGroupMetadataKey = Schema("ConsumerGroupMetadataKey")
ConsumerGroupMetadataValue = Schema("ConsumerGroupMetadataValue")
ConsumerGroupPartitionMetadataKey = Schema("ConsumerGroupPartitionMetadataKey")
ConsumerGroupPartitionMetadataValue = Schema("ConsumerGroupPartitionMetadataValue")
ConsumerGroupMemberMetadataKey = Schema("ConsumerGroupMemberMetadataKey")
ConsumerGroupMemberMetadataValue = Schema("ConsumerGroupMemberMetadataValue")
ConsumerGroupTargetAssignmentMetadataKey = Schema("ConsumerGroupTargetAssignmentMetadataKey")
ConsumerGroupTargetAssignmentMetadataValue = Schema("ConsumerGroupTargetAssignmentMetadataValue")
ConsumerGroupTargetAssignmentMemberKey = Schema("ConsumerGroupTargetAssignmentMemberKey")
ConsumerGroupTargetAssignmentMemberValue = Schema("ConsumerGroupTargetAssignmentMemberValue")
ConsumerGroupCurrentMemberAssignmentKey = Schema("ConsumerGroupCurrentMemberAssignmentKey")
ConsumerGroupCurrentMemberAssignmentValue = Schema("ConsumerGroupCurrentMemberAssignmentValue")
ConsumerGroupRegularExpressionKey = Schema("ConsumerGroupRegularExpressionKey")
ConsumerGroupRegularExpressionValue = Schema("ConsumerGroupRegularExpressionValue")
ShareGroupMemberMetadataKey = Schema("ShareGroupMemberMetadataKey")
ShareGroupMemberMetadataValue = Schema("ShareGroupMemberMetadataValue")
ShareGroupMetadataKey = Schema("ShareGroupMetadataKey")
ShareGroupMetadataValue = Schema("ShareGroupMetadataValue")
ShareGroupTargetAssignmentMetadataKey = Schema("ShareGroupTargetAssignmentMetadataKey")
ShareGroupTargetAssignmentMetadataValue = Schema("ShareGroupTargetAssignmentMetadataValue")
ShareGroupTargetAssignmentMemberKey = Schema("ShareGroupTargetAssignmentMemberKey")
ShareGroupTargetAssignmentMemberValue = Schema("ShareGroupTargetAssignmentMemberValue")
ShareGroupCurrentMemberAssignmentKey = Schema("ShareGroupCurrentMemberAssignmentKey")
ShareGroupCurrentMemberAssignmentValue = Schema("ShareGroupCurrentMemberAssignmentValue")
ShareGroupStatePartitionMetadataKey = Schema("ShareGroupStatePartitionMetadataKey")
ShareGroupStatePartitionMetadataValue = Schema("ShareGroupStatePartitionMetadataValue")

_ONLY_READ = (
    "LegacyOffsetCommit",
    "StreamsGroupMetadata",
    "StreamsGroupMemberMetadata",
    "StreamsGroupTargetAssignmentMetadata",
    "StreamsGroupTargetAssignmentMember",
    "StreamsGroupCurrentMemberAssignment",
    "StreamsGroupTopology",
)
"""Records that the broker does not write, each with a Key and a Value."""
_SCHEMAS = [schema for schema in list(globals().values()) if isinstance(schema, Schema)]
_SCHEMAS += [Schema(name + part) for name in _ONLY_READ for part in ("Key", "Value")]
RECORDS = CoordinatorRecords(
    [schema for schema in _SCHEMAS if schema.name.endswith("Key")],
    [schema for schema in _SCHEMAS if schema.name.endswith("Value")],
)
decode_record = RECORDS.decode
encode_record = RECORDS.encode
