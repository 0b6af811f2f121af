"""The table of the APIs that a node serves, one row per API.

Both listeners, forwarding, ApiVersions, the limits on requests and docs/apis.md read it. A node serves all stable
versions of `ApiKey`, unless the row has a higher `lowest`; with unstable.api.versions.enable it serves all. A module of
handlers is imported when one of its APIs is first used, so that a node starts faster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, unique
from importlib import import_module
from typing import Any, Final, Protocol

from kafkatools.core.broker.metadata.controller.acls import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    DESCRIBE,
    DESCRIBE_CONFIGS,
)
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import UNKNOWN_CODE, KafkaError, UnknownServerError
from kafkatools.core.protocol.api_versions import ApiKey

Handler = Callable[[Any, Request], Response]
"""Called with the node and a request. A handler declares the node as the context of its resource (`apis/contexts.py`);
here the type is Any, since a handler is found by its name and the node satisfies every context."""
# docs/reliability.md lists the processor time of the slowest requests of this size.
BYTES_AT_ONCE: Final = 8 * 1024
# A partition of a Fetch request has 16 bytes in version 4, 33 from version 13 on: at most 2,000 partitions.
FETCH_BYTES_AT_ONCE: Final = 32 * 1024
# Metadata may create the topics that it names, a third of a millisecond each: at most 70 names.
NAMES_BYTES_AT_ONCE: Final = 256
# A broker or a group has hundreds of settings.
DESCRIBE_CONFIGS_BYTES_AT_ONCE: Final = 256
# The most elements of all arrays of a request that only reads: enough for every partition of a large cluster. A quarter
# of a million elements take some 100 MiB while they are decoded.
MOST_READ: Final = 250_000
# The most elements of a request that changes state. Decoding and encoding are done in slices, but the change in between
# is one batch and cannot be interrupted.
MOST_CHANGED: Final = 20_000


@unique
class ServedBy(Enum):
    """The node that answers an API. The value is the text of docs/apis.md."""

    BROKER = "the broker"
    EITHER = "the broker or controller that is asked"
    CONTROLLER = "the controller that is asked"
    ACTIVE_CONTROLLER = "the active controller, for nodes of the cluster"
    FORWARDED = "the active controller; brokers forward the request"
    QUORUM_LEADER = "the leader of the quorum; brokers forward the request"
    FORWARDED_READ = "the active controller; brokers forward the request, and repeat it if need be"


FORWARDED: Final = (ServedBy.FORWARDED, ServedBy.FORWARDED_READ, ServedBy.QUORUM_LEADER)
_ON_BROKERS: Final = (ServedBy.BROKER, ServedBy.EITHER, *FORWARDED)
_ON_CONTROLLERS: Final = (ServedBy.EITHER, ServedBy.CONTROLLER, ServedBy.ACTIVE_CONTROLLER, *FORWARDED)


@unique
class Work(Enum):
    """Whether a handler may pause between two elements of a request or of a response."""

    AT_ONCE = "at once"  # it may change the broker's state
    PAUSES = "in slices until it makes its change"  # it then repeats the checks that the change depends on
    APPLIED = "in slices, between two changes"  # it changes metadata: even a small request, of very many partitions
    SLICED = "in slices"  # it only reads; a response may have all partitions or all groups
    LARGE = "always in slices"  # it only reads; a response has all members of groups, all replicas or all transactions


@dataclass(frozen=True, slots=True)
class Api:
    """One API of a listener: its handler is `handle_<name>` of a module of `core/broker/apis`."""

    key: ApiKey
    module: str
    served_by: ServedBy = ServedBy.BROKER
    operation: int | None = None  # the required operation on the cluster; None: the handler authorizes the resources
    work: Work = Work.AT_ONCE
    bytes_at_once: int = BYTES_AT_ONCE  # the size of a request above which it goes to the slow lane
    most_elements: int = 0  # the limit on all array elements of a request; 0: MOST_READ or MOST_CHANGED
    lowest: int = -1  # the first served version; -1: the key's first version
    name: str = ""  # the handler's name; empty: the key's name
    highest: int = -1  # the last served version; -1: the key's last stable version

    def __post_init__(self) -> None:
        most = MOST_READ if self.work in (Work.SLICED, Work.LARGE) else MOST_CHANGED
        object.__setattr__(self, "most_elements", self.most_elements or most)
        object.__setattr__(self, "lowest", self.key.first_version if self.lowest < 0 else self.lowest)
        object.__setattr__(self, "name", self.name or self.key.name.lower())
        object.__setattr__(self, "highest", self.key.last_stable_version if self.highest < 0 else self.highest)

    @property
    def flexible_since(self) -> int:
        """The first version with flexible headers."""
        return self.key.first_flexible_version

    def load(self) -> Handler:
        """Import the API's handler and wrap it so that a KafkaError becomes the response (`Request.refuse`).

        An error without a Kafka error code, such as a malformed request, is raised, and so is any error when the
        response has no error code for the whole request. It closes the connection.
        """
        handler: Handler = getattr(import_module(f"kafkatools.core.broker.apis.{self.module}"), f"handle_{self.name}")

        def answer(node: Any, request: Request) -> Response:
            try:
                return handler(node, request)
            except KafkaError as error:
                if error.code == UNKNOWN_CODE and not isinstance(error, UnknownServerError):
                    raise
                return request.refuse(error)

        return answer


_K, _BY, _SLICED, _LARGE = ApiKey, ServedBy, Work.SLICED, Work.LARGE
TABLE: Final = (
    Api(_K.PRODUCE, "produce", bytes_at_once=sys.maxsize),
    Api(_K.FETCH, "fetch", work=Work.PAUSES, bytes_at_once=FETCH_BYTES_AT_ONCE, most_elements=50_000),
    # Version 12 has LastFetchedEpoch, by which the leader finds where a replica's log diverges from its own.
    Api(
        _K.FETCH,
        "quorum",
        _BY.CONTROLLER,
        CLUSTER_ACTION,
        name="raft_fetch",
        lowest=12,
        bytes_at_once=FETCH_BYTES_AT_ONCE,
        most_elements=50_000,
    ),
    Api(_K.LIST_OFFSETS, "list_offsets", work=_SLICED),
    Api(_K.METADATA, "metadata", work=_SLICED, bytes_at_once=NAMES_BYTES_AT_ONCE),
    # A batch of 1 MiB has about 16,000 offsets.
    Api(_K.OFFSET_COMMIT, "offsets", work=Work.PAUSES, most_elements=50_000),
    Api(_K.OFFSET_FETCH, "offsets", work=_SLICED),
    Api(_K.FIND_COORDINATOR, "cluster", work=_SLICED),
    Api(_K.JOIN_GROUP, "classic_groups"),
    Api(_K.HEARTBEAT, "classic_groups"),
    Api(_K.LEAVE_GROUP, "classic_groups"),
    Api(_K.SYNC_GROUP, "classic_groups"),
    Api(_K.DESCRIBE_GROUPS, "groups", work=_LARGE),
    Api(_K.LIST_GROUPS, "groups", work=_SLICED),
    Api(_K.API_VERSIONS, "cluster", _BY.EITHER),
    Api(_K.SASL_HANDSHAKE, "users", _BY.EITHER),
    # 10,000 partitions with their replicas.
    Api(_K.CREATE_TOPICS, "topics", _BY.FORWARDED, work=Work.APPLIED, most_elements=50_000),
    Api(_K.DELETE_TOPICS, "topics", _BY.FORWARDED, work=Work.APPLIED),
    Api(_K.DELETE_RECORDS, "topics", most_elements=50_000),
    Api(_K.INIT_PRODUCER_ID, "producers"),
    Api(_K.OFFSET_FOR_LEADER_EPOCH, "list_offsets", work=_SLICED),
    Api(_K.ADD_PARTITIONS_TO_TXN, "transactions"),
    Api(_K.ADD_OFFSETS_TO_TXN, "transaction_offsets"),
    Api(_K.END_TXN, "transactions"),
    Api(_K.WRITE_TXN_MARKERS, "transactions"),
    Api(_K.TXN_OFFSET_COMMIT, "transaction_offsets", work=Work.PAUSES, most_elements=100_000),
    Api(_K.DESCRIBE_ACLS, "acls", _BY.EITHER, DESCRIBE, _SLICED),
    Api(_K.CREATE_ACLS, "acls", _BY.FORWARDED, ALTER),
    Api(_K.DELETE_ACLS, "acls", _BY.FORWARDED, ALTER),
    Api(
        _K.DESCRIBE_CONFIGS,
        "configs",
        _BY.EITHER,
        work=_SLICED,
        bytes_at_once=DESCRIBE_CONFIGS_BYTES_AT_ONCE,
        most_elements=50_000,
    ),
    Api(_K.ALTER_CONFIGS, "configs", _BY.FORWARDED, work=Work.APPLIED),
    Api(_K.ALTER_REPLICA_LOG_DIRS, "log_dirs", operation=ALTER, most_elements=50_000),
    Api(_K.DESCRIBE_LOG_DIRS, "log_dirs", operation=DESCRIBE, work=_LARGE),
    Api(_K.SASL_AUTHENTICATE, "users", _BY.EITHER),
    Api(_K.CREATE_PARTITIONS, "topics", _BY.FORWARDED, work=Work.APPLIED, most_elements=50_000),
    Api(_K.CREATE_DELEGATION_TOKEN, "delegation_tokens", _BY.FORWARDED),
    Api(_K.RENEW_DELEGATION_TOKEN, "delegation_tokens", _BY.FORWARDED),
    Api(_K.EXPIRE_DELEGATION_TOKEN, "delegation_tokens", _BY.FORWARDED),
    Api(_K.DESCRIBE_DELEGATION_TOKEN, "delegation_tokens", work=_SLICED),
    Api(_K.DELETE_GROUPS, "groups"),
    Api(_K.ELECT_LEADERS, "reassignments", _BY.FORWARDED, ALTER, Work.APPLIED, most_elements=50_000),
    Api(_K.INCREMENTAL_ALTER_CONFIGS, "configs", _BY.FORWARDED, work=Work.APPLIED),
    Api(_K.ALTER_PARTITION_REASSIGNMENTS, "reassignments", _BY.FORWARDED, ALTER, Work.APPLIED, most_elements=50_000),
    Api(_K.LIST_PARTITION_REASSIGNMENTS, "reassignments", _BY.FORWARDED_READ, DESCRIBE, _SLICED, most_elements=50_000),
    Api(_K.OFFSET_DELETE, "offsets"),
    Api(_K.DESCRIBE_CLIENT_QUOTAS, "users", operation=DESCRIBE_CONFIGS),
    Api(_K.ALTER_CLIENT_QUOTAS, "users", _BY.FORWARDED, ALTER_CONFIGS),
    Api(_K.DESCRIBE_USER_SCRAM_CREDENTIALS, "users", operation=DESCRIBE, work=_SLICED),
    Api(_K.ALTER_USER_SCRAM_CREDENTIALS, "users", _BY.FORWARDED, ALTER),
    Api(_K.VOTE, "quorum", _BY.CONTROLLER, CLUSTER_ACTION),
    Api(_K.BEGIN_QUORUM_EPOCH, "quorum", _BY.CONTROLLER, CLUSTER_ACTION),
    Api(_K.END_QUORUM_EPOCH, "quorum", _BY.CONTROLLER, CLUSTER_ACTION),
    Api(_K.DESCRIBE_QUORUM, "quorum", _BY.FORWARDED_READ, DESCRIBE, most_elements=1000),  # one partition
    Api(_K.ALTER_PARTITION, "controller", _BY.ACTIVE_CONTROLLER, CLUSTER_ACTION),
    Api(_K.UPDATE_FEATURES, "cluster", _BY.FORWARDED, ALTER),
    Api(_K.ENVELOPE, "envelope", _BY.CONTROLLER, CLUSTER_ACTION, bytes_at_once=0),  # most forward such changes
    Api(_K.FETCH_SNAPSHOT, "quorum", _BY.CONTROLLER, CLUSTER_ACTION),
    Api(_K.DESCRIBE_CLUSTER, "cluster", _BY.EITHER),
    Api(_K.DESCRIBE_PRODUCERS, "producers", work=_SLICED),
    Api(_K.BROKER_REGISTRATION, "controller", _BY.ACTIVE_CONTROLLER, CLUSTER_ACTION),
    Api(_K.BROKER_HEARTBEAT, "controller", _BY.ACTIVE_CONTROLLER, CLUSTER_ACTION),
    Api(_K.UNREGISTER_BROKER, "cluster", _BY.FORWARDED, ALTER),
    Api(_K.DESCRIBE_TRANSACTIONS, "transactions"),
    Api(_K.LIST_TRANSACTIONS, "transactions", work=_LARGE, most_elements=20_000),
    Api(_K.ALLOCATE_PRODUCER_IDS, "controller", _BY.ACTIVE_CONTROLLER, CLUSTER_ACTION),
    Api(_K.CONSUMER_GROUP_HEARTBEAT, "consumer_groups"),
    Api(_K.CONSUMER_GROUP_DESCRIBE, "consumer_groups", work=_LARGE),
    Api(_K.CONTROLLER_REGISTRATION, "controller", _BY.ACTIVE_CONTROLLER, CLUSTER_ACTION),
    Api(_K.GET_TELEMETRY_SUBSCRIPTIONS, "telemetry"),
    Api(_K.PUSH_TELEMETRY, "telemetry"),
    Api(_K.ASSIGN_REPLICAS_TO_DIRS, "controller", _BY.ACTIVE_CONTROLLER, CLUSTER_ACTION),
    Api(_K.LIST_CONFIG_RESOURCES, "configs", operation=DESCRIBE_CONFIGS),
    Api(_K.DESCRIBE_TOPIC_PARTITIONS, "metadata", work=_SLICED),
    Api(_K.SHARE_GROUP_HEARTBEAT, "share.groups"),
    Api(_K.SHARE_GROUP_DESCRIBE, "share.groups", work=_LARGE),
    Api(_K.SHARE_FETCH, "share.fetch"),
    Api(_K.SHARE_ACKNOWLEDGE, "share.fetch"),
    Api(_K.ADD_RAFT_VOTER, "quorum", _BY.QUORUM_LEADER, ALTER),
    Api(_K.REMOVE_RAFT_VOTER, "quorum", _BY.QUORUM_LEADER, ALTER),
    Api(_K.UPDATE_RAFT_VOTER, "quorum", _BY.CONTROLLER, CLUSTER_ACTION),
    Api(_K.INITIALIZE_SHARE_GROUP_STATE, "share.state", operation=CLUSTER_ACTION),
    Api(_K.READ_SHARE_GROUP_STATE, "share.state", operation=CLUSTER_ACTION),
    Api(_K.WRITE_SHARE_GROUP_STATE, "share.state", operation=CLUSTER_ACTION),
    Api(_K.DELETE_SHARE_GROUP_STATE, "share.state", operation=CLUSTER_ACTION),
    Api(_K.READ_SHARE_GROUP_STATE_SUMMARY, "share.state", operation=CLUSTER_ACTION),
    Api(_K.STREAMS_GROUP_HEARTBEAT, "streams_groups"),
    Api(_K.STREAMS_GROUP_DESCRIBE, "streams_groups", work=_LARGE),
    Api(_K.DESCRIBE_SHARE_GROUP_OFFSETS, "share.offsets"),
    Api(_K.ALTER_SHARE_GROUP_OFFSETS, "share.offsets"),
    Api(_K.DELETE_SHARE_GROUP_OFFSETS, "share.offsets"),
)


BROKER_APIS: Final[dict[int, Api]] = {api.key: api for api in TABLE if api.served_by in _ON_BROKERS}
CONTROLLER_APIS: Final[dict[int, Api]] = {api.key: api for api in TABLE if api.served_by in _ON_CONTROLLERS}
_OPERATIONS: Final = {api.key: api.operation for api in TABLE if api.operation is not None}


class Authorizes(Protocol):
    """The part of a node that checks a client's rights; `Authorizing` documents the methods."""

    def authorize(self, request: Request, operation: int, resource_type: int, name: str) -> bool: ...
    def authorize_or_raise(self, request: Request, operation: int, resource_type: int, name: str) -> None: ...


def is_permitted(node: Authorizes, request: Request) -> bool:
    """Return whether the client has the right on the cluster that the API's row requires."""
    return node.authorize(request, _OPERATIONS[ApiKey(request.api_key)], CLUSTER, CLUSTER_NAME)


def decode_permitted(node: Authorizes, request: Request) -> Any:
    """Decode a request that needs the right on the cluster that its API's row requires. Raises
    ClusterAuthorizationFailed without it, CloseConnection for a malformed body."""
    entity = request.decode()
    ensure_permitted(node, request)
    return entity


def ensure_permitted(node: Authorizes, request: Request) -> None:
    """Raise ClusterAuthorizationFailed unless the client has the right on the cluster that the API's row requires."""
    node.authorize_or_raise(request, _OPERATIONS[ApiKey(request.api_key)], CLUSTER, CLUSTER_NAME)


def without_telemetry(apis: Mapping[int, Api]) -> dict[int, Api]:
    """The same APIs without those of client metrics, for a node that has no place for the metrics."""
    return {key: api for key, api in apis.items() if api.module != "telemetry"}


def with_unstable_versions(apis: Mapping[int, Api]) -> dict[int, Api]:
    """The same APIs with the versions that Kafka still develops (unstable.api.versions.enable)."""
    return {key: replace(api, highest=api.key.last_version) for key, api in apis.items()}
