"""The APIs of Kafka 4.3: keys, versions and flexible versions; and the versions that a broker supports.

`ApiKey` is the only table of keys and versions. Which of them this broker serves is in `core/broker/server/apis.py`. A
client uses the newest version that both sides support.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import Final, NamedTuple

from kafkatools.core.errors import UnsupportedVersion

NEVER = 1 << 15
BETWEEN_NODES = True


@unique
class ApiKey(IntEnum):
    """The APIs by Kafka's name: key, first version, last version, first flexible version, and BETWEEN_NODES for an API
    that only controllers answer, to other nodes. Source: ApiKeys and the message definitions of Apache Kafka 4.3."""

    _value_: int
    first_version: int
    last_version: int
    first_flexible_version: int
    is_between_nodes: bool

    def __new__(
        cls,
        key: int,
        first_version: int = 0,
        last_version: int = 0,
        first_flexible_version: int = NEVER,
        is_between_nodes: bool = False,
    ) -> ApiKey:
        api = int.__new__(cls, key)
        api._value_ = key
        api.first_version, api.last_version = first_version, last_version
        api.first_flexible_version, api.is_between_nodes = first_flexible_version, is_between_nodes
        return api

    PRODUCE = 0, 3, 13, 9
    FETCH = 1, 4, 18, 12
    LIST_OFFSETS = 2, 1, 11, 6
    METADATA = 3, 0, 13, 9
    OFFSET_COMMIT = 8, 2, 10, 8
    OFFSET_FETCH = 9, 1, 10, 6
    FIND_COORDINATOR = 10, 0, 6, 3
    JOIN_GROUP = 11, 0, 9, 6
    HEARTBEAT = 12, 0, 4, 4
    LEAVE_GROUP = 13, 0, 5, 4
    SYNC_GROUP = 14, 0, 5, 4
    DESCRIBE_GROUPS = 15, 0, 6, 5
    LIST_GROUPS = 16, 0, 5, 3
    SASL_HANDSHAKE = 17, 0, 1, NEVER
    API_VERSIONS = 18, 0, 4, 3
    CREATE_TOPICS = 19, 2, 7, 5
    DELETE_TOPICS = 20, 1, 6, 4
    DELETE_RECORDS = 21, 0, 2, 2
    INIT_PRODUCER_ID = 22, 0, 6, 2
    OFFSET_FOR_LEADER_EPOCH = 23, 2, 4, 4
    ADD_PARTITIONS_TO_TXN = 24, 0, 5, 3
    ADD_OFFSETS_TO_TXN = 25, 0, 4, 3
    END_TXN = 26, 0, 5, 3
    WRITE_TXN_MARKERS = 27, 1, 2, 1
    TXN_OFFSET_COMMIT = 28, 0, 5, 3
    DESCRIBE_ACLS = 29, 1, 3, 2
    CREATE_ACLS = 30, 1, 3, 2
    DELETE_ACLS = 31, 1, 3, 2
    DESCRIBE_CONFIGS = 32, 1, 4, 4
    ALTER_CONFIGS = 33, 0, 2, 2
    ALTER_REPLICA_LOG_DIRS = 34, 1, 2, 2
    DESCRIBE_LOG_DIRS = 35, 1, 5, 2
    SASL_AUTHENTICATE = 36, 0, 2, 2
    CREATE_PARTITIONS = 37, 0, 3, 2
    CREATE_DELEGATION_TOKEN = 38, 1, 3, 2
    RENEW_DELEGATION_TOKEN = 39, 1, 2, 2
    EXPIRE_DELEGATION_TOKEN = 40, 1, 2, 2
    DESCRIBE_DELEGATION_TOKEN = 41, 1, 3, 2
    DELETE_GROUPS = 42, 0, 2, 2
    ELECT_LEADERS = 43, 0, 2, 2
    INCREMENTAL_ALTER_CONFIGS = 44, 0, 1, 1
    ALTER_PARTITION_REASSIGNMENTS = 45, 0, 1, 0
    LIST_PARTITION_REASSIGNMENTS = 46, 0, 0, 0
    OFFSET_DELETE = 47, 0, 0, NEVER
    DESCRIBE_CLIENT_QUOTAS = 48, 0, 1, 1
    ALTER_CLIENT_QUOTAS = 49, 0, 1, 1
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, 0, 0, 0
    ALTER_USER_SCRAM_CREDENTIALS = 51, 0, 0, 0
    VOTE = 52, 0, 2, 0, BETWEEN_NODES
    BEGIN_QUORUM_EPOCH = 53, 0, 1, 1, BETWEEN_NODES
    END_QUORUM_EPOCH = 54, 0, 1, 1, BETWEEN_NODES
    DESCRIBE_QUORUM = 55, 0, 2, 0
    ALTER_PARTITION = 56, 2, 3, 2, BETWEEN_NODES
    UPDATE_FEATURES = 57, 0, 2, 0
    ENVELOPE = 58, 0, 0, 0, BETWEEN_NODES
    FETCH_SNAPSHOT = 59, 0, 1, 0, BETWEEN_NODES
    DESCRIBE_CLUSTER = 60, 0, 2, 0
    DESCRIBE_PRODUCERS = 61, 0, 0, 0
    BROKER_REGISTRATION = 62, 0, 4, 0, BETWEEN_NODES
    BROKER_HEARTBEAT = 63, 0, 2, 0, BETWEEN_NODES
    UNREGISTER_BROKER = 64, 0, 0, 0
    DESCRIBE_TRANSACTIONS = 65, 0, 0, 0
    LIST_TRANSACTIONS = 66, 0, 2, 0
    ALLOCATE_PRODUCER_IDS = 67, 0, 0, 0, BETWEEN_NODES
    CONSUMER_GROUP_HEARTBEAT = 68, 0, 1, 0
    CONSUMER_GROUP_DESCRIBE = 69, 0, 1, 0
    CONTROLLER_REGISTRATION = 70, 0, 0, 0, BETWEEN_NODES
    GET_TELEMETRY_SUBSCRIPTIONS = 71, 0, 0, 0
    PUSH_TELEMETRY = 72, 0, 0, 0
    ASSIGN_REPLICAS_TO_DIRS = 73, 0, 0, 0, BETWEEN_NODES
    LIST_CONFIG_RESOURCES = 74, 0, 1, 0
    DESCRIBE_TOPIC_PARTITIONS = 75, 0, 0, 0
    SHARE_GROUP_HEARTBEAT = 76, 1, 1, 1
    SHARE_GROUP_DESCRIBE = 77, 1, 1, 1
    SHARE_FETCH = 78, 1, 2, 1
    SHARE_ACKNOWLEDGE = 79, 1, 2, 1
    ADD_RAFT_VOTER = 80, 0, 1, 0
    REMOVE_RAFT_VOTER = 81, 0, 0, 0
    UPDATE_RAFT_VOTER = 82, 0, 0, 0, BETWEEN_NODES
    INITIALIZE_SHARE_GROUP_STATE = 83, 0, 0, 0
    READ_SHARE_GROUP_STATE = 84, 0, 0, 0
    WRITE_SHARE_GROUP_STATE = 85, 0, 1, 0
    DELETE_SHARE_GROUP_STATE = 86, 0, 0, 0
    READ_SHARE_GROUP_STATE_SUMMARY = 87, 0, 1, 0
    STREAMS_GROUP_HEARTBEAT = 88, 0, 0, 0
    STREAMS_GROUP_DESCRIBE = 89, 0, 0, 0
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, 0, 1, 0
    ALTER_SHARE_GROUP_OFFSETS = 91, 0, 0, 0
    DELETE_SHARE_GROUP_OFFSETS = 92, 0, 0, 0

    @property
    def label(self) -> str:
        """Kafka's name of the API: `ApiKey.LIST_OFFSETS.label == "ListOffsets"`."""
        return self.name.title().replace("_", "")

    @property
    def last_stable_version(self) -> int:
        """The last version that brokers announce without `unstable.api.versions.enable`."""
        return self.last_version - (self.name in UNSTABLE_LAST_VERSIONS)

    @property
    def versions(self) -> range:
        """The versions of the API that kafkatools supports."""
        return range(self.first_version, self.last_version + 1)


UNSTABLE_LAST_VERSIONS: Final = frozenset(("INIT_PRODUCER_ID",))
"""The APIs whose last version Kafka 4.3.1 still develops (`latestVersionUnstable`): InitProducerId 6 (KIP-939)."""


def versions_of(api_key: int) -> range:
    """Return the supported versions of an API. Raises ValueError for an unknown key."""
    return ApiKey(api_key).versions


def is_flexible(api_key: int, version: int) -> bool:
    """Return whether a version has compact lengths and tagged fields (KIP-482). Raises ValueError for an unknown
    key."""
    return version >= ApiKey(api_key).first_flexible_version


def response_header_version(api_key: int, version: int) -> int:
    """Return the response header version: 1 for a flexible response, else 0. Always 0 for ApiVersions, whose reader may
    not know the version (KIP-511). Raises ValueError for an unknown key."""
    return 1 if api_key != ApiKey.API_VERSIONS and is_flexible(api_key, version) else 0


class VersionRange(NamedTuple):
    """The lowest and the highest supported version of an API or a feature."""

    min_version: int
    max_version: int


class BrokerVersions(NamedTuple):
    """The content of a broker's ApiVersions response (Kafka's NodeApiVersions). `ranges` is by API key; the epoch is -1
    when the broker does not send one."""

    error_code: int
    ranges: dict[int, VersionRange]
    throttle_time_ms: int = 0
    supported_features: dict[str, VersionRange] = {}
    finalized_features: dict[str, VersionRange] = {}
    finalized_features_epoch: int = -1

    def supports(self, api_key: int, version: int) -> bool:
        """Return whether the broker supports a version of an API."""
        versions = self.ranges.get(api_key)
        return versions is not None and versions.min_version <= version <= versions.max_version

    def choose_version(self, api_key: int, oldest: int = 0, newest: int = NEVER) -> int:
        """Return the newest version from `oldest` to `newest` that both sides support. Raises UnsupportedVersion
        (OnlyByBrokers if the node is a controller), ValueError for an unknown key."""
        return choose_version(api_key, self.ranges, oldest, newest)


class OnlyByBrokers(UnsupportedVersion):
    """A request that only brokers answer was about to be sent to a controller."""


def choose_version(api_key: int, broker: dict[int, VersionRange], oldest: int = 0, newest: int = NEVER) -> int:
    """Return the newest version of an API from `oldest` to `newest` that both sides support
    (NodeApiVersions.latestUsableVersion). Raises UnsupportedVersion, its subclass OnlyByBrokers if a controller lacks
    the API, and ValueError for an unknown key."""
    client_versions = versions_of(api_key)
    node_range = broker.get(api_key)
    if node_range is None:
        is_controller = ApiKey.METADATA not in broker and ApiKey.BROKER_REGISTRATION in broker
        problem = OnlyByBrokers if is_controller else UnsupportedVersion
        raise problem(f"The node does not support {ApiKey(api_key).name}")
    highest = min(client_versions[-1], node_range.max_version, newest)
    lowest = max(client_versions[0], node_range.min_version, oldest)
    if highest < lowest:
        usable = f"[{max(client_versions[0], oldest)}, {min(client_versions[-1], newest)}]"
        raise UnsupportedVersion(
            f"The node does not support {ApiKey(api_key).name} with version in range {usable}. "
            f"The supported range is [{node_range.min_version},{node_range.max_version}]."
        )
    return highest
