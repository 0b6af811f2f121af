"""Changes of a streams group as records of `__consumer_offsets` (Kafka's StreamsCoordinatorRecordHelpers).

A change encodes its record, and `StreamsGroup.apply` applies it to the group. Live changes and loaded records take the
same way. A change whose value is None is a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kafkatools.core.broker.coordinators.groups.modern.modern_changes import ModernMemberChange
from kafkatools.core.broker.coordinators.groups.offset_records import Record
from kafkatools.core.broker.coordinators.groups.streams.member import Endpoint, MemberState, StreamsMember
from kafkatools.core.broker.coordinators.groups.streams.tasks import (
    OwnedTasks,
    Tasks,
    read_tasks,
    read_tasks_with_epochs,
    task_ids,
    task_ids_with_epochs,
)
from kafkatools.core.broker.coordinators.groups.streams.topology import Topology
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas import offsets as schemas
from kafkatools.core.protocol.schemas.offsets import encode_record


@dataclass(frozen=True, slots=True)
class GroupEpochChange:
    """The group epoch (StreamsGroupMetadata), with the hash of the group's topics, the epoch of the validated topology
    (-1: none) and the settings of the last assignment; an epoch of None deletes the group."""

    epoch: int | None
    metadata_hash: int = 0
    validated_topology_epoch: int = -1
    assignment_configs: Mapping[str, str] = field(default_factory=dict)

    def record(self, group_id: str) -> Record:
        """Encode the change as a record: key and value bytes."""
        key = schemas.StreamsGroupMetadataKey(group_id=group_id)
        if self.epoch is None:
            return encode_record(key, None)
        configs = [{"key": key, "value": value} for key, value in sorted(self.assignment_configs.items())]
        value = schemas.StreamsGroupMetadataValue(
            epoch=self.epoch,
            metadata_hash=self.metadata_hash,
            validated_topology_epoch=self.validated_topology_epoch,
            last_assignment_configs=configs,
        )
        return encode_record(key, value)


@dataclass(frozen=True, slots=True)
class TopologyChange:
    """The topology (StreamsGroupTopology); None deletes it."""

    topology: Topology | None

    def record(self, group_id: str) -> Record:
        """Encode the change as a record: key and value bytes."""
        key = schemas.StreamsGroupTopologyKey(group_id=group_id)
        value = None if self.topology is None else schemas.StreamsGroupTopologyValue(**self.topology.fields())
        return encode_record(key, value)


class MemberChange(ModernMemberChange[StreamsMember]):
    """A member's client and process (StreamsGroupMemberMetadata); None deletes the member."""

    __slots__ = ()
    key = schemas.StreamsGroupMemberMetadataKey

    def value_of(self, member: StreamsMember) -> Entity:
        """The StreamsGroupMemberMetadataValue of a member."""
        endpoint = None
        if member.endpoint is not None:
            endpoint = {"host": member.endpoint.host, "port": member.endpoint.port}
        value: Entity = schemas.StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=endpoint,
            client_tags=[{"key": key, "value": value} for key, value in sorted(member.client_tags.items())],
        )
        return value


@dataclass(frozen=True, slots=True)
class TargetEpochChange:
    """The epoch of the target tasks and the time of their computation in ms since 1970
    (StreamsGroupTargetAssignmentMetadata); None deletes them."""

    epoch: int | None
    timestamp_ms: int = 0

    def record(self, group_id: str) -> Record:
        """Encode the change as a record: key and value bytes."""
        value = None
        if self.epoch is not None:
            value = schemas.StreamsGroupTargetAssignmentMetadataValue(
                assignment_epoch=self.epoch, assignment_timestamp=self.timestamp_ms
            )
        return encode_record(schemas.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


@dataclass(frozen=True, slots=True)
class TargetMemberChange:
    """A member's target tasks (StreamsGroupTargetAssignmentMember); None deletes them."""

    member_id: str
    tasks: Tasks | None

    def record(self, group_id: str) -> Record:
        """Encode the change as a record: key and value bytes."""
        key = schemas.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=self.member_id)
        if self.tasks is None:
            return encode_record(key, None)
        value = schemas.StreamsGroupTargetAssignmentMemberValue(
            active_tasks=task_ids(self.tasks.active),
            standby_tasks=task_ids(self.tasks.standby),
            warmup_tasks=task_ids(self.tasks.warmup),
        )
        return encode_record(key, value)


class CurrentAssignmentChange(ModernMemberChange[StreamsMember]):
    """A member's epochs, state and tasks (StreamsGroupCurrentMemberAssignment); None before its deletion."""

    __slots__ = ()
    key = schemas.StreamsGroupCurrentMemberAssignmentKey

    def value_of(self, member: StreamsMember) -> Entity:
        """The StreamsGroupCurrentMemberAssignmentValue of a member."""
        assigned, revoked = member.assigned, member.pending_revocation
        value: Entity = schemas.StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=int(member.state),
            active_tasks=task_ids_with_epochs(assigned.active),
            standby_tasks=task_ids(assigned.standby),
            warmup_tasks=task_ids(assigned.warmup),
            active_tasks_pending_revocation=task_ids_with_epochs(revoked.active),
            standby_tasks_pending_revocation=task_ids(revoked.standby),
            warmup_tasks_pending_revocation=task_ids(revoked.warmup),
        )
        return value


Change = (
    GroupEpochChange | TopologyChange | MemberChange | TargetEpochChange | TargetMemberChange | CurrentAssignmentChange
)


def removal_of(member_id: str) -> tuple[Change, Change, Change]:
    """The tombstones of a member, in the order that loading needs."""
    return CurrentAssignmentChange(member_id, None), TargetMemberChange(member_id, None), MemberChange(member_id, None)


# -- decoding ----------------------------------------------------------------------------------------------------------
def change_of(key: Entity, value: Entity) -> Change | None:
    """The streams group change that a record stands for; None for other record types. The value is not a tombstone."""
    read = _READERS.get(type(key).__schema__.name)
    return read(key, value) if read is not None else None


def _read_group(_key: Entity, value: Entity) -> Change:
    configs = {config.key: config.value for config in value.last_assignment_configs or ()}
    return GroupEpochChange(value.epoch, value.metadata_hash, value.validated_topology_epoch, configs)


def _read_member(key: Entity, value: Entity) -> Change:
    endpoint = value.user_endpoint
    member = StreamsMember(
        key.member_id,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags={tag.key: tag.value for tag in value.client_tags},
    )
    return MemberChange(key.member_id, member)


def _read_target(key: Entity, value: Entity) -> Change:
    tasks = Tasks(read_tasks(value.active_tasks), read_tasks(value.standby_tasks), read_tasks(value.warmup_tasks))
    return TargetMemberChange(key.member_id, tasks)


def _read_current(key: Entity, value: Entity) -> Change:
    epoch = value.member_epoch
    member = StreamsMember(
        key.member_id,
        member_epoch=epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState.of_value(value.state),
        assigned=OwnedTasks(
            read_tasks_with_epochs(value.active_tasks, epoch),
            read_tasks(value.standby_tasks),
            read_tasks(value.warmup_tasks),
        ),
        pending_revocation=OwnedTasks(
            read_tasks_with_epochs(value.active_tasks_pending_revocation, epoch),
            read_tasks(value.standby_tasks_pending_revocation),
            read_tasks(value.warmup_tasks_pending_revocation),
        ),
    )
    return CurrentAssignmentChange(key.member_id, member)


_READERS: dict[str, Callable[[Entity, Entity], Change]] = {
    "StreamsGroupMetadataKey": _read_group,
    "StreamsGroupTopologyKey": lambda key, value: TopologyChange(Topology.read(value)),
    "StreamsGroupMemberMetadataKey": _read_member,
    "StreamsGroupTargetAssignmentMetadataKey": lambda key, value: TargetEpochChange(
        value.assignment_epoch, value.assignment_timestamp
    ),
    "StreamsGroupTargetAssignmentMemberKey": _read_target,
    "StreamsGroupCurrentMemberAssignmentKey": _read_current,
}
