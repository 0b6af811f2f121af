"""Leader elections and partition reassignments that clients request: validation and the resulting records.

Source: ReplicationControlManager, PartitionReassignmentReplicas and PartitionReassignmentRevert of Apache Kafka 4.3.
With one broker, only the current replica list is valid.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.core.broker.metadata.controller.partition_change import Election
from kafkatools.core.broker.metadata.controller.replica_control import ReplicaControl
from kafkatools.core.broker.metadata.controller.topics import check_assignment
from kafkatools.core.broker.metadata.image import MetadataImage, PartitionState, TopicState
from kafkatools.core.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from kafkatools.core.protocol.entities import Entity

PREFERRED, UNCLEAN = 0, 1


def elect_leader(control: ReplicaControl, election_type: int, name: str, index: int) -> list[Entity]:
    """Return the record of a preferred or unclean leader election. Raises UnknownTopicOrPartition, ElectionNotNeeded,
    PreferredLeaderNotAvailable, EligibleLeadersNotAvailable."""
    topic = control.image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise UnknownTopicOrPartition(f"No such partition as {name}-{index}")
    is_needless = partition.leader == partition.replicas[0] if election_type == PREFERRED else partition.leader >= 0
    if is_needless:
        raise ElectionNotNeeded("Leader election not needed for topic partition.")
    election = Election.PREFERRED if election_type == PREFERRED else Election.UNCLEAN
    records = control.build(topic, control.builder(topic, partition, election))
    if not records:
        raise PreferredLeaderNotAvailable() if election_type == PREFERRED else EligibleLeadersNotAvailable()
    return records


def reassign(
    control: ReplicaControl, name: str, index: int, replicas: Sequence[int] | None, *, may_change_factor: bool = True
) -> list[Entity]:
    """Return the record that starts a reassignment, completes it if no data must move, or (None) cancels it; an empty
    list if nothing changes. A reassignment that replaces another keeps those adding and removing replicas that still
    apply. Apache Kafka keeps all of them when no other replica is added, and such a reassignment never ends. Raises
    UnknownTopicOrPartition, NoReassignmentInProgress, InvalidReplicaAssignment, InvalidReplicationFactor."""
    topic, partition = _partition(control.image, name, index)
    if replicas is None:
        return _cancel(control, topic, partition)
    check_assignment(control.image, replicas)
    if not may_change_factor:
        _check_factor(partition, replicas)
    builder = control.builder(topic, partition, Election.ONLINE)
    removing = tuple(sorted(set(partition.replicas) - set(replicas)))
    adding = tuple(sorted(set(replicas) - set(partition.replicas)))
    builder.target_replicas = (*replicas, *removing)
    builder.target_removing = removing or tuple(r for r in partition.removing_replicas if r not in replicas)
    builder.target_adding = adding or tuple(r for r in partition.adding_replicas if r in replicas)
    return control.build(topic, builder)


def _cancel(control: ReplicaControl, topic: TopicState, partition: PartitionState) -> list[Entity]:
    """Return the record that restores the replicas before the reassignment (PartitionReassignmentRevert). Without an
    in-sync replica among them an eligible leader replica is enough. Raises NoReassignmentInProgress,
    InvalidReplicaAssignment."""
    if not partition.is_reassigning:
        raise NoReassignmentInProgress()
    replicas = tuple(replica for replica in partition.replicas if replica not in partition.adding_replicas)
    isr = tuple(replica for replica in partition.isr if replica not in partition.adding_replicas)
    if not replicas:
        raise InvalidReplicaAssignment("Invalid replica assignment: addingReplicas contains all replicas.")
    if not isr and not set(replicas).intersection(partition.elr):
        if not control.allows_unclean_election(topic.name):
            raise InvalidReplicaAssignment(
                f"Unable to revert partition assignment for {topic.name}:{partition.partition_id} because it would "
                "require an unclean leader election."
            )
        isr = replicas[:1]
    builder = control.builder(topic, partition)
    builder.target_isr, builder.target_replicas = isr, replicas
    builder.target_removing = builder.target_adding = ()
    return control.build(topic, builder)


def _check_factor(partition: PartitionState, replicas: Sequence[int]) -> None:
    """Raise InvalidReplicationFactor if a reassignment changes the replication factor (KIP-860)."""
    current = len(set(partition.replicas) | set(partition.adding_replicas))
    current -= len(set(partition.removing_replicas) & set(partition.replicas))
    if current != len(replicas):
        raise InvalidReplicationFactor(f"The replication factor is changed from {current} to {len(replicas)}")


def _partition(image: MetadataImage, name: str, index: int) -> tuple[TopicState, PartitionState]:
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(index)
    if partition is None:
        raise UnknownTopicOrPartition(f"Unable to find partition {name}:{index}.")
    return topic, partition


def reassignments(
    image: MetadataImage, requested: Sequence[tuple[str, Sequence[int]]] | None
) -> list[tuple[str, list[PartitionState]]]:
    """Return by topic the partitions under reassignment, of the requested ones or (None) of all."""
    if requested is None:
        requested = [(topic.name, list(topic.partitions)) for topic in image.topics.values()]
    ongoing_by_topic = []
    for name, indexes in requested:
        partitions = image.topics[name].partitions if name in image.topics else {}
        ongoing = [partitions[index] for index in indexes if index in partitions and partitions[index].is_reassigning]
        if ongoing:
            ongoing_by_topic.append((name, ongoing))
    return ongoing_by_topic
