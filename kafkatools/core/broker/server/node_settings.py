"""What a node takes from its server.properties: id, directory, address; and which given settings mean nothing here.

Source of the rules: KafkaConfig and SocketServerConfigs of Apache Kafka 4.3.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError

ALL_ADDRESSES = ("", "0.0.0.0", "::")
LOOPBACK_HOSTS = ("localhost", "::1")
DEFAULT_ADDRESS = ("127.0.0.1", 9092)
USED_SETTINGS = frozenset(
    [
        "node.id",
        "broker.id",
        "process.roles",
        "listeners",
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "log.dirs",
        "log.dir",
        "metadata.log.dir",
        "log.dir.failure.timeout.ms",
        "log.durability",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "num.partitions",
        "default.replication.factor",
        "auto.create.topics.enable",
        "authorizer.class.name",
        "super.users",
        "quota.window.num",
        "quota.window.size.seconds",
        "max.request.partition.size.limit",
        "allow.everyone.if.no.acl.found",
        "delete.topic.enable",
        "socket.request.max.bytes",
        "connections.max.idle.ms",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "fetch.max.bytes",
        "max.incremental.fetch.session.cache.slots",
        "log.retention.check.interval.ms",
        "log.initial.task.delay.ms",
        "log.flush.offset.checkpoint.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "replica.high.watermark.checkpoint.interval.ms",
        "log.flush.scheduler.interval.ms",
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
        "log.roll.ms",
        "log.roll.hours",
        "log.roll.jitter.ms",
        "log.roll.jitter.hours",
        "producer.id.expiration.check.interval.ms",
        "producer.id.expiration.ms",
        "transaction.partition.verification.enable",
        "unclean.leader.election.enable",
        "min.insync.replicas",
        "group.initial.rebalance.delay.ms",
        "group.min.session.timeout.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "offset.metadata.max.bytes",
        "offsets.retention.minutes",
        "offsets.retention.check.interval.ms",
        "offsets.topic.num.partitions",
        "offsets.topic.segment.bytes",
        "offsets.topic.compression.codec",
        "add.partitions.to.txn.retry.backoff.max.ms",
        "add.partitions.to.txn.retry.backoff.ms",
        "group.consumer.assignment.interval.ms",
        "group.consumer.assignors",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.max.assignment.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.max.session.timeout.ms",
        "group.consumer.max.size",
        "group.consumer.migration.policy",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.regex.refresh.interval.ms",
        "group.consumer.session.timeout.ms",
        "group.coordinator.rebalance.protocols",
        "group.share.max.share.sessions",
        "group.share.max.size",
        "internal.metadata.delete.delay.millis",
        "internal.metadata.log.segment.bytes",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.enable",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
        "metadata.log.max.record.bytes.between.snapshots",
        "metadata.log.max.snapshot.interval.ms",
        "metadata.log.segment.bytes",
        "metadata.log.segment.ms",
        "metadata.max.retention.bytes",
        "metadata.max.retention.ms",
        "offsets.commit.timeout.ms",
        "request.timeout.ms",
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "share.coordinator.snapshot.update.records.per.snapshot",
        "share.coordinator.state.topic.compression.codec",
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.prune.interval.ms",
        "share.coordinator.state.topic.segment.bytes",
        "share.coordinator.write.timeout.ms",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.max.timeout.ms",
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "transaction.state.log.num.partitions",
        "transaction.state.log.segment.bytes",
        "transactional.id.expiration.ms",
        # of a cluster
        "auto.leader.rebalance.enable",
        "broker.heartbeat.interval.ms",
        "broker.rack",
        "broker.session.timeout.ms",
        "controlled.shutdown.enable",
        "cordoned.log.dirs",
        "controller.quorum.election.backoff.max.ms",
        "controller.quorum.election.timeout.ms",
        "controller.quorum.fetch.max.bytes",
        "controller.quorum.fetch.snapshot.max.bytes",
        "controller.quorum.fetch.timeout.ms",
        "controller.quorum.request.timeout.ms",
        "controller.quorum.retry.backoff.ms",
        "initial.broker.registration.timeout.ms",
        "leader.imbalance.check.interval.seconds",
        "metadata.max.idle.interval.ms",
        "offsets.topic.replication.factor",
        "replica.fetch.backoff.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.min.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.lag.time.max.ms",
        "replica.selector.class",
        "replica.socket.receive.buffer.bytes",
        "replica.socket.timeout.ms",
        "replication.quota.window.num",
        "replication.quota.window.size.seconds",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.replication.factor",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "transaction.state.log.min.isr",
        "transaction.state.log.replication.factor",
        "unclean.leader.election.interval.ms",
    ]
)


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Where a node lives. `log_directory` is that of the metadata log, usually the first of `log_directories`."""

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
        """Whether only this machine can reach the listener."""
        return self.host in LOOPBACK_HOSTS or self.host.startswith("127.")


def node_settings(config: Config) -> NodeSettings:
    """Read them; ConfigError with Kafka's wording where it has one."""
    directories = log_directories(config)
    metadata = config.metadata_log_dir or directories[0]
    where = next((each for each in directories if os.path.abspath(each) == os.path.abspath(metadata)), metadata)
    node_id = config.node_id if config.is_given("node.id") else config.broker_id
    if node_id < 0:
        raise ConfigError('Missing required configuration "node.id" which has no default value.')
    name, host, port = _listener(config)
    if not config.is_given("listeners"):
        host, port = DEFAULT_ADDRESS
    advertised = [parse_listener(text) for text in config.advertised_listeners or ()]
    for other, advertised_host, advertised_port in advertised:
        if other == name:
            return NodeSettings(node_id, where, directories, host, port, name, advertised_host, advertised_port)
    return NodeSettings(node_id, where, directories, host, port, name, reachable_host(host), port)


def log_directories(config: Config) -> tuple[str, ...]:
    """log.dirs, or log.dir; one that is named twice counts once."""
    named: dict[str, str] = {}
    for path in config.log_dirs or config.log_dir:
        named.setdefault(os.path.abspath(path), path)
    return tuple(named.values())


def reachable_host(host: str) -> str:
    """What clients are told when nothing else is said: the host itself, this machine's name for all addresses."""
    return socket.gethostname() if host in ALL_ADDRESSES else host


def _listener(config: Config) -> tuple[str, str, int]:
    """The first listener that is no controller's."""
    protocols = security_protocols(config)
    controllers = set(config.controller_listener_names) if config.is_given("controller.listener.names") else set()
    if config.is_given("process.roles") and "broker" not in config.process_roles:
        protocols = {name: "PLAINTEXT" for name in controllers} | protocols
        controllers = set()  # a controller alone is where its own listener is
    for text in config.listeners:
        name, host, port = parse_listener(text)
        if name in controllers:
            continue
        if protocols.get(name, name) != "PLAINTEXT":
            raise ConfigError(f"kt serves PLAINTEXT listeners only: {text}")
        return name, host, port
    raise ConfigError(
        "No security protocol defined for a listener of the broker: listeners names those of the controller only"
    )


def security_protocols(config: Config) -> dict[str, str]:
    """The security protocol of each listener that listener.security.protocol.map names, in upper case."""
    pairs = (pair.split(":", 1) for pair in (config.listener_security_protocol_map or "").split(",") if ":" in pair)
    return {name.strip().upper(): protocol.strip().upper() for name, protocol in pairs}


def parse_listener(text: str) -> tuple[str, str, int]:
    """`NAME://host:port` in parts."""
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon or not port.lstrip("-").isdigit():
        raise ConfigError(f"Unable to parse {text} to a broker endpoint")
    return name.upper(), host.strip("[]"), int(port)


def meaningless(config: Config) -> list[str]:
    """Given settings that this broker does not act on, sorted."""
    from kafkatools.core.config.topic import TOPIC_SYNONYMS

    used = USED_SETTINGS | {synonym.name for synonyms in TOPIC_SYNONYMS.values() for synonym in synonyms}
    return sorted({*(name for name in config.given() if name not in used), *config.unknown, *config.prefixed})
