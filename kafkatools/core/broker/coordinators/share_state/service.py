"""The share coordinator of a node: wired to its topic and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kafkatools.core.broker.coordinators.internal_topic import follows_elections
from kafkatools.core.broker.coordinators.share_state.coordinator import ShareCoordinator
from kafkatools.core.broker.coordinators.share_state.share_state import ShareKey
from kafkatools.core.broker.coordinators.share_state.share_state_topic import TOPIC, ShareStateTopic

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node
    from kafkatools.core.broker.replicas.partition import Partition


def open_share_coordinator(node: Node) -> ShareCoordinator:
    """The coordinator with every state of before."""

    def has_partition(key: ShareKey) -> bool:
        topic = node.image.topics_by_id.get(key.topic_id)
        return topic is not None and key.partition in topic.partitions

    topic = ShareStateTopic(node)
    config = node.config
    coordinator = ShareCoordinator(
        topic,
        node.clock,
        has_partition,
        updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
        cold_interval_ms=config.share_coordinator_cold_partition_snapshot_interval_ms,
    )
    coordinator.ensure_active = lambda name: node.coordination.share.ensure_active(name)
    if not follows_elections(node):
        for partition in topic.partitions():
            coordinator.load(each for each in topic.read(partition) if each is not None)
    return coordinator


class ShareKeeper:
    """The share coordinator, as its shards know it."""

    topic = TOPIC

    def __init__(self, node: Node) -> None:
        self._node = node

    def load(self, partition: Partition) -> Iterator[None]:
        """Read a partition, a slice with each step."""
        found = []
        for record in ShareStateTopic(self._node).read(partition):
            if record is None:
                yield
            else:
                found.append(record)
        self._node.share_partitions.states.load(found)

    def unload(self, is_mine: Callable[[str], bool]) -> None:
        """States go on elsewhere."""
        self._node.share_partitions.states.release(is_mine)

    def tell(self) -> None:
        """Who waits, waits for an append."""
