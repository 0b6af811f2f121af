"""Creation, growth and deletion of topics: validation and the resulting records.

Source: ReplicationControlManager, ControllerApis and Topic of Apache Kafka 4.3. Functions are pure: they take the image
and return records.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafkatools.core.broker.metadata.controller.partition_change import record_version
from kafkatools.core.broker.metadata.controller.placement import Placement
from kafkatools.core.broker.metadata.directory_ids import default_directory
from kafkatools.core.broker.metadata.feature_levels import METADATA_VERSION
from kafkatools.core.broker.metadata.image import TOPIC_RESOURCE, MetadataImage, TopicState
from kafkatools.core.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.schemas.metadata import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from kafkatools.core.protocol.slices import paced
from kafkatools.core.topic_names import topic_name_problem

MAX_PARTITIONS_PER_BATCH = 10_000
METADATA_TOPIC = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic of a CreateTopics request; -1 means the default."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


def validate_name(name: str) -> None:
    """Check a topic name (Topic.validate). Raises InvalidTopic with Kafka's message."""
    problem = topic_name_problem(name)
    if problem is not None:
        raise InvalidTopic(problem)


def check_new_topic(image: MetadataImage, name: str) -> None:
    """Check that a topic name may be created. Raises InvalidRequest, InvalidTopic, TopicAlreadyExists."""
    if name == METADATA_TOPIC:
        raise InvalidRequest(f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    validate_name(name)
    if name in image.topics:
        raise TopicAlreadyExists(f"Topic '{name}' already exists.")


def collisions(image: MetadataImage, new_topics: Sequence[NewTopic]) -> dict[str, InvalidTopic]:
    """Return the error of each new topic whose name differs from an existing topic's in `.` and `_` only
    (Topic.hasCollision). As in Kafka, topics of one request may collide with each other."""
    candidates = [topic.name for topic in new_topics if {".", "_"}.intersection(topic.name)]
    candidates = [name for name in candidates if name not in image.topics]
    existing: dict[str, str] = {}
    for other in image.topics if candidates else ():
        metric_name = other.replace(".", "_")
        existing[metric_name] = min(other, existing.get(metric_name, other))
    others = {name: existing.get(name.replace(".", "_")) for name in candidates}
    return {
        name: InvalidTopic(f"Topic '{name}' collides with existing topic: {other}")
        for name, other in others.items()
        if other is not None
    }


def create_topic(image: MetadataImage, topic: NewTopic, placement: Placement) -> tuple[TopicState, list[Entity]]:
    """Return the new topic (name and id only) and the records that create the topic, its configs and its partitions.
    Raises a KafkaError."""
    check_new_topic(image, topic.name)
    replica_lists = _manual_assignments(image, topic) if topic.assignments else _placed(topic, placement)
    state = TopicState(topic.name, placement.make_topic_id())
    records: list[Entity] = [TopicRecord(name=state.name, topic_id=state.topic_id)]
    for name, value in topic.configs.items():
        records.append(ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=state.name, name=name, value=value))
    records += _partition_records(image, state.topic_id, 0, replica_lists)
    return state, records


def partition_count(topic: NewTopic, placement: Placement) -> int:
    """Return the number of partitions that a request wants for a new topic, not validated."""
    if topic.assignments:
        return len(topic.assignments)
    return placement.num_partitions if topic.num_partitions == -1 else topic.num_partitions


def _manual_assignments(image: MetadataImage, topic: NewTopic) -> list[tuple[int, ...]]:
    if topic.replication_factor != -1:
        raise InvalidRequest("A manual partition assignment was specified, but replication factor was not set to -1.")
    if topic.num_partitions != -1:
        raise InvalidRequest("A manual partition assignment was specified, but numPartitions was not set to -1.")
    lists: dict[int, tuple[int, ...]] = {}
    for index, replicas in paced(topic.assignments):
        if index in lists:
            raise InvalidReplicaAssignment(f"Found multiple manual partition assignments for partition {index}")
        factor = next((len(replica_ids) for replica_ids in lists.values()), None)
        check_assignment(image, replicas, factor)
        check_some_active(image, replicas, index)
        lists[index] = replicas
    if sorted(lists) != list(range(len(lists))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    return [lists[index] for index in range(len(lists))]


def check_assignment(image: MetadataImage, replicas: Sequence[int], factor: int | None = None) -> None:
    """Check a manual replica assignment, with `factor` replicas unless None. Raises InvalidReplicaAssignment."""
    if not replicas:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    previous = None
    for replica in sorted(replicas):
        if replica not in image.brokers:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {replica}, but no such broker is registered."
            )
        if replica == previous:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes the broker {replica} more than once."
            )
        previous = replica
    if factor is not None and len(replicas) != factor:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {factor} replica(s)."
        )


def check_some_active(image: MetadataImage, replicas: Sequence[int], index: int) -> None:
    """Raise InvalidReplicaAssignment unless an active broker can lead the new partition."""
    if not any(image.brokers[replica].is_active for replica in replicas):
        raise InvalidReplicaAssignment(
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown."
        )


def _placed(topic: NewTopic, placement: Placement) -> list[tuple[int, ...]]:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise InvalidReplicationFactor("Replication factor must be larger than 0, or -1 to use the default value.")
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    count = partition_count(topic, placement)
    factor = placement.replication_factor if topic.replication_factor == -1 else topic.replication_factor
    check_count(count)
    try:
        return placement.place(count, factor)
    except InvalidReplicationFactor as error:
        raise InvalidReplicationFactor(f"Unable to replicate the partition {factor} time(s): {error}") from None


def check_count(count: int) -> None:
    """Raise PolicyViolation for too many partitions in one request (validateTotalNumberOfPartitions)."""
    if count > MAX_PARTITIONS_PER_BATCH:
        raise PolicyViolation("Excessively large number of partitions per request.")


def _partition_records(
    image: MetadataImage, topic_id: uuid.UUID, first: int, replica_lists: Sequence[tuple[int, ...]]
) -> list[Entity]:
    """Return the records of new partitions: active replicas are in the ISR, and the first of them leads."""
    level = image.features.get(METADATA_VERSION, 0)
    version = record_version(level) if level else None
    active = {broker.broker_id for broker in image.brokers.values() if broker.is_active}
    directories = {broker_id: default_directory(image, broker_id) for broker_id in image.brokers}
    records = []
    for index, replicas in paced(enumerate(replica_lists, first)):
        isr = tuple(replica for replica in replicas if replica in active)
        fields: Fields = {
            "partition_id": index,
            "topic_id": topic_id,
            "replicas": replicas,
            "isr": isr,
            "leader": isr[0],
            "leader_epoch": 0,
            "partition_epoch": 0,
        }
        if version != 0:
            fields["directories"] = tuple(directories[replica] for replica in replicas)
        records.append(PartitionRecord(version=version, **fields))
    return records


def create_partitions(
    image: MetadataImage, name: str, count: int, assignments: Sequence[Sequence[int]] | None, placement: Placement
) -> list[Entity]:
    """Return the records that grow a topic to `count` partitions. Raises UnknownTopicOrPartition, InvalidPartitions,
    InvalidReplicaAssignment, InvalidReplicationFactor, PolicyViolation."""
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition()
    current = len(topic.partitions)
    if count == current:
        raise InvalidPartitions(f"Topic already has {current} partition(s).")
    if count < current:
        raise InvalidPartitions(
            f"The topic {name} currently has {current} partition(s); {count} would not be an increase."
        )
    added = count - current
    factor = len(topic.partitions[0].replicas)
    if assignments is None:
        check_count(added)
        return _partition_records(image, topic.topic_id, current, placement.place(added, factor))
    if len(assignments) != added:
        raise InvalidReplicaAssignment(
            f"Attempted to add {added} additional partition(s), but only {len(assignments)} assignment(s) "
            "were specified."
        )
    for index, replicas in paced(enumerate(assignments, current)):
        check_assignment(image, replicas, factor)
        check_some_active(image, replicas, index)
    check_count(added)
    return _partition_records(image, topic.topic_id, current, [tuple(replicas) for replicas in assignments])


def delete_topic(image: MetadataImage, name: str | None, topic_id: uuid.UUID | None) -> tuple[TopicState, list[Entity]]:
    """Return the topic and the record that deletes it, by name or by id. Raises InvalidRequest unless exactly one of
    them is given, UnknownTopicOrPartition, UnknownTopicId."""
    if name is not None and topic_id is not None:
        raise InvalidRequest("You may not specify both topic name and topic id.")
    if name is None and topic_id is None:
        raise InvalidRequest("Neither topic name nor id were specified.")
    topic = image.topics.get(name) if name is not None else image.topics_by_id.get(topic_id)  # type: ignore[arg-type]
    if topic is None:
        raise UnknownTopicId() if name is None else UnknownTopicOrPartition()
    return topic, [RemoveTopicRecord(topic_id=topic.topic_id)]
