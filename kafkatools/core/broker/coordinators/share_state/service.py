"""The share coordinator of a broker: wired to its topic and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.internal_topic import collect
from kafkatools.core.broker.coordinators.share_state.coordinator import ShareCoordinator
from kafkatools.core.broker.coordinators.share_state.share_state import ShareKey
from kafkatools.core.broker.coordinators.share_state.share_state_topic import TOPIC, ShareStateTopic
from kafkatools.core.broker.replicas.partition import Partition


def open_share_coordinator(
    host: Host, topic: ShareStateTopic, ensure_active: Callable[[str], None]
) -> ShareCoordinator:
    """The coordinator with every state of before."""

    def has_partition(key: ShareKey) -> bool:
        topic = host.image.topics_by_id.get(key.topic_id)
        return topic is not None and key.partition in topic.partitions

    config = host.config
    coordinator = ShareCoordinator(
        topic,
        host.clock,
        has_partition,
        ensure_active,
        updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
        cold_interval_ms=config.share_coordinator_cold_partition_snapshot_interval_ms,
    )
    if not host.is_clustered:
        for partition in topic.partitions():
            coordinator.load(each for each in topic.read(partition) if each is not None)
    host.every(config.share_coordinator_state_topic_prune_interval_ms, coordinator.prune)
    return coordinator


class ShareKeeper:
    """The part of the share coordinator that its shards call. `states` opens the coordinator when it is first
    needed."""

    topic = TOPIC

    def __init__(self, topic: ShareStateTopic, states: Callable[[], ShareCoordinator]) -> None:
        self._topic = topic
        self._states = states

    def load(self, partition: Partition) -> Iterator[None]:
        """Read a partition, a slice with each step."""
        self._states().load((yield from collect(self._topic.read(partition))))

    def unload(self, is_mine: Callable[[str], bool]) -> None:
        """States go on elsewhere."""
        self._states().release(is_mine)

    def tell(self) -> None:
        """Who waits, waits for an append."""
