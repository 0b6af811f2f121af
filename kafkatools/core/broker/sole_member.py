"""The membership of a node alone: a quorum of one voter, whose controller the node calls directly.

Rules: metadata records are committed and applied at once; at its end the node has nothing to hand over. A failed
metadata.log.dir outside of log.dirs ends the node, as it ends one of Apache Kafka; `DirectoryKeeper` sees to one that
is among several log directories.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from kafkatools.core.broker.membership import Home, Worker
from kafkatools.core.broker.metadata.cluster_settings import listeners_of
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.image import TopicState
from kafkatools.core.broker.metadata.image_records import image_records
from kafkatools.core.broker.metadata.metadata_log import MetadataLog
from kafkatools.core.broker.metadata.producer_ids import ProducerIds
from kafkatools.core.broker.metadata.quorum.election_store import ElectionStore
from kafkatools.core.broker.metadata.quorum.raft_log import RaftLog
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.metadata.quorum.sole_voter import SoleVoter
from kafkatools.core.broker.metadata.quorum.voter_set import EndPoint as QuorumEndPoint
from kafkatools.core.broker.replicas.replica_manager import ReplicaManager
from kafkatools.core.broker.security.listener_security import PROTOCOLS
from kafkatools.core.config import Config
from kafkatools.core.errors import KafkaError, KafkaStorageError
from kafkatools.core.log.format.checkpoints import read_partition_metadata
from kafkatools.core.log.format.filenames import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from kafkatools.core.log.partition.log_directory import LogDirectory
from kafkatools.core.protocol.api_versions import ApiKey

NO_LIMIT_MS = 1 << 62
PARTITION_COUNTS = {
    "__consumer_offsets": "offsets.topic.num.partitions",
    "__transaction_state": "transaction.state.log.num.partitions",
    "__share_group_state": "share.coordinator.state.topic.num.partitions",
}
"""The settings with the partition counts of internal topics."""


def _controller_end_point(config: Config, address: tuple[str, int]) -> QuorumEndPoint:
    """Return the listener under which the voters of the log name this node: the one of controller.listener.names in
    `listeners`, which a cluster of several nodes would use, else that of its clients."""
    names = config.controller_listener_names if config.is_explicit("controller.listener.names") else ()
    name = names[0].upper() if names else RaftSettings.listener_name
    points = listeners_of(config) if names and config.is_explicit("listeners") else ()
    point = next((point for point in points if point.name == name and point.port), None)
    return QuorumEndPoint(name, *address if point is None else (point.advertised_host, point.advertised_port))


class _MetadataDisk:
    """The worker that ends the node after a disk error of its metadata log."""

    def __init__(self, metadata_log: MetadataLog, path: str) -> None:
        self._log, self._path = metadata_log, path

    @property
    def next_deadline_ms(self) -> int | None:
        """Time in ms at which `tick` must run: 0 after a disk error."""
        return None if self._log.failure is None else 0

    def tick(self, now_ms: int) -> None:  # noqa: ARG002 - as other workers
        """Raise KafkaStorageError after a disk error."""
        if self._log.failure is not None:
            raise KafkaStorageError(f"Shutdown broker because the metadata log dir {self._path} has failed")


class SoleMember:
    """The membership of a node alone; clients reach it at `address`. `is_new`: its metadata log was just created."""

    coordinators = None
    failure = None
    is_ready = has_left = True
    longest_wait_ms = NO_LIMIT_MS
    workers: tuple[Worker, ...] = ()

    def __init__(self, home: Home, address: tuple[str, int], *, is_new: bool) -> None:
        self._home, self._node_id = home, home.cluster.node_id
        self._is_new = is_new
        self._log = RaftLog(home.metadata_log, home.clock.wall_ms, commits_at_once=True)
        store = ElectionStore(home.files, home.metadata_log.directory, [self._node_id])
        own = (home.directories.metadata_id, _controller_end_point(home.config, address))
        self.quorum = SoleVoter(self._node_id, address, self._log, store, *own)
        self.broker_epoch = -1
        path = home.directories.metadata_path
        if home.logs.find_directory(path) is None:
            self.workers = (_MetadataDisk(home.metadata_log, path),)

        def take_producer_ids(on_block: Callable[[range], None]) -> None:
            on_block(home.controller.take_producer_ids(self._node_id, self.broker_epoch))

        self.producer_ids = ProducerIds(take_producer_ids)

    def join(self, replicas: ReplicaManager) -> None:
        """Do nothing: there are no other brokers to replicate with."""

    def start(self) -> None:
        """Replay the metadata log, become leader, register this node as controller and broker, and begin the periodic
        work on the logs.

        With a new metadata log the partitions on disk become topics again.
        """
        home, controller = self._home, self._home.controller
        self.quorum.start(home.image.replay)
        is_amid_transaction = self._log.has_open_transaction
        controller.activate(home.image, self.quorum, home.clock.now_ms(), is_amid_transaction=is_amid_transaction)
        end_points = [
            (point.name, point.advertised_host, point.advertised_port, PROTOCOLS[point.protocol])
            for point in home.end_points
        ]
        new_epochs = not home.logs.is_clean_start and not self._is_new
        self.broker_epoch = controller.register_sole_broker(
            end_points, home.directory_ids, new_epochs=new_epochs, rack=home.cluster.rack
        )
        if self._is_new:
            controller.adopt_topics(self._topics_on_disk())
        home.keep_logs()

    def _topics_on_disk(self) -> dict[tuple[str, str], dict[int, int]]:
        """The next leader epoch by partition for each (topic name, topic id) in the log directories. They become topics
        again when the metadata log was lost. A copy of one of several brokers lacks partitions, which are made anew:
        clients and coordinators count them from 0."""
        from kafkatools.core.log.format.leader_epochs import LeaderEpochCache

        files = self._home.files
        next_epochs: dict[tuple[str, str], dict[int, int]] = {}
        for name, directory in self._home.logs.partition_paths():
            path = f"{directory}/{PARTITION_METADATA}"
            if files.exists(path):
                topic_id = read_partition_metadata(files, path).topic_id
                epochs = LeaderEpochCache(files, f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
                epochs.load()
                next_epoch = 0 if epochs.latest_epoch is None else epochs.latest_epoch + 1
                next_epochs.setdefault((name.topic, topic_id), {})[name.partition] = next_epoch
        for (topic, _), known in next_epochs.items():
            least: int = self._home.config[PARTITION_COUNTS[topic]] if topic in PARTITION_COUNTS else 0
            for index in range(max(least, max(known) + 1)):
                known.setdefault(index, 0)
        return next_epochs

    @property
    def metadata_offset(self) -> int:
        """The offset behind the last metadata record."""
        return self._log.end_offset

    def no_controller_reason(self) -> str:
        """An empty reason: a quorum of one never waits."""
        return ""

    no_response_reason = no_controller_reason

    # -- requests to the controller --------------------------------------------------------------------------------
    def create_topic(self, topic: NewTopic) -> TopicState | KafkaError | None:
        """Create an internal or automatic topic; returns the topic or the error."""
        return self._home.controller.create_topics([topic])[topic.name]

    def assign_directories(self, fields: Mapping[str, Any], on_response: Callable[[Any | None], None]) -> None:
        """Give the log directories of replicas to this node's controller. `on_response` is called at once with the
        response, or with None after an error, which is reported."""
        from kafkatools.core.protocol import messages

        response = None
        try:
            entity = messages.build(messages.request_type(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0), fields)
            response_fields = self._home.controller.assign_directories(entity)
            response = messages.build(messages.response_type(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0), response_fields)
        except KafkaError as error:
            self._home.note_failure(error)
        on_response(response)

    def directory_failed(self, directory: LogDirectory) -> None:
        """Report an offline log directory to the controller: its partitions have no leader."""
        if directory.directory_id is not None:
            self._home.controller.directory_failed(directory.directory_id)

    def directories_cordoned(self, directory_ids: list[uuid.UUID]) -> None:
        """Do nothing: this node itself places new replicas in other directories."""

    # -- the end ---------------------------------------------------------------------------------------------------
    def fail(self, error: KafkaError) -> NoReturn:
        """Raise the error, in the turn in which the node finds that it cannot continue."""
        raise error

    def maybe_snapshot(self) -> None:
        """Write a metadata snapshot if one is due."""
        self._log.maybe_snapshot(lambda: image_records(self._home.image), self._home.clock.now_ms())

    def begin_leaving(self) -> None:
        """Do nothing: no other broker can take over."""

    def close(self) -> None:
        """Do nothing: there are no connections to other nodes."""
