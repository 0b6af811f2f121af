"""The data of `kt consumer-groups --describe`: each group's description, partitions, offsets and lag.

All groups are requested together: one description and one OffsetFetch per coordinator, one ListOffsets per leader. A
failing group or partition has its own error and does not affect the rest (KAFKA-17218).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import TopicPartition, fetch_offsets
from kafkatools.core.admin.groups import GroupDescription, MemberDescription, describe_groups
from kafkatools.core.admin.offsets import LATEST, PartitionOffset, list_offsets
from kafkatools.core.errors import KafkaError
from kafkatools.core.group.metadata import OffsetAndMetadata


class PartitionRow(NamedTuple):
    """A partition of a group. `offset` is None without a commit, `end` if unknown, `lag` for either, `member` if none
    has the partition. `lag_ms` and `behind_newest_ms` are None unless requested and known."""

    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None
    end: int | None
    lag: int | None
    member: MemberDescription | None = None
    lag_ms: int | None = None
    behind_newest_ms: int | None = None


class GroupView(NamedTuple):
    """A group and its partitions in Kafka's order: members with the most partitions first, then unassigned partitions.
    `error`: why it could not be described. `unknown_ends`: errors of existing partitions, also of other groups, whose
    log end offset could not be fetched."""

    description: GroupDescription
    rows: list[PartitionRow]
    error: KafkaError | None = None
    unknown_ends: Mapping[TopicPartition, KafkaError] = {}

    @property
    def group_id(self) -> str:
        """The id of the described group."""
        return self.description.group_id


class Views(NamedTuple):
    """The requested groups sorted by id, and the errors of partitions whose end offset could not be fetched."""

    groups: list[GroupView]
    end_errors: dict[TopicPartition, KafkaError]


def collect(admin: AdminClient, group_ids: Iterable[str]) -> Views:
    """Fetch descriptions, committed offsets and end offsets of groups. Errors of single groups and partitions are part
    of the result."""
    descriptions = describe_groups(admin, group_ids)
    alive = [group_id for group_id, group in descriptions.items() if group.error is None]
    committed = fetch_offsets(admin, alive)
    partitions: set[TopicPartition] = set()
    for group_id in alive:
        partitions.update(committed[group_id].offsets)
        for member in descriptions[group_id].members:
            partitions.update(member.assignment)
    ends = list_offsets(admin, dict.fromkeys(partitions, LATEST)) if partitions else {}
    errors = {key: end.error for key, end in ends.items() if end.error is not None}
    unknown = {key: error for key, error in errors.items() if not is_gone(error)}
    views = []
    for group_id in sorted(descriptions):
        description = descriptions[group_id]
        offsets = committed.get(group_id)
        error = description.error or (offsets.error if offsets is not None else None)
        rows = [] if offsets is None else _rows(description.members, offsets.offsets, ends)
        views.append(GroupView(description, rows, error, unknown))
    return Views(views, errors)


def is_gone(error: KafkaError) -> bool:
    """Return whether the error means that a partition was deleted, so that it has no lag rather than an unknown one."""
    return bool(error.name == "UNKNOWN_TOPIC_OR_PARTITION")


def _rows(
    members: Sequence[MemberDescription],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    ends: Mapping[TopicPartition, PartitionOffset],
) -> list[PartitionRow]:
    rows: list[PartitionRow] = []
    assigned: set[TopicPartition] = set()
    for member in sorted(members, key=lambda member: -len(member.assignment)):
        assigned.update(member.assignment)
        rows += [_row(key, committed, ends, member) for key in sorted(set(member.assignment))]
    rows += [_row(key, committed, ends, None) for key in sorted(committed.keys() - assigned)]
    return rows


def _row(
    key: TopicPartition,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    ends: Mapping[TopicPartition, PartitionOffset],
    member: MemberDescription | None,
) -> PartitionRow:
    topic, partition = key
    end_offset = ends[key].offset
    end = end_offset if end_offset >= 0 else None
    commit = committed.get(key)
    if commit is None:
        return PartitionRow(topic, partition, None, None, end, None, member)
    offset, epoch, _ = commit
    lag = None if end is None else end - offset
    return PartitionRow(topic, partition, offset, epoch if epoch >= 0 else None, end, lag, member)


def group_json(view: GroupView) -> dict[str, object]:
    """Return the JSON fields that start every line about a group."""
    return {"group": view.group_id, "type": view.description.type, "state": view.description.state}


def partition_json(row: PartitionRow) -> dict[str, object]:
    """Return the JSON fields of a partition: offsets, lag and the member that has it."""
    member = row.member
    return {
        "topic": row.topic,
        "partition": row.partition,
        "offset": row.offset,
        "leader_epoch": row.leader_epoch,
        "log_end_offset": row.end,
        "lag": row.lag,
        "lag_ms": row.lag_ms,
        "behind_newest_ms": row.behind_newest_ms,
        "consumer_id": None if member is None else member.member_id,
        "host": None if member is None else member.host,
        "client_id": None if member is None else member.client_id,
    }


def member_json(member: MemberDescription) -> dict[str, object]:
    """Return the JSON fields of a group member."""
    return {
        "consumer_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "rack": member.rack_id,
        "partitions": _partitions_json(member.assignment),
        "target_partitions": None if member.target_assignment is None else _partitions_json(member.target_assignment),
        "epoch": member.member_epoch,
        "upgraded": member.is_upgraded,
    }


def _partitions_json(partitions: Iterable[TopicPartition]) -> list[dict[str, object]]:
    return [{"topic": topic, "partition": partition} for topic, partition in sorted(partitions)]
