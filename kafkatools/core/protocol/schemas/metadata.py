"""Records of `__cluster_metadata` (KRaft).

Source: metadata/src/main/resources/common/metadata of Apache Kafka 4.3; framed as by MetadataRecordSerde.
"""

from __future__ import annotations

from kafkatools.core.protocol.schemas.framing import FramedRecords
from kafkatools.core.protocol.schemas.schema import Schema

RegisterBrokerRecord = Schema("RegisterBrokerRecord")
UnregisterBrokerRecord = Schema("UnregisterBrokerRecord")
TopicRecord = Schema("TopicRecord")
PartitionRecord = Schema("PartitionRecord")
ConfigRecord = Schema("ConfigRecord")
PartitionChangeRecord = Schema("PartitionChangeRecord")
FenceBrokerRecord = Schema("FenceBrokerRecord")
UnfenceBrokerRecord = Schema("UnfenceBrokerRecord")
RemoveTopicRecord = Schema("RemoveTopicRecord")
DelegationTokenRecord = Schema("DelegationTokenRecord")
UserScramCredentialRecord = Schema("UserScramCredentialRecord")
FeatureLevelRecord = Schema("FeatureLevelRecord")
ClientQuotaRecord = Schema("ClientQuotaRecord")
ProducerIdsRecord = Schema("ProducerIdsRecord")
BrokerRegistrationChangeRecord = Schema("BrokerRegistrationChangeRecord")
AccessControlEntryRecord = Schema("AccessControlEntryRecord")
RemoveAccessControlEntryRecord = Schema("RemoveAccessControlEntryRecord")
NoOpRecord = Schema("NoOpRecord")
ZkMigrationStateRecord = Schema("ZkMigrationStateRecord")
RemoveUserScramCredentialRecord = Schema("RemoveUserScramCredentialRecord")
BeginTransactionRecord = Schema("BeginTransactionRecord")
EndTransactionRecord = Schema("EndTransactionRecord")
AbortTransactionRecord = Schema("AbortTransactionRecord")
RemoveDelegationTokenRecord = Schema("RemoveDelegationTokenRecord")
RegisterControllerRecord = Schema("RegisterControllerRecord")
ClearElrRecord = Schema("ClearElrRecord")

RECORDS = FramedRecords(schema for schema in list(globals().values()) if isinstance(schema, Schema))
decode_record = RECORDS.decode
encode_record = RECORDS.encode
