"""The brokers and partitions that clients of one listener see (Kafka's KRaftMetadataCache). A broker that is fenced or
lacks the listener is left out, and its replicas count as offline."""

from __future__ import annotations

from typing import Any

from kafkatools.core.broker.metadata.directory_ids import is_online
from kafkatools.core.broker.metadata.image import BrokerState, MetadataImage, PartitionState
from kafkatools.core.errors import NONE, LeaderNotAvailable, ListenerNotFound
from kafkatools.core.protocol.entities import Fields

FIRST_VERSION_WITH_LISTENER_NOT_FOUND = 6


class AliveBrokers:
    """The brokers of a metadata image that have a certain listener; `addresses` has (host, port) by broker id, of
    fenced brokers too."""

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
        """The brokers with the listener that are not fenced, or with `with_fenced` all that have it, in the order of
        their ids."""
        return [self._image.brokers[broker_id] for broker_id in sorted(self.addresses if with_fenced else self._ids)]

    def named_by(self, node_id: int) -> list[BrokerState]:
        """The brokers for a node's Metadata response: those not fenced, or the node itself when all are fenced. Empty
        only if the node lacks the listener too.

        After a response without brokers librdkafka forgets every address, and stays silent even when the brokers are
        back (rd_kafka_metadata_decommission_unavailable_brokers).
        """
        return self.nodes() or ([self._image.brokers[node_id]] if node_id in self.addresses else [])

    def offline_replicas(self, partition: PartitionState) -> tuple[int, ...]:
        """The replicas of a partition that are on a fenced or unreachable broker, or in an offline log directory."""
        replicas, directories = partition.replicas, partition.directories
        if self._ids.issuperset(replicas) and self._directories.issuperset(directories):
            return ()
        brokers = self._image.brokers
        directory_ids = directories if len(directories) == len(replicas) else (None,) * len(replicas)
        return tuple(
            replica
            for replica, directory in zip(replicas, directory_ids, strict=True)
            if replica not in self._ids or not is_online(directory, brokers[replica].log_dirs)
        )

    def leader(self, partition: PartitionState, version: int) -> tuple[int, int]:
        """The (leader id, error code) of a partition for a version of Metadata. Without a leader on this listener the
        id is -1 and the code LEADER_NOT_AVAILABLE.

        From version 6 on the code is LISTENER_NOT_FOUND if the leader exists and only lacks the listener.
        """
        if partition.leader in self.addresses:
            return partition.leader, NONE
        if partition.leader in self._image.brokers and version >= FIRST_VERSION_WITH_LISTENER_NOT_FOUND:
            return -1, ListenerNotFound.code
        return -1, LeaderNotAvailable.code


def endpoint(broker: BrokerState, listener_name: str) -> tuple[str, int] | None:
    """The (host, port) of a broker's listener; None when it has no listener of this name."""
    return next(((host, port) for name, host, port in broker.endpoints if name == listener_name), None)


def partition_fields(index: int, partition: PartitionState, alive: AliveBrokers, version: int) -> Fields:
    """The fields of a partition in Metadata and DescribeTopicPartitions responses."""
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
