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
StreamsGroupMetadataKey = Schema("StreamsGroupMetadataKey")
StreamsGroupMetadataValue = Schema("StreamsGroupMetadataValue")
StreamsGroupMemberMetadataKey = Schema("StreamsGroupMemberMetadataKey")
StreamsGroupMemberMetadataValue = Schema("StreamsGroupMemberMetadataValue")
StreamsGroupTargetAssignmentMetadataKey = Schema("StreamsGroupTargetAssignmentMetadataKey")
StreamsGroupTargetAssignmentMetadataValue = Schema("StreamsGroupTargetAssignmentMetadataValue")
StreamsGroupTargetAssignmentMemberKey = Schema("StreamsGroupTargetAssignmentMemberKey")
StreamsGroupTargetAssignmentMemberValue = Schema("StreamsGroupTargetAssignmentMemberValue")
StreamsGroupCurrentMemberAssignmentKey = Schema("StreamsGroupCurrentMemberAssignmentKey")
StreamsGroupCurrentMemberAssignmentValue = Schema("StreamsGroupCurrentMemberAssignmentValue")
StreamsGroupTopologyKey = Schema("StreamsGroupTopologyKey")
StreamsGroupTopologyValue = Schema("StreamsGroupTopologyValue")

_ONLY_READ = ("LegacyOffsetCommit",)
"""Records that the broker does not write, each with a Key and a Value."""
_SCHEMAS = [schema for schema in list(globals().values()) if isinstance(schema, Schema)]
_SCHEMAS += [Schema(name + part) for name in _ONLY_READ for part in ("Key", "Value")]
RECORDS = CoordinatorRecords(
    [schema for schema in _SCHEMAS if schema.name.endswith("Key")],
    [schema for schema in _SCHEMAS if schema.name.endswith("Value")],
)
decode_record = RECORDS.decode
encode_record = RECORDS.encode
