"""The interfaces between a node and its membership: `SoleMember` for a node alone, otherwise `ClusterMember`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Protocol

from kafkatools.core.broker.metadata.broker_settings import BrokerSettings
from kafkatools.core.broker.metadata.cluster_settings import ClusterSettings, EndPoint
from kafkatools.core.broker.metadata.controller.controller import Controller
from kafkatools.core.broker.metadata.image import MetadataDelta, MetadataImage
from kafkatools.core.broker.metadata.metadata_log import MetadataLog
from kafkatools.core.broker.server.listener import Listener
from kafkatools.core.broker.server.timer import TimerTask
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.log.files import FileSystem
from kafkatools.core.log.partition.log_manager import LogManager


class Worker(Protocol):
    """A part of a node with deadlines of its own: raft, heartbeats, connections to other nodes."""

    @property
    def next_deadline_ms(self) -> int | None:
        """The latest time at which `tick` has work to do; None when it has none."""
        ...

    def tick(self, now_ms: int) -> None:
        """Do the work that is due; the node calls this once in every turn."""
        ...


class Home(Protocol):
    """The node that a membership belongs to; `Node` documents the members."""

    config: Config
    cluster: ClusterSettings
    clock: Clock
    files: FileSystem
    node_id: int
    cluster_id: str
    directory_id: uuid.UUID
    log_directory: str
    logs: LogManager
    metadata_log: MetadataLog
    image: MetadataImage
    broker_settings: BrokerSettings
    controller: Controller
    listener: Listener
    end_points: tuple[EndPoint, ...]

    @property
    def directory_ids(self) -> Sequence[uuid.UUID]: ...
    def schedule(self, delay_ms: int, run: Callable[[int], None]) -> TimerTask: ...
    def apply_delta(self, delta: MetadataDelta) -> None: ...
    def keep_logs(self) -> None: ...
    def request_stop(self) -> None: ...
    def report(self, line: str) -> None: ...
    def report_refusal(self, line: str) -> None: ...
    def note_failure(self, error: Exception) -> None: ...
