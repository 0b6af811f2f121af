"""The membership of a node alone: a quorum of one, whose controller the node asks without a message.

Rules: the metadata is read, written and applied at once. What it takes to be in the cluster is done when `start`
returns, and there is nothing to hand over at the end.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from kafkatools.core.broker.membership import Home, Worker
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.image import TopicState
from kafkatools.core.broker.metadata.image_records import image_records
from kafkatools.core.broker.metadata.producer_ids import ProducerIds
from kafkatools.core.broker.metadata.quorum.election_store import ElectionStore
from kafkatools.core.broker.metadata.quorum.raft_log import RaftLog
from kafkatools.core.broker.metadata.quorum.sole_voter import SoleVoter
from kafkatools.core.broker.replicas.replica_manager import ReplicaManager
from kafkatools.core.errors import KafkaError
from kafkatools.core.log.format.checkpoints import read_partition_metadata
from kafkatools.core.log.format.filenames import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from kafkatools.core.log.partition.log_directory import LogDirectory
from kafkatools.core.protocol.api_versions import ApiKey

NO_LIMIT_MS = 1 << 62


class SoleMember:
    """See the module. `address` is where clients reach the node; `is_new` says that its metadata log is."""

    coordinators = None
    failure = None
    is_ready = has_left = True
    longest_wait_ms = NO_LIMIT_MS

    def __init__(self, home: Home, address: tuple[str, int], *, is_new: bool) -> None:
        self._home = home
        self._is_new = is_new
        self._log = RaftLog(home.metadata_log, home.clock.wall_ms, commits_at_once=True)
        store = ElectionStore(home.files, home.metadata_log.directory, [home.node_id])
        self.quorum = SoleVoter(home.node_id, address, self._log, store)
        self.producer_ids = ProducerIds(self._take_producer_ids)
        self.broker_epoch = -1

    def join(self, replicas: ReplicaManager) -> None:
        """There are no other brokers."""

    def start(self) -> Iterable[Worker]:
        """Replay the metadata log, lead, and register this node as controller and broker."""
        home, controller = self._home, self._home.controller
        self.quorum.start(home.image.replay)
        is_amid_transaction = self._log.has_open_transaction
        controller.activate(home.image, self.quorum, home.clock.now_ms(), is_amid_transaction=is_amid_transaction)
        end_points = [(point.name, point.advertised_host, point.advertised_port) for point in home.end_points]
        new_epochs = not home.logs.is_clean_start and not self._is_new
        self.broker_epoch = controller.register_sole_broker(end_points, home.directory_ids, new_epochs=new_epochs)
        if self._is_new:
            controller.adopt_topics(self._topics_on_disk())
        home.keep_logs()
        return ()

    def _topics_on_disk(self) -> dict[tuple[str, str], dict[int, int]]:
        """By name and id, as their directories have them, the next leader epoch of each partition. When the metadata
        log is gone, they become topics again."""
        files = self._home.files
        found: dict[tuple[str, str], dict[int, int]] = {}
        for name, directory in self._home.logs.partition_paths():
            path = f"{directory}/{PARTITION_METADATA}"
            if files.exists(path):
                topic_id = read_partition_metadata(files, path).topic_id
                found.setdefault((name.topic, topic_id), {})[name.partition] = self._next_epoch(directory)
        return found

    def _next_epoch(self, directory: str) -> int:
        from kafkatools.core.log.format.leader_epochs import LeaderEpochCache

        epochs = LeaderEpochCache(self._home.files, f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
        epochs.load()
        return (epochs.latest_epoch if epochs.latest_epoch is not None else -1) + 1

    @property
    def metadata_offset(self) -> int:
        """Offset behind the last metadata record."""
        return self._log.end_offset

    def why_no_controller(self) -> str:
        """A quorum of one waits for nobody."""
        return ""

    why_no_answer = why_no_controller

    # -- requests to the controller --------------------------------------------------------------------------------
    def create_topic(self, topic: NewTopic) -> TopicState | KafkaError | None:
        """Make a topic that this broker itself needs."""
        return self._home.controller.create_topics([topic])[topic.name]

    def _take_producer_ids(self, on_block: Callable[[range], None]) -> None:
        on_block(self._home.controller.take_producer_ids(self._home.node_id, self.broker_epoch))

    def assign_directories(self, fields: Mapping[str, Any], on_answer: Callable[[Any | None], None]) -> None:
        """Tell the controller where replicas are."""
        from kafkatools.core.protocol import messages

        answer = None
        try:
            entity = messages.build(messages.request_type(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0), fields)
            made = self._home.controller.assign_directories(entity)
            answer = messages.build(messages.response_type(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0), made)
        except KafkaError as error:
            self._home.note_failure(error)
        on_answer(answer)

    def directory_failed(self, directory: LogDirectory) -> None:
        """A log directory is offline: nobody leads what lies there."""
        if directory.directory_id is not None:
            self._home.controller.directory_failed(directory.directory_id)

    def directories_cordoned(self, directory_ids: list[uuid.UUID]) -> None:
        """New replicas go elsewhere; the node itself sees to that."""

    # -- the end ---------------------------------------------------------------------------------------------------
    def fail(self, error: KafkaError) -> NoReturn:
        """End the turn in which the node sees that it cannot go on."""
        raise error

    def maybe_snapshot(self) -> None:
        """Write a snapshot of the metadata when it is time for one."""
        self._log.maybe_snapshot(lambda: image_records(self._home.image), self._home.clock.now_ms())

    def begin_leaving(self) -> None:
        """There is nobody to take over."""

    def close(self) -> None:
        """There are no connections to other nodes."""
