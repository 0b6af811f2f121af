"""Contexts: for each resource, the members of a node that its handlers may use.

A node satisfies every context. A handler declares the context of its resource, so the type checker rejects any other
member. The contexts exist for the type checker only; `node.py` documents the members.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from kafkatools.core.broker.server.apis import Authorizes

if TYPE_CHECKING:
    from kafkatools.core.broker.coordinators.coordination import Coordination
    from kafkatools.core.broker.coordinators.groups.coordinator import GroupCoordinator
    from kafkatools.core.broker.coordinators.transactions.coordinator import TransactionCoordinator
    from kafkatools.core.broker.metadata.broker_settings import BrokerSettings
    from kafkatools.core.broker.metadata.controller.changes import RefusedChanges
    from kafkatools.core.broker.metadata.controller.controller import Controller
    from kafkatools.core.broker.metadata.controller.topics import NewTopic
    from kafkatools.core.broker.metadata.image import MetadataImage, TopicState
    from kafkatools.core.broker.metadata.producer_ids import ProducerIds
    from kafkatools.core.broker.metadata.quorum.raft import Raft
    from kafkatools.core.broker.replicas.directory_keeper import DirectoryKeeper
    from kafkatools.core.broker.replicas.fetch_session import FetchSessionCache
    from kafkatools.core.broker.replicas.replica_manager import ReplicaManager
    from kafkatools.core.broker.replicas.share.partition_manager import SharePartitionManager
    from kafkatools.core.broker.server.authorizer import StandardAuthorizer
    from kafkatools.core.broker.server.channels import Quorum
    from kafkatools.core.broker.server.purgatory import Purgatory
    from kafkatools.core.broker.server.quotas import Quotas
    from kafkatools.core.broker.server.requests import Request
    from kafkatools.core.clock import Clock
    from kafkatools.core.config import Config
    from kafkatools.core.errors import KafkaError
    from kafkatools.core.log.partition.log_manager import LogManager


class Rights(Authorizes, Protocol):
    """The authorizer, and the id of this node."""

    @property
    def node_id(self) -> int: ...

    @property
    def authorizer(self) -> StandardAuthorizer | None: ...

    def authorize_any(self, request: Request, operation: int, resource_type: int) -> bool: ...

    def authorized_operations(self, request: Request, resource_type: int, name: str) -> int: ...


class _Image(Rights, Protocol):
    @property
    def image(self) -> MetadataImage: ...


class _Clock(Protocol):
    @property
    def clock(self) -> Clock: ...


class _Failures(Protocol):
    def note_failure(self, error: Exception) -> None: ...


class _Config(Protocol):
    @property
    def config(self) -> Config: ...


class _Endpoint(Protocol):
    @property
    def advertised_host(self) -> str: ...

    @property
    def advertised_port(self) -> int: ...


# -- metadata ----------------------------------------------------------------------------------------------------------
class ChangeContext(_Image, Protocol):
    """Changes of the metadata. On a node that is not the active controller, `controller` refuses them."""

    @property
    def controller(self) -> Controller | RefusedChanges: ...

    @property
    def broker_settings(self) -> BrokerSettings: ...


class MetadataContext(_Image, _Config, Protocol):
    """Topics and brokers, for Metadata and DescribeTopicPartitions."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def broker_settings(self) -> BrokerSettings: ...

    def create_topic(self, topic: NewTopic) -> TopicState | KafkaError | None: ...


class ClusterContext(_Image, _Endpoint, Protocol):
    """The nodes of the cluster, and the coordinators of groups and transactions."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def controller_id(self) -> int: ...

    @property
    def controllers(self) -> Mapping[int, tuple[str, int]]: ...

    @property
    def coordination(self) -> Coordination: ...

    @property
    def metadata_offset(self) -> int: ...

    def is_controller_listener(self, name: str) -> bool: ...


class ControllerContext(Authorizes, _Clock, Protocol):
    """The active controller, for requests of other nodes: registration, heartbeats, AlterPartition."""

    @property
    def controller(self) -> Controller: ...


class QuorumContext(Rights, _Clock, Protocol):
    """The quorum of controllers."""

    @property
    def quorum(self) -> Quorum: ...

    def why_no_controller(self) -> str: ...


class RaftContext(Authorizes, _Clock, Protocol):
    """A member of a quorum of several."""

    @property
    def raft(self) -> Raft: ...


# -- records -----------------------------------------------------------------------------------------------------------
class ReplicaContext(_Image, _Clock, _Failures, Protocol):
    """The replicas on this broker."""

    @property
    def replicas(self) -> ReplicaManager: ...


class ReadContext(ReplicaContext, Protocol):
    """Fetch requests and their sessions; requests that wait for records are in the purgatory."""

    @property
    def fetch_max_bytes(self) -> int: ...

    @property
    def fetch_purgatory(self) -> Purgatory: ...

    @property
    def fetch_sessions(self) -> FetchSessionCache: ...


class ProduceContext(ReplicaContext, _Config, Protocol):
    """Produce requests and quotas; requests that wait for followers are in the purgatory."""

    @property
    def coordination(self) -> Coordination: ...

    @property
    def produce_purgatory(self) -> Purgatory: ...

    @property
    def quotas(self) -> Quotas: ...


class LogDirContext(ReplicaContext, Protocol):
    """Log directories, and moves of replicas between them."""

    @property
    def keeper(self) -> DirectoryKeeper | None: ...

    @property
    def logs(self) -> LogManager: ...


# -- coordinators ------------------------------------------------------------------------------------------------------
class GroupContext(_Image, _Clock, _Config, Protocol):
    """Groups of all types, and their committed offsets."""

    @property
    def coordination(self) -> Coordination: ...

    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def produce_purgatory(self) -> Purgatory: ...

    @property
    def replicas(self) -> ReplicaManager: ...


class ShareContext(GroupContext, _Failures, Protocol):
    """Share groups, their acquired records, and the persisted state of share partitions."""

    @property
    def fetch_purgatory(self) -> Purgatory: ...

    @property
    def share_partitions(self) -> SharePartitionManager: ...


class TransactionContext(GroupContext, _Failures, Protocol):
    """Producer ids and transactions."""

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def transactions(self) -> TransactionCoordinator: ...
