"""Describe streams groups (KafkaAdminClient.describeStreamsGroups, KIP-1071).

`groups.py` lists and deletes the groups, `group_offsets.py` has their committed offsets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.coordinators import Coordinator, CoordinatorRequest, send_to_coordinators
from kafkatools.core.errors import KafkaError
from kafkatools.core.net.requests import BrokerResponse
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity

TaskIds = tuple[tuple[str, tuple[int, ...]], ...]
"""Subtopology ids, each with the partitions of its tasks."""


class Tasks(NamedTuple):
    """The tasks of a member, by kind."""

    active: TaskIds = ()
    standby: TaskIds = ()
    warmup: TaskIds = ()


class StreamsMember(NamedTuple):
    """A member of a streams group: one thread of an application instance."""

    member_id: str
    member_epoch: int
    client_id: str
    host: str
    process_id: str
    topology_epoch: int
    is_classic: bool
    tasks: Tasks
    target_tasks: Tasks
    rack_id: str | None = None
    endpoint: str | None = None


class StreamsSubtopology(NamedTuple):
    """A part of the topology, with the names of its topics."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sources: tuple[str, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[str, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The source topics and repartition source topics."""
        return self.source_topics + self.repartition_sources


class StreamsGroupDescription(NamedTuple):
    """A described streams group, or its error; then the state is "Unknown" and the coordinator -1."""

    group_id: str
    state: str
    group_epoch: int
    target_assignment_epoch: int
    topology_epoch: int
    subtopologies: tuple[StreamsSubtopology, ...]
    members: tuple[StreamsMember, ...]
    coordinator: Coordinator
    error: KafkaError | None = None

    @property
    def source_topics(self) -> frozenset[str]:
        """The topics that the application reads, without repartition topics."""
        return frozenset(topic for part in self.subtopologies for topic in part.source_topics)

    @property
    def inputs(self) -> frozenset[str]:
        """The topics that the application reads, with repartition topics."""
        return frozenset(topic for part in self.subtopologies for topic in part.inputs)

    @property
    def internal_topics(self) -> tuple[str, ...]:
        """The repartition and changelog topics; a source topic whose records serve as changelog is none of them."""
        names = (name for part in self.subtopologies for name in part.repartition_sources + part.changelogs)
        return tuple(name for name in dict.fromkeys(names) if name not in self.source_topics)


def describe_streams_groups(
    admin: AdminClient, group_ids: Iterable[str], timeout_ms: int | None = None
) -> dict[str, StreamsGroupDescription]:
    """Return descriptions of streams groups by id; a missing or other group has the error GroupIdNotFound."""
    requested = list(dict.fromkeys(group_ids))
    results = send_to_coordinators(admin, requested, _REQUEST, timeout_ms=timeout_ms)
    nodes = admin.client.metadata.cluster.nodes
    found = {}
    for key in requested:
        result = results[key]
        if isinstance(result, KafkaError):
            nobody = Coordinator(-1, "", -1)
            result = StreamsGroupDescription(key, "Unknown", -1, -1, -1, (), (), nobody, error=result)
        elif (node := nodes.get(result.coordinator.node)) is not None:
            result = result._replace(coordinator=Coordinator(node.id, node.host, node.port))
        found[key] = result
    return found


def _read(response: BrokerResponse, _keys: list[str]) -> dict[str, StreamsGroupDescription | KafkaError]:
    return {group.group_id: error_in(group) or _group(group, response.node) for group in response.entity.groups}


def _group(group: Entity, node: int) -> StreamsGroupDescription:
    topology = group.topology
    return StreamsGroupDescription(
        group.group_id,
        group.group_state,
        group.group_epoch,
        group.assignment_epoch,
        -1 if topology is None else topology.epoch,
        () if topology is None else tuple(_subtopology(part) for part in topology.subtopologies or ()),
        tuple(_member(member) for member in group.members),
        Coordinator(node, "", -1),
    )


def _subtopology(part: Entity) -> StreamsSubtopology:
    return StreamsSubtopology(
        part.subtopology_id,
        tuple(part.source_topics),
        tuple(topic.name for topic in part.repartition_source_topics),
        tuple(part.repartition_sink_topics),
        tuple(topic.name for topic in part.state_changelog_topics),
    )


def _member(member: Entity) -> StreamsMember:
    endpoint = member.user_endpoint
    return StreamsMember(
        member.member_id,
        member.member_epoch,
        member.client_id,
        member.client_host,
        member.process_id,
        member.topology_epoch,
        member.is_classic,
        _tasks(member.assignment),
        _tasks(member.target_assignment),
        member.rack_id,
        None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
    )


def _tasks(assignment: Entity) -> Tasks:
    kinds = (assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks)
    return Tasks(*(tuple((row.subtopology_id, tuple(row.partitions)) for row in kind) for kind in kinds))


_REQUEST = CoordinatorRequest(ApiKey.STREAMS_GROUP_DESCRIBE, lambda keys, version: {"group_ids": tuple(keys)}, _read)
