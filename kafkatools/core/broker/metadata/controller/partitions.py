"""Elections and reassignments that were asked for: what is checked, with which error and message, and which records
result.

Source: ReplicationControlManager (electLeaders, alterPartitionReassignments, listPartitionReassignments),
PartitionReassignmentReplicas and PartitionReassignmentRevert of Apache Kafka 4.3. With one broker every replica list
that is accepted is the one that is there already.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.core.broker.metadata.controller.partition_change import Election, PartitionChangeBuilder
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
    """The record of an election; raises a KafkaError when there is none."""
    topic = control.image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise UnknownTopicOrPartition(f"No such partition as {name}-{index}")
    if election_type == PREFERRED and partition.leader == partition.replicas[0]:
        raise ElectionNotNeeded("Leader election not needed for topic partition.")
    if election_type == UNCLEAN and partition.leader >= 0:
        raise ElectionNotNeeded("Leader election not needed for topic partition.")
    builder = PartitionChangeBuilder(topic.topic_id, partition, control.rules(topic, partition))
    builder.election = Election.PREFERRED if election_type == PREFERRED else Election.UNCLEAN
    records = control.build(topic, builder)
    if not records:
        raise PreferredLeaderNotAvailable() if election_type == PREFERRED else EligibleLeadersNotAvailable()
    return records


# -- reassignments -------------------------------------------------------------------------------------------------
def reassign(
    control: ReplicaControl, name: str, index: int, replicas: Sequence[int] | None, *, may_change_factor: bool = True
) -> list[Entity]:
    """The record that begins a reassignment, ends it at once where nothing has to move, or takes it back (None). Raises
    a KafkaError.

    One that replaces another keeps what was being added and removed as far as it still is; Apache Kafka keeps all of
    it when nothing else is to be added, and such a reassignment never ends."""
    topic, partition = _partition(control.image, name, index)
    if replicas is None:
        return _cancel(control, topic, partition)
    check_assignment(control.image, replicas)
    if not may_change_factor:
        _check_factor(partition, replicas)
    builder = PartitionChangeBuilder(topic.topic_id, partition, control.rules(topic, partition))
    removing = tuple(sorted(set(partition.replicas) - set(replicas)))
    adding = tuple(sorted(set(replicas) - set(partition.replicas)))
    builder.target_replicas = (*replicas, *removing)
    builder.target_removing = removing or tuple(r for r in partition.removing_replicas if r not in replicas)
    builder.target_adding = adding or tuple(r for r in partition.adding_replicas if r in replicas)
    return control.build(topic, builder)


def _cancel(control: ReplicaControl, topic: TopicState, partition: PartitionState) -> list[Entity]:
    """Back to the replicas before the reassignment (PartitionReassignmentRevert)."""
    if not partition.is_reassigning:
        raise NoReassignmentInProgress()
    replicas = tuple(each for each in partition.replicas if each not in partition.adding_replicas)
    isr = tuple(each for each in partition.isr if each not in partition.adding_replicas)
    if not replicas:
        raise InvalidReplicaAssignment("Invalid replica assignment: addingReplicas contains all replicas.")
    if not isr:
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
    """KIP-860."""
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
    image: MetadataImage, wanted: Sequence[tuple[str, Sequence[int]]] | None
) -> list[tuple[str, list[PartitionState]]]:
    """The partitions that are being reassigned, by topic: those that are wanted, or all."""
    if wanted is None:
        wanted = [(topic.name, list(topic.partitions)) for topic in image.topics.values()]
    found = []
    for name, indexes in wanted:
        partitions = image.topics[name].partitions if name in image.topics else {}
        ongoing = [partitions[index] for index in indexes if index in partitions and partitions[index].is_reassigning]
        if ongoing:
            found.append((name, ongoing))
    return found
