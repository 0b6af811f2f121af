"""What a node has before its parts exist: its configuration and services (`NodeSetup`), and the files and sockets that
its start opens first (`NodeResources`)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from kafkatools.core.broker.metadata.cluster_settings import cluster_settings, is_clustered, settings_alone
from kafkatools.core.broker.metadata.metadata_log import MetadataLog, SnapshotRules
from kafkatools.core.broker.replicas.log_directories import NodeDirectories
from kafkatools.core.broker.security.listener_security import ListenerSecurity, security_of
from kafkatools.core.broker.server.connection_limits import ConnectionLimits, descriptor_limit, max_log_files
from kafkatools.core.broker.server.failure_reports import FailureReports
from kafkatools.core.broker.server.listener import Listener
from kafkatools.core.broker.server.node_listener import bind_listeners
from kafkatools.core.broker.server.node_settings import node_settings
from kafkatools.core.broker.server.scheduler import Scheduler
from kafkatools.core.broker.server.timer import Timer
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.log.files import FileSystem, RealFileSystem
from kafkatools.core.log.partition.log_manager import LogManager

if TYPE_CHECKING:
    from kafkatools.core.broker.security.sasl_listener import SaslListener


class NodeSetup:
    """The configuration of a node, and the services that all of its parts use: clock, files, timer, reports, limits.
    Nothing is opened yet."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        files: FileSystem | None = None,
        report: Callable[[str], None] = lambda line: None,
        random: Random | None = None,
    ) -> None:
        """`files` is the disk, by default that of the system. `report` gets the lines for the node's log. `random`
        spreads the times of elections. Raises ConfigError."""
        descriptors = descriptor_limit()
        self.config, self.clock, self.report = config, clock, report
        self.files = files or RealFileSystem(max_log_files(descriptors))
        self.random = random or Random()  # noqa: S311 - when elections begin is no secret
        self.settings = node_settings(config)
        several = is_clustered(config)
        self.cluster = (
            cluster_settings(config, self.settings.node_id) if several else settings_alone(config, self.settings)
        )
        self.security = security_of(config, self.cluster.listeners)
        self.sasl = _sasl_listeners(self.security, clock)
        self.reports = FailureReports(clock, report)
        self.timer = Timer(clock.now_ms(), self.reports.note_failure)
        self.scheduler = Scheduler(self.timer, clock, self.reports.note_failure)
        self.limits = ConnectionLimits(descriptors, getattr(self.files, "max_open_files", 0), report)


def _sasl_listeners(security: Mapping[str, ListenerSecurity], clock: Clock) -> dict[str, SaslListener]:
    """Return the SASL settings of the listeners that have SASL. Without any, their modules are not loaded, for the
    start of a node."""
    settings = {name: own for name, own in security.items() if own.has_sasl}
    if not settings:
        return {}
    from kafkatools.core.broker.security.sasl_listener import sasl_listener

    return {name: sasl_listener(own, clock) for name, own in settings.items()}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NodeResources:
    """The files and sockets of a node: the locked log directories with the state of their logs, the bound `sockets` of
    its listeners in their order, and the metadata log. `is_new`: the metadata log was just created."""

    directories: NodeDirectories
    listener: Listener
    sockets: Sequence[socket.socket]
    logs: LogManager
    metadata_log: MetadataLog
    is_new: bool


@contextmanager
def open_resources(setup: NodeSetup, *, format_if_needed: bool) -> Iterator[NodeResources]:
    """Lock the log directories, bind the listeners, read the state of the logs and open the metadata log. With
    `format_if_needed` unformatted directories are formatted first.

    After an exception, here or inside of the `with` block, the sockets are closed and the directories are unlocked.
    Raises KafkaStorageError, ConfigError, OSError.
    """
    config, settings = setup.config, setup.settings
    with ExitStack() as undo:
        directories = NodeDirectories(setup.files, settings)
        directories.open(setup.clock.wall_ms(), format_if_needed=format_if_needed)
        undo.callback(directories.release)
        logs = LogManager(
            setup.files, *settings.log_directories, report=setup.reports.report, directory_ids=directories.ids
        )
        directories.report_to(logs)
        listener = Listener(
            max_request_bytes=config.socket_request_max_bytes,
            max_idle_ms=config.connections_max_idle_ms,
            limits=setup.limits,
            schedule=setup.scheduler.schedule,
            report=setup.reports.report,
        )
        undo.callback(listener.close)
        sockets = bind_listeners(setup.cluster)
        for bound in sockets:
            undo.callback(bound.close)
        logs.start()
        metadata_log = _metadata_log(setup, logs)
        is_new = metadata_log.open(setup.clock.now_ms(), setup.clock.wall_ms(), is_clean=logs.is_clean_start)
        if setup.cluster.is_alone and config.log_durability == "fsync":
            metadata_log.sync_every_append()
        yield NodeResources(directories, listener, sockets, logs, metadata_log, is_new)
        undo.pop_all()


def _metadata_log(setup: NodeSetup, logs: LogManager) -> MetadataLog:
    """Create the metadata log, whose disk errors count against its log directory, and do not open it."""
    path = setup.settings.log_directory
    directory = logs.find_directory(path)
    on_storage_error = None if directory is None else directory.on_storage_error
    return MetadataLog(setup.files, path, SnapshotRules.of(setup.config), on_storage_error=on_storage_error)
