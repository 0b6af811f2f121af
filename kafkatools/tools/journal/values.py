"""Read the present values of things that a change can be undone for: before a change, and before it is undone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import Resource, describe_configs
from kafkatools.core.admin.group_offsets import fetch_offsets
from kafkatools.core.admin.reassignments import active_reassignments, partitions_of
from kafkatools.core.admin.scram import describe_user_scram_credentials
from kafkatools.core.admin.share_groups import list_share_group_offsets
from kafkatools.core.admin.topics import describe_topics
from kafkatools.core.errors import KafkaError
from kafkatools.core.json_values import JsonValue
from kafkatools.tools.configs.changes import Setting, present_settings, setting_of
from kafkatools.tools.configs.entities import (
    BROKER_LOGGERS,
    BROKERS,
    CLIENT_METRICS,
    GROUPS,
    QUOTA_KINDS,
    TOPICS,
    Entities,
    own_source,
    resource_type,
)

TopicPartition = tuple[str, int]
GroupPartition = tuple[str, str, int]
_KINDS = (TOPICS, BROKERS, BROKER_LOGGERS, CLIENT_METRICS, GROUPS)


def entities_of(resource: Resource) -> Entities:
    """The entity of a config resource. Raises ValueError for a type that kt configs does not have."""
    for kind in _KINDS:
        if resource_type(kind) == resource[0]:
            return Entities((kind,), (resource[1],))
    raise ValueError(f"config resource type {resource[0]}")


def settings(
    admin: AdminClient, requested: Mapping[Entities, Collection[str]]
) -> dict[Entities, Mapping[str, Setting] | KafkaError]:
    """The own values of configs and quotas of entities, or the error of an entity."""
    found: dict[Entities, Mapping[str, Setting] | KafkaError] = {}
    resources: dict[Resource, Entities] = {}
    for entities, names in requested.items():
        if entities.kind not in QUOTA_KINDS:
            resources[resource_type(entities.kind), entities.names[0]] = entities
            continue
        try:
            found[entities] = present_settings(admin, entities, list(names))
        except KafkaError as error:
            found[entities] = error
    names = list(dict.fromkeys(name for entities in resources.values() for name in requested[entities]))
    for resource, config in describe_configs(admin, list(resources), names=names).items() if resources else ():
        entities = resources[resource]
        entries = {entry.name: entry for entry in config.entries}
        source = own_source(entities.kind, entities.names[0])
        found[entities] = config.error or {
            name: setting_of(entities, name, entries.get(name), source) for name in requested[entities]
        }
    return found


def offsets(
    admin: AdminClient, groups: Iterable[str], *, of_share_groups: bool
) -> dict[str, dict[TopicPartition, JsonValue] | KafkaError]:
    """The committed offsets of groups, or the start offsets of share groups, or the error of a group. An offset that
    was committed with metadata is an object of both."""
    found: dict[str, dict[TopicPartition, JsonValue] | KafkaError] = {}
    if of_share_groups:
        for group, listed in list_share_group_offsets(admin, groups).items():
            starts = {key: offset.start_offset for key, offset in listed.offsets.items()}
            found[group] = listed.error or {key: start for key, start in starts.items() if start is not None}
        return found
    for group, fetched in fetch_offsets(admin, groups).items():
        found[group] = fetched.error or {
            key: {"offset": committed.offset, "metadata": committed.metadata}
            if committed.metadata
            else committed.offset
            for key, committed in fetched.offsets.items()
        }
    return found


def replicas(admin: AdminClient, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, list[int]]:
    """The replicas that partitions have, or are moving to. Raises KafkaError."""
    moves = active_reassignments(admin, partitions)
    described = partitions_of(admin, sorted({topic for topic, _ in partitions}))
    found = {}
    for key in partitions:
        if key in moves:
            found[key] = [id for id in moves[key].replicas if id not in moves[key].removing_replicas]
        elif key in described:
            found[key] = list(described[key].replicas)
    return found


def replicas_without_moves(admin: AdminClient, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, list[int]]:
    """The replicas that partitions have when their moves are cancelled. Raises KafkaError."""
    moves = active_reassignments(admin, partitions)
    return {key: [id for id in move.replicas if id not in move.adding_replicas] for key, move in moves.items()}


def partition_counts(admin: AdminClient, topics: Sequence[str]) -> dict[str, int]:
    """The numbers of partitions of topics, without those that cannot be described. Raises KafkaError."""
    described = describe_topics(admin, names=topics) if topics else {}
    return {name: len(topic.partitions) for name, topic in described.items() if topic.error is None}


def credentials(admin: AdminClient, users: Sequence[str]) -> set[tuple[str, str]]:
    """The SCRAM credentials of users as pairs of user and mechanism. Raises KafkaError."""
    described = describe_user_scram_credentials(admin, users)
    return {(found.user, mechanism) for found in described for mechanism in found.iterations}
