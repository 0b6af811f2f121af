"""The one table of the APIs that a node serves: one row per API, read by both listeners, by forwarding, by ApiVersions,
by the limits on requests and by docs/apis.md.

Key and versions are those of `ApiKey`: a node serves every version that exists here, unless the row begins later. A
handler is `handle_<name>` in a module of `core/broker/apis`, which is imported when its API is first used: a node is
ready before it needs them all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

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
from kafkatools.core.protocol.api_versions import ApiKey

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

Handler = Callable[["Node", Request], Response]
# docs/reliability.md has the time of the worst requests of this size.
BYTES_AT_ONCE: Final = 8 * 1024
# A partition of a Fetch request has 16 bytes in version 4, 33 from version 13 on.
FETCH_BYTES_AT_ONCE: Final = 128 * 1024
# A broker or a group has hundreds of settings.
DESCRIBE_CONFIGS_BYTES_AT_ONCE: Final = 256
# Elements of all arrays together: enough for every partition of a large cluster. A quarter of a million elements take
# some 100 MiB while they are decoded.
MOST_READ: Final = 250_000
# Decoding and responding is done in slices; the change in between is one batch and cannot be interrupted.
MOST_CHANGED: Final = 20_000


class AnsweredBy(Enum):
    """Who answers an API. The value is the text of docs/apis.md."""

    BROKER = "the broker"
    EITHER = "the broker or controller that is asked"
    CONTROLLER = "the controller that is asked"
    ACTIVE_CONTROLLER = "the active controller, for nodes of the cluster"
    FORWARDED = "the active controller; brokers forward the request"
    FORWARDED_READ = "the active controller; brokers forward the request, and repeat it if need be"


FORWARDED: Final = (AnsweredBy.FORWARDED, AnsweredBy.FORWARDED_READ)
_ON_BROKERS: Final = (AnsweredBy.BROKER, AnsweredBy.EITHER, *FORWARDED)
_ON_CONTROLLERS: Final = (AnsweredBy.EITHER, AnsweredBy.CONTROLLER, AnsweredBy.ACTIVE_CONTROLLER, *FORWARDED)


class Work(Enum):
    """Whether a handler may be interrupted between two elements of a request or of a response."""

    AT_ONCE = "at once"  # it may change the broker's state
    PAUSES = "in slices until it makes its change"  # and then checks again what the change depends on
    SLICED = "in slices"  # it only reads; a response may have all partitions or all groups
    LARGE = "always in slices"  # it only reads; a response has all members of groups, all replicas or all transactions


class Api(NamedTuple):
    """One API of a listener."""

    key: ApiKey
    name: str
    lowest: int
    answered_by: AnsweredBy
    needs: int | None  # the operation on the cluster, or None: the handler checks the resources of the request
    work: Work
    bytes_at_once: int  # the size of a request above which it goes to the slow lane
    most_elements: int  # that the arrays of a request may have

    @property
    def highest(self) -> int:
        """The last version."""
        return self.key.last_version

    @property
    def flexible_since(self) -> int:
        """The first version with flexible headers."""
        return self.key.first_flexible_version

    def load(self) -> Handler:
        """Import the handler."""
        handler: Handler = import_module(f"kafkatools.core.broker.apis.{self.name}").handle
        return handler


def _api(
    key: ApiKey,
    answered_by: AnsweredBy = AnsweredBy.BROKER,
    needs: int | None = None,
    work: Work = Work.AT_ONCE,
    *,
    name: str = "",
    lowest: int | None = None,
    bytes_at_once: int = BYTES_AT_ONCE,
    most_elements: int = 0,
) -> Api:
    most = most_elements or (MOST_READ if work in (Work.SLICED, Work.LARGE) else MOST_CHANGED)
    first = key.first_version if lowest is None else lowest
    return Api(key, name or key.name.lower(), first, answered_by, needs, work, bytes_at_once, most)


_K, _BY, _SLICED, _LARGE = ApiKey, AnsweredBy, Work.SLICED, Work.LARGE
TABLE: Final = (
    _api(_K.PRODUCE, bytes_at_once=sys.maxsize),
    _api(_K.FETCH, bytes_at_once=FETCH_BYTES_AT_ONCE, most_elements=50_000),
    # By the last fetched epoch, of version 12, a leader sees where a replica's log parts from its own.
    _api(
        _K.FETCH,
        _BY.CONTROLLER,
        CLUSTER_ACTION,
        name="raft_fetch",
        lowest=12,
        bytes_at_once=FETCH_BYTES_AT_ONCE,
        most_elements=50_000,
    ),
    _api(_K.LIST_OFFSETS, work=_SLICED),
    _api(_K.METADATA, work=_SLICED),
    _api(_K.OFFSET_COMMIT, work=Work.PAUSES, most_elements=50_000),  # a batch of 1 MiB has about 16,000 offsets
    _api(_K.OFFSET_FETCH, work=_SLICED),
    _api(_K.FIND_COORDINATOR, work=_SLICED),
    _api(_K.JOIN_GROUP),
    _api(_K.HEARTBEAT),
    _api(_K.LEAVE_GROUP),
    _api(_K.SYNC_GROUP),
    _api(_K.DESCRIBE_GROUPS, work=_LARGE),
    _api(_K.LIST_GROUPS, work=_SLICED),
    _api(_K.API_VERSIONS, _BY.EITHER),
    _api(_K.CREATE_TOPICS, _BY.FORWARDED, most_elements=50_000),  # 10,000 partitions with their replicas
    _api(_K.DELETE_TOPICS, _BY.FORWARDED),
    _api(_K.DELETE_RECORDS, most_elements=50_000),
    _api(_K.INIT_PRODUCER_ID),
    _api(_K.OFFSET_FOR_LEADER_EPOCH, work=_SLICED),
    _api(_K.ADD_PARTITIONS_TO_TXN),
    _api(_K.ADD_OFFSETS_TO_TXN),
    _api(_K.END_TXN),
    _api(_K.WRITE_TXN_MARKERS),
    _api(_K.TXN_OFFSET_COMMIT, most_elements=100_000),
    _api(_K.DESCRIBE_ACLS, _BY.EITHER, DESCRIBE, _SLICED),
    _api(_K.CREATE_ACLS, _BY.FORWARDED, ALTER),
    _api(_K.DELETE_ACLS, _BY.FORWARDED, ALTER),
    _api(
        _K.DESCRIBE_CONFIGS,
        _BY.EITHER,
        work=_SLICED,
        bytes_at_once=DESCRIBE_CONFIGS_BYTES_AT_ONCE,
        most_elements=50_000,
    ),
    _api(_K.ALTER_CONFIGS, _BY.FORWARDED),
    _api(_K.ALTER_REPLICA_LOG_DIRS, needs=ALTER, most_elements=50_000),
    _api(_K.DESCRIBE_LOG_DIRS, needs=DESCRIBE, work=_LARGE),
    _api(_K.CREATE_PARTITIONS, _BY.FORWARDED, most_elements=50_000),
    _api(_K.CREATE_DELEGATION_TOKEN),
    _api(_K.RENEW_DELEGATION_TOKEN),
    _api(_K.EXPIRE_DELEGATION_TOKEN),
    _api(_K.DESCRIBE_DELEGATION_TOKEN),
    _api(_K.DELETE_GROUPS),
    _api(_K.ELECT_LEADERS, _BY.FORWARDED, ALTER, most_elements=50_000),
    _api(_K.INCREMENTAL_ALTER_CONFIGS, _BY.FORWARDED),
    _api(_K.ALTER_PARTITION_REASSIGNMENTS, _BY.FORWARDED, ALTER, most_elements=50_000),
    _api(_K.LIST_PARTITION_REASSIGNMENTS, _BY.FORWARDED_READ, DESCRIBE, _SLICED, most_elements=50_000),
    _api(_K.OFFSET_DELETE),
    _api(_K.DESCRIBE_CLIENT_QUOTAS, needs=DESCRIBE_CONFIGS),
    _api(_K.ALTER_CLIENT_QUOTAS, _BY.FORWARDED, ALTER_CONFIGS),
    _api(_K.DESCRIBE_USER_SCRAM_CREDENTIALS, needs=DESCRIBE, work=_SLICED),
    _api(_K.ALTER_USER_SCRAM_CREDENTIALS, _BY.FORWARDED, ALTER),
    _api(_K.VOTE, _BY.CONTROLLER, CLUSTER_ACTION),
    _api(_K.BEGIN_QUORUM_EPOCH, _BY.CONTROLLER, CLUSTER_ACTION),
    _api(_K.END_QUORUM_EPOCH, _BY.CONTROLLER, CLUSTER_ACTION),
    _api(_K.DESCRIBE_QUORUM, _BY.FORWARDED_READ, DESCRIBE, most_elements=1000),  # one partition
    _api(_K.ALTER_PARTITION, _BY.ACTIVE_CONTROLLER, CLUSTER_ACTION),
    _api(_K.UPDATE_FEATURES, _BY.FORWARDED, ALTER),
    _api(_K.ENVELOPE, _BY.CONTROLLER, CLUSTER_ACTION),
    _api(_K.FETCH_SNAPSHOT, _BY.CONTROLLER, CLUSTER_ACTION),
    _api(_K.DESCRIBE_CLUSTER, _BY.EITHER),
    _api(_K.DESCRIBE_PRODUCERS, work=_SLICED),
    _api(_K.BROKER_REGISTRATION, _BY.ACTIVE_CONTROLLER, CLUSTER_ACTION),
    _api(_K.BROKER_HEARTBEAT, _BY.ACTIVE_CONTROLLER, CLUSTER_ACTION),
    _api(_K.UNREGISTER_BROKER, _BY.FORWARDED, ALTER),
    _api(_K.DESCRIBE_TRANSACTIONS),
    _api(_K.LIST_TRANSACTIONS, work=_LARGE, most_elements=20_000),
    _api(_K.ALLOCATE_PRODUCER_IDS, _BY.ACTIVE_CONTROLLER, CLUSTER_ACTION),
    _api(_K.CONSUMER_GROUP_HEARTBEAT),
    _api(_K.CONSUMER_GROUP_DESCRIBE, work=_LARGE),
    _api(_K.CONTROLLER_REGISTRATION, _BY.ACTIVE_CONTROLLER, CLUSTER_ACTION),
    _api(_K.ASSIGN_REPLICAS_TO_DIRS, _BY.ACTIVE_CONTROLLER, CLUSTER_ACTION),
    _api(_K.LIST_CONFIG_RESOURCES, needs=DESCRIBE_CONFIGS),
    _api(_K.DESCRIBE_TOPIC_PARTITIONS, work=_SLICED),
    _api(_K.SHARE_GROUP_HEARTBEAT),
    _api(_K.SHARE_GROUP_DESCRIBE, work=_LARGE),
    _api(_K.SHARE_FETCH),
    _api(_K.SHARE_ACKNOWLEDGE),
    _api(_K.INITIALIZE_SHARE_GROUP_STATE, needs=CLUSTER_ACTION),
    _api(_K.READ_SHARE_GROUP_STATE, needs=CLUSTER_ACTION),
    _api(_K.WRITE_SHARE_GROUP_STATE, needs=CLUSTER_ACTION),
    _api(_K.DELETE_SHARE_GROUP_STATE, needs=CLUSTER_ACTION),
    _api(_K.READ_SHARE_GROUP_STATE_SUMMARY, needs=CLUSTER_ACTION),
    _api(_K.DESCRIBE_SHARE_GROUP_OFFSETS),
    _api(_K.ALTER_SHARE_GROUP_OFFSETS),
    _api(_K.DELETE_SHARE_GROUP_OFFSETS),
)


def _on(listener: Iterable[AnsweredBy]) -> dict[int, Api]:
    return {api.key: api for api in TABLE if api.answered_by in listener}


BROKER_APIS: Final = _on(_ON_BROKERS)
CONTROLLER_APIS: Final = _on(_ON_CONTROLLERS)
_NEEDED: Final = {api.key: api.needs for api in TABLE if api.needs is not None}


class Authorizes(Protocol):
    """The node, for the check of a client's rights."""

    def authorize(self, request: Request, operation: int, resource_type: int, name: str) -> bool:
        """Whether the client may do the operation on the resource."""
        ...

    def authorize_or_raise(self, request: Request, operation: int, resource_type: int, name: str) -> None:
        """Raises the authorization error of the resource's type."""
        ...


def is_permitted(node: Authorizes, request: Request) -> bool:
    """Whether the client may do on the cluster what the API needs."""
    return node.authorize(request, _NEEDED[ApiKey(request.api_key)], CLUSTER, CLUSTER_NAME)


def ensure_permitted(node: Authorizes, request: Request) -> None:
    """Raise ClusterAuthorizationFailed unless the client may do on the cluster what the API needs."""
    node.authorize_or_raise(request, _NEEDED[ApiKey(request.api_key)], CLUSTER, CLUSTER_NAME)
