"""Contexts: for each resource, the members of a node that its handlers may use.

A node satisfies every context. A handler declares the context of its resource, so the type checker rejects any other
member. The contexts exist for the type checker only; `node.py` documents the members.
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
    from kafkatools.core.errors import KafkaError
    from kafkatools.core.log.partition.log_manager import LogManager


class _Image(Rights, HasImage, Protocol):
    """The metadata, and who may do what."""


class _ClusterId(Protocol):
    @property
    def cluster_id(self) -> str: ...


class _Coordination(Protocol):
    @property
    def coordination(self) -> Coordination: ...


class _FetchPurgatory(Protocol):
    @property
    def fetch_purgatory(self) -> Purgatory: ...


class _ProducePurgatory(Protocol):
    @property
    def produce_purgatory(self) -> Purgatory: ...


# -- metadata ----------------------------------------------------------------------------------------------------------
class ChangeContext(_Image, HasBrokerSettings, Protocol):
    """Changes of the metadata. On a node that is not the active controller, `controller` refuses them."""

    @property
    def controller(self) -> Controller | RefusedChanges: ...


class MetadataContext(_Image, HasConfig, HasBrokerSettings, _ClusterId, Protocol):
    """Topics and brokers, for Metadata and DescribeTopicPartitions."""

    def create_topic_later(self, topic: NewTopic) -> TopicState | KafkaError | None: ...


class ClusterContext(_Image, HasMetadataOffset, _ClusterId, _Coordination, Protocol):
    """The nodes of the cluster, and the coordinators of groups and transactions."""

    @property
    def advertised_host(self) -> str: ...

    @property
    def advertised_port(self) -> int: ...

    @property
    def controller_id(self) -> int: ...

    @property
    def controllers(self) -> Mapping[int, tuple[str, int]]: ...

    def creates_partitions(self, api_key: int) -> bool: ...

    def change_in_slices(self, pause: Callable[[], None], change: Callable[[], Response]) -> Response: ...

    def is_controller_listener(self, name: str) -> bool: ...


class ControllerContext(Authorizes, HasClock, Protocol):
    """The active controller, for requests of other nodes: registration, heartbeats, AlterPartition."""

    @property
    def controller(self) -> Controller: ...


class QuorumContext(Rights, HasClock, Protocol):
    """The quorum of controllers."""

    @property
    def quorum(self) -> Quorum: ...

    def why_no_controller(self) -> str: ...


class RaftContext(Authorizes, HasClock, HasRaft, Protocol):
    """A member of a quorum of several."""


# -- records -----------------------------------------------------------------------------------------------------------
class ReplicaContext(_Image, HasClock, Protocol):
    """The replicas on this broker."""

    @property
    def replicas(self) -> ReplicaManager: ...

    def note_failure(self, error: Exception) -> None: ...


class ReadContext(ReplicaContext, _FetchPurgatory, Protocol):
    """Fetch requests and their sessions; requests that wait for records are in the purgatory."""

    @property
    def fetch_max_bytes(self) -> int: ...

    @property
    def fetch_sessions(self) -> FetchSessionCache: ...


class ProduceContext(ReplicaContext, HasConfig, _Coordination, _ProducePurgatory, Protocol):
    """Produce requests and quotas; requests that wait for followers are in the purgatory."""

    @property
    def quotas(self) -> Quotas: ...


class LogDirContext(ReplicaContext, Protocol):
    """Log directories, and moves of replicas between them."""

    @property
    def keeper(self) -> DirectoryKeeper | None: ...

    @property
    def logs(self) -> LogManager: ...


# -- coordinators ------------------------------------------------------------------------------------------------------
class GroupContext(ReplicaContext, HasConfig, _Coordination, _ProducePurgatory, Protocol):
    """Groups of all types, and their committed offsets."""

    @property
    def groups(self) -> GroupCoordinator: ...


class ShareContext(GroupContext, _FetchPurgatory, Protocol):
    """Share groups, their acquired records, and the persisted state of share partitions."""

    @property
    def share_partitions(self) -> SharePartitionManager: ...


class TransactionContext(GroupContext, Protocol):
    """Producer ids and transactions."""

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def transactions(self) -> TransactionCoordinator: ...
