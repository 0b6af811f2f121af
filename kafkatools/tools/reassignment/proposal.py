"""Propose new replicas for all partitions of topics, placed at random as for a new topic.

Source: calculateAssignment and getBrokerMetadata of ReassignPartitionsCommand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.admin.reassignments import TopicPartition
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import partition_hash
from kafkatools.core.java.random import JavaRandom
from kafkatools.core.replica_placement import UsableBroker, place
from kafkatools.core.topic_partition import by_topic
from kafkatools.exit_status import CommandError
from kafkatools.tools.reassignment.plan_check import ensure_live

_NO_RACK = (
    "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment "
    "without rack information."
)


def usable_brokers(admin: AdminClient, requested: Sequence[int], *, is_rack_aware: bool) -> list[UsableBroker]:
    """The requested brokers, with their racks if `is_rack_aware`. Raises CommandError if one is not live, or if
    `is_rack_aware` and only some have a rack."""
    nodes = {node.id: node for node in describe_cluster(admin).nodes}
    ensure_live(requested, nodes)
    if not is_rack_aware:
        return [UsableBroker(broker) for broker in nodes if broker in requested]
    brokers = [UsableBroker(node.id, node.rack) for node in nodes.values() if node.id in requested]
    if len({broker.rack is None for broker in brokers}) > 1:
        raise CommandError(_NO_RACK)
    return brokers


def propose(
    current: Mapping[TopicPartition, Sequence[int]], brokers: Sequence[UsableBroker], note: Callable[[str], None]
) -> dict[TopicPartition, list[int]]:
    """New replicas for the partitions of each topic, as many as its first partition in Kafka's order has. `note` gets a
    message for each topic whose partitions have different numbers of replicas."""
    topics = by_topic((key, current[key]) for key in hash_order(current, partition_hash))
    random = JavaRandom()
    proposed: dict[TopicPartition, list[int]] = {}
    for topic, present in topics.items():
        if len({len(replicas) for replicas in present}) > 1:
            note(f"The partitions of {topic} have different numbers of replicas; all are to get {len(present[0])}.")
        assignment = place(brokers, len(present), len(present[0]), random)
        proposed.update({(topic, partition): replicas for partition, replicas in enumerate(assignment)})
    return proposed
