"""Which replica a consumer reads from (KIP-392): one in its rack (org.apache.kafka.common.replica.
RackAwareReplicaSelector)."""

from __future__ import annotations

from kafkatools.core.broker.metadata.image import MetadataImage
from kafkatools.core.broker.replicas.partition import Partition


def replica_in_rack(image: MetadataImage, partition: Partition, fetch_offset: int, rack: str) -> int | None:
    """A follower in the client's rack that is in sync and has the offset, the one that is furthest; None: the leader
    serves, because it is in that rack itself or nobody is."""
    if _rack(image, partition.node_id) == rack:
        return None
    able = [
        replica
        for replica in partition.followers.values()
        if replica.broker_id in partition.isr
        and replica.log_start_offset <= fetch_offset <= replica.log_end_offset
        and _rack(image, replica.broker_id) == rack
    ]
    best = max(able, key=lambda each: (each.log_end_offset, each.last_caught_up_ms, -each.broker_id), default=None)
    return None if best is None else best.broker_id


def _rack(image: MetadataImage, broker_id: int) -> str | None:
    broker = image.brokers.get(broker_id)
    return None if broker is None or broker.is_fenced else broker.rack
