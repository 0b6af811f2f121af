"""Replication of a node of several: wiring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.replicas.replication import Cluster, Replication, ReplicationSettings
from kafkatools.core.broker.server.purgatory import Purgatory

if TYPE_CHECKING:
    from kafkatools.core.broker.cluster_node import ClusterNode
    from kafkatools.core.broker.server.channels import PeerChannel


def open_replication(node: ClusterNode, peers: PeerChannel) -> Replication:
    """Lets a node's replicas lead and follow; to be called before the first metadata is applied. What it gives is a
    worker of the node. `peers` carries fetches only: they wait at the other side."""

    def limit_of(name: str) -> int | None:
        settings = node.broker_settings
        text = settings.dynamic().get(name, settings.dynamic_default().get(name))
        return None if text is None else int(text)

    cluster = Cluster(
        node.node_id,
        node.image,
        node.clock,
        peers,
        node.link,
        lambda: node.broker_epoch,
        lambda delay_ms, run: node.timer.schedule(delay_ms, run, node.clock.now_ms()),
        limit_of,
        node.note_failure,
    )
    made = Replication(node.replicas, cluster, ReplicationSettings.of(node.config))
    node.replicas.replication = made
    node.replicas.deletes = Purgatory("DeleteRecords", node.timer)
    return made
