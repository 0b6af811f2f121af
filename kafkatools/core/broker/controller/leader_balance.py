"""Leadership goes back to preferred replicas by itself, and partitions without a leader get one where an unclean
election is allowed.

Source: ReplicationControlManager (maybeBalancePartitionLeaders, maybeElectUncleanLeaders) of Apache Kafka 4.3;
leader.imbalance.per.broker.percentage is honoured as documented: a broker's partitions are left alone while not more
than that part of them is led by others. (Apache Kafka's KRaft controller does not look at it.) Functions here are pure.
"""

from __future__ import annotations

from typing import Any

from kafkatools.core.broker.controller.partition_change import Election, PartitionChangeBuilder
from kafkatools.core.broker.controller.replica_control import ReplicaControl

MAX_ELECTIONS = 1000


def balance(control: ReplicaControl, percentage: int) -> list[Any]:
    """Preferred elections for the brokers that lead too little of what is theirs."""
    preferred: dict[int, int] = {}
    imbalanced: dict[int, int] = {}
    for _, partition in control.partitions():
        first = partition.replicas[0]
        preferred[first] = preferred.get(first, 0) + 1
        if partition.leader != first:
            imbalanced[first] = imbalanced.get(first, 0) + 1
    brokers = {each for each, count in imbalanced.items() if count * 100 > preferred[each] * percentage}
    records: list[Any] = []
    if not brokers:
        return records
    for topic, partition in control.partitions():
        if len(records) >= MAX_ELECTIONS:
            break
        if partition.replicas[0] in brokers and partition.leader != partition.replicas[0]:
            rules = control.rules(topic, partition)
            builder = PartitionChangeBuilder(topic.topic_id, partition, rules, Election.PREFERRED)
            records += control.build(topic, builder)
    return records


def elect_unclean_leaders(control: ReplicaControl) -> list[Any]:
    """Leaders for partitions without one whose topics allow unclean elections."""
    records: list[Any] = []
    for topic, partition in control.leaderless():
        if len(records) >= MAX_ELECTIONS:
            break
        if control.allows_unclean_election(topic.name):
            rules = control.rules(topic, partition)
            builder = PartitionChangeBuilder(topic.topic_id, partition, rules, Election.UNCLEAN)
            records += control.build(topic, builder)
    return records
