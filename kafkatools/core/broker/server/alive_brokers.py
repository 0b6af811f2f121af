"""Who can be reached by a client that is connected to a listener, and what that makes of partitions: a broker that is
fenced or has no such listener is not named, its replicas are offline (KRaftMetadataCache)."""

from __future__ import annotations

from typing import Any

from kafkatools.core.broker.metadata.directory_ids import is_online
from kafkatools.core.broker.metadata.image import BrokerState, MetadataImage, PartitionState
from kafkatools.core.errors import NONE, LeaderNotAvailable, ListenerNotFound
from kafkatools.core.protocol.entities import Fields

FIRST_VERSION_WITH_LISTENER_NOT_FOUND = 6


class AliveBrokers:
    """The brokers of an image as one listener's clients see them."""

    def __init__(self, image: MetadataImage, listener_name: str) -> None:
        self._image = image
        self.addresses: dict[int, tuple[str, int]] = {}
        self._ids: set[int] = set()
        self._directories: set[Any] = set()
        for broker in image.brokers.values():
            address = endpoint(broker, listener_name)
            if address is not None:
                self.addresses[broker.broker_id] = address
                if not broker.is_fenced:
                    self._ids.add(broker.broker_id)
            self._directories.update(broker.log_dirs)

    def nodes(self, *, with_fenced: bool = False) -> list[BrokerState]:
        """The brokers that a client is told of."""
        told = self.addresses if with_fenced else self._ids
        return [self._image.brokers[broker_id] for broker_id in sorted(told)]

    def named_by(self, node_id: int) -> list[BrokerState]:
        """The brokers in a Metadata response of a node: those that are not fenced, or the node itself when all are
        fenced. After a response without brokers librdkafka forgets every address and stays silent even when the
        brokers are back (rd_kafka_metadata_decommission_unavailable_brokers)."""
        return self.nodes() or [self._image.brokers[each] for each in self.addresses if each == node_id]

    def offline_replicas(self, partition: PartitionState) -> tuple[int, ...]:
        """Replicas that cannot be used."""
        replicas, directories = partition.replicas, partition.directories
        if self._ids.issuperset(replicas) and self._directories.issuperset(directories):
            return ()
        brokers = self._image.brokers
        where = directories if len(directories) == len(replicas) else (None,) * len(replicas)
        return tuple(
            replica
            for replica, directory in zip(replicas, where, strict=True)
            if replica not in self._ids or not is_online(directory, brokers[replica].log_dirs)
        )

    def leader(self, partition: PartitionState, version: int) -> tuple[int, int]:
        """The leader, -1 when it cannot be reached, and the error code that says so."""
        if partition.leader in self.addresses:
            return partition.leader, NONE
        if partition.leader in self._image.brokers and version >= FIRST_VERSION_WITH_LISTENER_NOT_FOUND:
            return -1, ListenerNotFound.code
        return -1, LeaderNotAvailable.code


def endpoint(broker: BrokerState, listener_name: str) -> tuple[str, int] | None:
    """Where a broker listens under a name."""
    for name, host, port in broker.endpoints:
        if name == listener_name:
            return host, port
    return None


def partition_fields(index: int, partition: PartitionState, alive: AliveBrokers, version: int) -> Fields:
    """A partition, for Metadata and DescribeTopicPartitions."""
    leader, error_code = alive.leader(partition, version)
    return {
        "error_code": error_code,
        "partition_index": index,
        "leader_id": leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.isr,
        "offline_replicas": alive.offline_replicas(partition),
        "eligible_leader_replicas": partition.eligible_leader_replicas or (),
        "last_known_elr": partition.last_known_elr or (),
    }
