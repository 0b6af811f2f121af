"""What a membership gets from its node and gives to it: `SoleMember` on a node alone, otherwise `ClusterMember`."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kafkatools.core.broker.metadata.broker_settings import BrokerSettings
from kafkatools.core.broker.metadata.cluster_settings import ClusterSettings, EndPoint
from kafkatools.core.broker.metadata.controller.controller import Controller
from kafkatools.core.broker.metadata.image import MetadataDelta, MetadataImage
from kafkatools.core.broker.metadata.metadata_log import MetadataLog
from kafkatools.core.broker.replicas.log_directories import NodeDirectories
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
        """The time from which `tick` has work to do; None when it has none."""
        ...

    def tick(self, now_ms: int) -> None:
        """Do the work that is due; the node calls this once in every turn."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Home:
    """The parts of a node that its membership uses.

    `keep_logs` begins the periodic work on the logs, `report_refusal` reports a repeated line once a minute, and
    `note_failure` reports a bug or a disk error.
    """

    config: Config
    cluster: ClusterSettings
    clock: Clock
    files: FileSystem
    directories: NodeDirectories
    logs: LogManager
    metadata_log: MetadataLog
    image: MetadataImage
    broker_settings: BrokerSettings
    controller: Controller
    listener: Listener
    end_points: tuple[EndPoint, ...]
    schedule: Callable[[int, Callable[[int], None]], TimerTask]
    apply_delta: Callable[[MetadataDelta], None]
    keep_logs: Callable[[], None]
    request_stop: Callable[[], None]
    report: Callable[[str], None]
    report_refusal: Callable[[str], None]
    note_failure: Callable[[Exception], None]

    @property
    def directory_ids(self) -> list[uuid.UUID]:
        """The ids of the online log directories."""
        return [directory.directory_id for directory in self.logs.live if directory.directory_id is not None]
