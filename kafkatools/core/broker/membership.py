"""What a node does for its membership in a cluster: `SoleMember` for a node alone, `ClusterMember` for one of several,
with the same members."""

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
    """Something that has its own times: raft, heartbeats, connections to other nodes."""

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do at the latest; None: whenever it is."""
        ...

    def tick(self, now_ms: int) -> None:
        """Once in every turn."""
        ...


class Home(Protocol):
    """The node of a membership."""

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
    def directory_ids(self) -> Sequence[uuid.UUID]:
        """The ids of the log directories that are online."""

    def schedule(self, delay_ms: int, run: Callable[[int], None]) -> TimerTask:
        """Call `run` once, after a delay, with the time in ms."""

    def apply_delta(self, delta: MetadataDelta) -> None:
        """Let the broker act on a change of the metadata."""

    def keep_logs(self) -> None:
        """Begin the periodic work on the logs, which are open."""

    def request_stop(self) -> None:
        """Make `run` return."""

    def report(self, line: str) -> None:
        """Report an event."""

    def report_refusal(self, line: str) -> None:
        """Report what is repeated, at most once a minute."""

    def note_failure(self, error: Exception) -> None:
        """Report a bug or what the disk did."""
