"""The node that settings describe. What only a node of a cluster needs is not imported for one on its own."""

from __future__ import annotations

from collections.abc import Callable

from kafkatools.core.broker.metadata.cluster_settings import is_clustered
from kafkatools.core.broker.node import Node
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.log.files import FileSystem


def open_node(
    config: Config,
    clock: Clock,
    files: FileSystem | None = None,
    report: Callable[[str], None] | None = None,
) -> Node:
    """The node that these settings describe: one on its own, or one of a cluster. `run` serves until it is asked to
    stop; a node of a cluster serves clients when `is_ready`. Raises ConfigError."""
    if not is_clustered(config):
        return Node(config, clock, files, report)
    from kafkatools.core.broker.cluster_node import ClusterNode

    return ClusterNode(config, clock, files, report)
