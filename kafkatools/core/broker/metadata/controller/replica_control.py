"""Changes of ISRs and leaders when brokers start, stop, are fenced or lose directories: records from the current image.

Source: ReplicationControlManager and ConfigurationControlManager of Apache Kafka 4.3. Rules: all functions are pure,
except that unclean elections, which may lose records, are reported. A broker may lead when it is registered,
unfenced and not in controlled shutdown, and the directory of its replica is online.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kafkatools.core.broker.metadata.broker_settings import ELIGIBLE_LEADER_REPLICAS, MIN_ISR, BrokerSettings
from kafkatools.core.broker.metadata.controller.partition_change import ClusterRules, Election, PartitionChangeBuilder
from kafkatools.core.broker.metadata.directory_ids import default_directory, is_online
from kafkatools.core.broker.metadata.feature_levels import METADATA_VERSION
from kafkatools.core.broker.metadata.image import NO_LEADER, MetadataImage, PartitionState, TopicState
from kafkatools.core.protocol.schemas.metadata import BrokerRegistrationChangeRecord, UnregisterBrokerRecord

UNCLEAN_ELECTION = "unclean.leader.election.enable"
TopicPartitions = Iterable[tuple[TopicState, PartitionState]]
NOBODY = NO_LEADER
FENCED, UNFENCED = 1, -1


class ReplicaControl:
    """Decides about replicas and leaders from one metadata image."""

    def __init__(
        self, image: MetadataImage, settings: BrokerSettings, report: Callable[[str], None] | None = None
    ) -> None:
        self.image = image
        self.settings = settings
        self._report = report or (lambda line: None)

    @property
    def elr_enabled(self) -> bool:
        """Return whether eligible leader replicas are enabled (KIP-966)."""
        return self.image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0

    def is_active(self, broker_id: int) -> bool:
        """Return whether a broker may be in an ISR and lead."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def min_isr(self, topic: TopicState) -> int:
        """Return the topic's min.insync.replicas, or else the cluster's, at most its replication factor
        (getTopicEffectiveMinIsr)."""
        override = self.image.topic_configs(topic.name).get(MIN_ISR)
        min_isr = int(override) if override is not None else self.settings.effective().min_insync_replicas
        return min(int(min_isr), len(topic.partitions[0].replicas)) if 0 in topic.partitions else int(min_isr)

    def allows_unclean_election(self, topic: str) -> bool:
        """Return unclean.leader.election.enable of the topic, or else of the cluster."""
        override = self.image.topic_configs(topic).get(UNCLEAN_ELECTION)
        if override is not None:
            return override.strip().lower() == "true"
        return bool(self.settings.effective().unclean_leader_election_enable)

    def _rules(
        self, topic: TopicState, partition: PartitionState, is_acceptable: Callable[[int], bool]
    ) -> ClusterRules:
        def is_acceptable_leader(broker_id: int) -> bool:
            if not is_acceptable(broker_id) or broker_id not in partition.replicas:
                return False
            broker = self.image.brokers.get(broker_id)
            return broker is not None and is_online(partition.directory(broker_id), broker.log_dirs)

        return ClusterRules(
            self.image.features.get(METADATA_VERSION, 0),
            self.min_isr(topic),
            self.elr_enabled,
            is_acceptable_leader,
            lambda broker_id: default_directory(self.image, broker_id),
        )

    def builder(
        self,
        topic: TopicState,
        partition: PartitionState,
        election: Election | None = None,
        is_acceptable: Callable[[int], bool] | None = None,
    ) -> PartitionChangeBuilder:
        """Return the builder of a partition's change. Without `election` the settings decide about unclean elections;
        `is_acceptable` replaces the check that a broker is active."""
        if election is None:
            election = Election.UNCLEAN if self.allows_unclean_election(topic.name) else Election.ONLINE
        rules = self._rules(topic, partition, is_acceptable or self.is_active)
        return PartitionChangeBuilder(topic.topic_id, partition, rules, election)

    def build(self, topic: TopicState, builder: PartitionChangeBuilder) -> list[Any]:
        """Return the record of a change as a list, empty if nothing changes. Reports an unclean election."""
        record = builder.build()
        if record is None:
            return []
        if builder.is_unclean:
            index = builder.partition.partition_id
            self._report(
                f"Setting new leader for topicId {topic.topic_id}, partition {index} to {record.leader} using an "
                f"unclean election: records of {topic.name}-{index} may be lost."
            )
        return [record]

    def partitions(self) -> Iterator[tuple[TopicState, PartitionState]]:
        """Yield every partition with its topic."""
        for topic in self.image.topics.values():
            for partition in topic.partitions.values():
                yield topic, partition

    def in_isr(self, broker_id: int) -> list[tuple[TopicState, PartitionState]]:
        """Return the partitions with a broker in their ISR."""
        return [(topic, partition) for topic, partition in self.partitions() if broker_id in partition.isr]

    def in_elr(self, broker_id: int) -> list[tuple[TopicState, PartitionState]]:
        """Return the partitions with a broker among their eligible leader replicas."""
        return [(topic, partition) for topic, partition in self.partitions() if broker_id in partition.elr]

    def leaderless(self) -> list[tuple[TopicState, PartitionState]]:
        """Return the partitions without a leader."""
        return [(topic, partition) for topic, partition in self.partitions() if partition.leader == NO_LEADER]

    def has_leaderships(self, broker_id: int) -> bool:
        """Return whether a broker leads any partition."""
        return any(partition.leader == broker_id for _, partition in self.partitions())

    def in_directory(self, broker_id: int, directory: uuid.UUID) -> list[tuple[TopicState, PartitionState]]:
        """Return the partitions with a replica in one log directory of a broker."""
        return [
            (topic, partition)
            for topic, partition in self.partitions()
            if broker_id in partition.replicas and partition.directory(broker_id) == directory
        ]

    def leader_and_isr_changes(
        self, partitions: TopicPartitions, *, remove: int = NOBODY, add: int = NOBODY, unclean_shutdown: int = NOBODY
    ) -> list[Any]:
        """Return the ISR and leader changes for a broker that leaves (`remove`), becomes active (`add`) or stopped
        uncleanly (generateLeaderAndIsrUpdates). The image does not have the broker's new state yet."""

        def is_acceptable(broker_id: int) -> bool:
            if broker_id in (remove, unclean_shutdown):
                return False
            return broker_id == add or self.is_active(broker_id)

        records: list[Any] = []
        for topic, partition in partitions:
            builder = self.builder(topic, partition, is_acceptable=is_acceptable)
            if unclean_shutdown != NOBODY:
                builder.unclean_shutdown_replicas = (unclean_shutdown,)
            builder.target_isr = tuple(
                replica for replica in partition.isr if replica not in (remove, unclean_shutdown)
            )
            records += self.build(topic, builder)
        return records

    def fence(self, broker_id: int) -> list[Any]:
        """Return the records that fence a broker and remove it from ISRs and leaderships. The last member of an ISR
        stays in it unless eligible leader replicas are enabled."""
        records = self.leader_and_isr_changes(self.in_isr(broker_id), remove=broker_id)
        return [*records, self.registration_change(broker_id, 0, fenced=FENCED)]

    def unfence(self, broker_id: int) -> list[Any]:
        """Return the records that unfence a broker and let it lead the leaderless partitions for which it is
        eligible."""
        change = self.registration_change(broker_id, 0, fenced=UNFENCED)
        return [change, *self.leader_and_isr_changes(self.leaderless(), add=broker_id)]

    def begin_controlled_shutdown(self, broker_id: int) -> list[Any]:
        """Return the records that start a broker's controlled shutdown, unless it has begun, and move its leaderships
        away."""
        records = []
        if not self.image.brokers[broker_id].in_controlled_shutdown:
            records.append(self.registration_change(broker_id, 1, in_controlled_shutdown=1))
        return records + self.leader_and_isr_changes(self.in_isr(broker_id), remove=broker_id)

    def shut_down(self, broker_id: int, *, is_clean: bool) -> list[Any]:
        """Return the ISR and leader changes for a broker that has stopped (handleBrokerShutdown). After an unclean stop
        it may lack acknowledged records, so it is no eligible leader replica either, if these are enabled."""
        if self.elr_enabled and not is_clean:
            records = self.leader_and_isr_changes(self.in_isr(broker_id), unclean_shutdown=broker_id)
            return records + self.leader_and_isr_changes(self.in_elr(broker_id), unclean_shutdown=broker_id)
        return self.leader_and_isr_changes(self.in_isr(broker_id), remove=broker_id)

    def unregister(self, broker_id: int) -> list[Any]:
        """Return the records that remove a broker from ISRs, eligible leader replicas and leaderships, and then from
        the cluster."""
        records = self.leader_and_isr_changes(self.in_isr(broker_id), remove=broker_id)
        records += self.leader_and_isr_changes(self.in_elr(broker_id), remove=broker_id)
        epoch = self.image.brokers[broker_id].epoch
        return [*records, UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch)]

    def take_directories_offline(self, broker_id: int, offline: Sequence[uuid.UUID]) -> list[Any]:
        """Return the records that remove replicas in failed directories from their ISRs, and the directories from the
        broker (handleDirectoriesOffline). Empty if the broker has none of these directories online."""
        log_dirs = self.image.brokers[broker_id].log_dirs
        failed = [directory for directory in log_dirs if directory in offline]
        if not failed:
            return []
        records: list[Any] = []
        for directory in failed:
            records += self.leader_and_isr_changes(self.in_directory(broker_id, directory), remove=broker_id)
        remaining = tuple(directory for directory in log_dirs if directory not in offline)
        return [*records, self.registration_change(broker_id, 2, log_dirs=remaining)]

    def cordon_directories(self, broker_id: int, cordoned: Sequence[uuid.UUID] | None) -> list[Any]:
        """Return the record of a broker's changed cordoned directories, which get no new replicas (KIP-1066). The list
        is empty if nothing changes or `cordoned` is None."""
        if cordoned is None or set(cordoned) == set(self.image.brokers[broker_id].cordoned_log_dirs):
            return []
        return [self.registration_change(broker_id, 3, cordoned_log_dirs=tuple(cordoned))]

    def registration_change(self, broker_id: int, version: int, **fields: Any) -> Any:
        """Return a BrokerRegistrationChangeRecord."""
        epoch = self.image.brokers[broker_id].epoch
        return BrokerRegistrationChangeRecord(version=version, broker_id=broker_id, broker_epoch=epoch, **fields)
