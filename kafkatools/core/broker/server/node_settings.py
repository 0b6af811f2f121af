"""A node's id, log directories and addresses from its server.properties (Kafka's KafkaConfig, SocketServerConfigs)."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError
from kafkatools.core.net.addresses import is_loopback

ALL_ADDRESSES = ("", "0.0.0.0", "::")
_PROTOCOLS = {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}
DEFAULT_ADDRESS = ("127.0.0.1", 9092)


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """A node's id, log directories, first client listener and its advertised address. `log_directory` has the metadata
    log, and usually is the first of `log_directories`."""

    node_id: int
    log_directory: str
    log_directories: tuple[str, ...]
    host: str
    port: int
    listener_name: str
    advertised_host: str
    advertised_port: int

    @property
    def is_loopback(self) -> bool:
        """Return whether the listener is reachable from this machine only."""
        return is_loopback(self.host)


def node_settings(config: Config) -> NodeSettings:
    """Read the settings of a node. Raises ConfigError, in Kafka's words where Kafka has the same error."""
    directories = log_directories(config)
    metadata = config.metadata_log_dir or directories[0]
    metadata_directory = next(
        (directory for directory in directories if os.path.abspath(directory) == os.path.abspath(metadata)), metadata
    )
    node_id = config.node_id if config.is_explicit("node.id") else config.broker_id
    if node_id < 0:
        raise ConfigError('Missing required configuration "node.id" which has no default value.')
    name, host, port = _listener(config)
    if not config.is_explicit("listeners"):
        host, port = DEFAULT_ADDRESS
    advertised = [parse_listener(text) for text in config.advertised_listeners or ()]
    for listener_name, advertised_host, advertised_port in advertised:
        if listener_name == name:
            return NodeSettings(
                node_id, metadata_directory, directories, host, port, name, advertised_host, advertised_port
            )
    return NodeSettings(node_id, metadata_directory, directories, host, port, name, reachable_host(host), port)


def log_directories(config: Config) -> tuple[str, ...]:
    """The paths of log.dirs, or else log.dir, without repetitions."""
    paths: dict[str, str] = {}
    for path in config.log_dirs or config.log_dir:
        paths.setdefault(os.path.abspath(path), path)
    return tuple(paths.values())


def reachable_host(host: str) -> str:
    """The default advertised host: the listener's host, or this machine's host name if the listener has no host,
    0.0.0.0 or `::`."""
    return socket.gethostname() if host in ALL_ADDRESSES else host


def _listener(config: Config) -> tuple[str, str, int]:
    """The (name, host, port) of the first listener that is not a controller's, or on a node that is only a controller
    of its first one. Raises ConfigError."""
    controllers = controller_names(config)
    if config.is_explicit("process.roles") and "broker" not in config.process_roles:
        controllers = set()  # a node that is only a controller has no other listener
    for text in config.listeners:
        name, host, port = parse_listener(text)
        if name not in controllers:
            return name, host, port
    raise ConfigError(
        "No security protocol defined for a listener of the broker: listeners names those of the controller only"
    )


def controller_names(config: Config) -> set[str]:
    """The names of controller.listener.names in upper case; none when it is not set."""
    names = config.controller_listener_names if config.is_explicit("controller.listener.names") else ()
    return {name.upper() for name in names}


def security_protocols(config: Config) -> dict[str, str]:
    """The security protocol by listener name, from listener.security.protocol.map, both in upper case; entries without
    a colon are ignored. With the default map a controller's listener is PLAINTEXT, unless a listener is named after a
    protocol with TLS or SASL (KafkaConfig.effectiveListenerSecurityProtocolMap). Raises ConfigError."""
    pairs = (pair.split(":", 1) for pair in (config.listener_security_protocol_map or "").split(",") if ":" in pair)
    protocols = {name.strip().upper(): protocol.strip().upper() for name, protocol in pairs}
    for protocol in protocols.values():
        if protocol not in _PROTOCOLS:
            raise ConfigError(f"Invalid security protocol `{protocol}` defined in listener.security.protocol.map")
    if not config.is_explicit("listener.security.protocol.map"):
        controllers = controller_names(config)
        names = {parse_listener(text)[0] for text in config.listeners} | controllers
        if not names & (_PROTOCOLS - {"PLAINTEXT"}):
            protocols = dict.fromkeys(controllers, "PLAINTEXT") | protocols
    return protocols


def protocol_of(protocols: dict[str, str], name: str) -> str:
    """The security protocol of a listener by its name. Raises ConfigError when none is defined."""
    if name not in protocols:
        raise ConfigError(f"No security protocol defined for listener {name}")
    return protocols[name]


def parse_listener(text: str) -> tuple[str, str, int]:
    """Parse `NAME://host:port` into (name in upper case, host without brackets, port). Raises ConfigError."""
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon or not port.lstrip("-").isdigit():
        raise ConfigError(f"Unable to parse {text} to a broker endpoint")
    return name.upper(), host.strip("[]"), int(port)


def meaningless(config: Config) -> list[str]:
    """The names of settings in the config that this broker ignores, sorted: Kafka's that it does not use, and unknown
    ones, except those with a prefix (`ignored_prefixed`)."""
    from kafkatools.core.config.topic import TOPIC_SYNONYMS

    of_topics = {synonym.name for synonyms in TOPIC_SYNONYMS.values() for synonym in synonyms}
    unused = (name for name in config.explicit() if not config.table[name].is_used and name not in of_topics)
    return sorted({*unused, *config.unknown})
