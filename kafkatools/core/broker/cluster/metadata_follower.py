"""What a node makes of the quorum's log: committed records become the image, the image's deltas are applied, and the
node's controller begins and ends with its leadership (Kafka's MetadataLoader, BrokerMetadataPublisher and
QuorumController's MetaLogListener)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.metadata_image import MetadataDelta, MetadataImage
from kafkatools.core.broker.controller.metadata_snapshot import Snapshot
from kafkatools.core.errors import InconsistentClusterId, KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.cluster.cluster_node import ClusterNode


class MetadataFollower:
    """The `RaftListener` of a node."""

    def __init__(self, node: ClusterNode) -> None:
        self._node = node
        self.offset = 0
        self._is_publishing = False

    # -- of raft ---------------------------------------------------------------------------------------------------
    def on_commit(self, first: int, end: int) -> None:
        """Replay, apply, and let go the answers that waited for it."""
        node = self._node
        image = node.image
        for batch in node.raft.log.committed(first, end):
            for record in batch.records:
                image.replay(record)
        self.offset = end
        self._publish()
        node.pending.note_committed(end)

    def on_leader_change(self, leader_id: int | None, epoch: int) -> None:
        """This node's controller begins when it has everything, and ends when another leads."""
        node = self._node
        now_ms = node.clock.now_ms()
        if leader_id == node.node_id and node.raft.is_leader:
            node.controller.activate(node.image, RaftWriter(node), now_ms)
        else:
            if node.controller.is_active:
                node.controller.deactivate()
            node.pending.give_up()
        node.link.note_leader(now_ms)

    def on_snapshot_loaded(self, snapshot: Snapshot) -> None:
        """Begin anew with what the snapshot holds; what is applied is the difference."""
        replaced = MetadataImage()
        for record in snapshot.records:
            replaced.replay(record)
        become(self._node.image, replaced)
        self.offset = snapshot.snapshot_id.offset
        self._publish()

    def on_fault(self, error: Exception) -> None:
        """A member of another cluster, a disk that failed, or a bug."""
        node = self._node
        if isinstance(error, InconsistentClusterId):
            return  # the node sees such answers itself
        node.note_failure(error)
        if node.raft.failure is not None and isinstance(error, KafkaError):
            node.fail(error)

    # -- to the broker ---------------------------------------------------------------------------------------------
    def publish_first(self) -> None:
        """Everything that is known, to a broker that is to begin."""
        if not self._is_publishing:
            self._is_publishing = True
            self._publish()

    def _publish(self) -> None:
        if self._is_publishing:
            self._node.apply_delta(self._node.image.take_delta())


class RaftWriter:
    """The `RecordWriter` of the quorum's leader."""

    def __init__(self, node: ClusterNode) -> None:
        self._raft = node.raft
        self.epoch = node.raft.epoch

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return self._raft.end_offset

    def append(self, records: list[Any], wall_ms: int) -> int:
        """Write records as one batch."""
        return self._raft.append(records, wall_ms)


def become(image: MetadataImage, other: MetadataImage) -> None:
    """Let an image hold what another one does; its delta gets what is different. Whoever holds it or its parts goes on
    with it."""
    delta = MetadataDelta()
    for topic_id, topic in image.topics_by_id.items():
        if topic_id not in other.topics_by_id:
            delta.removed_topics[topic_id] = topic
    delta.changed_topics = {each.topic_id: each for each in other.topics.values()}
    delta.changed_configs = set(image.configs) | set(other.configs)
    delta.changed_brokers = set(image.brokers) | set(other.brokers)
    for name in ("acls", "client_quotas", "scram"):
        vars(getattr(image, name)).update(vars(getattr(other, name)))
    for name, value in vars(other).items():
        if name not in ("acls", "client_quotas", "scram", "delta", "version", "_replay"):
            setattr(image, name, value)
    image.version += 1
    image.delta = delta
