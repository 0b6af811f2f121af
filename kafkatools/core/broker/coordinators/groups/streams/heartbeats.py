"""StreamsGroupHeartbeat (KIP-1071): the request, its checks, and the member and topology that follow from it.

Source: GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsInvalid and
GroupMetadataManager.streamsGroupHeartbeat of Apache Kafka 4.3. Everything here is without side effects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kafkatools.core.broker.coordinators.groups.modern.consumer_member import LEAVE_GROUP_STATIC_EPOCH
from kafkatools.core.broker.coordinators.groups.modern.modern_changes import JOINING_EPOCH
from kafkatools.core.broker.coordinators.groups.requests import Client, Fields
from kafkatools.core.broker.coordinators.groups.streams.changes import Change
from kafkatools.core.broker.coordinators.groups.streams.configured import ConfiguredTopology, Status
from kafkatools.core.broker.coordinators.groups.streams.group import StreamsGroup
from kafkatools.core.broker.coordinators.groups.streams.member import Endpoint, StreamsMember
from kafkatools.core.broker.coordinators.groups.streams.tasks import OwnedTasks, Tasks, TaskSet, tasks_in
from kafkatools.core.broker.coordinators.groups.streams.topology import Topology
from kafkatools.core.errors import FencedMemberEpoch, InvalidRequest, StreamsInvalidTopology, UnknownServerError

NOT_GIVEN = -1


@dataclass(frozen=True, slots=True)
class StreamsHeartbeat:
    """A StreamsGroupHeartbeat request. A field of None, and a rebalance timeout of -1, is unchanged since the member's
    last request. `has_task_offsets`: it reports offsets of tasks, which Apache Kafka 4.3 refuses."""

    group_id: str
    member_id: str
    member_epoch: int
    client: Client
    endpoint_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_GIVEN
    topology: Topology | None = None
    active: TaskSet | None = None
    standby: TaskSet | None = None
    warmup: TaskSet | None = None
    process_id: str | None = None
    endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] | None = None
    has_task_offsets: bool = False
    has_task_end_offsets: bool = False
    is_shutdown: bool = False

    @property
    def is_joining(self) -> bool:
        """Return whether the member joins, or joins again."""
        return self.member_epoch == JOINING_EPOCH

    @property
    def owned(self) -> Tasks | None:
        """The tasks that the member reports to own; None without a report."""
        if self.active is None or self.standby is None or self.warmup is None:
            return None
        return Tasks(self.active, self.standby, self.warmup)


@dataclass(eq=False, slots=True)
class Draft:
    """One heartbeat before its records are written: the changes, and what the response will say."""

    group: StreamsGroup
    is_new: bool = False
    changes: list[Change] = field(default_factory=list)
    statuses: list[Fields] = field(default_factory=list)
    configured: ConfiguredTopology | None = None
    group_epoch: int = 0
    metadata_hash: int = 0

    def note(self, status: Status, detail: str) -> None:
        """Add a status to the response."""
        self.statuses.append({"status_code": int(status), "status_detail": detail})


# -- checks ------------------------------------------------------------------------------------------------------------
def check(request: StreamsHeartbeat) -> None:
    """Raise InvalidRequest or StreamsInvalidTopology for a request that no group accepts."""
    _check_supported(request)
    for value, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
    ):
        if value is not None and not value.strip():
            raise InvalidRequest(f"{name} can't be empty.")
    if request.is_joining:
        _check_joining(request)
    elif request.member_epoch == LEAVE_GROUP_STATIC_EPOCH:
        raise InvalidRequest("InstanceId can't be null.")
    elif request.member_epoch < LEAVE_GROUP_STATIC_EPOCH:
        raise InvalidRequest(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    kinds = (request.active, request.standby, request.warmup)
    if any(kind is None for kind in kinds) and any(kind is not None for kind in kinds):
        raise InvalidRequest("If one task-type is non-null, all must be non-null.")
    if not request.is_joining and request.topology is not None:
        raise InvalidRequest("Topology can only be provided when (re-)joining.")


def _check_supported(request: StreamsHeartbeat) -> None:
    if request.instance_id is not None:
        raise InvalidRequest("Static membership is not yet supported.")
    if request.has_task_offsets:
        raise InvalidRequest("TaskOffsets are not supported yet.")
    if request.has_task_end_offsets:
        raise InvalidRequest("TaskEndOffsets are not supported yet.")
    if request.warmup:
        raise InvalidRequest("WarmupTasks are not supported yet.")
    parts = request.topology.subtopologies.values() if request.topology is not None else ()
    if any(part.source_topic_regex for part in parts):
        raise InvalidRequest("Regular expressions for source topics are not supported yet.")


def _check_joining(request: StreamsHeartbeat) -> None:
    if request.rebalance_timeout_ms == NOT_GIVEN:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    for tasks, name in (
        (request.active, "ActiveTasks"),
        (request.standby, "StandbyTasks"),
        (request.warmup, "WarmupTasks"),
    ):
        if tasks is None or tasks:
            raise InvalidRequest(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise InvalidRequest("Topology must be non-null when (re-)joining.")
    for part in request.topology.subtopologies.values():
        for topic in part.changelog_topics:
            if topic.partitions:
                raise StreamsInvalidTopology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )


def ensure_epoch(member: StreamsMember, request: StreamsHeartbeat) -> None:
    """Raise FencedMemberEpoch unless the request has the member's epoch, or its previous one after a lost response,
    with no tasks but those that the member has."""
    epoch, current = request.member_epoch, member.member_epoch
    if request.is_joining or epoch == current:
        return
    relation = "greater" if epoch > current else "smaller"
    if epoch > current or epoch != member.previous_member_epoch or not _has_all(member.assigned, request.owned):
        raise FencedMemberEpoch(
            f"The streams group member has a {relation} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({current}). The member must abandon all its partitions and rejoin."
        )


def _has_all(assigned: OwnedTasks, owned: Tasks | None) -> bool:
    if owned is None:
        return False
    pairs = ((owned.active, assigned.active), (owned.standby, assigned.standby), (owned.warmup, assigned.warmup))
    return all(partition in present.get(key, ()) for tasks, present in pairs for key, partition in tasks_in(tasks))


def ensure_tasks(configured: ConfiguredTopology, request: StreamsHeartbeat) -> None:
    """Raise InvalidRequest if the member reports a task that the topology does not have."""
    for tasks in (request.active, request.standby, request.warmup):
        for key, partition in tasks_in(tasks or {}):
            part = configured.subtopologies.get(key)
            if part is None:
                raise InvalidRequest(f"Subtopology {key} does not exist in the topology.")
            if not 0 <= partition < part.task_count:
                raise InvalidRequest(
                    f"Task {partition} for subtopology {key} is invalid. Number of tasks for this subtopology: "
                    f"{part.task_count}"
                )


# -- what follows ------------------------------------------------------------------------------------------------------
def updated_member(current: StreamsMember, request: StreamsHeartbeat) -> StreamsMember:
    """The member with the fields that the request sets."""
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        current,
        rack_id=current.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=current.rebalance_timeout_ms if timeout_ms == NOT_GIVEN else timeout_ms,
        topology_epoch=current.topology_epoch if request.topology is None else request.topology.epoch,
        client_id=request.client.client_id,
        client_host=request.client.host,
        process_id=current.process_id if request.process_id is None else request.process_id,
        endpoint=current.endpoint if request.endpoint is None else request.endpoint,
        client_tags=current.client_tags if request.client_tags is None else request.client_tags,
    )


def topology_of(group: StreamsGroup, requested: Topology | None) -> Topology:
    """The group's topology, or that of the request if the group has none. A member with an older epoch gets the
    group's. Raises InvalidRequest for another topology."""
    present = group.topology
    if present is None:
        if requested is None:
            raise UnknownServerError("The topology is null and the group topology is also null.")
        return requested
    if requested is not None and present.epoch <= requested.epoch and present != requested:
        raise InvalidRequest("Topology updates are not supported yet.")
    return present
