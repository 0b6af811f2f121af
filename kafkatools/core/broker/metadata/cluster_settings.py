"""A node's roles, voters and listeners from its server.properties.

Source of the rules and messages: KafkaConfig and QuorumConfig of Apache Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkatools.core.broker.server.node_settings import (
    NodeSettings,
    controller_names,
    parse_listener,
    protocol_of,
    reachable_host,
    security_protocols,
)
from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError

VOTERS = "controller.quorum.voters"
Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class EndPoint:
    """A listener: its bind address, its advertised address and its security protocol."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """A node's roles, voters and listeners. A node alone has no `voters` and no controller listener; one of a dynamic
    quorum has no `voters` either."""

    node_id: int
    is_broker: bool
    is_controller: bool
    voters: dict[int, Address]
    broker_listeners: tuple[EndPoint, ...]
    controller_listeners: tuple[EndPoint, ...]
    inter_broker_listener: str
    rack: str | None
    is_alone: bool = False
    """Whether the cluster has only this node."""

    @property
    def listeners(self) -> tuple[EndPoint, ...]:
        """All listeners, the broker's first."""
        return (*self.broker_listeners, *self.controller_listeners)

    def is_controller_listener(self, name: str) -> bool:
        """Return whether the listener with this name is for the controller."""
        return any(point.name == name for point in self.controller_listeners)


def is_clustered(config: Config) -> bool:
    """Return whether a node is not alone: with controller.quorum.bootstrap.servers or more voters, or if it has voters
    and one role only. A node alone has no process.roles, or is its only voter. Raises ConfigError for malformed
    voters."""
    voters = parse_voters(config.controller_quorum_voters)
    has_roles = config.is_explicit("process.roles")
    if config.controller_quorum_bootstrap_servers and (voters or has_roles):
        return True
    roles = set(config.process_roles) if has_roles else {"broker", "controller"}
    return bool(voters) and not (len(voters) == 1 and roles == {"broker", "controller"})


def parse_voters(entries: tuple[str, ...] | list[str]) -> dict[int, Address]:
    """Parse the `id@host:port` entries of controller.quorum.voters. Raises ConfigError."""
    voters: dict[int, Address] = {}
    form = f"for the configuration {VOTERS}. Each entry should be in the form `{{id}}@{{host}}:{{port}}`."
    for entry in entries:
        number, at, address = entry.partition("@")
        if not at:
            raise ConfigError(f"Invalid configuration value {form.removeprefix('for the configuration ')}")
        if not (number.isascii() and number.isdigit()):
            raise ConfigError(f"Failed to parse voter ID as an integer from {number}")
        host, colon, port = address.rpartition(":")
        if not colon or not host:
            raise ConfigError(f"Failed to parse host name from entry {entry} {form}")
        if not (port.isascii() and port.isdigit()):
            raise ConfigError(f"Failed to parse host port from entry {entry} {form}")
        voters[int(number)] = (host.strip("[]"), int(port))
    return voters


def settings_alone(config: Config, node: NodeSettings) -> ClusterSettings:
    """Return the settings of a node alone: broker and controller with the broker's listeners. Raises ConfigError."""
    if config.is_explicit("listeners"):
        controllers = controller_names(config)
        points = tuple(point for point in _end_points(config) if point.name not in controllers)
    else:
        address = (node.listener_name, node.host, node.port, node.advertised_host, node.advertised_port)
        points = (EndPoint(*address, protocol_of(security_protocols(config), node.listener_name)),)
    return ClusterSettings(
        node.node_id,
        is_broker=True,
        is_controller=True,
        voters={},
        broker_listeners=points,
        controller_listeners=(),
        inter_broker_listener=points[0].name,
        rack=config.broker_rack,
        is_alone=True,
    )


def cluster_settings(config: Config, node_id: int) -> ClusterSettings:
    """Read and check the settings of a node in a cluster. Raises ConfigError with Kafka's messages."""
    voters = parse_voters(config.controller_quorum_voters)
    roles = set(config.process_roles)
    if voters:
        _check_voters(voters, node_id, roles)
    if config.controller_quorum_auto_join_enable and "controller" not in roles:
        name = "controller.quorum.auto.join.enable"
        raise ConfigError(f"{name} is only supported when process.roles contains the 'controller' role.")
    names = [name.upper() for name in config.controller_listener_names]
    end_points = _end_points(config)
    controllers = tuple(point for point in end_points if point.name in names)
    brokers = tuple(point for point in end_points if point.name not in names)
    _check_listeners(roles, names, brokers, controllers)
    inter_broker = _inter_broker_listener(config, roles, names, brokers)
    return ClusterSettings(
        node_id,
        "broker" in roles,
        "controller" in roles,
        voters,
        brokers if "broker" in roles else (),
        controllers if "controller" in roles else (),
        inter_broker,
        config.broker_rack,
    )


def _check_voters(voters: dict[int, Address], node_id: int, roles: set[str]) -> None:
    voter_set = f"{VOTERS}=Set({', '.join(str(voter) for voter in voters)})"
    if "controller" in roles and node_id not in voters:
        raise ConfigError(
            f"If process.roles contains the 'controller' role, the node id {node_id} must be included in the set of "
            f"voters {voter_set}"
        )
    if "controller" not in roles and node_id in voters:
        raise ConfigError(
            f"If process.roles contains just the 'broker' role, the node id {node_id} must not be included in the set "
            f"of voters {voter_set}"
        )


def _check_listeners(
    roles: set[str], names: list[str], brokers: tuple[EndPoint, ...], controllers: tuple[EndPoint, ...]
) -> None:
    if not names:
        kind = "KRaft with just the broker role" if roles == {"broker"} else "KRaft (either broker or controller role)"
        raise ConfigError(f"controller.listener.names must contain at least one value when running {kind}")
    if "controller" in roles and not controllers:
        raise ConfigError(
            "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when "
            "running the KRaft controller role"
        )
    if roles == {"broker"} and controllers:
        raise ConfigError(
            "controller.listener.names must not contain a value appearing in the 'listeners' configuration when "
            "running KRaft with just the broker role"
        )
    if roles == {"controller"} and brokers:
        raise ConfigError(
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller"
        )
    if "broker" in roles and not brokers:
        raise ConfigError(
            "There must be at least one broker advertised listener. Perhaps all listeners appear in "
            "controller.listener.names?"
        )


def _inter_broker_listener(config: Config, roles: set[str], names: list[str], brokers: tuple[EndPoint, ...]) -> str:
    configured = config.inter_broker_listener_name
    if config.is_explicit("security.inter.broker.protocol"):
        if configured is not None:
            raise ConfigError(
                "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."
            )
        configured = config.security_inter_broker_protocol
    if configured is None:
        return "PLAINTEXT" if any(point.name == "PLAINTEXT" for point in brokers) or not brokers else brokers[0].name
    name = str(configured).upper()
    if name in names:
        raise ConfigError(
            "controller.listener.names must not contain an explicitly set inter.broker.listener.name configuration "
            f"value when process.roles={','.join(sorted(roles))}"
        )
    if "broker" in roles and all(point.name != name for point in brokers):
        valid = ",".join(point.name for point in brokers)
        raise ConfigError(
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            f"based on currently configured listeners are {valid}"
        )
    return name


def listeners_of(config: Config) -> tuple[EndPoint, ...]:
    """Return the listeners of a node as its settings name them. Raises ConfigError."""
    return _end_points(config)


def _end_points(config: Config) -> tuple[EndPoint, ...]:
    protocols = security_protocols(config)
    advertised = {name: (host, port) for name, host, port in map(parse_listener, config.advertised_listeners or ())}
    end_points: dict[str, EndPoint] = {}
    ports: set[int] = set()
    for text in config.listeners:
        name, host, port = parse_listener(text)
        protocol = protocol_of(protocols, name)
        if name in end_points:
            raise ConfigError(f"Each listener must have a different name, listeners: {','.join(config.listeners)}")
        if port and port in ports:
            raise ConfigError(f"Each listener must have a different port, listeners: {','.join(config.listeners)}")
        ports.add(port)
        advertised_host, advertised_port = advertised.get(name, (reachable_host(host), port))
        end_points[name] = EndPoint(name, host, port, advertised_host, advertised_port, protocol)
    return tuple(end_points.values())
