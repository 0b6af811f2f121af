"""One class for each error of Kafka's protocol, the classes of local errors, and the table of classes by error code.

Rules: a class is named after the wire name of its error in CamelCase (NOT_LEADER_OR_FOLLOWER is `NotLeaderOrFollower`),
with two exceptions: `CorruptRecord` (CORRUPT_MESSAGE) and `InvalidTopic` (INVALID_TOPIC_EXCEPTION). The docstring of a
class is the default message: for a wire error, Kafka's own. `RetriableError` and `InvalidMetadata` are Kafka's
RetriableException and InvalidMetadataException. Local errors have code -1 and are not in the table. Source:
org.apache.kafka.common.protocol.Errors of Apache Kafka 4.3.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

NONE = 0
UNKNOWN_CODE = -1

_BY_CODE: dict[int, type["KafkaError"]] = {}


class KafkaError(Exception):
    """Base class of the errors of Kafka's protocol and of local client and broker errors.

    `code`: the wire code, -1 for a local error. `name`: Kafka's name. `retriable`: the same call may succeed later.
    `stale_metadata`: fetch metadata before the next try.
    """

    code: ClassVar[int] = UNKNOWN_CODE
    name: ClassVar[str] = "KAFKA_ERROR"
    retriable: ClassVar[bool] = False
    stale_metadata: ClassVar[bool] = False

    def __init_subclass__(cls, *, code: int | None = None, name: str | None = None) -> None:
        super().__init_subclass__()
        if name is not None:
            cls.name = name
        if code is not None:
            cls.code = code
            _BY_CODE[code] = cls

    def __init__(self, message: str | None = None) -> None:
        self.message = self.default_message() if message is None else message
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message

    @classmethod
    def default_message(cls) -> str:
        """The message when the server sent none: the class's docstring on one line. Those of the base classes describe
        no error."""
        if cls in (KafkaError, RetriableError, InvalidMetadata):
            return "An unexpected error occurred."
        return " ".join((cls.__doc__ or cls.name).split())


class RetriableError(KafkaError):
    """An error after which the same request may succeed later (RetriableException)."""

    retriable = True


class InvalidMetadata(RetriableError):
    """An error after which the same request may succeed with fresh metadata (InvalidMetadataException)."""

    stale_metadata = True


def error_for_code(code: int) -> type[KafkaError]:
    """The error class of a wire code; UnknownServerError for an unknown code, as in Kafka. Raises ValueError for code
    0."""
    if code == NONE:
        raise ValueError("code 0 is not an error")
    return _BY_CODE.get(code, UnknownServerError)


def known_codes() -> dict[int, type[KafkaError]]:
    """A copy of the table of error classes by wire code."""
    return dict(_BY_CODE)


def error_from_code(code: int, message: str | None = None) -> KafkaError | None:
    """Make the error of a wire code, or return None for code 0. The default message of an unknown code names the code.

    An empty message counts as none: brokers send one when they have no details.
    """
    if code == NONE:
        return None
    if code not in _BY_CODE and not message:
        message = f"The server answered with the unknown error code {code}."
    return error_for_code(code)(message or None)


def raise_for_code(code: int, message: str | None = None) -> None:
    """Raise the error of a wire code; do nothing for code 0. Raises KafkaError."""
    error = error_from_code(code, message)
    if error is not None:
        raise error


class AuthenticationFailed(KafkaError, name="AUTHENTICATION_FAILED"):
    """The authentication of a connection failed (AuthenticationException)."""


class UnknownServerError(KafkaError, code=-1, name="UNKNOWN_SERVER_ERROR"):
    """The server experienced an unexpected error when processing the request."""


class OffsetOutOfRange(KafkaError, code=1, name="OFFSET_OUT_OF_RANGE"):
    """The requested offset is not within the range of offsets maintained by the server."""


class CorruptRecord(RetriableError, code=2, name="CORRUPT_MESSAGE"):
    """This message has failed its CRC checksum, exceeds the valid size, has a null key for a compacted topic, or is
    otherwise corrupt."""


class UnknownTopicOrPartition(InvalidMetadata, code=3, name="UNKNOWN_TOPIC_OR_PARTITION"):
    """This server does not host this topic-partition."""


class InvalidFetchSize(KafkaError, code=4, name="INVALID_FETCH_SIZE"):
    """The requested fetch size is invalid."""


class LeaderNotAvailable(InvalidMetadata, code=5, name="LEADER_NOT_AVAILABLE"):
    """There is no leader for this topic-partition as we are in the middle of a leadership election."""


class NotLeaderOrFollower(InvalidMetadata, code=6, name="NOT_LEADER_OR_FOLLOWER"):
    """For requests intended only for the leader, this error indicates that the broker is not the current leader. For
    requests intended for any replica, this error indicates that the broker is not a replica of the topic partition."""


class RequestTimedOut(RetriableError, code=7, name="REQUEST_TIMED_OUT"):
    """The request timed out."""


class BrokerNotAvailable(KafkaError, code=8, name="BROKER_NOT_AVAILABLE"):
    """The broker is not available."""


class ReplicaNotAvailable(InvalidMetadata, code=9, name="REPLICA_NOT_AVAILABLE"):
    """The replica is not available for the requested topic-partition. Produce/Fetch requests and other requests
    intended only for the leader or follower return NOT_LEADER_OR_FOLLOWER if the broker is not a replica of the
    topic-partition."""


class MessageTooLarge(KafkaError, code=10, name="MESSAGE_TOO_LARGE"):
    """The request included a message larger than the max message size the server will accept."""


class StaleControllerEpoch(KafkaError, code=11, name="STALE_CONTROLLER_EPOCH"):
    """The controller moved to another broker."""


class OffsetMetadataTooLarge(KafkaError, code=12, name="OFFSET_METADATA_TOO_LARGE"):
    """The metadata field of the offset request was too large."""


class NetworkException(InvalidMetadata, code=13, name="NETWORK_EXCEPTION"):
    """The server disconnected before a response was received."""


class CoordinatorLoadInProgress(RetriableError, code=14, name="COORDINATOR_LOAD_IN_PROGRESS"):
    """The coordinator is loading and hence can't process requests."""


class CoordinatorNotAvailable(RetriableError, code=15, name="COORDINATOR_NOT_AVAILABLE"):
    """The coordinator is not available."""


class NotCoordinator(RetriableError, code=16, name="NOT_COORDINATOR"):
    """This is not the correct coordinator."""


class InvalidTopic(KafkaError, code=17, name="INVALID_TOPIC_EXCEPTION"):
    """The request attempted to perform an operation on an invalid topic."""


class RecordListTooLarge(KafkaError, code=18, name="RECORD_LIST_TOO_LARGE"):
    """The request included message batch larger than the configured segment size on the server."""


class NotEnoughReplicas(RetriableError, code=19, name="NOT_ENOUGH_REPLICAS"):
    """Messages are rejected since there are fewer in-sync replicas than required."""


class NotEnoughReplicasAfterAppend(RetriableError, code=20, name="NOT_ENOUGH_REPLICAS_AFTER_APPEND"):
    """Messages are written to the log, but to fewer in-sync replicas than required."""


class InvalidRequiredAcks(KafkaError, code=21, name="INVALID_REQUIRED_ACKS"):
    """Produce request specified an invalid value for required acks."""


class IllegalGeneration(KafkaError, code=22, name="ILLEGAL_GENERATION"):
    """Specified group generation id is not valid."""


class InconsistentGroupProtocol(KafkaError, code=23, name="INCONSISTENT_GROUP_PROTOCOL"):
    """The group member's supported protocols are incompatible with those of existing members or first group member
    tried to join with empty protocol type or empty protocol list."""


class InvalidGroupId(KafkaError, code=24, name="INVALID_GROUP_ID"):
    """The group id is invalid."""


class UnknownMemberId(KafkaError, code=25, name="UNKNOWN_MEMBER_ID"):
    """The coordinator is not aware of this member."""


class InvalidSessionTimeout(KafkaError, code=26, name="INVALID_SESSION_TIMEOUT"):
    """The session timeout is not within the range allowed by the broker (as configured by group.min.session.timeout.ms
    and group.max.session.timeout.ms)."""


class RebalanceInProgress(KafkaError, code=27, name="REBALANCE_IN_PROGRESS"):
    """The group is rebalancing, so a rejoin is needed."""


class InvalidCommitOffsetSize(KafkaError, code=28, name="INVALID_COMMIT_OFFSET_SIZE"):
    """The committing offset data size is not valid."""


class TopicAuthorizationFailed(KafkaError, code=29, name="TOPIC_AUTHORIZATION_FAILED"):
    """Topic authorization failed."""


class GroupAuthorizationFailed(KafkaError, code=30, name="GROUP_AUTHORIZATION_FAILED"):
    """Group authorization failed."""


class ClusterAuthorizationFailed(KafkaError, code=31, name="CLUSTER_AUTHORIZATION_FAILED"):
    """Cluster authorization failed."""


class InvalidTimestamp(KafkaError, code=32, name="INVALID_TIMESTAMP"):
    """The timestamp of the message is out of acceptable range."""


class UnsupportedSaslMechanism(AuthenticationFailed, code=33, name="UNSUPPORTED_SASL_MECHANISM"):
    """The broker does not support the requested SASL mechanism."""


class IllegalSaslState(AuthenticationFailed, code=34, name="ILLEGAL_SASL_STATE"):
    """Request is not valid given the current SASL state."""


class UnsupportedVersion(KafkaError, code=35, name="UNSUPPORTED_VERSION"):
    """The version of API is not supported."""


class TopicAlreadyExists(KafkaError, code=36, name="TOPIC_ALREADY_EXISTS"):
    """Topic with this name already exists."""


class InvalidPartitions(KafkaError, code=37, name="INVALID_PARTITIONS"):
    """Number of partitions is below 1."""


class InvalidReplicationFactor(KafkaError, code=38, name="INVALID_REPLICATION_FACTOR"):
    """Replication factor is below 1 or larger than the number of available brokers."""


class InvalidReplicaAssignment(KafkaError, code=39, name="INVALID_REPLICA_ASSIGNMENT"):
    """Replica assignment is invalid."""


class InvalidConfig(KafkaError, code=40, name="INVALID_CONFIG"):
    """Configuration is invalid."""


class NotController(RetriableError, code=41, name="NOT_CONTROLLER"):
    """This is not the correct controller for this cluster."""


class InvalidRequest(KafkaError, code=42, name="INVALID_REQUEST"):
    """This most likely occurs because of a request being malformed by the client library or the message was sent to an
    incompatible broker. See the broker logs for more details."""


class UnsupportedForMessageFormat(KafkaError, code=43, name="UNSUPPORTED_FOR_MESSAGE_FORMAT"):
    """The message format version on the broker does not support the request."""


class PolicyViolation(KafkaError, code=44, name="POLICY_VIOLATION"):
    """Request parameters do not satisfy the configured policy."""


class OutOfOrderSequenceNumber(KafkaError, code=45, name="OUT_OF_ORDER_SEQUENCE_NUMBER"):
    """The broker received an out of order sequence number."""


class DuplicateSequenceNumber(KafkaError, code=46, name="DUPLICATE_SEQUENCE_NUMBER"):
    """The broker received a duplicate sequence number."""


class InvalidProducerEpoch(KafkaError, code=47, name="INVALID_PRODUCER_EPOCH"):
    """Producer attempted to produce with an old epoch."""


class InvalidTxnState(KafkaError, code=48, name="INVALID_TXN_STATE"):
    """The producer attempted a transactional operation in an invalid state."""


class InvalidProducerIdMapping(KafkaError, code=49, name="INVALID_PRODUCER_ID_MAPPING"):
    """The producer attempted to use a producer id which is not currently assigned to its transactional id."""


class InvalidTransactionTimeout(KafkaError, code=50, name="INVALID_TRANSACTION_TIMEOUT"):
    """The transaction timeout is larger than the maximum value allowed by the broker (as configured by
    transaction.max.timeout.ms)."""


class ConcurrentTransactions(RetriableError, code=51, name="CONCURRENT_TRANSACTIONS"):
    """The producer attempted to update a transaction while another concurrent operation on the same transaction was
    ongoing."""


class TransactionCoordinatorFenced(KafkaError, code=52, name="TRANSACTION_COORDINATOR_FENCED"):
    """Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the current coordinator for a
    given producer."""


class TransactionalIdAuthorizationFailed(KafkaError, code=53, name="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
    """Transactional Id authorization failed."""


class SecurityDisabled(KafkaError, code=54, name="SECURITY_DISABLED"):
    """Security features are disabled."""


class OperationNotAttempted(KafkaError, code=55, name="OPERATION_NOT_ATTEMPTED"):
    """The broker did not attempt to execute this operation. This may happen for batched RPCs where some operations in
    the batch failed, causing the broker to respond without trying the rest."""


class KafkaStorageError(InvalidMetadata, code=56, name="KAFKA_STORAGE_ERROR"):
    """Disk error when trying to access log file on the disk."""


class LogDirNotFound(KafkaError, code=57, name="LOG_DIR_NOT_FOUND"):
    """The user-specified log directory is not found in the broker config."""


class SaslAuthenticationFailed(AuthenticationFailed, code=58, name="SASL_AUTHENTICATION_FAILED"):
    """SASL Authentication failed."""


class UnknownProducerId(KafkaError, code=59, name="UNKNOWN_PRODUCER_ID"):
    """This exception is raised by the broker if it could not locate the producer metadata associated with the
    producerId in question. This could happen if, for instance, the producer's records were deleted because their
    retention time had elapsed. Once the last records of the producerId are removed, the producer's metadata is removed
    from the broker, and future appends by the producer will return this exception."""


class ReassignmentInProgress(KafkaError, code=60, name="REASSIGNMENT_IN_PROGRESS"):
    """A partition reassignment is in progress."""


class DelegationTokenAuthDisabled(KafkaError, code=61, name="DELEGATION_TOKEN_AUTH_DISABLED"):
    """Delegation Token feature is not enabled."""


class DelegationTokenNotFound(KafkaError, code=62, name="DELEGATION_TOKEN_NOT_FOUND"):
    """Delegation Token is not found on server."""


class DelegationTokenOwnerMismatch(KafkaError, code=63, name="DELEGATION_TOKEN_OWNER_MISMATCH"):
    """Specified Principal is not valid Owner/Renewer."""


class DelegationTokenRequestNotAllowed(KafkaError, code=64, name="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"):
    """Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token authenticated
    channels."""


class DelegationTokenAuthorizationFailed(KafkaError, code=65, name="DELEGATION_TOKEN_AUTHORIZATION_FAILED"):
    """Delegation Token authorization failed."""


class DelegationTokenExpired(KafkaError, code=66, name="DELEGATION_TOKEN_EXPIRED"):
    """Delegation Token is expired."""


class InvalidPrincipalType(KafkaError, code=67, name="INVALID_PRINCIPAL_TYPE"):
    """Supplied principalType is not supported."""


class NonEmptyGroup(KafkaError, code=68, name="NON_EMPTY_GROUP"):
    """The group is not empty."""


class GroupIdNotFound(KafkaError, code=69, name="GROUP_ID_NOT_FOUND"):
    """The group id does not exist."""


class FetchSessionIdNotFound(RetriableError, code=70, name="FETCH_SESSION_ID_NOT_FOUND"):
    """The fetch session ID was not found."""


class InvalidFetchSessionEpoch(RetriableError, code=71, name="INVALID_FETCH_SESSION_EPOCH"):
    """The fetch session epoch is invalid."""


class ListenerNotFound(InvalidMetadata, code=72, name="LISTENER_NOT_FOUND"):
    """There is no listener on the leader broker that matches the listener on which metadata request was processed."""


class TopicDeletionDisabled(KafkaError, code=73, name="TOPIC_DELETION_DISABLED"):
    """Topic deletion is disabled."""


class FencedLeaderEpoch(InvalidMetadata, code=74, name="FENCED_LEADER_EPOCH"):
    """The leader epoch in the request is older than the epoch on the broker."""


class UnknownLeaderEpoch(RetriableError, code=75, name="UNKNOWN_LEADER_EPOCH"):
    """The leader epoch in the request is newer than the epoch on the broker."""


class UnsupportedCompressionType(KafkaError, code=76, name="UNSUPPORTED_COMPRESSION_TYPE"):
    """The requesting client does not support the compression type of given partition."""


class StaleBrokerEpoch(KafkaError, code=77, name="STALE_BROKER_EPOCH"):
    """Broker epoch has changed."""


class OffsetNotAvailable(RetriableError, code=78, name="OFFSET_NOT_AVAILABLE"):
    """The leader high watermark has not caught up from a recent leader election so the offsets cannot be guaranteed to
    be monotonically increasing."""


class MemberIdRequired(KafkaError, code=79, name="MEMBER_ID_REQUIRED"):
    """The group member needs to have a valid member id before actually entering a consumer group."""


class PreferredLeaderNotAvailable(InvalidMetadata, code=80, name="PREFERRED_LEADER_NOT_AVAILABLE"):
    """The preferred leader was not available."""


class GroupMaxSizeReached(KafkaError, code=81, name="GROUP_MAX_SIZE_REACHED"):
    """The group has reached its maximum size."""


class FencedInstanceId(KafkaError, code=82, name="FENCED_INSTANCE_ID"):
    """The broker rejected this static consumer since another consumer with the same group.instance.id has registered
    with a different member.id."""


class EligibleLeadersNotAvailable(InvalidMetadata, code=83, name="ELIGIBLE_LEADERS_NOT_AVAILABLE"):
    """Eligible topic partition leaders are not available."""


class ElectionNotNeeded(InvalidMetadata, code=84, name="ELECTION_NOT_NEEDED"):
    """Leader election not needed for topic partition."""


class NoReassignmentInProgress(KafkaError, code=85, name="NO_REASSIGNMENT_IN_PROGRESS"):
    """No partition reassignment is in progress."""


class GroupSubscribedToTopic(KafkaError, code=86, name="GROUP_SUBSCRIBED_TO_TOPIC"):
    """Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."""


class InvalidRecord(KafkaError, code=87, name="INVALID_RECORD"):
    """This record has failed the validation on broker and hence will be rejected."""


class UnstableOffsetCommit(RetriableError, code=88, name="UNSTABLE_OFFSET_COMMIT"):
    """There are unstable offsets that need to be cleared."""


class ThrottlingQuotaExceeded(RetriableError, code=89, name="THROTTLING_QUOTA_EXCEEDED"):
    """The throttling quota has been exceeded."""


class ProducerFenced(KafkaError, code=90, name="PRODUCER_FENCED"):
    """There is a newer producer with the same transactionalId which fences the current one."""


class ResourceNotFound(KafkaError, code=91, name="RESOURCE_NOT_FOUND"):
    """A request illegally referred to a resource that does not exist."""


class DuplicateResource(KafkaError, code=92, name="DUPLICATE_RESOURCE"):
    """A request illegally referred to the same resource twice."""


class UnacceptableCredential(KafkaError, code=93, name="UNACCEPTABLE_CREDENTIAL"):
    """Requested credential would not meet criteria for acceptability."""


class InconsistentVoterSet(KafkaError, code=94, name="INCONSISTENT_VOTER_SET"):
    """Indicates that the either the sender or recipient of a voter-only request is not one of the expected voters."""


class InvalidUpdateVersion(KafkaError, code=95, name="INVALID_UPDATE_VERSION"):
    """The given update version was invalid."""


class FeatureUpdateFailed(KafkaError, code=96, name="FEATURE_UPDATE_FAILED"):
    """Unable to update finalized features due to an unexpected server error."""


class PrincipalDeserializationFailure(KafkaError, code=97, name="PRINCIPAL_DESERIALIZATION_FAILURE"):
    """Request principal deserialization failed during forwarding. This indicates an internal error on the broker
    cluster security setup."""


class SnapshotNotFound(KafkaError, code=98, name="SNAPSHOT_NOT_FOUND"):
    """Requested snapshot was not found."""


class PositionOutOfRange(KafkaError, code=99, name="POSITION_OUT_OF_RANGE"):
    """Requested position is not greater than or equal to zero, and less than the size of the snapshot."""


class UnknownTopicId(InvalidMetadata, code=100, name="UNKNOWN_TOPIC_ID"):
    """This server does not host this topic ID."""


class DuplicateBrokerRegistration(KafkaError, code=101, name="DUPLICATE_BROKER_REGISTRATION"):
    """This broker ID is already in use."""


class BrokerIdNotRegistered(KafkaError, code=102, name="BROKER_ID_NOT_REGISTERED"):
    """The given broker ID was not registered."""


class InconsistentTopicId(InvalidMetadata, code=103, name="INCONSISTENT_TOPIC_ID"):
    """The log's topic ID did not match the topic ID in the request."""


class InconsistentClusterId(KafkaError, code=104, name="INCONSISTENT_CLUSTER_ID"):
    """The clusterId in the request does not match that found on the server."""


class TransactionalIdNotFound(KafkaError, code=105, name="TRANSACTIONAL_ID_NOT_FOUND"):
    """The transactionalId could not be found."""


class FetchSessionTopicIdError(RetriableError, code=106, name="FETCH_SESSION_TOPIC_ID_ERROR"):
    """The fetch session encountered inconsistent topic ID usage."""


class IneligibleReplica(KafkaError, code=107, name="INELIGIBLE_REPLICA"):
    """The new ISR contains at least one ineligible replica."""


class NewLeaderElected(KafkaError, code=108, name="NEW_LEADER_ELECTED"):
    """The AlterPartition request successfully updated the partition state but the leader has changed."""


class OffsetMovedToTieredStorage(KafkaError, code=109, name="OFFSET_MOVED_TO_TIERED_STORAGE"):
    """The requested offset is moved to tiered storage."""


class FencedMemberEpoch(KafkaError, code=110, name="FENCED_MEMBER_EPOCH"):
    """The member epoch is fenced by the group coordinator. The member must abandon all its partitions and rejoin."""


class UnreleasedInstanceId(KafkaError, code=111, name="UNRELEASED_INSTANCE_ID"):
    """The instance ID is still used by another member in the consumer group. That member must leave first."""


class UnsupportedAssignor(KafkaError, code=112, name="UNSUPPORTED_ASSIGNOR"):
    """The assignor or its version range is not supported by the consumer group."""


class StaleMemberEpoch(KafkaError, code=113, name="STALE_MEMBER_EPOCH"):
    """The member epoch is stale. The member must retry after receiving its updated member epoch via the
    ConsumerGroupHeartbeat API."""


class MismatchedEndpointType(KafkaError, code=114, name="MISMATCHED_ENDPOINT_TYPE"):
    """The request was sent to an endpoint of the wrong type."""


class UnsupportedEndpointType(KafkaError, code=115, name="UNSUPPORTED_ENDPOINT_TYPE"):
    """This endpoint type is not supported yet."""


class UnknownControllerId(KafkaError, code=116, name="UNKNOWN_CONTROLLER_ID"):
    """This controller ID is not known."""


class UnknownSubscriptionId(KafkaError, code=117, name="UNKNOWN_SUBSCRIPTION_ID"):
    """Client sent a push telemetry request with an invalid or outdated subscription ID."""


class TelemetryTooLarge(KafkaError, code=118, name="TELEMETRY_TOO_LARGE"):
    """Client sent a push telemetry request larger than the maximum size the broker will accept."""


class InvalidRegistration(KafkaError, code=119, name="INVALID_REGISTRATION"):
    """The controller has considered the broker registration to be invalid."""


class TransactionAbortable(KafkaError, code=120, name="TRANSACTION_ABORTABLE"):
    """The server encountered an error with the transaction. The client can abort the transaction to continue using this
    transactional ID."""


class InvalidRecordState(KafkaError, code=121, name="INVALID_RECORD_STATE"):
    """The record state is invalid. The acknowledgement of delivery could not be completed."""


class ShareSessionNotFound(RetriableError, code=122, name="SHARE_SESSION_NOT_FOUND"):
    """The share session was not found."""


class InvalidShareSessionEpoch(RetriableError, code=123, name="INVALID_SHARE_SESSION_EPOCH"):
    """The share session epoch is invalid."""


class FencedStateEpoch(KafkaError, code=124, name="FENCED_STATE_EPOCH"):
    """The share coordinator rejected the request because the share-group state epoch did not match."""


class InvalidVoterKey(KafkaError, code=125, name="INVALID_VOTER_KEY"):
    """The voter key doesn't match the receiving replica's key."""


class DuplicateVoter(KafkaError, code=126, name="DUPLICATE_VOTER"):
    """The voter is already part of the set of voters."""


class VoterNotFound(KafkaError, code=127, name="VOTER_NOT_FOUND"):
    """The voter is not part of the set of voters."""


class InvalidRegularExpression(KafkaError, code=128, name="INVALID_REGULAR_EXPRESSION"):
    """The regular expression is not valid."""


class RebootstrapRequired(KafkaError, code=129, name="REBOOTSTRAP_REQUIRED"):
    """Client metadata is stale. The client should rebootstrap to obtain new metadata."""


class StreamsInvalidTopology(KafkaError, code=130, name="STREAMS_INVALID_TOPOLOGY"):
    """The supplied topology is invalid."""


class StreamsInvalidTopologyEpoch(KafkaError, code=131, name="STREAMS_INVALID_TOPOLOGY_EPOCH"):
    """The supplied topology epoch is invalid."""


class StreamsTopologyFenced(KafkaError, code=132, name="STREAMS_TOPOLOGY_FENCED"):
    """The supplied topology epoch is outdated."""


class ShareSessionLimitReached(RetriableError, code=133, name="SHARE_SESSION_LIMIT_REACHED"):
    """The limit of share sessions has been reached."""


# Local errors, without a wire code.


class ConfigError(KafkaError, name="CONFIG_ERROR"):
    """A setting is unknown, missing or invalid (ConfigException). `hint`: what to write instead."""

    def __init__(self, message: str | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class PluginError(KafkaError, name="PLUGIN_FAILED"):
    """A plugin cannot be loaded or used; the message names its distribution and its entry point."""


class Timeout(RetriableError, name="TIMEOUT"):
    """The operation did not complete within its time-out (TimeoutException raised by a client)."""


class DeliveryTimeout(Timeout, name="DELIVERY_TIMEOUT"):
    """A batch was not acknowledged within delivery.timeout.ms."""


class BufferExhausted(Timeout, name="BUFFER_EXHAUSTED"):
    """No memory became free in the producer's buffer within max.block.ms (BufferExhaustedException)."""


class RecordTooLarge(KafkaError, name="RECORD_TOO_LARGE"):
    """A record or batch is larger than a setting of the client allows (RecordTooLargeException raised by a client)."""


class SerializationError(KafkaError, name="SERIALIZATION_ERROR"):
    """A key or value could not be serialized or deserialized (SerializationException)."""


class DecodeError(KafkaError, name="DECODE_ERROR"):
    """The bytes of a message do not match its schema (SchemaException)."""


class NotKafka(KafkaError, name="NOT_KAFKA"):
    """The other side of the connection does not speak Kafka's protocol."""


class ConnectionFailed(InvalidMetadata, name="CONNECTION_FAILED"):
    """A connection to an address could not be established."""


class NameResolutionFailed(KafkaError, name="NAME_RESOLUTION_FAILED"):
    """A host name has no address."""


class Disconnected(InvalidMetadata, name="DISCONNECTED"):
    """The connection was lost before the response arrived (DisconnectException)."""


class HandshakeInterrupted(ConnectionFailed, name="HANDSHAKE_INTERRUPTED"):
    """The connection ended during the TLS handshake, as on a port without TLS."""


class ClosedUnanswered(Disconnected, name="CLOSED_UNANSWERED"):
    """The server closed the connection at the first request, as one that requires SASL does."""


class SslAuthenticationFailed(AuthenticationFailed, name="SSL_AUTHENTICATION_FAILED"):
    """The TLS handshake failed, and a retry cannot succeed (SslAuthenticationException)."""


class KeyStoreUnreadable(KafkaError, name="KEY_STORE_UNREADABLE"):
    """A file of keys or certificates cannot be read: it is missing or damaged, or its password is wrong."""


class NoBrokersAvailable(Timeout, name="NO_BROKERS_AVAILABLE"):
    """None of the bootstrap servers answered."""


class CorruptIndex(KafkaError, name="CORRUPT_INDEX"):
    """An index file contradicts itself or its segment (CorruptIndexException)."""


class CorruptSnapshot(KafkaError, name="CORRUPT_SNAPSHOT"):
    """A producer state snapshot cannot be read (CorruptSnapshotException)."""


class LogOffsetOverflow(KafkaError, name="LOG_OFFSET_OVERFLOW"):
    """An offset does not fit a segment's four-byte relative offsets (LogSegmentOffsetOverflowException)."""


class UnexpectedAppendOffset(KafkaError, name="UNEXPECTED_APPEND_OFFSET"):
    """Replicated records do not continue at the end of the log (UnexpectedAppendOffsetException)."""


class NoOffsetForPartition(KafkaError, name="NO_OFFSET_FOR_PARTITION"):
    """A partition has no committed offset and auto.offset.reset is none (NoOffsetForPartitionException)."""


class LogTruncation(KafkaError, name="LOG_TRUNCATION"):
    """The leader's log ends before the consumer's position: an election lost records (LogTruncationException)."""


class CommitFailed(KafkaError, name="COMMIT_FAILED"):
    """Offsets could not be committed because the group has rebalanced (CommitFailedException)."""


class TransactionAborted(KafkaError, name="TRANSACTION_ABORTED"):
    """The record was not sent because its transaction was aborted (TransactionAbortedException)."""


class WakeupError(KafkaError, name="WAKEUP"):
    """A blocking call was woken from another thread (WakeupException)."""


class IllegalState(KafkaError, name="ILLEGAL_STATE"):
    """The call is not allowed in the current state (IllegalStateException)."""


class PartialFailure(KafkaError, name="PARTIAL_FAILURE"):
    """Some items of a request failed, and the rest was done.

    `errors`: the error of each failed item. `results`: what the call would have returned, for the items that succeeded.
    The first error is the `__cause__`.
    """

    def __init__(self, message: str, results: object, errors: Mapping[Any, Exception]) -> None:
        super().__init__(message)
        self.results = results
        self.errors = dict(errors)
        self.__cause__ = next(iter(self.errors.values()), None)


def unauthorized_topics(topics: Iterable[str]) -> TopicAuthorizationFailed:
    """Make the error of a request that may not access these topics, with their names in its message."""
    return TopicAuthorizationFailed(f"Not authorized to access topics: [{', '.join(dict.fromkeys(topics))}]")


def with_group(error: KafkaError, group_id: str) -> KafkaError:
    """Return GroupAuthorizationFailed with the group's id in its message; any other error unchanged."""
    if isinstance(error, GroupAuthorizationFailed):
        return GroupAuthorizationFailed(f"Not authorized to access group: {group_id}")
    return error
