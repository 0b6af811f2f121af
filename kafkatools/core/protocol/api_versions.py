"""Every API of Kafka 4.3: its key, its versions, which of them are flexible; and what a broker says it can do.

`API_VERSIONS` is the only table of versions; the broker's handlers narrow it to what they do. A client uses the newest
version that both sides have. The answer to ApiVersions is read by hand, since every connection begins with it.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from kafkatools.core.errors import DecodeError, UnsupportedVersion
from kafkatools.core.protocol.varints import read_unsigned_varint, skip_tagged_fields

NEVER = 1 << 15


class ApiKey(IntEnum):
    """The APIs by Kafka's name in upper case."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92

    @property
    def label(self) -> str:
        """Kafka's name: `ApiKey.LIST_OFFSETS.label == "ListOffsets"`."""
        return self.name.title().replace("_", "")


# First version, last version, first flexible version (ApiKeys and the message definitions of Apache Kafka 4.3).
API_VERSIONS: dict[int, tuple[int, int, int]] = {
    ApiKey.PRODUCE: (3, 13, 9),
    ApiKey.FETCH: (4, 18, 12),
    ApiKey.LIST_OFFSETS: (1, 11, 6),
    ApiKey.METADATA: (0, 13, 9),
    ApiKey.OFFSET_COMMIT: (2, 10, 8),
    ApiKey.OFFSET_FETCH: (1, 10, 6),
    ApiKey.FIND_COORDINATOR: (0, 6, 3),
    ApiKey.JOIN_GROUP: (0, 9, 6),
    ApiKey.HEARTBEAT: (0, 4, 4),
    ApiKey.LEAVE_GROUP: (0, 5, 4),
    ApiKey.SYNC_GROUP: (0, 5, 4),
    ApiKey.DESCRIBE_GROUPS: (0, 6, 5),
    ApiKey.LIST_GROUPS: (0, 5, 3),
    ApiKey.SASL_HANDSHAKE: (0, 1, NEVER),
    ApiKey.API_VERSIONS: (0, 4, 3),
    ApiKey.CREATE_TOPICS: (2, 7, 5),
    ApiKey.DELETE_TOPICS: (1, 6, 4),
    ApiKey.DELETE_RECORDS: (0, 2, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 5, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4, 3),
    ApiKey.END_TXN: (0, 5, 3),
    ApiKey.WRITE_TXN_MARKERS: (1, 2, 1),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5, 3),
    ApiKey.DESCRIBE_ACLS: (1, 3, 2),
    ApiKey.CREATE_ACLS: (1, 3, 2),
    ApiKey.DELETE_ACLS: (1, 3, 2),
    ApiKey.DESCRIBE_CONFIGS: (1, 4, 4),
    ApiKey.ALTER_CONFIGS: (0, 2, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5, 2),
    ApiKey.SASL_AUTHENTICATE: (0, 2, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3, 2),
    ApiKey.CREATE_DELEGATION_TOKEN: (1, 3, 2),
    ApiKey.RENEW_DELEGATION_TOKEN: (1, 2, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (1, 2, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (1, 3, 2),
    ApiKey.DELETE_GROUPS: (0, 2, 2),
    ApiKey.ELECT_LEADERS: (0, 2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0, 0),
    ApiKey.OFFSET_DELETE: (0, 0, NEVER),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0, 0),
    ApiKey.VOTE: (0, 2, 0),
    ApiKey.BEGIN_QUORUM_EPOCH: (0, 1, 1),
    ApiKey.END_QUORUM_EPOCH: (0, 1, 1),
    ApiKey.DESCRIBE_QUORUM: (0, 2, 0),
    ApiKey.ALTER_PARTITION: (2, 3, 2),
    ApiKey.UPDATE_FEATURES: (0, 2, 0),
    ApiKey.ENVELOPE: (0, 0, 0),
    ApiKey.FETCH_SNAPSHOT: (0, 1, 0),
    ApiKey.DESCRIBE_CLUSTER: (0, 2, 0),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0, 0),
    ApiKey.BROKER_REGISTRATION: (0, 4, 0),
    ApiKey.BROKER_HEARTBEAT: (0, 2, 0),
    ApiKey.UNREGISTER_BROKER: (0, 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2, 0),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1, 0),
    ApiKey.CONTROLLER_REGISTRATION: (0, 0, 0),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0, 0),
    ApiKey.PUSH_TELEMETRY: (0, 0, 0),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: (0, 0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1, 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1, 1),
    ApiKey.SHARE_FETCH: (1, 2, 1),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2, 1),
    ApiKey.ADD_RAFT_VOTER: (0, 1, 0),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0, 0),
    ApiKey.UPDATE_RAFT_VOTER: (0, 0, 0),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (0, 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: (0, 0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: (0, 1, 0),
    ApiKey.DELETE_SHARE_GROUP_STATE: (0, 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (0, 1, 0),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 0, 0),
    ApiKey.STREAMS_GROUP_DESCRIBE: (0, 0, 0),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1, 0),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0, 0),
}


def versions_of(api_key: int) -> range:
    """The versions whose messages exist here."""
    first, last, _ = API_VERSIONS[api_key]
    return range(first, last + 1)


def is_flexible(api_key: int, version: int) -> bool:
    """Whether the body of a version has compact lengths and tags (KIP-482)."""
    return version >= API_VERSIONS[api_key][2]


def request_header_version(api_key: int, version: int) -> int:
    """1, or 2 for a flexible request."""
    return 2 if is_flexible(api_key, version) else 1


def response_header_version(api_key: int, version: int) -> int:
    """0, or 1 for a flexible response; always 0 for ApiVersions, whose reader may not know the version (KIP-511)."""
    return 1 if api_key != ApiKey.API_VERSIONS and is_flexible(api_key, version) else 0


class VersionRange(NamedTuple):
    """A lowest and a highest version."""

    min_version: int
    max_version: int


class BrokerVersions(NamedTuple):
    """What a broker answered to ApiVersions (NodeApiVersions)."""

    error_code: int
    ranges: dict[int, VersionRange]
    throttle_time_ms: int = 0
    supported_features: dict[str, VersionRange] = {}
    finalized_features: dict[str, VersionRange] = {}
    finalized_features_epoch: int = -1

    def supports(self, api_key: int, version: int) -> bool:
        """Whether the broker takes a version of an API."""
        found = self.ranges.get(api_key)
        return found is not None and found.min_version <= version <= found.max_version

    def choose_version(self, api_key: int, oldest: int = 0, newest: int = NEVER) -> int:
        """The newest version that both sides have between two bounds. Raises UnsupportedVersion."""
        return choose_version(api_key, self.ranges, oldest, newest)


class OnlyByBrokers(UnsupportedVersion):
    """A controller was asked for what only brokers do."""


def choose_version(api_key: int, broker: dict[int, VersionRange], oldest: int = 0, newest: int = NEVER) -> int:
    """The newest version of an API that both sides have (ApiVersions, NodeApiVersions.latestUsableVersion)."""
    ours = versions_of(api_key)
    theirs = broker.get(api_key)
    if theirs is None:
        is_controller = ApiKey.METADATA not in broker and ApiKey.BROKER_REGISTRATION in broker
        problem = OnlyByBrokers if is_controller else UnsupportedVersion
        raise problem(f"The node does not support {ApiKey(api_key).name}")
    highest = min(ours[-1], theirs.max_version, newest)
    lowest = max(ours[0], theirs.min_version, oldest)
    if highest < lowest:
        wanted = f"[{max(ours[0], oldest)}, {min(ours[-1], newest)}]"
        raise UnsupportedVersion(
            f"The node does not support {ApiKey(api_key).name} with version in range {wanted}. "
            f"The supported range is [{theirs.min_version},{theirs.max_version}]."
        )
    return highest


_ERROR_COUNT = struct.Struct(">hi")
_RANGE = struct.Struct(">hhh")
_TWO_INT16 = struct.Struct(">hh")


def read_api_versions(body: memoryview, version: int) -> BrokerVersions:
    """Read an ApiVersions response body of a version. Raises DecodeError."""
    try:
        return _read_flexible(body) if version >= API_VERSIONS[ApiKey.API_VERSIONS][2] else _read_plain(body, version)
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise DecodeError(f"ApiVersions response v{version} cannot be read: {problem}") from problem


def _read_plain(body: memoryview, version: int) -> BrokerVersions:
    error_code, count = _ERROR_COUNT.unpack_from(body, 0)
    ranges = {}
    position = _ERROR_COUNT.size
    for _ in range(count):
        key, low, high = _RANGE.unpack_from(body, position)
        ranges[key] = VersionRange(low, high)
        position += _RANGE.size
    throttle = struct.unpack_from(">i", body, position)[0] if version >= 1 else 0
    return BrokerVersions(error_code, ranges, throttle)


def _read_flexible(body: memoryview) -> BrokerVersions:
    error_code = struct.unpack_from(">h", body, 0)[0]
    count, position = read_unsigned_varint(body, 2)
    ranges = {}
    for _ in range(count - 1):
        key, low, high = _RANGE.unpack_from(body, position)
        ranges[key] = VersionRange(low, high)
        position = skip_tagged_fields(body, position + _RANGE.size)
    throttle = struct.unpack_from(">i", body, position)[0]
    tags, position = read_unsigned_varint(body, position + 4)
    supported: dict[str, VersionRange] = {}
    finalized: dict[str, VersionRange] = {}
    epoch = -1
    for _ in range(tags):
        tag, position = read_unsigned_varint(body, position)
        size, position = read_unsigned_varint(body, position)
        if tag == 0:
            supported = _read_features(body, position)
        elif tag == 1:
            epoch = struct.unpack_from(">q", body, position)[0]
        elif tag == 2:
            finalized = {name: VersionRange(low, high) for name, (high, low) in _read_features(body, position).items()}
        position += size
    return BrokerVersions(error_code, ranges, throttle, supported, finalized, epoch)


def _read_features(body: memoryview, position: int) -> dict[str, VersionRange]:
    """Names with two INT16 each: min and max of supported features, max and min of finalized ones."""
    count, position = read_unsigned_varint(body, position)
    features = {}
    for _ in range(count - 1):
        length, position = read_unsigned_varint(body, position)
        name = bytes(body[position : position + length - 1]).decode()
        position += length - 1
        features[name] = VersionRange(*_TWO_INT16.unpack_from(body, position))
        position = skip_tagged_fields(body, position + _TWO_INT16.size)
    return features


def api_versions_request(version: int, software_name: str, software_version: str) -> bytes:
    """The body of an ApiVersions request of a version."""
    if version < API_VERSIONS[ApiKey.API_VERSIONS][2]:
        return b""
    name, number = software_name.encode(), software_version.encode()
    return bytes([len(name) + 1]) + name + bytes([len(number) + 1]) + number + b"\0"
