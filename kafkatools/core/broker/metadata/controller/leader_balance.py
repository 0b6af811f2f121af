"""Leadership goes back to preferred replicas by itself, and partitions without a leader get one where an unclean
election is allowed.

Source: ReplicationControlManager (maybeBalancePartitionLeaders, maybeElectUncleanLeaders) of Apache Kafka 4.3, which
has no leader.imbalance.per.broker.percentage any more: every partition that can be led by its preferred replica is.
Functions here are pure.
"""

from __future__ import annotations

from kafkatools.core.broker.metadata.controller.partition_change import Election, PartitionChangeBuilder
from kafkatools.core.broker.metadata.controller.replica_control import ReplicaControl
from kafkatools.core.protocol.entities import Entity

MAX_ELECTIONS = 1000


def balance(control: ReplicaControl) -> list[Entity]:
    """Preferred elections wherever another replica leads."""
    records: list[Entity] = []
    for topic, partition in control.partitions():
        if len(records) >= MAX_ELECTIONS:
            break
        if partition.leader != partition.replicas[0]:
            rules = control.rules(topic, partition)
            builder = PartitionChangeBuilder(topic.topic_id, partition, rules, Election.PREFERRED)
            records += control.build(topic, builder)
    return records


def elect_unclean_leaders(control: ReplicaControl) -> list[Entity]:
    """Leaders for partitions without one whose topics allow unclean elections."""
    records: list[Entity] = []
    for topic, partition in control.leaderless():
        if len(records) >= MAX_ELECTIONS:
            break
        if control.allows_unclean_election(topic.name):
            rules = control.rules(topic, partition)
            builder = PartitionChangeBuilder(topic.topic_id, partition, rules, Election.UNCLEAN)
            records += control.build(topic, builder)
    return records
