"""Ports, directories and settings of the nodes of a sandbox of several, and the formatting of their directories.

Rules: node i listens on port P + 10 (i - 1), its controller on the next one. `cluster.json` in a directory has its
cluster id and number of nodes; the directory serves no other cluster and no other number. All nodes are broker and
controller, with a static quorum of voters in their settings.
"""

from __future__ import annotations

import errno
import json
import os
import random
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypedDict

from kafkatools.sandbox.spawn import DEFAULT_PORT, HOST, SandboxError, remove_file, write_json

MOST_NODES = 9
PORT_STEP = 10
BROKER_LISTENER, CONTROLLER_LISTENER, INTERNAL_LISTENER = "PLAINTEXT", "CONTROLLER", "INTERNAL"
MARKER = "cluster.json"
META_PROPERTIES = "meta.properties"
OWN_SETTINGS = frozenset(
    [
        "node.id",
        "broker.id",
        "broker.rack",
        "process.roles",
        "listeners",
        "advertised.listeners",
        "inter.broker.listener.name",
        "security.inter.broker.protocol",
        "listener.security.protocol.map",
        "controller.listener.names",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
    ]
)
"""Settings that the sandbox sets itself, because they identify a node or connect it with the others."""
_LOWEST_FREE_PORT = 10_240
_HIGHEST_FREE_PORT = 13_000
_MOST_TRIES = 200


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A node's id, ports, data directory and rack."""

    node_id: int
    port: int
    controller_port: int
    directory: str
    rack: str | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def controller_address(self) -> str:
        return f"{HOST}:{self.controller_port}"


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """The nodes of a sandbox and what they share. `root` has their data; `settings` are the user's, and those of its
    security. `protocol` is the security protocol of the clients' listener, and its name."""

    cluster_id: str
    root: str
    places: tuple[NodePlace, ...]
    settings: Mapping[str, str]
    idle_ms: int
    parent: int | None = None
    removes_home: bool = False
    protocol: str = BROKER_LISTENER

    def place(self, node_id: int) -> NodePlace:
        """The place of a node. Raises SandboxError for an unknown id."""
        for place in self.places:
            if place.node_id == node_id:
                return place
        raise SandboxError(f"There is no node {node_id}: the nodes of the sandbox are 1 to {len(self.places)}")

    @property
    def voters(self) -> str:
        """The value of controller.quorum.voters."""
        return ",".join(f"{place.node_id}@{place.controller_address}" for place in self.places)

    def to_json(self) -> dict[str, object]:
        """The content of the sandbox's file `cluster.json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> ClusterLayout:
        """Rebuild a layout from `to_json`. Raises KeyError or TypeError for other content."""
        return cls(**{**content, "places": tuple(NodePlace(**place) for place in content["places"])})


def node_settings(layout: ClusterLayout, place: NodePlace) -> dict[str, str]:
    """The server.properties of a node: the sandbox's own settings over the user's, over defaults for small clusters."""
    size = len(layout.places)
    copies = min(3, size)
    defaults = {
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": max(1, copies - 1),
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": max(1, copies - 1),
        # As in the server.properties that Apache Kafka ships for development: the first member does not wait.
        "group.initial.rebalance.delay.ms": 0,
    }
    listeners = {layout.protocol: (place.port, layout.protocol)}
    internal = layout.protocol
    if internal != BROKER_LISTENER:  # nodes use listeners of their own, whose password clients do not have
        internal = INTERNAL_LISTENER
        between_nodes = "SASL_SSL" if layout.protocol.endswith("SSL") else "SASL_PLAINTEXT"
        listeners[INTERNAL_LISTENER] = (place.controller_port + 1, between_nodes)
        listeners[CONTROLLER_LISTENER] = (place.controller_port, between_nodes)
    else:
        listeners[CONTROLLER_LISTENER] = (place.controller_port, BROKER_LISTENER)
    settings = {
        "node.id": place.node_id,
        "process.roles": "broker,controller",
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, (port, _) in listeners.items()),
        "inter.broker.listener.name": internal,
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, (_, kind) in listeners.items()),
        "controller.listener.names": CONTROLLER_LISTENER,
        "controller.quorum.voters": layout.voters,
        "log.dirs": place.directory,
    }
    if place.rack is not None:
        settings["broker.rack"] = place.rack
    return {name: str(value) for name, value in {**defaults, **layout.settings, **settings}.items()}


def refuse_own_settings(settings: Mapping[str, str]) -> None:
    """Raise SandboxError for settings that only the sandbox may set, such as node.id or listeners."""
    for name in settings:
        if name in OWN_SETTINGS:
            raise SandboxError(f"{name} cannot be set: the sandbox sets it for each node")


# -- ports -------------------------------------------------------------------------------------------------------------
def node_ports(base: int, size: int) -> list[tuple[int, int]]:
    """The (broker port, controller port) of each node, from `base` on."""
    return [(base + PORT_STEP * index, base + PORT_STEP * index + 1) for index in range(size)]


def choose_ports(port: int | None, size: int) -> list[tuple[int, int]]:
    """The (broker port, controller port) of each node, from `port` on; 0: free ports, None: the default ones, or free
    ones if one is in use.

    Raises SandboxError when a requested port is in use or above 65535, or no free ports are found.
    """
    if port:
        ports = node_ports(port, size)
        highest = ports[-1][1]
        if not 0 < port <= highest <= 65535:
            raise SandboxError(
                f"{size} nodes from port {port} on need ports up to {highest}, the highest port is 65535"
            )
        conflict = _port_in_use(ports)
        if conflict is not None:
            node_id, port = conflict
            raise SandboxError(f"Port {port} (node {node_id}) is in use")
        return ports
    usual = node_ports(DEFAULT_PORT, size)
    if port is None and _port_in_use(usual) is None:
        return usual
    return _free_ports(size)


def _port_in_use(ports: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """The (node id, port) of the first port that is in use; None when all are free."""
    for index, pair in enumerate(ports):
        for port in pair:
            if not _is_free(port):
                return index + 1, port
    return None


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
        return True


def _free_ports(size: int) -> list[tuple[int, int]]:
    """Choose free ports below the system's range of ephemeral ports, so that a node that is down keeps its ports.
    Raises SandboxError if none are found."""
    highest = _HIGHEST_FREE_PORT - PORT_STEP * size
    chance = random.SystemRandom()
    for _ in range(_MOST_TRIES):
        ports = node_ports(chance.randrange(_LOWEST_FREE_PORT, highest), size)
        if _port_in_use(ports) is None:
            return ports
    raise SandboxError(f"No {2 * size} free ports were found")


# -- directories -------------------------------------------------------------------------------------------------------
def data_directory(root: str, node_id: int, *, is_own: bool) -> str:
    """The data directory of a node: below `root`, or with `is_own` in a folder `data` beside the node's other files."""
    return os.path.join(root, str(node_id), "data") if is_own else os.path.join(root, str(node_id))


def cluster_of(root: str, directories: Mapping[int, str]) -> str | None:
    """The cluster id of a data directory, from its `cluster.json` or the nodes' meta.properties; None when it has
    neither.

    Raises SandboxError when they belong to another number of nodes, other nodes, several clusters or one broker alone,
    or `cluster.json` is damaged.
    """
    if os.path.exists(os.path.join(root, META_PROPERTIES)):
        raise SandboxError(f"{root} is the data of one broker: a cluster needs a directory of its own")
    size = len(directories)
    marker = _read_marker(root)
    cluster_id: str | None = None
    if marker is not None:
        if marker["nodes"] != size:
            nodes = "one node" if marker["nodes"] == 1 else f"{marker['nodes']} nodes"
            raise SandboxError(
                f"{root} was formatted for {nodes}, not for {size}: "
                f"take another directory, or --nodes {marker['nodes']}"
            )
        cluster_id = marker["cluster_id"]
    for node_id, directory in directories.items():
        properties = _properties(directory)
        if properties is None:
            continue
        if properties.get("node.id") != str(node_id):
            raise SandboxError(f"{directory} is the data of node {properties.get('node.id')}, not of node {node_id}")
        if cluster_id is not None and properties.get("cluster.id") != cluster_id:
            raise SandboxError(
                f"{directory} was formatted for another cluster: {properties.get('cluster.id')}, not {cluster_id}"
            )
        cluster_id = properties.get("cluster.id")
    return cluster_id


class _Marker(TypedDict):
    """The content of `cluster.json` in a data directory: the cluster and number of nodes it was formatted for."""

    cluster_id: str
    nodes: int


def _read_marker(root: str) -> _Marker | None:
    path = os.path.join(root, MARKER)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
            return {"cluster_id": str(content["cluster_id"]), "nodes": int(content["nodes"])}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise SandboxError(
            f"{path} is damaged: it does not have the cluster id and the number of nodes of this directory"
        ) from None


def _properties(directory: str) -> Mapping[str, str] | None:
    from kafkatools.core.log.files import RealFileSystem
    from kafkatools.core.log.format.checkpoints import read_meta_properties

    path = os.path.join(directory, META_PROPERTIES)
    return read_meta_properties(RealFileSystem(), path) if os.path.exists(path) else None


def is_formatted(place: NodePlace) -> bool:
    """Return whether a node's data directory is formatted (has meta.properties)."""
    return os.path.exists(os.path.join(place.directory, META_PROPERTIES))


def format_node(layout: ClusterLayout, place: NodePlace, wall_ms: int) -> None:
    """Format a node's data directory with the cluster's id, as kafka-storage.sh format does."""
    from kafkatools.core.broker.metadata import feature_levels
    from kafkatools.core.broker.metadata.formatter import FormatRequest, plan, write_directory
    from kafkatools.core.log.files import RealFileSystem

    level = feature_levels.METADATA_LEVELS[feature_levels.LATEST_RELEASE]
    levels = {feature_levels.METADATA_VERSION: level, **feature_levels.default_levels(level)}
    request = FormatRequest(layout.cluster_id, place.node_id, (place.directory,), place.directory, levels)
    files = RealFileSystem()
    os.makedirs(place.directory, mode=0o700, exist_ok=True)
    for directory in plan(files, request):
        write_directory(files, request, directory, wall_ms)


def mark(layout: ClusterLayout) -> None:
    """Write the cluster id and number of nodes into the data directory (`cluster.json`)."""
    write_json(os.path.join(layout.root, MARKER), {"cluster_id": layout.cluster_id, "nodes": len(layout.places)})


def forget_cluster(root: str) -> None:
    """Remove the file that ties a data directory to a cluster (`cluster.json`)."""
    remove_file(os.path.join(root, MARKER))
