"""Creates the share coordinator of a broker and loads its partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.internal_topic import collect
from kafkatools.core.broker.coordinators.share_state.coordinator import ShareCoordinator
from kafkatools.core.broker.coordinators.share_state.share_state import ShareKey
from kafkatools.core.broker.coordinators.share_state.share_state_topic import ShareStateTopic
from kafkatools.core.broker.replicas.partition import Partition


def open_share_coordinator(
    host: Host, topic: ShareStateTopic, ensure_active: Callable[[str], None]
) -> ShareCoordinator:
    """Create the share coordinator of this broker, and schedule its pruning. A broker without a cluster also loads all
    states from `__share_group_state`."""

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
            coordinator.load(record for record in topic.read(partition) if record is not None)
    host.every(config.share_coordinator_state_topic_prune_interval_ms, coordinator.prune)
    return coordinator


def load_partition(states: ShareCoordinator, topic: ShareStateTopic, partition: Partition) -> Iterator[None]:
    """Load the states of a partition of `__share_group_state`, after all its records are read. Yields after every
    SLICE_BATCHES record batches."""
    states.load((yield from collect(topic.read(partition))))
