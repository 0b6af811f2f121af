"""Replays the quorum's committed records into the node's image, applies the deltas, and activates the node's controller
(Kafka's MetadataLoader, BrokerMetadataPublisher and QuorumController's MetaLogListener).

Rules: records are replayed when they are committed, those of a batch at once. A large batch is decoded in portions
between the node's turns, and later commits wait behind it. The changes are applied in slices between turns, too. So a
thousand new partitions do not keep the node from voting, fetching and sending heartbeats. Requests for partitions that
are not applied yet get NOT_LEADER_OR_FOLLOWER. While this node's controller makes a change in slices nothing is
applied: in turns with the slices it would delay the response to that change many times over.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from kafkatools.core.broker.metadata.image import MetadataDelta, MetadataImage
from kafkatools.core.broker.metadata.metadata_log import RECORDS_AT_ONCE, CommittedBatch
from kafkatools.core.broker.metadata.sliced_changes import slices, still_there
from kafkatools.core.broker.metadata.snapshot import Snapshot
from kafkatools.core.broker.node_parts import HasClock, HasController, HasId, HasImage, HasLink
from kafkatools.core.errors import InconsistentClusterId, KafkaError, NotController

if TYPE_CHECKING:
    from kafkatools.core.broker.metadata.quorum.raft import Raft
    from kafkatools.core.broker.metadata.quorum.raft_log import Records

APPLY_MS = 20
SLICE_PARTITIONS = 10
PARTS = ("acls", "client_quotas", "scram")


class Owner(HasId, HasClock, HasImage, HasController, HasLink, Protocol):
    """The node whose metadata is followed."""

    def apply_delta(self, delta: MetadataDelta) -> None:
        """Apply a metadata change to all parts of this node."""

    def maybe_serve_clients(self) -> None:
        """Open the client listeners once this broker has applied the record that unfences it."""

    def fail(self, error: KafkaError) -> None:
        """Stop the node because of this error."""

    def note_failure(self, error: Exception) -> None:
        """Report a bug or a disk error."""

    def report_refusal(self, line: str) -> None:
        """Report a request that another member refused."""


class MetadataFollower:
    """The `RaftListener` of a node: keeps its image, controller and broker up to date with the metadata log."""

    def __init__(self, node: Owner, *, is_broker: bool) -> None:
        self._node = node
        self._is_broker = is_broker
        self.offset = 0
        self._is_publishing = False
        self._has_news = False
        self._slices: Iterator[MetadataDelta] | None = None
        self._committed: deque[tuple[int, int]] = deque()
        self._batches: Iterator[CommittedBatch | None] | None = None
        self._end = 0
        self._published: Callable[[], None] | None = None

    def on_commit(self, first: int, end: int) -> None:
        """Replay the committed records and complete the responses that wait for them, at once or, behind or in a large
        batch, in the next turns."""
        is_small = not self.has_unreplayed and end - first <= RECORDS_AT_ONCE
        self._committed.append((first, end))
        if is_small:
            self._replay_all()

    @property
    def has_unreplayed(self) -> bool:
        """Return whether committed records are not replayed yet."""
        return bool(self._committed) or self._batches is not None

    def _replay_all(self) -> None:
        while self.has_unreplayed:
            self._replay_portion()

    def _replay_portion(self) -> None:
        """Decode at most `RECORDS_AT_ONCE` records of a large batch, or replay batches that are decoded. At the end of
        a commit complete the responses that wait for it."""
        node = self._node
        if self._batches is None:
            first, self._end = self._committed.popleft()
            self._batches = node.raft.log.committed_in_portions(first, self._end)
        for batch in self._batches:
            if batch is None:
                return
            for record in batch.records:
                node.image.replay(record)
        self._batches = None
        end = self.offset = self._end
        self._has_news = True
        if not self._is_broker:
            node.image.take_delta()  # nothing is applied, and deleted topics would fill the memory
        node.pending.complete(lambda required_offset: 0 if required_offset <= end else None)

    def on_leader_change(self, leader_id: int | None, epoch: int) -> None:
        """Activate this node's controller when it becomes the leader. Otherwise deactivate it, and answer the requests
        that wait for a commit with NOT_CONTROLLER."""
        node = self._node
        self._replay_all()
        now_ms = node.clock.now_ms()
        if leader_id == node.node_id and node.raft.is_leader:
            with contextlib.suppress(NotController):  # its disk failed on the first records, so it resigned
                node.controller.activate(
                    node.image,
                    RaftWriter(node.raft),
                    now_ms,
                    is_amid_transaction=node.raft.log.has_open_transaction,
                    last_leader_contact=node.raft.last_leader_contact,
                )
        else:
            if node.controller.is_active:
                node.controller.deactivate()
            node.pending.complete(lambda _: NotController.code)
        node.link.note_leader(now_ms)

    def on_snapshot_loaded(self, snapshot: Snapshot) -> None:
        """Replace the image by the snapshot's content. The next `tick` applies everything that may differ."""
        self._committed.clear()
        self._batches = None
        replaced = MetadataImage()
        for record in snapshot.records:
            replaced.replay(record)
        become(self._node.image, replaced)
        self.offset = snapshot.snapshot_id.offset
        self._has_news = True

    def on_fault(self, error: Exception) -> None:
        """Report an error of the quorum; a failed disk ends the node. InconsistentClusterId is ignored, since the node
        handles such responses itself."""
        node = self._node
        if isinstance(error, InconsistentClusterId):
            return  # the node handles such responses itself
        if node.raft.failure is not None and isinstance(error, KafkaError):
            node.fail(error)
        elif isinstance(error, KafkaError):
            node.report_refusal(f"WARN {error}")
        else:
            node.note_failure(error)

    def publish_first(self, on_published: Callable[[], None]) -> None:
        """Start applying the metadata to the broker; `on_published` is called when all replayed records are applied."""
        self._is_publishing = True
        self._has_news = True
        self._published = on_published

    @property
    def has_applied_all(self) -> bool:
        """Return whether the broker has applied every replayed record."""
        return self._is_publishing and not (self._has_news or self._slices is not None or self.has_unreplayed)

    @property
    def next_deadline_ms(self) -> int | None:
        """Return 0 while committed records are not replayed or applied yet, else None."""
        return 0 if self.has_unreplayed or (self._is_publishing and not self.has_applied_all) else None

    def tick(self, now_ms: int) -> None:
        """Replay a portion of the committed records. Without one, apply replayed changes for up to APPLY_MS, once
        `publish_first` was called, and not while this node's controller makes a change in slices. When all are applied,
        call its callback and open the client listeners if the broker is unfenced."""
        node = self._node
        if self.has_unreplayed:
            self._replay_portion()
            return
        if not self._is_publishing or node.controller.is_amid_sliced_change:
            return
        ends_ms = now_ms + APPLY_MS
        while self._has_news or self._slices is not None:
            if self._slices is None:
                self._has_news = False
                self._slices = slices(node.image.take_delta(), SLICE_PARTITIONS, node.image)
            for part in self._slices:
                node.apply_delta(still_there(part, node.image))
                if node.clock.now_ms() >= ends_ms:
                    return
            self._slices = None
            if self._published is not None and not self._has_news:
                published, self._published = self._published, None
                published()
        node.maybe_serve_clients()


class RaftWriter:
    """The controller's `RecordWriter` in a quorum of several nodes."""

    commits_at_once = False

    def __init__(self, raft: Raft) -> None:
        self._raft = raft
        self.epoch = raft.epoch

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return self._raft.end_offset

    @property
    def kraft_version(self) -> int:
        """The kraft.version of the log."""
        return self._raft.kraft_version

    def upgrade_kraft_version(self, level: int, *, validate_only: bool) -> None:
        """Raise kraft.version, or only check it. Raises InvalidUpdateVersion, NotController."""
        self._raft.upgrade_kraft_version(level, validate_only=validate_only)

    def append(self, records: Records, wall_ms: int) -> int:
        """Append records as one batch and return the offset of the first. Raises NotController."""
        return self._raft.append(records, wall_ms)


def become(image: MetadataImage, source: MetadataImage) -> None:
    """Copy the state of `source` into `image` in place; the image's delta becomes everything that may differ."""
    delta = MetadataDelta()
    for topic_id, topic in image.topics_by_id.items():
        if topic_id not in source.topics_by_id:
            delta.removed_topics[topic_id] = topic
    delta.changed_topics = {topic.topic_id: topic for topic in source.topics.values()}
    delta.changed_configs = set(image.configs) | set(source.configs)
    delta.changed_brokers = set(image.brokers) | set(source.brokers)
    quotas_version = image.client_quotas.version + source.client_quotas.version + 1
    config_changes = image.broker_config_changes + source.broker_config_changes + 1
    for name in PARTS:
        vars(getattr(image, name)).update(vars(getattr(source, name)))
    image.client_quotas.version = quotas_version
    for name, value in vars(source).items():
        if name not in (*PARTS, "delta", "version", "_replay"):
            setattr(image, name, value)
    image.broker_config_changes = config_changes  # another number than before: listeners read their settings again
    image.version += 1
    image.delta = delta
