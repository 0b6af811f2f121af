"""Creating, growing and deleting topics: what is checked, with which error and message, and which records result.

Source: ReplicationControlManager, ControllerApis and Topic of Apache Kafka 4.3. Functions here are pure: they take
the image and give records.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkatools.core.broker.controller.metadata_image import TOPIC_RESOURCE, MetadataImage, TopicState
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

MAX_NAME_LENGTH = 249
MAX_PARTITIONS_PER_BATCH = 10_000
LEGAL_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
METADATA_TOPIC = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class NewTopic:
    """One topic of a CreateTopics request; -1 stands for the default."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where new partitions may go: the broker, its directory, and the defaults of the cluster."""

    broker_id: int
    directory_id: uuid.UUID | None
    num_partitions: int = 1
    replication_factor: int = 1
    make_topic_id: Callable[[], uuid.UUID] = uuid.uuid4


def validate_name(name: str) -> None:
    """Topic.validate: raises InvalidTopic with Kafka's message."""
    if not name:
        raise InvalidTopic("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise InvalidTopic(f"Topic name is invalid: '{name}' is not allowed")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidTopic(
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
        )
    if not LEGAL_CHARACTERS.issuperset(name):
        raise InvalidTopic(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )


def _collision(image: MetadataImage, name: str) -> str | None:
    """A topic whose metric name would be the same: dots and underscores are one (Topic.hasCollision)."""
    if "." not in name and "_" not in name:
        return None
    plain = name.replace(".", "_")
    return min((other for other in image.topics if other.replace(".", "_") == plain), default=None)


def check_new_topic(image: MetadataImage, name: str) -> None:
    """A name that may be created: valid, not the metadata log, not there."""
    if name == METADATA_TOPIC:
        raise InvalidRequest(f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    validate_name(name)
    if name in image.topics:
        raise TopicAlreadyExists(f"Topic '{name}' already exists.")


def check_collision(image: MetadataImage, name: str) -> None:
    """No other topic has the same name but for dots and underscores. Kafka looks at the topics that were there before
    the request; those of one request may collide."""
    other = _collision(image, name)
    if other is not None and name not in image.topics:
        raise InvalidTopic(f"Topic '{name}' collides with existing topic: {other}")


def create_topic(image: MetadataImage, topic: NewTopic, placement: Placement) -> tuple[TopicState, list[Any]]:
    """The topic as it will be and the records that make it; raises a KafkaError."""
    check_new_topic(image, topic.name)
    replica_lists = _manual_assignments(topic, placement) if topic.assignments else _placed(topic, placement)
    from kafkatools.core.protocol.schemas.metadata import ConfigRecord, TopicRecord

    state = TopicState(topic.name, placement.make_topic_id())
    records: list[Any] = [TopicRecord(name=state.name, topic_id=state.topic_id)]
    for name, value in topic.configs.items():
        records.append(ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=state.name, name=name, value=value))
    records += _partition_records(state.topic_id, 0, replica_lists, placement)
    return state, records


def _manual_assignments(topic: NewTopic, placement: Placement) -> list[tuple[int, ...]]:
    if topic.replication_factor != -1:
        raise InvalidRequest("A manual partition assignment was specified, but replication factor was not set to -1.")
    if topic.num_partitions != -1:
        raise InvalidRequest("A manual partition assignment was specified, but numPartitions was not set to -1.")
    lists: dict[int, tuple[int, ...]] = {}
    for index, replicas in topic.assignments:
        if index in lists:
            raise InvalidReplicaAssignment(f"Found multiple manual partition assignments for partition {index}")
        check_assignment(replicas, placement.broker_id)
        lists[index] = replicas
    if sorted(lists) != list(range(len(lists))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    return [lists[index] for index in range(len(lists))]


def check_assignment(replicas: Sequence[int], broker_id: int) -> None:
    """ReplicationControlManager.validateManualPartitionAssignment over the one registered broker."""
    if not replicas:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    previous = None
    for replica in sorted(replicas):
        if replica != broker_id:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {replica}, but no such broker is registered."
            )
        if replica == previous:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes the broker {replica} more than once."
            )
        previous = replica


def _placed(topic: NewTopic, placement: Placement) -> list[tuple[int, ...]]:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise InvalidReplicationFactor("Replication factor must be larger than 0, or -1 to use the default value.")
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    count = placement.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = placement.replication_factor if topic.replication_factor == -1 else topic.replication_factor
    check_replication_factor(factor)
    if count > MAX_PARTITIONS_PER_BATCH:
        raise PolicyViolation("Excessively large number of partitions per request.")
    return [(placement.broker_id,)] * count


def check_replication_factor(factor: int) -> None:
    """StripedReplicaPlacer over one broker."""
    if factor > 1:
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            "reached because only 1 broker(s) are registered or some brokers have all their log directories cordoned."
        )


def _partition_records(
    topic_id: uuid.UUID, first: int, replica_lists: Sequence[tuple[int, ...]], placement: Placement
) -> list[Any]:
    from kafkatools.core.protocol.schemas.metadata import PartitionRecord

    return [
        PartitionRecord(
            partition_id=first + index,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=(placement.directory_id,) * len(replicas),
        )
        for index, replicas in enumerate(replica_lists)
    ]


def create_partitions(
    image: MetadataImage, name: str, count: int, assignments: Sequence[Sequence[int]] | None, placement: Placement
) -> list[Any]:
    """The records that grow a topic to `count` partitions; raises a KafkaError."""
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
    if assignments is None:
        replica_lists: list[tuple[int, ...]] = [(placement.broker_id,)] * added
    else:
        if len(assignments) != added:
            raise InvalidReplicaAssignment(
                f"Attempted to add {added} additional partition(s), but only {len(assignments)} assignment(s) "
                "were specified."
            )
        replica_lists = [tuple(replicas) for replicas in assignments]
        for replicas in replica_lists:
            check_assignment(replicas, placement.broker_id)
    if added > MAX_PARTITIONS_PER_BATCH:
        raise PolicyViolation("Excessively large number of partitions per request.")
    return _partition_records(topic.topic_id, current, replica_lists, placement)


def delete_topic(image: MetadataImage, name: str | None, topic_id: uuid.UUID | None) -> tuple[TopicState, list[Any]]:
    """The topic and the record that removes it; exactly one of name and id is given."""
    from kafkatools.core.protocol.schemas.metadata import RemoveTopicRecord

    if name is not None and topic_id is not None:
        raise InvalidRequest("You may not specify both topic name and topic id.")
    if name is None and topic_id is None:
        raise InvalidRequest("Neither topic name nor id were specified.")
    if name is not None:
        topic = image.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition()
    else:
        assert topic_id is not None
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId()
    return topic, [RemoveTopicRecord(topic_id=topic.topic_id)]
