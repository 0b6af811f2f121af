"""A client's cluster metadata and when it must be updated (org.apache.kafka.clients.Metadata, MetadataCache).

A `ClusterView` never changes; `Metadata` replaces it. Rules:

- `update_version` counts full and partial updates; a waiting thread waits for a higher one. `request_version` tells
  the response to an outdated request from one for the present topics of interest.
- Partition metadata with an older leader epoch than the last one seen is ignored, unless the topic has a new id.
- Leader epochs in responses below version 9 are unreliable and ignored.
- The lock guards every field; a subclass waits and notifies with `_condition`. The only callbacks under the lock are
  the hooks `retain_topic`, `topics_of_interest`, `new_topics` and `on_update`.
"""

from __future__ import annotations

import math
import threading
import uuid
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.errors import (
    NONE,
    InvalidTopic,
    KafkaError,
    TopicAuthorizationFailed,
    error_for_code,
    error_from_code,
    unauthorized_topics,
)
from kafkatools.core.net.connection_states import ExponentialBackoff
from kafkatools.core.net.sendable_names import ensure_sendable_topic

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity

FIRST_VERSION_WITH_RELIABLE_EPOCHS = 9
NO_LEADER = -1


class Node(NamedTuple):
    """A broker, or a bootstrap server with a negative id."""

    id: int
    host: str
    port: int
    rack: str | None = None


class NodeEndpoint(NamedTuple):
    """The address of a new partition leader in a Produce or Fetch response (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None


class PartitionView(NamedTuple):
    """The metadata of one partition; leader and leader epoch are None when unknown."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error_code: int = NONE


class TopicView(NamedTuple):
    """The metadata of one topic, with its partitions by number."""

    name: str
    id: uuid.UUID | None
    is_internal: bool
    partitions: dict[int, PartitionView]


class ClusterView:
    """An immutable snapshot of the cluster metadata: brokers, topics, controller and errors of topics."""

    __slots__ = ("_names", "cluster_id", "controller_id", "is_bootstrap", "nodes", "topics", "topic_errors")

    def __init__(
        self,
        nodes: Mapping[int, Node],
        topics: Mapping[str, TopicView] | None = None,
        *,
        cluster_id: str | None = None,
        controller_id: int | None = None,
        topic_errors: Mapping[str, type[KafkaError]] | None = None,
        is_bootstrap: bool = False,
    ) -> None:
        self.nodes = dict(nodes)
        self.topics = dict(topics or {})
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topic_errors = dict(topic_errors or {})
        self.is_bootstrap = is_bootstrap
        self._names = {topic.id: topic.name for topic in self.topics.values() if topic.id is not None}

    def node(self, node_id: int) -> Node | None:
        """The broker with this id; None for an unknown id."""
        return self.nodes.get(node_id)

    @property
    def controller(self) -> Node | None:
        """The broker that takes requests to the controller; None when unknown."""
        return None if self.controller_id is None else self.nodes.get(self.controller_id)

    def partition(self, topic: str, partition: int) -> PartitionView | None:
        """The metadata of a partition; None for an unknown partition."""
        view = self.topics.get(topic)
        return None if view is None else view.partitions.get(partition)

    def partition_count(self, topic: str) -> int | None:
        """The number of partitions of a topic; None for a topic that is unknown or has an error."""
        view = self.topics.get(topic)
        return None if view is None else len(view.partitions)

    def available_partitions(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions whose leader is a known broker; empty for an unknown topic."""
        view = self.topics.get(topic)
        if view is None:
            return []
        return [part.partition for part in view.partitions.values() if part.leader in self.nodes]

    def leader_id(self, topic: str, partition: int) -> int | None:
        """The id of a partition's leader; None when the leader is unknown or not a broker of this snapshot."""
        view = self.partition(topic, partition)
        return None if view is None or view.leader not in self.nodes else view.leader

    def leader_epoch(self, topic: str, partition: int) -> int | None:
        """The leader epoch of a partition; None when unknown."""
        view = self.partition(topic, partition)
        return None if view is None else view.leader_epoch

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """The id of a topic; None when unknown."""
        view = self.topics.get(topic)
        return None if view is None else view.id

    def topic_error(self, topic: str) -> KafkaError | None:
        """InvalidTopic or TopicAuthorizationFailed if that is the topic's error, with its name in the message; else
        None."""
        error = self.topic_errors.get(topic)
        if error is InvalidTopic:
            return InvalidTopic(f"Invalid topics: [{topic}]")
        return unauthorized_topics([topic]) if error is TopicAuthorizationFailed else None

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        """The name of the topic with this id; None when unknown."""
        return self._names.get(topic_id)


class Metadata:
    """A client's current ClusterView, first of the bootstrap servers, and the topics it keeps up to date (all topics
    when `topics` is None). `max_age_ms`: when to update without a request."""

    def __init__(
        self,
        bootstrap: Iterable[tuple[str, int]],
        *,
        max_age_ms: int = 300_000,
        backoff: ExponentialBackoff | None = None,
        topics: Collection[str] | None = (),
        allow_auto_topic_creation: bool = False,
        rebootstrap_trigger_ms: int = 300_000,
    ) -> None:
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._bootstrap = {-1 - index: Node(-1 - index, host, port) for index, (host, port) in enumerate(bootstrap)}
        self._max_age_ms = max_age_ms
        self._backoff = backoff or ExponentialBackoff(100, 1000)
        self._topics: set[str] | None = None if topics is None else set(topics)
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self._rebootstrap_trigger_ms = rebootstrap_trigger_ms
        self._cluster = ClusterView(self._bootstrap, is_bootstrap=True)
        self._update_version = 0
        self._request_version = 0
        self._needs_full_update = True
        self._needs_partial_update = False
        self._last_refresh_ms = 0
        self._last_success_ms = 0
        self._attempts = 0
        self._equivalent_answers = 0
        self._awaiting_since_ms: int | None = None
        self._last_epochs: dict[tuple[str, int], int] = {}
        self._error: KafkaError | None = None

    # -- cluster and topics --

    @property
    def cluster(self) -> ClusterView:
        """The current snapshot of the cluster metadata."""
        return self._cluster

    @property
    def update_version(self) -> int:
        """The number of metadata updates so far, full and partial."""
        with self._lock:
            return self._update_version

    def topics_of_interest(self) -> Collection[str] | None:
        """Hook: the topics of a full Metadata request; None for all topics."""
        return None if self._topics is None else sorted(self._topics)

    def new_topics(self) -> Collection[str]:
        """Hook: the topics of a partial Metadata request."""
        return self.topics_of_interest() or ()

    def retain_topic(self, topic: str, now_ms: int) -> bool:
        """Hook: whether a topic of a Metadata response is kept."""
        return self._topics is None or topic in self._topics

    def on_update(self, now_ms: int) -> None:
        """Hook that runs after each metadata update, under the lock."""

    def set_topics(self, topics: Collection[str] | None) -> None:
        """Replace the topics of interest (None: all topics) and request an update if there are new ones. Raises
        InvalidTopic for a name that no request can hold."""
        for topic in topics or ():
            ensure_sendable_topic(topic)
        with self._lock:
            requested = None if topics is None else set(topics)
            is_wider = self._topics is not None and (requested is None or not requested <= self._topics)
            self._topics = requested
            if is_wider:
                self._request_version += 1
                self.request_update()

    def add_topics(self, topics: Iterable[str]) -> None:
        """Add to the topics of interest and request an update if there are new ones. Raises as `set_topics`."""
        with self._lock:
            if self._topics is not None:
                self.set_topics(self._topics | set(topics))

    # -- when to update --

    def request_update(self, reset_backoff: bool = True) -> int:
        """Request a full update at a next poll, after any back-off; return the update version that the update will
        exceed. `reset_backoff` ends the back-off after responses without a change."""
        with self._lock:
            self._needs_full_update = True
            if reset_backoff:
                self._equivalent_answers = 0
            return self._update_version

    def request_update_for_new_topics(self) -> int:
        """Request a partial update with only the new topics, without a back-off; return the update version to
        exceed."""
        with self._lock:
            self._last_refresh_ms = 0
            self._attempts = self._equivalent_answers = 0
            self._needs_partial_update = True
            self._request_version += 1
            return self._update_version

    def consider_fresh(self, now_ms: int) -> None:
        """Cancel a requested full update and restart metadata.max.age.ms, for a client that sends its own requests
        first. A requested partial update stays."""
        with self._lock:
            self._needs_full_update = False
            self._last_success_ms = now_ms

    @property
    def update_requested(self) -> bool:
        """Return whether an update is requested, regardless of the metadata's age."""
        with self._lock:
            return self._needs_full_update or self._needs_partial_update

    def age_ms(self, now_ms: int) -> float:
        """Milliseconds since the last successful update; NaN before the first."""
        with self._lock:
            return now_ms - self._last_success_ms if self._update_version else math.nan

    def time_to_next_update_ms(self, now_ms: int) -> int:
        """Return the milliseconds until the next Metadata request is due: 0 if an update was requested, else the rest
        of metadata.max.age.ms; in both cases at least the remaining back-off."""
        with self._lock:
            expires = 0 if self.update_requested else max(0, self._last_success_ms + self._max_age_ms - now_ms)
            return max(expires, self.time_to_allow_update_ms(now_ms))

    def time_to_allow_update_ms(self, now_ms: int) -> int:
        """Milliseconds until the back-off after a failed or unchanged update is over; 0 without one."""
        with self._lock:
            tries = self._attempts or self._equivalent_answers
            if tries == 0:
                return 0
            return max(0, self._last_refresh_ms + self._backoff.backoff_ms(tries - 1) - now_ms)

    def begin_update(self, now_ms: int) -> None:
        """Start the wait for metadata.recovery.rebootstrap.trigger.ms, unless it runs: an update is due, also if no
        node takes the request."""
        with self._lock:
            if self._awaiting_since_ms is None:
                self._awaiting_since_ms = now_ms

    def next_request(self, now_ms: int) -> tuple[dict[str, object], int, bool]:
        """The next Metadata request: (fields, request version, whether it is partial)."""
        with self._lock:
            is_partial = not self._needs_full_update and self._needs_partial_update
            names = self.new_topics() if is_partial else self.topics_of_interest()
            topics = None if names is None else [{"topic_id": None, "name": name} for name in names]
            return (
                {"topics": topics, "allow_auto_topic_creation": self.allow_auto_topic_creation},
                self._request_version,
                is_partial,
            )

    def failed_update(self, now_ms: int) -> None:
        """Start the back-off after a Metadata request that failed."""
        with self._lock:
            self._last_refresh_ms = now_ms
            self._attempts += 1
            self._equivalent_answers = 0

    def needs_rebootstrap(self, now_ms: int) -> bool:
        """Return whether no update succeeded for metadata.recovery.rebootstrap.trigger.ms (KIP-1102)."""
        with self._lock:
            since = self._awaiting_since_ms
            return since is not None and now_ms - since > self._rebootstrap_trigger_ms

    def rebootstrap(self, now_ms: int) -> None:
        """Replace the cluster view by the bootstrap servers and request an update (KIP-899)."""
        with self._lock:
            self._cluster = ClusterView(self._bootstrap, is_bootstrap=True)
            self._needs_full_update = True
            self._awaiting_since_ms = now_ms
            self._last_epochs.clear()

    # -- responses --

    def update(self, request_version: int, response: Entity, is_partial: bool, now_ms: int) -> None:
        """Apply a Metadata response and wake waiting threads. A partial response replaces only the topics that it
        contains, and the list of brokers."""
        with self._lock:
            self._needs_partial_update = request_version < self._request_version
            self._last_refresh_ms = now_ms
            self._attempts = 0
            self._awaiting_since_ms = None
            if not is_partial:
                self._needs_full_update = False
                self._last_success_ms = now_ms
            else:
                self._equivalent_answers = 0
            self._update_version += 1
            previous = self._cluster
            self._cluster = self._read(response, is_partial, now_ms)
            self._equivalent_answers += 0 if is_partial or _differ(previous, self._cluster) else 1
            self.on_update(now_ms)
            self._condition.notify_all()

    def _read(self, response: Entity, is_partial: bool, now_ms: int) -> ClusterView:
        nodes = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port, getattr(broker, "rack", None))
            for broker in response.brokers
        }
        version = int(response.__version__)
        topics: dict[str, TopicView] = {}
        errors: dict[str, type[KafkaError]] = {}
        if is_partial and not self._cluster.is_bootstrap:
            topics.update(self._cluster.topics)
            errors.update(self._cluster.topic_errors)
        for topic in response.topics or ():
            name = topic.name
            if name is None or not self.retain_topic(name, now_ms):
                continue
            topics.pop(name, None)
            errors.pop(name, None)
            code = int(topic.error_code)
            if code == NONE:
                topics[name] = self._topic(topic, version)
            else:
                errors[name] = error_for_code(code)
                self._needs_full_update |= errors[name].stale_metadata
        return ClusterView(
            nodes,
            topics,
            cluster_id=getattr(response, "cluster_id", None),
            controller_id=getattr(response, "controller_id", None),
            topic_errors=errors,
        )

    def _topic(self, topic: Entity, version: int) -> TopicView:
        topic_id = getattr(topic, "topic_id", None)
        previous = self._cluster.topics.get(topic.name)
        is_same = previous is not None and (topic_id is None or previous.id is None or previous.id == topic_id)
        partitions: dict[int, PartitionView] = {}
        for part in sorted(topic.partitions, key=lambda entry: entry.partition_index):
            view = _partition_view(topic.name, part, version)
            present = previous.partitions.get(view.partition) if previous is not None and is_same else None
            partitions[view.partition] = self._newer(view, present, is_same)
            if view.error_code != NONE and error_for_code(view.error_code).stale_metadata:
                self._needs_full_update = True
        return TopicView(topic.name, topic_id, bool(getattr(topic, "is_internal", False)), partitions)

    def _newer(self, view: PartitionView, present: PartitionView | None, is_same_topic: bool) -> PartitionView:
        """The new metadata of a partition, or the present one if the new leader epoch is older than the last one
        seen."""
        key = (view.topic, view.partition)
        if view.leader_epoch is None:
            return view
        last = self._last_epochs.get(key)
        if is_same_topic and last is not None and view.leader_epoch < last:
            return present or view
        self._last_epochs[key] = view.leader_epoch
        return view

    def update_last_seen_epoch_if_newer(self, topic: str, partition: int, epoch: int) -> bool:
        """Request an update if this leader epoch, from a fetch or commit, is newer than the last one seen; return
        whether it is. Returns False for a partition without a known leader epoch."""
        with self._lock:
            last = self._last_epochs.get((topic, partition))
            if last is not None and epoch <= last:
                return False
            if last is not None:
                self._last_epochs[topic, partition] = epoch
                self._needs_full_update = True
            return last is not None

    def update_partition_leadership(
        self, leaders: Mapping[tuple[str, int], tuple[int, int]], endpoints: Iterable[NodeEndpoint] = ()
    ) -> set[tuple[str, int]]:
        """Apply newer leaders (id, epoch) from a Produce or Fetch response (KIP-951); return the partitions that
        changed. Skips unknown partitions and leaders without an address. `endpoints`: the addresses of the leaders."""
        with self._lock:
            nodes = dict(self._cluster.nodes)
            for node in endpoints:
                nodes[node.node_id] = Node(node.node_id, node.host, node.port, node.rack)
            topics = dict(self._cluster.topics)
            updates = set()
            for (name, index), (leader, epoch) in leaders.items():
                topic = topics.get(name)
                partition = None if topic is None else topic.partitions.get(index)
                if topic is None or partition is None or leader not in nodes:
                    continue
                if partition.leader_epoch is not None and epoch <= partition.leader_epoch:
                    continue
                new_view = partition._replace(leader=leader, leader_epoch=epoch, error_code=NONE)
                topics[name] = topic._replace(partitions={**topic.partitions, index: new_view})
                self._last_epochs[name, index] = epoch
                updates.add((name, index))
            if updates:
                self._replace(nodes, topics)
            return updates

    def _replace(self, nodes: dict[int, Node], topics: dict[str, TopicView]) -> None:
        previous = self._cluster
        self._cluster = ClusterView(
            nodes,
            topics,
            cluster_id=previous.cluster_id,
            controller_id=previous.controller_id,
            topic_errors=previous.topic_errors,
        )
        self._condition.notify_all()

    # -- errors --

    def fail(self, error: KafkaError) -> None:
        """Set an error that no update can resolve, for waiting threads to raise."""
        with self._lock:
            self._error = error
            self._condition.notify_all()

    def take_error(self) -> KafkaError | None:
        """Return and clear the error set by `fail`; None without an error."""
        with self._lock:
            error, self._error = self._error, None
            return error


def _partition_view(topic: str, part: Entity, version: int) -> PartitionView:
    leader = int(part.leader_id)
    epoch = int(getattr(part, "leader_epoch", -1)) if version >= FIRST_VERSION_WITH_RELIABLE_EPOCHS else -1
    return PartitionView(
        topic,
        int(part.partition_index),
        None if leader == NO_LEADER else leader,
        None if epoch < 0 else epoch,
        tuple(part.replica_nodes),
        tuple(part.isr_nodes),
        tuple(getattr(part, "offline_replicas", ())),
        int(part.error_code),
    )


def _differ(previous: ClusterView, current: ClusterView) -> bool:
    return previous.is_bootstrap or previous.topics != current.topics or previous.nodes != current.nodes


def response_error(response: Entity) -> KafkaError | None:
    """The top-level error of a Metadata response (version 13 and newer: REBOOTSTRAP_REQUIRED); None for success."""
    return error_from_code(int(getattr(response, "error_code", NONE)))
