"""The share coordinator of a node: wired to its topic and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.share_coordinator.coordinator import ShareCoordinator
from kafkatools.core.broker.share_coordinator.share_state import ShareKey
from kafkatools.core.broker.share_coordinator.share_state_topic import ShareStateTopic

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


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
    coordinator.load(topic.read_back())
    return coordinator
