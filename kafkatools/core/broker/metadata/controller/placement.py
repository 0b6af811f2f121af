"""Placement of new partitions on the cluster's brokers, by the placer of `core/replica_placement`.

Source: ClusterControlManager.usableBrokers and StripedReplicaPlacer of Apache Kafka 4.3. A broker in controlled
shutdown, or with all directories cordoned (KIP-1066), gets no new replicas; a fenced one only if no other can.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from kafkatools.core.broker.metadata.image import BrokerState, MetadataImage
from kafkatools.core.errors import InvalidReplicationFactor
from kafkatools.core.java.random import JavaRandom
from kafkatools.core.replica_placement import UsableBroker, place


@dataclass(frozen=True, slots=True)
class Placement:
    """The brokers and the cluster's defaults for placing new partitions."""

    image: MetadataImage
    random: JavaRandom
    num_partitions: int = 1
    replication_factor: int = 1
    make_topic_id: Callable[[], uuid.UUID] = uuid.uuid4

    def usable_brokers(self) -> list[UsableBroker]:
        """Return the brokers that may get new replicas, fenced ones included."""
        brokers = sorted(self.image.brokers.values(), key=lambda broker: broker.broker_id)
        return [
            UsableBroker(broker.broker_id, broker.rack, broker.is_fenced) for broker in brokers if _is_usable(broker)
        ]

    def place(self, count: int, factor: int) -> list[tuple[int, ...]]:
        """Return the replicas of `count` partitions, the preferred leader first. Raises InvalidReplicationFactor, also
        when every usable broker is fenced."""
        assignments = [tuple(replicas) for replicas in place(self.usable_brokers(), count, factor, self.random)]
        if any(not self.image.brokers[replicas[0]].is_active for replicas in assignments):
            raise InvalidReplicationFactor("All brokers are currently fenced or in controlled shutdown.")
        return assignments


def _is_usable(broker: BrokerState) -> bool:
    is_stopping = broker.in_controlled_shutdown and not broker.is_fenced
    has_room = not broker.log_dirs or not set(broker.log_dirs) <= set(broker.cordoned_log_dirs)
    return has_room and not is_stopping
