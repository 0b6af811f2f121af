"""Protocols of a node for the type checker: for each resource, the members that its API handlers may use.

A node satisfies every protocol here. A handler declares the context of its resource, so the type checker rejects the
use of any other member. `node.py` documents the members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from kafkatools.core.broker.node_parts import (
    HasBrokerSettings,
    HasClock,
    HasConfig,
    HasImage,
    HasMetadataOffset,
    HasMutationQuotas,
    HasRaft,
    Rights,
)
from kafkatools.core.broker.server.apis import Authorizes

if TYPE_CHECKING:
    from kafkatools.core.broker.coordinators.coordination import Coordination
    from kafkatools.core.broker.coordinators.groups.coordinator import GroupCoordinator
    from kafkatools.core.broker.coordinators.transactions.coordinator import TransactionCoordinator
    from kafkatools.core.broker.metadata.controller.controller import Controller
    from kafkatools.core.broker.metadata.controller.topics import NewTopic
    from kafkatools.core.broker.metadata.image import TopicState
    from kafkatools.core.broker.metadata.producer_ids import ProducerIds
    from kafkatools.core.broker.replicas.directory_keeper import DirectoryKeeper
    from kafkatools.core.broker.replicas.fetch_session import FetchSessionCache
    from kafkatools.core.broker.replicas.replica_manager import ReplicaManager
    from kafkatools.core.broker.replicas.share.partition_manager import SharePartitionManager
    from kafkatools.core.broker.server.channels import Quorum
    from kafkatools.core.broker.server.forwarding import RefusedChanges
    from kafkatools.core.broker.server.purgatory import Purgatory
    from kafkatools.core.broker.server.quotas import Quotas
    from kafkatools.core.broker.server.requests import Response
    from kafkatools.core.broker.telemetry.client_metrics import ClientMetrics
    from kafkatools.core.errors import KafkaError
    from kafkatools.core.log.partition.log_manager import LogManager


class _Image(Rights, HasImage, Protocol):
    """A node's metadata image, and its authorizer."""


class _Coordination(Protocol):
    @property
    def coordination(self) -> Coordination: ...


# -- metadata ----------------------------------------------------------------------------------------------------------
class ChangeContext(_Image, HasBrokerSettings, HasMutationQuotas, Protocol):
    """The node for handlers that change or describe metadata: topics, configs, ACLs, client quotas, SCRAM credentials.
    `controller` is the node's own controller, or `RefusedChanges` when no active controller accepted the request."""

    @property
    def controller(self) -> Controller | RefusedChanges: ...


class MetadataContext(_Image, HasConfig, HasBrokerSettings, Protocol):
    """The node for Metadata and DescribeTopicPartitions: image, settings, cluster id, automatic creation of topics."""

    @property
    def cluster_id(self) -> str: ...
    def create_topic_later(self, topic: NewTopic) -> TopicState | KafkaError | None: ...


class ClusterContext(_Image, HasMetadataOffset, _Coordination, Protocol):
    """The node for ApiVersions, DescribeCluster and FindCoordinator: the voters, the coordinators."""

    @property
    def cluster_id(self) -> str: ...
    @property
    def quorum(self) -> Quorum: ...
    @property
    def controller_id(self) -> int: ...
    @property
    def controllers(self) -> Mapping[int, tuple[str, int]]: ...
    def creates_partitions(self) -> bool: ...
    def change_in_slices(self, pause: Callable[[], None], change: Callable[[], Response]) -> Response: ...
    def is_controller_listener(self, name: str) -> bool: ...


class ControllerContext(Authorizes, HasClock, Protocol):
    """The active controller, for requests of other nodes: registration, heartbeats, AlterPartition."""

    @property
    def controller(self) -> Controller: ...


class QuorumContext(Rights, HasClock, Protocol):
    """The node for DescribeQuorum: the KRaft quorum, and the reason when it has no leader."""

    @property
    def quorum(self) -> Quorum: ...
    def no_controller_reason(self) -> str: ...


class RaftContext(Authorizes, HasClock, HasRaft, Protocol):
    """A voter of a KRaft quorum with several nodes, for Vote, FetchSnapshot, Fetch of the metadata log and the like."""


# -- records -----------------------------------------------------------------------------------------------------------
class ReplicaContext(_Image, HasClock, Protocol):
    """The node for requests about replicas: image, authorizer, clock and the partitions of this broker."""

    @property
    def replicas(self) -> ReplicaManager: ...
    def note_failure(self, error: Exception) -> None: ...


class ReadContext(ReplicaContext, Protocol):
    """The node for Fetch requests: fetch sessions, and the purgatory of requests that wait for records."""

    @property
    def fetch_purgatory(self) -> Purgatory: ...
    @property
    def fetch_max_bytes(self) -> int: ...
    @property
    def fetch_sessions(self) -> FetchSessionCache: ...


class ProduceContext(ReplicaContext, HasConfig, HasBrokerSettings, _Coordination, Protocol):
    """The node for Produce requests: client quotas, and the purgatory of requests that wait for followers."""

    @property
    def produce_purgatory(self) -> Purgatory: ...
    @property
    def quotas(self) -> Quotas: ...


class LogDirContext(ReplicaContext, Protocol):
    """The node for DescribeLogDirs and AlterReplicaLogDirs: log directories, and moves of replicas between them."""

    @property
    def keeper(self) -> DirectoryKeeper | None: ...
    @property
    def logs(self) -> LogManager: ...


# -- coordinators ------------------------------------------------------------------------------------------------------
class GroupContext(ReplicaContext, HasConfig, _Coordination, Protocol):
    """The node for requests of groups of all types, and for their committed offsets."""

    @property
    def produce_purgatory(self) -> Purgatory: ...
    @property
    def groups(self) -> GroupCoordinator: ...


class ShareContext(GroupContext, Protocol):
    """The node for requests of share groups: acquired records, and the persisted state of share partitions."""

    @property
    def fetch_purgatory(self) -> Purgatory: ...
    @property
    def share_partitions(self) -> SharePartitionManager: ...


class StreamsContext(GroupContext, Protocol):
    """The node for requests of streams groups, which create internal topics."""

    def create_topic_later(self, topic: NewTopic) -> TopicState | KafkaError | None: ...


class TelemetryContext(Protocol):
    """The node for requests of client metrics."""

    @property
    def client_metrics(self) -> ClientMetrics: ...


class TransactionContext(GroupContext, Protocol):
    """The node for InitProducerId and for transactions."""

    @property
    def producer_ids(self) -> ProducerIds: ...
    @property
    def transactions(self) -> TransactionCoordinator: ...
