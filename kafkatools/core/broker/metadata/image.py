"""The cluster metadata replayed from `__cluster_metadata` (Kafka's MetadataImage and its deltas).

Rules: the image changes through `replay` of records in log order, or is replaced by a snapshot's. Other parts of the
broker get a `MetadataDelta` with the changed topics, settings and brokers. Records between BeginTransaction and
EndTransaction take effect together at the end (KIP-868). Delegation tokens are kept as their records, so that a
snapshot does not lose them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkatools.core.broker.metadata.controller.acls import Acls
from kafkatools.core.broker.metadata.controller.client_quotas import ClientQuotas
from kafkatools.core.broker.metadata.controller.scram import ScramCredentials
from kafkatools.core.protocol.entities import Entity, Fields

NO_LEADER = -1
NO_LEADER_CHANGE = -2
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
REPLICA_LISTS = (
    "isr",
    "replicas",
    "removing_replicas",
    "adding_replicas",
    "directories",
    "eligible_leader_replicas",
    "last_known_elr",
)
INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))


@dataclass(slots=True)
class PartitionState:
    """The metadata of one partition (Kafka's PartitionRegistration)."""

    partition_id: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[uuid.UUID | None, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None

    @property
    def elr(self) -> tuple[int, ...]:
        """The eligible leader replicas (KIP-966)."""
        return self.eligible_leader_replicas or ()

    @property
    def is_reassigning(self) -> bool:
        """Return whether a reassignment of the partition is under way."""
        return bool(self.adding_replicas or self.removing_replicas)

    def directory(self, broker_id: int) -> uuid.UUID | None:
        """Return the log directory id of a broker's replica, None if it is unknown (DirectoryId.MIGRATING). Raises
        ValueError for a broker without a replica."""
        index = self.replicas.index(broker_id)
        return self.directories[index] if index < len(self.directories) else None


@dataclass(slots=True)
class TopicState:
    """The metadata of one topic, with its partitions by number."""

    name: str
    topic_id: uuid.UUID
    partitions: dict[int, PartitionState] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        """Return whether the topic is one of Kafka's internal topics."""
        return self.name in INTERNAL_TOPICS


@dataclass(slots=True)
class BrokerState:
    """The registration of one broker; an endpoint is (listener name, host, port)."""

    broker_id: int
    epoch: int
    incarnation_id: uuid.UUID | None
    endpoints: tuple[tuple[str, str, int], ...]
    rack: str | None
    is_fenced: bool
    in_controlled_shutdown: bool = False
    log_dirs: tuple[uuid.UUID, ...] = ()
    cordoned_log_dirs: tuple[uuid.UUID, ...] = ()

    @property
    def is_active(self) -> bool:
        """Return whether the broker may lead partitions and be in an ISR: neither fenced nor in controlled shutdown."""
        return not (self.is_fenced or self.in_controlled_shutdown)


@dataclass(slots=True)
class MetadataDelta:
    """The topics, settings and brokers that a range of metadata records changed. `removed_partitions` has partitions of
    topics that a later part of the same change has in `removed_topics`."""

    changed_topics: dict[uuid.UUID, TopicState] = field(default_factory=dict)
    removed_topics: dict[uuid.UUID, TopicState] = field(default_factory=dict)
    changed_configs: set[tuple[int, str]] = field(default_factory=set)
    changed_brokers: set[int] = field(default_factory=set)
    removed_partitions: dict[uuid.UUID, TopicState] = field(default_factory=dict)


class Transactions:
    """The records of an open metadata transaction, held back until its end (KIP-868); `pending` is None without one."""

    def __init__(self) -> None:
        self.pending: list[Entity] | None = None

    def feed(self, records: Iterable[Entity]) -> list[Entity]:
        """Take records in log order and return those that take effect now: none inside of a transaction, all of its
        records at its end. Those of an aborted one are dropped."""
        counting: list[Entity] = []
        for record in records:
            name = type(record).__schema__.name
            if name == "BeginTransactionRecord":
                self.pending = []
            elif name == "EndTransactionRecord":
                counting += self.pending or ()
                self.pending = None
            elif name == "AbortTransactionRecord":
                self.pending = None
            elif self.pending is not None:
                self.pending.append(record)
            else:
                counting.append(record)
        return counting


class MetadataImage:
    """The cluster's brokers, controllers, topics, settings, feature levels, ACLs, quotas and credentials."""

    def __init__(self) -> None:
        self.features: dict[str, int] = {}
        self.registrations: dict[int, Any] = {}
        self.controllers: dict[int, Any] = {}
        self.delegation_tokens: Fields = {}
        self.brokers: dict[int, BrokerState] = {}
        self.topics: dict[str, TopicState] = {}
        self.topics_by_id: dict[uuid.UUID, TopicState] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.broker_config_changes = 0
        self.next_producer_id = 0
        self.acls = Acls()
        self.client_quotas = ClientQuotas()
        self.scram = ScramCredentials()
        self.version = 0
        self.skipped: dict[str, int] = {}
        self.delta = MetadataDelta()
        self.transactions = Transactions()
        self._replay: dict[str, Callable[[Any], None]] = {
            "RegisterBrokerRecord": self._register_broker,
            "RegisterControllerRecord": lambda r: self.controllers.__setitem__(r.controller_id, r),
            "UnregisterBrokerRecord": lambda r: self._forget_broker(r.broker_id),
            "BrokerRegistrationChangeRecord": self._change_registration,
            "FenceBrokerRecord": lambda r: self._fence(r.id, True),
            "UnfenceBrokerRecord": lambda r: self._fence(r.id, False),
            "TopicRecord": self._add_topic,
            "RemoveTopicRecord": self._remove_topic,
            "PartitionRecord": self._add_partition,
            "PartitionChangeRecord": self._change_partition,
            "ConfigRecord": self._set_config,
            "FeatureLevelRecord": lambda r: self.features.__setitem__(r.name, r.feature_level),
            "ProducerIdsRecord": self._set_producer_ids,
            "DelegationTokenRecord": lambda r: self.delegation_tokens.__setitem__(r.token_id, r),
            "RemoveDelegationTokenRecord": lambda r: self.delegation_tokens.pop(r.token_id, None),
            "ClientQuotaRecord": self.client_quotas.replay,
            "UserScramCredentialRecord": self.scram.replay,
            "RemoveUserScramCredentialRecord": self.scram.remove,
            "AccessControlEntryRecord": self.acls.add,
            "RemoveAccessControlEntryRecord": self.acls.remove,
            "ClearElrRecord": self._clear_elr,
            "NoOpRecord": lambda r: None,
        }

    @property
    def is_in_transaction(self) -> bool:
        """Return whether a BeginTransaction record was replayed and its end was not."""
        return self.transactions.pending is not None

    def replay(self, record: Entity) -> None:
        """Apply one metadata record; inside of a transaction, hold it until the transaction ends. A record of an
        unknown type changes nothing and is counted in `skipped`."""
        self.version += 1
        for effective in self.transactions.feed((record,)):
            name = type(effective).__schema__.name
            apply = self._replay.get(name)
            if apply is None:
                self.skipped[name] = self.skipped.get(name, 0) + 1
            else:
                apply(effective)

    def add_partitions(self, topic_id: uuid.UUID, partitions: Mapping[int, PartitionState]) -> None:
        """Add partitions to a topic at once, as `replay` of their PartitionRecords does."""
        topic = self.topics_by_id[topic_id]
        topic.partitions.update(partitions)
        self.version += len(partitions)
        self.delta.changed_topics[topic_id] = topic

    def take_delta(self) -> MetadataDelta:
        """Return the changes since the last call."""
        delta, self.delta = self.delta, MetadataDelta()
        return delta

    def topic_configs(self, topic: str) -> dict[str, str]:
        """Return the topic's own settings, without defaults."""
        return self.configs.get((TOPIC_RESOURCE, topic), {})

    def _register_broker(self, record: Entity) -> None:
        self.registrations[record.broker_id] = record
        endpoints = tuple((point.name, point.host, point.port) for point in record.end_points)
        self.brokers[record.broker_id] = BrokerState(
            record.broker_id,
            record.broker_epoch,
            record.incarnation_id,
            endpoints,
            record.rack,
            record.fenced,
            getattr(record, "in_controlled_shutdown", False),
            tuple(getattr(record, "log_dirs", ())),
            tuple(getattr(record, "cordoned_log_dirs", None) or ()),
        )
        self.delta.changed_brokers.add(record.broker_id)

    def _forget_broker(self, broker_id: int) -> None:
        self.brokers.pop(broker_id, None)
        self.registrations.pop(broker_id, None)
        self.delta.changed_brokers.add(broker_id)

    def _change_registration(self, record: Entity) -> None:
        broker = self.brokers.get(record.broker_id)
        if broker is None:
            return
        if record.fenced:
            broker.is_fenced = record.fenced > 0
        if getattr(record, "in_controlled_shutdown", 0) > 0:
            broker.in_controlled_shutdown = True
        if getattr(record, "log_dirs", ()):
            broker.log_dirs = tuple(record.log_dirs)
        cordoned = getattr(record, "cordoned_log_dirs", None)
        if cordoned is not None:
            broker.cordoned_log_dirs = tuple(cordoned)
        self.delta.changed_brokers.add(record.broker_id)

    def _fence(self, broker_id: int, is_fenced: bool) -> None:
        if broker_id in self.brokers:
            self.brokers[broker_id].is_fenced = is_fenced
            self.delta.changed_brokers.add(broker_id)

    def _add_topic(self, record: Entity) -> None:
        topic = TopicState(record.name, record.topic_id)
        self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic
        self.delta.changed_topics[topic.topic_id] = topic

    def _remove_topic(self, record: Entity) -> None:
        topic = self.topics_by_id.pop(record.topic_id, None)
        if topic is None:
            return
        self.topics.pop(topic.name, None)
        self.configs.pop((TOPIC_RESOURCE, topic.name), None)
        self.delta.changed_topics.pop(topic.topic_id, None)
        self.delta.removed_topics[topic.topic_id] = topic

    def _add_partition(self, record: Entity) -> None:
        topic = self.topics_by_id.get(record.topic_id)
        if topic is None:
            return
        topic.partitions[record.partition_id] = partition_state(record)
        self.delta.changed_topics[topic.topic_id] = topic

    def _change_partition(self, record: Entity) -> None:
        """Merge a PartitionChangeRecord; a new leader also raises the leader epoch (PartitionRegistration.merge)."""
        topic = self.topics_by_id.get(record.topic_id)
        if topic is None or record.partition_id not in topic.partitions:
            return
        partition = topic.partitions[record.partition_id]
        for name in REPLICA_LISTS:
            replicas = getattr(record, name, None)
            if replicas is not None:
                setattr(partition, name, tuple(replicas))
        if record.leader_recovery_state >= 0:
            partition.leader_recovery_state = record.leader_recovery_state
        if record.leader != NO_LEADER_CHANGE:
            partition.leader = record.leader
            partition.leader_epoch += 1
        partition.partition_epoch += 1
        self.delta.changed_topics[topic.topic_id] = topic

    def _clear_elr(self, record: Entity) -> None:
        """Clear the eligible leader replicas of a topic, or of all topics if the record names none (KIP-966)."""
        topics = [self.topics[record.topic_name]] if record.topic_name in self.topics else []
        for topic in topics if record.topic_name else self.topics.values():
            for partition in topic.partitions.values():
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    partition.eligible_leader_replicas = partition.last_known_elr = ()
                    partition.partition_epoch += 1  # without it, leaders and controllers of Apache Kafka disagree
                    self.delta.changed_topics[topic.topic_id] = topic

    def _set_config(self, record: Entity) -> None:
        key = (record.resource_type, record.resource_name)
        values = self.configs.setdefault(key, {})
        if record.value is None:
            values.pop(record.name, None)
            if not values:
                del self.configs[key]
        else:
            values[record.name] = record.value
        self.delta.changed_configs.add(key)
        self.broker_config_changes += key[0] == BROKER_RESOURCE

    def _set_producer_ids(self, record: Entity) -> None:
        self.next_producer_id = record.next_producer_id


def partition_state(record: Any) -> PartitionState:
    """Return the state of a partition that a PartitionRecord creates."""
    return PartitionState(
        record.partition_id,
        tuple(record.replicas),
        tuple(record.isr),
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        tuple(getattr(record, "directories", ())),
        tuple(record.removing_replicas),
        tuple(record.adding_replicas),
        record.leader_recovery_state,
        _replicas(getattr(record, "eligible_leader_replicas", None)),
        _replicas(getattr(record, "last_known_elr", None)),
    )


def _replicas(replicas: Any) -> tuple[int, ...] | None:
    return None if replicas is None else tuple(replicas)
