"""Records of `__cluster_metadata`, the log of a KRaft quorum, and of its snapshots.

Source: metadata/src/main/resources/common/metadata of Apache Kafka 4.3; the frame is that of MetadataRecordSerde: frame
version 1, api key and version as unsigned varints, then the body.
"""

from __future__ import annotations

from typing import Any

from kafkatools.core.protocol.schemas.definition import Field, Schema, snake_case
from kafkatools.core.protocol.schemas.framing import FramedRecords

RegisterBrokerRecord = Schema(
    "RegisterBrokerRecord",
    0,
    "0-4",
    "0+",
    (
        Field("brokerId", "int32"),
        Field("isMigratingZkBroker", "bool", versions="2+"),
        Field("incarnationId", "uuid"),
        Field("brokerEpoch", "int64"),
        Field(
            "endPoints",
            "[]BrokerEndpoint",
            fields=(
                Field("name", "string"),
                Field("host", "string"),
                Field("port", "uint16"),
                Field("securityProtocol", "int16"),
            ),
        ),
        Field(
            "features",
            "[]BrokerFeature",
            fields=(
                Field("name", "string"),
                Field("minSupportedVersion", "int16"),
                Field("maxSupportedVersion", "int16"),
            ),
        ),
        Field("rack", "string", nullable="0+"),
        Field("fenced", "bool", default=True),
        Field("inControlledShutdown", "bool", versions="1+"),
        Field("logDirs", "[]uuid", versions="3+", tag=0),
        Field("cordonedLogDirs", "[]uuid", versions="4+", nullable="4+", tag=1, default=None),
    ),
)

UnregisterBrokerRecord = Schema(
    "UnregisterBrokerRecord",
    1,
    "0",
    "0+",
    (
        Field("brokerId", "int32"),
        Field("brokerEpoch", "int64"),
    ),
)

TopicRecord = Schema(
    "TopicRecord",
    2,
    "0",
    "0+",
    (
        Field("name", "string"),
        Field("topicId", "uuid"),
    ),
)

PartitionRecord = Schema(
    "PartitionRecord",
    3,
    "0-2",
    "0+",
    (
        Field("partitionId", "int32", default=-1),
        Field("topicId", "uuid"),
        Field("replicas", "[]int32"),
        Field("isr", "[]int32"),
        Field("removingReplicas", "[]int32"),
        Field("addingReplicas", "[]int32"),
        Field("leader", "int32", default=-1),
        Field("leaderRecoveryState", "int8", tag=0),
        Field("leaderEpoch", "int32", default=-1),
        Field("partitionEpoch", "int32", default=-1),
        Field("directories", "[]uuid", versions="1+"),
        Field("eligibleLeaderReplicas", "[]int32", versions="2+", nullable="2+", tag=1, default=None),
        Field("lastKnownElr", "[]int32", versions="2+", nullable="2+", tag=2, default=None),
    ),
)

ConfigRecord = Schema(
    "ConfigRecord",
    4,
    "0",
    "0+",
    (
        Field("resourceType", "int8"),
        Field("resourceName", "string"),
        Field("name", "string"),
        Field("value", "string", nullable="0+"),
    ),
)

PartitionChangeRecord = Schema(
    "PartitionChangeRecord",
    5,
    "0-2",
    "0+",
    (
        Field("partitionId", "int32", default=-1),
        Field("topicId", "uuid"),
        Field("isr", "[]int32", nullable="0+", tag=0, default=None),
        Field("leader", "int32", tag=1, default=-2),
        Field("replicas", "[]int32", nullable="0+", tag=2, default=None),
        Field("removingReplicas", "[]int32", nullable="0+", tag=3, default=None),
        Field("addingReplicas", "[]int32", nullable="0+", tag=4, default=None),
        Field("leaderRecoveryState", "int8", tag=5, default=-1),
        Field("directories", "[]uuid", versions="1+", nullable="1+", tag=8, default=None),
        Field("eligibleLeaderReplicas", "[]int32", versions="2+", nullable="2+", tag=6, default=None),
        Field("lastKnownElr", "[]int32", versions="2+", nullable="2+", tag=7, default=None),
    ),
)

FenceBrokerRecord = Schema(
    "FenceBrokerRecord",
    7,
    "0",
    "0+",
    (
        Field("id", "int32"),
        Field("epoch", "int64"),
    ),
)

UnfenceBrokerRecord = Schema(
    "UnfenceBrokerRecord",
    8,
    "0",
    "0+",
    (
        Field("id", "int32"),
        Field("epoch", "int64"),
    ),
)

RemoveTopicRecord = Schema(
    "RemoveTopicRecord",
    9,
    "0",
    "0+",
    (Field("topicId", "uuid"),),
)

DelegationTokenRecord = Schema(
    "DelegationTokenRecord",
    10,
    "0",
    "0+",
    (
        Field("owner", "string"),
        Field("requester", "string"),
        Field("renewers", "[]string"),
        Field("issueTimestamp", "int64"),
        Field("maxTimestamp", "int64"),
        Field("expirationTimestamp", "int64"),
        Field("tokenId", "string"),
    ),
)

UserScramCredentialRecord = Schema(
    "UserScramCredentialRecord",
    11,
    "0",
    "0+",
    (
        Field("name", "string"),
        Field("mechanism", "int8"),
        Field("salt", "bytes"),
        Field("storedKey", "bytes"),
        Field("serverKey", "bytes"),
        Field("iterations", "int32"),
    ),
)

FeatureLevelRecord = Schema(
    "FeatureLevelRecord",
    12,
    "0",
    "0+",
    (
        Field("name", "string"),
        Field("featureLevel", "int16"),
    ),
)

ClientQuotaRecord = Schema(
    "ClientQuotaRecord",
    14,
    "0",
    "0+",
    (
        Field(
            "entity",
            "[]EntityData",
            fields=(
                Field("entityType", "string"),
                Field("entityName", "string", nullable="0+"),
            ),
        ),
        Field("key", "string"),
        Field("value", "float64"),
        Field("remove", "bool"),
    ),
)

ProducerIdsRecord = Schema(
    "ProducerIdsRecord",
    15,
    "0",
    "0+",
    (
        Field("brokerId", "int32"),
        Field("brokerEpoch", "int64", default=-1),
        Field("nextProducerId", "int64"),
    ),
)

BrokerRegistrationChangeRecord = Schema(
    "BrokerRegistrationChangeRecord",
    17,
    "0-3",
    "0+",
    (
        Field("brokerId", "int32"),
        Field("brokerEpoch", "int64"),
        Field("fenced", "int8", tag=0),
        Field("inControlledShutdown", "int8", versions="1+", tag=1),
        Field("logDirs", "[]uuid", versions="2+", tag=2),
        Field("cordonedLogDirs", "[]uuid", versions="3+", nullable="3+", tag=3, default=None),
    ),
)

AccessControlEntryRecord = Schema(
    "AccessControlEntryRecord",
    18,
    "0",
    "0+",
    (
        Field("id", "uuid"),
        Field("resourceType", "int8"),
        Field("resourceName", "string"),
        Field("patternType", "int8"),
        Field("principal", "string"),
        Field("host", "string"),
        Field("operation", "int8"),
        Field("permissionType", "int8"),
    ),
)

RemoveAccessControlEntryRecord = Schema(
    "RemoveAccessControlEntryRecord",
    19,
    "0",
    "0+",
    (Field("id", "uuid"),),
)

NoOpRecord = Schema("NoOpRecord", 20, "0", "0+")

ZkMigrationStateRecord = Schema(
    "ZkMigrationStateRecord",
    21,
    "0",
    "0+",
    (Field("zkMigrationState", "int8"),),
)

RemoveUserScramCredentialRecord = Schema(
    "RemoveUserScramCredentialRecord",
    22,
    "0",
    "0+",
    (
        Field("name", "string"),
        Field("mechanism", "int8"),
    ),
)

BeginTransactionRecord = Schema(
    "BeginTransactionRecord",
    23,
    "0",
    "0+",
    (Field("name", "string", nullable="0+", tag=0, default=None),),
)

EndTransactionRecord = Schema("EndTransactionRecord", 24, "0", "0+")

AbortTransactionRecord = Schema(
    "AbortTransactionRecord",
    25,
    "0",
    "0+",
    (Field("reason", "string", nullable="0+", tag=0, default=None),),
)

RemoveDelegationTokenRecord = Schema(
    "RemoveDelegationTokenRecord",
    26,
    "0",
    "0+",
    (Field("tokenId", "string"),),
)

RegisterControllerRecord = Schema(
    "RegisterControllerRecord",
    27,
    "0",
    "0+",
    (
        Field("controllerId", "int32"),
        Field("incarnationId", "uuid"),
        Field("zkMigrationReady", "bool"),
        Field(
            "endPoints",
            "[]ControllerEndpoint",
            fields=(
                Field("name", "string"),
                Field("host", "string"),
                Field("port", "uint16"),
                Field("securityProtocol", "int16"),
            ),
        ),
        Field(
            "features",
            "[]ControllerFeature",
            fields=(
                Field("name", "string"),
                Field("minSupportedVersion", "int16"),
                Field("maxSupportedVersion", "int16"),
            ),
        ),
    ),
)

ClearElrRecord = Schema(
    "ClearElrRecord",
    28,
    "0",
    "0+",
    (Field("topicName", "string"),),
)

RECORDS = FramedRecords(schema for schema in list(globals().values()) if isinstance(schema, Schema))


def record_type_name(schema: Schema) -> str:
    """Kafka's name of the record type (MetadataRecordType): `TopicRecord` -> `TOPIC_RECORD`."""
    return snake_case(schema.name).upper()


def decode_record(frame: bytes | memoryview) -> Any:
    """The entity of one framed record value; raises RecordFormatError.

    `entity.__schema__` and `entity.__version__` say what it is.
    """
    return RECORDS.decode(frame)


def encode_record(entity: Any) -> bytes:
    """The framed record value of an entity made from one of this module's schemas."""
    return RECORDS.encode(entity)
