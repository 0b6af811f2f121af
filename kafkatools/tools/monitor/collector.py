"""Collect one ClusterView after the other, with few requests that every Kafka cluster supports.

A snapshot has two turns of parallel requests. First any broker describes nodes and topics, and every broker its groups
and log directories. Then leaders report log end offsets, and the coordinators (the brokers that listed groups) describe
them. Quorum and reassignments are requested in between, over separate connections. Topics beyond a page of 2,000
partitions and settings of new topics need further requests.

A broker that does not respond in time delays one snapshot. Later snapshots ask it only when its connection is up and it
owes no response; each view names its missing data as problems.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.configs import TOPIC
from kafkatools.core.admin.groups import SHARE
from kafkatools.core.admin.log_dirs import LogDir
from kafkatools.core.admin.offsets import EARLIEST
from kafkatools.core.admin.quorum import MetadataQuorum
from kafkatools.core.admin.topics import TopicDescription
from kafkatools.core.errors import KafkaError, UnknownTopicOrPartition, UnsupportedVersion
from kafkatools.core.net.requests import BrokerRequest, BrokerResponse
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.tools import rights
from kafkatools.tools.monitor.changes import events_between, with_rates
from kafkatools.tools.monitor.end_history import EndHistory
from kafkatools.tools.monitor.groups import GroupRequests, ListedGroup
from kafkatools.tools.monitor.snapshot import (
    UNANSWERED,
    Moves,
    Nodes,
    PartitionFacts,
    Scope,
    Snapshot,
    broker_requests,
    by_leader,
    first_requests,
    offsets_request,
    replica_sizes,
)
from kafkatools.tools.monitor.unknowns import Coordinators, with_reason
from kafkatools.tools.monitor.view import (
    NO_BROKER,
    NOT_REPORTED,
    BrokerView,
    ClusterView,
    GroupPartition,
    GroupView,
    Problem,
    TopicPartition,
    TopicView,
)
from kafkatools.tools.rights import Right, naming

DEFAULT_PATIENCE_MS = 2000
SILENCE_MS = 3000
"""Time after which a cluster that was there before counts as away if no broker has responded."""
_MIN_ISR = "min.insync.replicas"
_SETTINGS_AGE_MS = 30_000
_SLOW_SNAPSHOTS = 2

__all__ = ["ClusterCollector", "Scope"]


class ClusterCollector:
    """Collects one `ClusterView` per snapshot; for one thread. `aside`: a second client, for requests to the
    controller. `apart`: a third client, for group offsets, which coordinators may return late. A broker responds to a
    connection's requests in order. So a request to a missing controller or a late coordinator would delay everything
    else on the same connection."""

    def __init__(
        self,
        admin: AdminClient,
        aside: AdminClient,
        scope: Scope | None = None,
        patience_ms: int = DEFAULT_PATIENCE_MS,
        apart: AdminClient | None = None,
    ) -> None:
        self._apart = apart or admin
        self._coordinators = Coordinators()
        self._admin = admin
        self._aside = aside
        self._scope = scope or Scope()
        self._patience_ms = patience_ms
        self._last: ClusterView | None = None
        self._silent: dict[int, str] = {}  # brokers that did not respond, with the error
        self._settings = _TopicSettings()
        self._history = EndHistory()
        self._snapshots_without_quorum = 0  # since the controller responded

    def connect(self, timeout_ms: int | None = None) -> None:
        """Fetch the broker list before the first snapshot, within `timeout_ms` (default: default.api.timeout.ms).
        Raises KafkaError."""
        self._admin.refresh_cluster(timeout_ms)

    def collect(self) -> ClusterView:
        """Return one snapshot's view, with rates and events. Raises KafkaError when no broker describes the cluster:
        after the first snapshot within a few seconds."""
        started_ms = self._admin.clock.now_ms()
        self._admin.refresh_cluster(None if self._last is None else min(self._patience_ms, SILENCE_MS))
        snapshot = Snapshot(self._admin, self._patience_ms)
        view = self._second_turn(snapshot, self._first_turn(snapshot))
        view = view._replace(took_ms=self._admin.clock.now_ms() - started_ms)
        if self._last is not None:
            view = with_rates(self._last, view)
            view = view._replace(events=tuple(events_between(self._last, view)))
        self._last = view
        return view

    # -- brokers that get requests --

    def _alive(self) -> list[int]:
        if self._last is None:
            return sorted(self._admin.client.metadata.cluster.nodes)
        return [broker.id for broker in self._last.brokers if broker.is_alive]

    def _may_send(self, node: int, now_ms: int) -> bool:
        """Return whether to send requests to a node: a silent one only when connected and idle. Starts to reconnect to
        a silent node that is not connected."""
        if node not in self._silent:
            return True
        client = self._admin.client
        return client.find_node(node) is not None and client.ready(node, now_ms) and not client.in_flight_count(node)

    def _note_silent(self, requested: Iterable[int], responses: Mapping[str, BrokerResponse], nodes: Nodes) -> None:
        for node in requested:
            errors = [responses[f"{label} {node}"].error for label in ("groups", "log directories")]
            if all(isinstance(error, UNANSWERED) for error in errors):
                self._silent[node] = str(errors[0])
            else:
                self._silent.pop(node, None)
        alive = nodes.ids - nodes.fenced
        self._silent = {
            node: str(self._admin.client.connection_error(node) or error)
            for node, error in self._silent.items()
            if node in alive
        }

    def _note_silent_later(self, snapshot: Snapshot, exchanges: Iterable[tuple[BrokerRequest, BrokerResponse]]) -> None:
        """Record brokers that responded in the first turn but not in the second."""
        errors: dict[int, list[KafkaError | None]] = {}
        for request, response in exchanges:
            if request.node is not None:
                errors.setdefault(request.node, []).append(response.error)
        for node, node_errors in errors.items():
            if node not in self._silent and all(isinstance(error, UNANSWERED) for error in node_errors):
                self._silent[node] = str(node_errors[0])
                snapshot.problems.append(Problem(node, "no response", str(node_errors[0])))

    def _note_partly_silent(
        self, snapshot: Snapshot, requested: Iterable[int], responses: Mapping[str, BrokerResponse]
    ) -> None:
        """Add a problem for each broker that responded to only one of its two requests in time."""
        for node in requested:
            for label in ("groups", "log directories"):
                error = responses[f"{label} {node}"].error
                if node not in self._silent and isinstance(error, UNANSWERED):
                    snapshot.problems.append(Problem(node, label, str(error)))

    def _note_late(self, snapshot: Snapshot, exchanges: Iterable[tuple[BrokerRequest, BrokerResponse | None]]) -> None:
        """Add a problem for each responding coordinator that did not return group offsets in time."""
        for request, response in exchanges:
            node = request.node
            if response is None or node is None or node in self._silent:
                continue
            if isinstance(response.error, UNANSWERED):
                snapshot.problems.append(Problem(node, "offsets of groups", str(response.error)))

    # -- the two turns --

    def _first_turn(self, snapshot: Snapshot) -> _FirstTurn:
        now_ms = self._admin.clock.now_ms()
        requested = [node for node in self._alive() if self._may_send(node, now_ms)]
        common, per_broker = first_requests(self._scope), broker_requests(requested)
        silence_ms = None if self._last is None else SILENCE_MS
        sent = snapshot.send([*common.values(), *per_broker.values()], silence_ms)
        responses = dict(zip([*common, *per_broker], sent, strict=True))
        snapshot.retry(responses, common)
        nodes = snapshot.nodes(responses["nodes"], responses["cluster"], (self._admin, self._aside, self._apart))
        topics = snapshot.topics(responses["topics"], self._scope)
        self._note_silent(requested, responses, nodes)
        responses |= snapshot.send_to_controller(self._aside, nodes.ids - nodes.fenced - self._silent.keys())
        for node, error in sorted(self._silent.items()):
            snapshot.problems.append(Problem(node, "no response", error))
        listings = snapshot.listed_groups(requested, responses, self._scope.takes_group)
        self._note_partly_silent(snapshot, requested, responses)
        snapshot.note_missing_groups()
        alive = nodes.ids - nodes.fenced
        responding = {node for node in requested if responses[f"groups {node}"].error is None}
        reasons = {
            node: self._silent.get(node)
            or (str(responses[f"groups {node}"].error) if node in requested else "it was not asked")
            for node in alive - responding
        }
        names = {group.group_id for group in listings}
        if self._scope.group_names and names.issuperset(self._scope.group_names):
            reasons = {}  # all requested groups are listed, so the other brokers do not matter
        self._coordinators.update(snapshot.offsets_topic, alive, reasons, self._admin.clock.now_ms())
        log_dirs = snapshot.log_dirs(requested, responses)
        snapshot.note_hidden_topics(log_dirs, self._scope)
        quorum = snapshot.quorum(responses["quorum"])
        return _FirstTurn(nodes, topics, listings, log_dirs, quorum, snapshot.moves(responses["moves"]))

    def _second_turn(self, snapshot: Snapshot, first: _FirstTurn) -> ClusterView:
        alive = first.nodes.ids - first.nodes.fenced - self._silent.keys()
        leaders = by_leader(first.topics, alive)
        ends = [offsets_request(leader, parts) for leader, parts in leaders.items()]
        starts = [offsets_request(leader, parts, EARLIEST) for leader, parts in leaders.items()]
        logs = [*ends, *starts] if self._scope.with_starts else ends
        groups = GroupRequests(
            [group for group in first.listed_groups if group.coordinator in alive],
            snapshot.complain,
            with_owners=self._scope.with_owners,
        )
        group_requests = groups.requests()
        group_responses = self._send_apart(snapshot, groups, group_requests)
        remaining = [place for place, response in enumerate(group_responses) if response is None]
        settings = self._settings.requests(first.topics, self._admin.clock.now_ms())
        requests = [*logs, *(group_requests[place] for place in remaining), *settings]
        responses = snapshot.send(requests)
        clock_ms = self._admin.clock.now_ms()
        self._note_silent_later(snapshot, zip(requests, responses, strict=True))
        self._note_late(snapshot, zip(group_requests, group_responses, strict=True))
        offsets = snapshot.offsets(leaders, responses[: len(ends)])
        begins = snapshot.offsets(leaders, responses[len(ends) : len(logs)]) if self._scope.with_starts else {}
        for place, response in zip(remaining, responses[len(logs) :], strict=False):
            group_responses[place] = response
        groups.take([response for response in group_responses if response is not None], self._admin, self._patience_ms)
        if settings:
            self._settings.take(snapshot, responses[-1])
        self._history.add(offsets, clock_ms)
        self._history.forget_others((topic.name, part.partition) for topic in first.topics for part in topic.partitions)
        facts = PartitionFacts(offsets, begins, replica_sizes(first.log_dirs), first.moves)
        responding = first.nodes.ids - first.nodes.fenced - self._silent.keys()
        view = ClusterView(
            time_ms=self._admin.clock.wall_ms(),
            clock_ms=clock_ms,
            took_ms=0,
            cluster_id=first.nodes.cluster_id,
            controller=self._controller(first),
            brokers=tuple(self._brokers(first)),
            topics=tuple(self._topic(topic, facts) for topic in first.topics),
            quorum=None if isinstance(first.quorum, KafkaError) else first.quorum,
            groups=(),
            problems=tuple(snapshot.problems),
            unlisted=self._coordinators.reasons,
        )
        unlisted = self._coordinators.unlisted_groups(self._last, first.listed_groups, responding)
        reported_views = groups.views(offsets, self._scope.takes_topic)
        timed_views = [self._with_lag_times(group, offsets) for group in reported_views]
        views = self._coordinators.complete([*timed_views, *unlisted])
        views = [with_reason(group, view.by_partition, responding) for group in views]
        return view._replace(groups=tuple(sorted(views, key=lambda group: group.group_id)))

    def _send_apart(
        self, snapshot: Snapshot, groups: GroupRequests, requests: Sequence[BrokerRequest]
    ) -> list[BrokerResponse | None]:
        """Send the requests that may be late over `apart`; the responses to the other requests are None."""
        places = [place for place, waits in enumerate(groups.late_requests()) if waits]
        responses: list[BrokerResponse | None] = [None] * len(requests)
        for place, response in zip(
            places, snapshot.send_to_coordinators(self._apart, [requests[n] for n in places]), strict=True
        ):
            responses[place] = response
        return responses

    def _controller(self, first: _FirstTurn) -> int:
        """Return the id of the active controller: the quorum's leader, or without a quorum (ZooKeeper) the one in
        metadata.

        While the quorum request has no response, the last known controller stays for two snapshots, then NO_BROKER.
        NOT_REPORTED if the request was refused.
        """
        if not isinstance(first.quorum, KafkaError):
            self._snapshots_without_quorum = 0
            return first.quorum.leader_id
        if isinstance(first.quorum, UnsupportedVersion):
            return first.nodes.controller
        if not isinstance(first.quorum, UNANSWERED):
            return NOT_REPORTED
        self._snapshots_without_quorum += 1
        return (
            NO_BROKER
            if self._last is None or self._snapshots_without_quorum > _SLOW_SNAPSHOTS
            else self._last.controller
        )

    def _brokers(self, first: _FirstTurn) -> Iterable[BrokerView]:
        for node in first.nodes.nodes:
            is_fenced = node.id in first.nodes.fenced
            is_responding = not is_fenced and node.id not in self._silent
            log_dirs = first.log_dirs.get(node.id)
            yield BrokerView(node.id, node.host, node.port, node.rack, is_fenced, is_responding, log_dirs)

    def _with_lag_times(self, group: GroupView, ends: Mapping[TopicPartition, int]) -> GroupView:
        """Return the group with the age of the oldest unconsumed record in each partition. For a share group, whose
        start offset may be before acknowledged records, the newest records count, as many as its lag."""
        now_ms = self._admin.clock.now_ms()
        partitions = []
        for part in group.partitions or ():
            age_ms, least_ms = None, 0
            if part.lag is not None:
                key = part.topic, part.partition
                at = max(part.committed, ends.get(key, 0) - part.lag) if group.type == SHARE else part.committed
                age_ms = 0 if part.lag == 0 else self._history.age_ms(key, at, now_ms)
                least_ms = self._history.least_age_ms(key, at, now_ms) if age_ms is None else 0
            partitions.append(GroupPartition(part.topic, part.partition, part.committed, part.lag, age_ms, least_ms))
        return group if group.partitions is None else group._replace(partitions=tuple(partitions))

    def _topic(self, topic: TopicDescription, facts: PartitionFacts) -> TopicView:
        parts = facts.views(topic, self._settings.min_isr.get(topic.name))
        return TopicView(topic.name, topic.topic_id, topic.is_internal, parts)


class _TopicSettings:
    """min.insync.replicas of topics, requested for new topics and for all topics every 30 seconds."""

    def __init__(self) -> None:
        self.min_isr: dict[str, int | None] = {}
        self._requested_ms: int | None = None

    def requests(self, topics: Iterable[TopicDescription], now_ms: int) -> list[BrokerRequest]:
        """Return the DescribeConfigs request that is due, if any."""
        if self._requested_ms is None or now_ms - self._requested_ms > _SETTINGS_AGE_MS:
            self._requested_ms = now_ms
            names = [topic.name for topic in topics]
        else:
            names = [topic.name for topic in topics if topic.name not in self.min_isr]
        if not names:
            return []
        keys = (_MIN_ISR,)
        resources = [{"resource_type": TOPIC, "resource_name": name, "configuration_keys": keys} for name in names]
        fields = {"resources": resources, "include_synonyms": False, "include_documentation": False}
        return [BrokerRequest(None, ApiKey.DESCRIBE_CONFIGS, fields)]

    def take(self, snapshot: Snapshot, response: BrokerResponse) -> None:
        """Store the settings of a DescribeConfigs response. Errors become problems, except for topics that do not
        exist."""
        if response.error is not None:
            snapshot.complain(NO_BROKER, _MIN_ISR, response.error)
            return
        for result in response.entity.results:
            error = error_in(result)
            if error is not None and not isinstance(error, UnknownTopicOrPartition):
                named = naming(error, Right("DESCRIBE_CONFIGS", rights.TOPIC, result.resource_name))
                snapshot.complain(NO_BROKER, f"{_MIN_ISR} of {result.resource_name}", named)
            value = next((entry.value for entry in result.configs if entry.name == _MIN_ISR), None)
            self.min_isr[result.resource_name] = None if value is None else int(value)


class _FirstTurn(NamedTuple):
    """The results of a snapshot's first turn."""

    nodes: Nodes
    topics: list[TopicDescription]
    listed_groups: list[ListedGroup]
    log_dirs: dict[int, tuple[LogDir, ...]]
    quorum: MetadataQuorum | KafkaError
    moves: Moves
