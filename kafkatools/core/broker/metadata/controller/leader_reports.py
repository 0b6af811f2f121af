"""Brokers' reports about their replicas: AlterPartition and AssignReplicasToDirs.

Source: ReplicationControlManager of Apache Kafka 4.3. Functions are pure: they return records and the response's
fields. A change that completes a reassignment may take the leadership from the requesting broker: the response is then
NEW_LEADER_ELECTED, and the change is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kafkatools.core.broker.metadata.controller.partition_change import RECOVERED, RECOVERING, Election
from kafkatools.core.broker.metadata.controller.replica_control import ReplicaControl
from kafkatools.core.broker.metadata.image import NO_LEADER_CHANGE, PartitionState, TopicState
from kafkatools.core.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NewLeaderElected,
    NotController,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kafkatools.core.protocol.entities import Entity, Fields

NONE = 0
ANY_EPOCH = -1
Isr = list[tuple[int, int]]
"""Broker ids and epochs; -1 matches any epoch."""


def alter_partitions(control: ReplicaControl, entity: Entity) -> tuple[list[Entity], Fields]:
    """Return the records and the response's fields of an AlterPartition request with a valid broker epoch. A rejected
    partition has an error code and no record."""
    records: list[Entity] = []
    topics = []
    for requested in entity.topics:
        topic = control.image.topics_by_id.get(requested.topic_id)
        responses = []
        for change in requested.partitions:
            if topic is None:
                responses.append({"partition_index": change.partition_index, "error_code": UnknownTopicId.code})
            else:
                partition_records, response = _alter_partition(control, entity.broker_id, topic, change)
                records += partition_records
                responses.append(response)
        topics.append({"topic_id": requested.topic_id, "partitions": responses})
    return records, {"error_code": NONE, "topics": topics}


def _alter_partition(
    control: ReplicaControl, broker_id: int, topic: TopicState, change: Any
) -> tuple[list[Entity], Fields]:
    index = change.partition_index
    partition = topic.partitions.get(index)
    isr = _isr_of(change)
    code = _refusal(control, broker_id, partition, change, isr)
    if code != NONE:
        return [], {"partition_index": index, "error_code": code}
    assert partition is not None
    builder = control.builder(topic, partition)
    builder.target_isr = tuple(replica for replica, _ in isr)
    builder.target_recovery_state = int(change.leader_recovery_state)
    records = control.build(topic, builder)
    if records:
        leader = records[0].leader
        partition = merged(partition, records[0])
        if leader not in (broker_id, NO_LEADER_CHANGE):
            return records, {"partition_index": index, "error_code": NewLeaderElected.code}
    return records, {
        "partition_index": index,
        "error_code": NONE,
        "leader_id": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "isr": partition.isr,
        "leader_recovery_state": partition.leader_recovery_state,
        "partition_epoch": partition.partition_epoch,
    }


def _isr_of(change: Any) -> Isr:
    with_epochs = [(replica.broker_id, replica.broker_epoch) for replica in change.new_isr_with_epochs]
    return with_epochs or [(replica, ANY_EPOCH) for replica in getattr(change, "new_isr", ())]


def _refusal(control: ReplicaControl, broker_id: int, partition: PartitionState | None, change: Any, isr: Isr) -> int:
    """Return the error code of an ISR change, NONE if it is valid (validateAlterPartitionData)."""
    if partition is None:
        return UnknownTopicOrPartition.code
    if change.leader_epoch > partition.leader_epoch or change.partition_epoch > partition.partition_epoch:
        return NotController.code  # epochs ahead of this controller: another one is active
    if change.leader_epoch < partition.leader_epoch:
        return FencedLeaderEpoch.code
    if broker_id != partition.leader:
        return InvalidRequest.code
    if change.partition_epoch < partition.partition_epoch:
        return InvalidUpdateVersion.code
    if not _is_valid_isr(partition, [replica for replica, _ in isr], int(change.leader_recovery_state)):
        return InvalidRequest.code
    if any(not _is_eligible(control, replica, epoch) for replica, epoch in isr):
        return IneligibleReplica.code
    return NONE


def _is_valid_isr(partition: PartitionState, isr: Sequence[int], recovery_state: int) -> bool:
    if not isr or len(set(isr)) != len(isr) or not set(isr).issubset(partition.replicas):
        return False
    if partition.leader not in isr:
        return False
    if recovery_state == RECOVERING:
        return len(isr) == 1 and partition.leader_recovery_state != RECOVERED
    return True


def _is_eligible(control: ReplicaControl, broker_id: int, epoch: int) -> bool:
    """Return whether the broker is active and has the epoch that the leader named, where -1 is any (KIP-903)."""
    broker = control.image.brokers.get(broker_id)
    return broker is not None and broker.is_active and epoch in (ANY_EPOCH, broker.epoch)


def merged(partition: PartitionState, record: Entity) -> PartitionState:
    """Return the partition after a PartitionChangeRecord, as far as responses need it (PartitionRegistration.merge)."""
    changes: Fields = {"partition_epoch": partition.partition_epoch + 1}
    if record.isr is not None:
        changes["isr"] = tuple(record.isr)
    if record.leader != NO_LEADER_CHANGE:
        changes |= {"leader": record.leader, "leader_epoch": partition.leader_epoch + 1}
    if record.leader_recovery_state >= RECOVERED:
        changes["leader_recovery_state"] = record.leader_recovery_state
    return replace(partition, **changes)


def assign_directories(control: ReplicaControl, entity: Entity) -> tuple[list[Entity], Fields]:
    """Return the records and the response's fields of AssignReplicasToDirs. A rejected replica has an error code and no
    record. Replicas in offline directories leave the ISR."""
    records: list[Entity] = []
    directories = []
    offline: dict[tuple[Any, int], tuple[TopicState, PartitionState]] = {}
    online = control.image.brokers[entity.broker_id].log_dirs
    for directory in entity.directories:
        topics = []
        for reported in directory.topics:
            topic = control.image.topics_by_id.get(reported.topic_id)
            responses = []
            for assignment in reported.partitions:
                index = assignment.partition_index
                code = _assignment_refusal(topic, index, entity.broker_id)
                responses.append({"partition_index": index, "error_code": code})
                if code != NONE:
                    continue
                assert topic is not None
                partition = topic.partitions[index]
                builder = control.builder(topic, partition, Election.ONLINE)
                builder.directories[entity.broker_id] = directory.id_
                records += control.build(topic, builder)
                if online and directory.id_ not in online:
                    offline[topic.topic_id, index] = (topic, partition)
            topics.append({"topic_id": reported.topic_id, "partitions": responses})
        directories.append({"id_": directory.id_, "topics": topics})
    records += control.leader_and_isr_changes(offline.values(), remove=entity.broker_id)
    return records, {"error_code": NONE, "directories": directories}


def _assignment_refusal(topic: TopicState | None, index: int, broker_id: int) -> int:
    if topic is None:
        return UnknownTopicId.code
    partition = topic.partitions.get(index)
    if partition is None:
        return UnknownTopicOrPartition.code
    return NONE if broker_id in partition.replicas else NotLeaderOrFollower.code
