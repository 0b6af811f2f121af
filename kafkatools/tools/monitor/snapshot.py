"""The requests of one snapshot of a cluster and the reading of their responses; missing responses become Problems.

`collector.py` decides which requests to send when, and keeps state between snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kafkatools.core.admin.client import BROKERS, AdminClient, error_in
from kafkatools.core.admin.log_dirs import LogDir, read_log_dirs
from kafkatools.core.admin.offsets import LATEST
from kafkatools.core.admin.quorum import QUORUM_FIELDS, MetadataQuorum, read_quorum
from kafkatools.core.admin.results import by_partition
from kafkatools.core.admin.topics import (
    DEFAULT_PARTITION_LIMIT,
    Cursor,
    PartitionDescription,
    TopicDescription,
    add_page,
    from_metadata,
    next_cursor,
)
from kafkatools.core.errors import (
    ConnectionFailed,
    CoordinatorNotAvailable,
    Disconnected,
    KafkaError,
    Timeout,
    TopicAuthorizationFailed,
    UnknownServerError,
    UnsupportedVersion,
    error_from_code,
)
from kafkatools.core.net.metadata import Node
from kafkatools.core.net.requests import BrokerRequest, BrokerResponse
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.topic_partition import topic_fields
from kafkatools.tools.monitor.groups import ListedGroup, read_listing
from kafkatools.tools.monitor.view import NO_BROKER, PartitionView, Problem, TopicPartition
from kafkatools.tools.rights import CLUSTER, TOPIC, Right, naming

_DESCRIBE_CLUSTER = Right("DESCRIBE", CLUSTER)
_OFFSETS_TOPIC = "__consumer_offsets"
_MAX_NAMES = 3
_TOPICS_AT_A_TIME = 500
_MAX_BUSY_BROKERS = 2
UNANSWERED = (Timeout, ConnectionFailed, Disconnected)

Moves = Mapping[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]
"""By partition the replicas that it gets, and those that it loses."""


def _takes_all(name: str) -> bool:
    return True


class Scope(NamedTuple):
    """The part of the cluster that a snapshot covers. `topic_names` and `group_names` limit requests to these names if
    not empty. `with_starts`: also request log start offsets. `with_owners`: also read the assignments of groups."""

    topic_names: tuple[str, ...] = ()
    takes_topic: Callable[[str], bool] = _takes_all
    takes_group: Callable[[str], bool] = _takes_all
    with_starts: bool = False
    group_names: tuple[str, ...] = ()
    with_owners: bool = False

    @property
    def requested_topics(self) -> tuple[str, ...]:
        """The topics to describe, empty for all; with __consumer_offsets, whose leaders coordinate the groups."""
        return (*self.topic_names, _OFFSETS_TOPIC) if self.topic_names else ()


class Nodes(NamedTuple):
    """The cluster's id, controller and registered brokers, sorted by id, with the ids of the fenced ones."""

    cluster_id: str | None
    controller: int
    nodes: tuple[Node, ...]
    fenced: frozenset[int]

    @property
    def ids(self) -> set[int]:
        """The ids of the registered brokers."""
        return {node.id for node in self.nodes}


def first_requests(scope: Scope) -> dict[str, BrokerRequest]:
    """Return the requests that any broker can serve, by name: nodes, cluster, topics."""
    return {
        "nodes": BrokerRequest(None, ApiKey.METADATA, {"topics": (), "allow_auto_topic_creation": False}, 4),
        "cluster": BrokerRequest(None, ApiKey.DESCRIBE_CLUSTER, _cluster_fields),
        "topics": topics_request(scope.requested_topics),
    }


def controller_requests(broker: int) -> dict[str, BrokerRequest]:
    """Return requests that a broker forwards to the controller, blocking the connection: quorum and moves."""
    return {
        "quorum": BrokerRequest(broker, ApiKey.DESCRIBE_QUORUM, QUORUM_FIELDS),
        "moves": BrokerRequest(broker, ApiKey.LIST_PARTITION_REASSIGNMENTS, {"timeout": 10_000, "topics": None}),
    }


def broker_requests(brokers: Iterable[int]) -> dict[str, BrokerRequest]:
    """Return the requests for each broker's groups and log directories, by name."""
    requests = {}
    for broker in brokers:
        requests[f"groups {broker}"] = BrokerRequest(broker, ApiKey.LIST_GROUPS, {})
        requests[f"log directories {broker}"] = BrokerRequest(broker, ApiKey.DESCRIBE_LOG_DIRS, {"topics": None})
    return requests


def _cluster_fields(version: int) -> dict[str, object]:
    fields: dict[str, object] = {"include_cluster_authorized_operations": False}
    if version >= 1:
        fields["endpoint_type"] = BROKERS
    if version >= 2:
        fields["include_fenced_brokers"] = True
    return fields


def topics_request(names: Sequence[str], cursor: Cursor | None = None) -> BrokerRequest:
    """Return a DescribeTopicPartitions request for one page of these topics, or of all if empty."""
    fields = {
        "topics": [{"name": name} for name in sorted(names)],
        "response_partition_limit": DEFAULT_PARTITION_LIMIT,
        "cursor": None if cursor is None else cursor._asdict(),
    }
    return BrokerRequest(None, ApiKey.DESCRIBE_TOPIC_PARTITIONS, fields)


def _metadata_request(names: Sequence[str]) -> BrokerRequest:
    topics = [{"topic_id": None, "name": name} for name in names]
    return BrokerRequest(None, ApiKey.METADATA, {"topics": topics, "allow_auto_topic_creation": False}, 4)


def offsets_request(leader: int, partitions: Iterable[TopicPartition], timestamp: int = LATEST) -> BrokerRequest:
    """Return a ListOffsets request for the end (LATEST) or start (EARLIEST) offsets of a leader's partitions."""
    topics = topic_fields((key, {"partition_index": key[1], "timestamp": timestamp}) for key in partitions)
    return BrokerRequest(leader, ApiKey.LIST_OFFSETS, {"replica_id": -1, "isolation_level": 0, "topics": topics})


class Snapshot:
    """One snapshot of the cluster: sends requests, reads responses within `patience_ms`, collects `problems`."""

    def __init__(self, admin: AdminClient, patience_ms: int) -> None:
        self._admin = admin
        self._patience_ms = patience_ms
        self.problems: list[Problem] = []
        self.offsets_topic: TopicDescription | None = None
        self._listed_topics: frozenset[str] = frozenset()

    def complain(self, broker: int, label: str, error: KafkaError) -> None:
        """Add a problem. A Timeout or lost connection of a single broker is ignored, because the collector reports it
        once per broker."""
        if broker == NO_BROKER or not isinstance(error, UNANSWERED):
            self.problems.append(Problem(broker, label, str(error)))

    def send(self, requests: Sequence[BrokerRequest], silence_ms: int | None = None) -> list[BrokerResponse]:
        """Send requests in parallel and return their responses in order. A request without a response in `patience_ms`,
        or `silence_ms` until the first response, gets a response with an error."""
        if not requests:
            return []
        return self._admin.send_all(requests, self._admin.deadline_ms(self._patience_ms), silence_ms)

    def send_to_controller(self, aside: AdminClient, brokers: Iterable[int]) -> dict[str, BrokerResponse]:
        """Send the controller's requests to one of these brokers over separate connections, since they hang without a
        controller. While two brokers owe a response, or all do, nothing is sent and both responses are Timeout."""
        if aside.client.in_flight_count():
            aside.client.poll(0)
        candidates = sorted(brokers)
        busy_brokers = [broker for broker in candidates if aside.client.in_flight_count(broker)]
        free = [broker for broker in candidates if broker not in busy_brokers]
        if len(busy_brokers) >= _MAX_BUSY_BROKERS or not free:
            error = Timeout("the controller has not responded yet")
            return dict.fromkeys(controller_requests(NO_BROKER), BrokerResponse(NO_BROKER, None, error))
        requests = controller_requests(free[0])
        responses = aside.send_all([*requests.values()], aside.deadline_ms(self._patience_ms // 2))
        return dict(zip(requests, responses, strict=True))

    def send_to_coordinators(self, apart: AdminClient, requests: Sequence[BrokerRequest]) -> list[BrokerResponse]:
        """Send requests whose responses may be late, over separate connections: a broker responds in order, so a late
        response delays all later ones. A broker that still owes a response is skipped, its response is Timeout."""
        if apart.client.in_flight_count():
            apart.client.poll(0)
        busy_brokers = {request.node for request in requests if apart.client.in_flight_count(request.node)}
        ready = [request for request in requests if request.node not in busy_brokers]
        responses = iter(apart.send_all(ready, apart.deadline_ms(self._patience_ms // 2)) if ready else ())
        timeout = Timeout("the coordinator has not responded yet")
        return [
            BrokerResponse(NO_BROKER, None, timeout) if coordinator_request.node in busy_brokers else next(responses)
            for coordinator_request in requests
        ]

    def retry(self, responses: dict[str, BrokerResponse], requests: Mapping[str, BrokerRequest]) -> None:
        """Repeat once the requests that got no response, since another broker may serve them, and put the new responses
        into `responses`. If no broker responded at all, nothing is repeated."""
        if all(isinstance(response.error, UNANSWERED) for response in responses.values()):
            return
        names = [name for name in requests if isinstance(responses[name].error, UNANSWERED)]
        responses.update(zip(names, self.send([requests[name] for name in names]), strict=True))

    # -- the first turn --

    def nodes(self, metadata: BrokerResponse, cluster: BrokerResponse, clients: Iterable[AdminClient]) -> Nodes:
        """Return the brokers, with fenced ones if reported, and update the clients' broker lists. Raises KafkaError."""
        if metadata.error is not None:
            raise metadata.error
        entity = metadata.entity
        for client in clients:
            client.learn_brokers(entity)
        description = cluster.entity if cluster.error is None and not cluster.entity.error_code else None
        if description is None:
            if cluster.error is not None and not isinstance(cluster.error, UnsupportedVersion):
                self.complain(NO_BROKER, "fenced brokers", cluster.error)
            nodes = [Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in entity.brokers]
            return Nodes(getattr(entity, "cluster_id", None), entity.controller_id, _sort_nodes(nodes), frozenset())
        nodes = [Node(broker.broker_id, broker.host, broker.port, broker.rack) for broker in description.brokers]
        fenced = frozenset(broker.broker_id for broker in description.brokers if getattr(broker, "is_fenced", False))
        return Nodes(description.cluster_id, description.controller_id, _sort_nodes(nodes), fenced)

    def topics(self, first: BrokerResponse, scope: Scope) -> list[TopicDescription]:
        """Return the topics in `scope` sorted by name, requesting further pages as needed; sets `offsets_topic`. A
        topic's own error becomes a problem. Raises KafkaError if a request fails."""
        if isinstance(first.error, UnsupportedVersion):
            descriptions = self._topics_by_metadata(scope)
        else:
            descriptions = {}
            response = first
            cursor: Cursor | None = None
            while True:
                if response.error is not None:
                    raise response.error
                for topic in response.entity.topics:
                    add_page(descriptions, topic)
                cursor = next_cursor(response.entity, cursor)
                if cursor is None:
                    break
                remaining_topics = [name for name in scope.requested_topics if name >= cursor.topic_name]
                response = self.send([topics_request(remaining_topics, cursor)])[0]
        self.offsets_topic = descriptions.get(_OFFSETS_TOPIC)
        self._listed_topics = frozenset(descriptions)
        topics = []
        for name, topic in sorted(descriptions.items()):
            if scope.takes_topic(name) and (name in scope.topic_names or not scope.topic_names):
                if topic.error is None:
                    topics.append(topic)
                else:
                    self.complain(NO_BROKER, f"topic {name}", naming(topic.error, Right("DESCRIBE", TOPIC, name)))
        return topics

    def _topics_by_metadata(self, scope: Scope) -> dict[str, TopicDescription]:
        """Describe topics with Metadata, for brokers before 3.7 or with ZooKeeper."""
        response = self._admin.metadata_of(scope.requested_topics or None, self._admin.deadline_ms(self._patience_ms))
        descriptions = {}
        for topic in response.topics:
            error = error_in(topic)
            description = TopicDescription(topic.name, None, False, (), error) if error else from_metadata(topic)
            descriptions[topic.name] = description
        return descriptions

    def listed_groups(
        self, brokers: Iterable[int], responses: Mapping[str, BrokerResponse], takes: Callable[[str], bool]
    ) -> list[ListedGroup]:
        """Return the groups that the brokers listed, filtered by `takes`."""
        listed_groups: list[ListedGroup] = []
        for broker in brokers:
            response = responses[f"groups {broker}"]
            groups = response.error or read_listing(response)
            if isinstance(groups, KafkaError):
                self.complain(broker, "groups", groups)
            else:
                listed_groups += [group for group in groups if takes(group.group_id)]
        return listed_groups

    def log_dirs(
        self, brokers: Iterable[int], responses: Mapping[str, BrokerResponse]
    ) -> dict[int, tuple[LogDir, ...]]:
        """Return the log directories of the brokers that reported them."""
        directories = {}
        for broker in brokers:
            response = responses[f"log directories {broker}"]
            paths = response.error or read_log_dirs(response.entity)
            if isinstance(paths, KafkaError):
                self.complain(broker, "log directories", naming(paths, _DESCRIBE_CLUSTER))
            else:
                directories[broker] = paths
        return directories

    def note_hidden_topics(self, log_dirs: Mapping[int, Iterable[LogDir]], scope: Scope) -> None:
        """Add a problem for topics that brokers store and leave out of their lists, since this user may not describe
        them. Topics that are being created or deleted are no problem."""
        if scope.topic_names:
            return
        stored = {part.topic for paths in log_dirs.values() for path in paths for part in path.replicas}
        unlisted = sorted(name for name in stored - self._listed_topics if scope.takes_topic(name))
        hidden: list[str] = []
        for first in range(0, len(unlisted), _TOPICS_AT_A_TIME):
            response = self.send([_metadata_request(unlisted[first : first + _TOPICS_AT_A_TIME])])[0]
            if response.error is not None:
                self.complain(NO_BROKER, "topics", response.error)
                return
            denied = (
                topic for topic in response.entity.topics if isinstance(error_in(topic), TopicAuthorizationFailed)
            )
            hidden += [topic.name for topic in denied]
        if hidden:
            names = ", ".join(hidden[:_MAX_NAMES]) + (", ..." if len(hidden) > _MAX_NAMES else "")
            count = "1 topic is" if len(hidden) == 1 else f"{len(hidden)} topics are"
            message = f"{count} hidden from this user, who lacks DESCRIBE: {names}"
            self.problems.append(Problem(NO_BROKER, "topics", message))

    def quorum(self, response: BrokerResponse) -> MetadataQuorum | KafkaError:
        """Return the controller quorum, or the error: UnsupportedVersion for ZooKeeper clusters without one."""
        quorum = response.error or read_quorum(response.entity) or UnknownServerError("the response is empty")
        if isinstance(quorum, KafkaError) and not isinstance(quorum, UnsupportedVersion):
            self.complain(NO_BROKER, "quorum", naming(quorum, _DESCRIBE_CLUSTER))
        return quorum

    def moves(self, response: BrokerResponse) -> Moves:
        """Return the ongoing reassignments by partition; empty after an error. Brokers that are too old are no
        problem, as in Kafka's tools."""
        error = response.error or error_in(response.entity)
        if error is not None:
            if not isinstance(error, UnsupportedVersion):
                self.complain(NO_BROKER, "reassignments", naming(error, _DESCRIBE_CLUSTER))
            return {}
        return by_partition(
            response.entity.topics, lambda part: (tuple(part.adding_replicas), tuple(part.removing_replicas))
        )

    def note_missing_groups(self) -> None:
        """Add a problem when __consumer_offsets partitions have no leader, since no broker lists their groups then."""
        topic = self.offsets_topic
        missing = [part.partition for part in topic.partitions if part.leader < 0] if topic is not None else []
        if topic is not None and missing:
            count = f"{len(missing)} of {len(topic.partitions)} partitions of {_OFFSETS_TOPIC}"
            error = CoordinatorNotAvailable(f"{count} have no leader: their groups are unknown")
            self.complain(NO_BROKER, "groups", error)

    # -- the second turn --

    def offsets(
        self, leaders: Mapping[int, Sequence[TopicPartition]], responses: Sequence[BrokerResponse]
    ) -> dict[TopicPartition, int]:
        """Return end or start offsets by partition; partition errors become one problem per leader and error code."""
        offsets: dict[TopicPartition, int] = {}
        for leader, response in zip(leaders, responses, strict=True):
            if response.error is not None:
                self.complain(leader, "offsets of logs", response.error)
                continue
            failed: dict[int, list[str]] = {}
            for topic in response.entity.topics:
                for part in topic.partitions:
                    if part.error_code:
                        failed.setdefault(int(part.error_code), []).append(f"{topic.name}-{part.partition_index}")
                    elif part.offset >= 0:
                        offsets[topic.name, part.partition_index] = part.offset
            for code, names in failed.items():
                suffix = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
                error = error_from_code(code)
                if error is not None:
                    self.complain(leader, f"offset of {', '.join(names[:_MAX_NAMES])}{suffix}", error)
        return offsets


def _sort_nodes(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(sorted(nodes, key=lambda node: node.id))


def by_leader(topics: Iterable[TopicDescription], alive: set[int]) -> dict[int, list[TopicPartition]]:
    """Return the partitions of each leader in `alive`; partitions with another leader or none are left out."""
    partitions: dict[int, list[TopicPartition]] = {}
    for topic in topics:
        for part in topic.partitions:
            if part.leader in alive:
                partitions.setdefault(part.leader, []).append((topic.name, part.partition))
    return partitions


def replica_sizes(log_dirs: Mapping[int, Iterable[LogDir]]) -> dict[tuple[str, int, int], int]:
    """Return replica sizes in bytes by (topic, partition, broker), without copies being moved to another directory."""
    return {
        (replica.topic, replica.partition, broker): replica.size_bytes
        for broker, paths in log_dirs.items()
        for path in paths
        for replica in path.replicas
        if not replica.is_future
    }


class PartitionFacts(NamedTuple):
    """Offsets, sizes and reassignments of partitions, which complete their descriptions."""

    ends: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    sizes: Mapping[tuple[str, int, int], int]
    moves: Moves

    def view(self, topic: str, min_isr: int | None, part: PartitionDescription) -> PartitionView:
        """Return the PartitionView of a described partition."""
        key = (topic, part.partition)
        adding_replicas, removing_replicas = self.moves.get(key, ((), ()))
        return PartitionView(
            topic,
            part.partition,
            part.leader,
            part.leader_epoch,
            part.replicas,
            part.isr,
            part.elr,
            part.offline_replicas,
            adding_replicas,
            removing_replicas,
            min_isr,
            self.ends.get(key),
            self.sizes.get((topic, part.partition, part.leader)),
            self.starts.get(key),
        )

    def views(self, topic: TopicDescription, min_isr: int | None) -> tuple[PartitionView, ...]:
        """Return the PartitionViews of all partitions of a topic."""
        return tuple(map(partial(self.view, topic.name, min_isr), topic.partitions))
