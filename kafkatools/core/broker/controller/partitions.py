"""Elections and reassignments: what a cluster of one broker can answer about them.

Source: ReplicationControlManager (electLeaders, alterPartitionReassignments) of Apache Kafka 4.3. There is one broker,
so every replica list that is accepted is the one that is there already: nothing ever moves, and no election changes a
leader.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.core.broker.controller.metadata_image import MetadataImage, PartitionState
from kafkatools.core.broker.controller.topics import check_assignment
from kafkatools.core.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    KafkaError,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)

PREFERRED, UNCLEAN = 0, 1


def elect_leader(image: MetadataImage, election_type: int, topic: str, index: int) -> KafkaError:
    """Why there was no election."""
    found = image.topics.get(topic)
    if found is None:
        return UnknownTopicOrPartition(f"No such topic as {topic}")
    partition = found.partitions.get(index)
    if partition is None:
        return UnknownTopicOrPartition(f"No such partition as {topic}-{index}")
    if election_type == PREFERRED and partition.leader == partition.replicas[0]:
        return ElectionNotNeeded("Leader election not needed for topic partition.")
    if election_type == UNCLEAN and partition.leader >= 0:
        return ElectionNotNeeded("Leader election not needed for topic partition.")
    if election_type == PREFERRED:
        return PreferredLeaderNotAvailable()
    return EligibleLeadersNotAvailable()


def reassign(image: MetadataImage, topic: str, index: int, replicas: Sequence[int] | None) -> None:
    """Check a reassignment; one to the replicas that are there is done at once. Raises a KafkaError."""
    partition = _partition(image, topic, index)
    if replicas is None:
        raise NoReassignmentInProgress()
    check_assignment(replicas, next(iter(image.brokers)))
    assert tuple(replicas) == partition.replicas


def _partition(image: MetadataImage, topic: str, index: int) -> PartitionState:
    found = image.topics.get(topic)
    if found is None:
        raise UnknownTopicOrPartition(f"Unable to find a topic named {topic}.")
    partition = found.partitions.get(index)
    if partition is None:
        raise UnknownTopicOrPartition(f"Unable to find partition {topic}:{index}.")
    return partition
