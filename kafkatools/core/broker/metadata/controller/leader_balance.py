"""Automatic leader balancing, and unclean elections for leaderless partitions.

Source: ReplicationControlManager (maybeBalancePartitionLeaders, maybeElectUncleanLeaders) of Apache Kafka 4.3. As
there, leader.imbalance.per.broker.percentage has no effect: every partition moves to its preferred leader if possible.
Functions are pure.
"""

from __future__ import annotations

from kafkatools.core.broker.metadata.controller.partition_change import Election
from kafkatools.core.broker.metadata.controller.replica_control import ReplicaControl
from kafkatools.core.protocol.entities import Entity

MAX_ELECTIONS = 1000


def balance(control: ReplicaControl) -> list[Entity]:
    """Return at most MAX_ELECTIONS records of preferred elections, for partitions whose first replica does not lead. A
    partition whose leader cannot change has none."""
    records: list[Entity] = []
    for topic, partition in control.partitions():
        if len(records) >= MAX_ELECTIONS:
            break
        if partition.leader != partition.replicas[0]:
            records += control.build(topic, control.builder(topic, partition, Election.PREFERRED))
    return records


def elect_unclean_leaders(control: ReplicaControl) -> list[Entity]:
    """Return at most MAX_ELECTIONS records of unclean elections, for leaderless partitions whose topics allow them."""
    records: list[Entity] = []
    for topic, partition in control.leaderless():
        if len(records) >= MAX_ELECTIONS:
            break
        if control.allows_unclean_election(topic.name):
            records += control.build(topic, control.builder(topic, partition, Election.UNCLEAN))
    return records
