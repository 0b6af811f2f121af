"""Predict leader elections from the metadata, for kt leader-election --dry-run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.admin.topics import PartitionDescription, TopicPartition, describe_all_topics, describe_topics
from kafkatools.core.errors import (
    EligibleLeadersNotAvailable,
    InvalidTopic,
    KafkaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)


class Election(NamedTuple):
    """The predicted result of an election: the leaders before and after it, -1 for none.

    `outcome` is `planned`, `not_needed` or `failed`; `error` is the reason of a failure.
    """

    outcome: str
    leader: int
    new_leader: int
    error: str | None = None


def predict_election(partition: PartitionDescription, live: Collection[int], *, is_unclean: bool) -> Election:
    """Predict the controller's decision for a partition (ReplicationControlManager.electLeader). `live` holds the ids
    of unfenced brokers.

    Preferred: `planned` if the first replica is live and in sync, `not_needed` if it leads, else `failed`. Unclean:
    `not_needed` with a leader, else a live replica that is in sync or in the ELR. Without one, the first live replica
    is elected; without any the election fails.
    """
    before = partition.leader
    first = partition.replicas[0]
    if before == first or (is_unclean and before >= 0):
        return Election("not_needed", before, before)
    if not is_unclean:
        if first in live and first in partition.isr:
            return Election("planned", before, first)
        return Election("failed", before, before, str(PreferredLeaderNotAvailable()))
    alive = [broker for broker in partition.replicas if broker in live]
    safe = [broker for broker in alive if broker in partition.isr or broker in (partition.elr or ())]
    if not alive:
        return Election("failed", before, before, str(EligibleLeadersNotAvailable()))
    return Election("planned", before, (safe or alive)[0])


def predict_elections(
    admin: AdminClient, partitions: Sequence[TopicPartition] | None, *, is_unclean: bool
) -> dict[TopicPartition, Election]:
    """Predict the elections of partitions; a nonexistent one is `failed`. None stands for all partitions, and leaves
    out those whose election is not needed. Raises KafkaError."""
    live = {node.id for node in describe_cluster(admin).nodes}
    if partitions is None:
        descriptions = describe_all_topics(admin)
    else:
        descriptions = describe_topics(admin, names=sorted({topic for topic, _ in partitions}))
    partition_descriptions = {
        (name, part.partition): part for name, topic in descriptions.items() for part in topic.partitions
    }
    elections: dict[TopicPartition, Election] = {}
    for key in sorted(partition_descriptions) if partitions is None else partitions:
        if key in partition_descriptions:
            elections[key] = predict_election(partition_descriptions[key], live, is_unclean=is_unclean)
        else:
            elections[key] = Election("failed", -1, -1, _absence(*key, descriptions[key[0]].error))
    if partitions is None:
        return {key: election for key, election in elections.items() if election.outcome != "not_needed"}
    return elections


def _absence(topic: str, partition: int, error: KafkaError | None) -> str:
    """Return the controller's error for a partition that the metadata does not list, or else that of its topic."""
    if error is None:
        return f"No such partition as {topic}-{partition}"
    return f"No such topic as {topic}" if isinstance(error, UnknownTopicOrPartition | InvalidTopic) else str(error)
