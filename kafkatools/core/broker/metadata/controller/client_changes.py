"""The metadata changes that clients ask for: each is decided against the controller's image and becomes records, which
are written to the metadata log and replayed into the image at once.

Rules: decisions never overlap. `Controller` adds what nodes ask for, and begins and ends with the leadership of the
quorum. A quorum of one commits as it writes: there the broker acts on the same image and applies a change before its
response, so that a created topic can be written to when the client hears of it. In a quorum of several the image is
ahead of the committed one, and the response waits for the commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafkatools.core.broker.metadata.broker_settings import ELIGIBLE_LEADER_REPLICAS, BrokerSettings
from kafkatools.core.broker.metadata.controller import acls, client_quotas, configs, features, partitions, scram, topics
from kafkatools.core.broker.metadata.controller.placement import Placement
from kafkatools.core.broker.metadata.controller.registrations import check_broker_epoch
from kafkatools.core.broker.metadata.controller.replica_control import ReplicaControl
from kafkatools.core.broker.metadata.image import MetadataDelta, MetadataImage, PartitionState, TopicState
from kafkatools.core.broker.server.channels import RecordWriter
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import (
    ElectionNotNeeded,
    InvalidRequest,
    KafkaError,
    KafkaStorageError,
    NotController,
    UnknownServerError,
)
from kafkatools.core.java.random import JavaRandom
from kafkatools.core.protocol.slices import current_pause, pausing
from kafkatools.core.protocol.uuids import random_uuid

PRODUCER_ID_BLOCK = 1000
LONG_MAX = 2**63 - 1
MAX_RECORDS_PER_BATCH = 10_000
TOPICS_AT_ONCE = 10


class ClientChanges:
    """Decides and writes the changes. Every method raises NotController while this node is not the active
    controller."""

    def __init__(
        self,
        config: Config,
        node_id: int,
        clock: Clock,
        report: Callable[[str], None],
        apply_delta: Callable[[MetadataDelta], None],
    ) -> None:
        """`apply_delta` lets the broker of a quorum of one act on a change."""
        self.node_id = node_id
        self.report = report
        self.random = JavaRandom()
        self._config = config
        self._clock = clock
        self._apply_delta = apply_delta
        self._writer: RecordWriter | None = None
        self._last_write_ms = 0
        self._image: MetadataImage
        self.settings: BrokerSettings
        self.replica_control: ReplicaControl
        self._decide_over(MetadataImage())

    def _decide_over(self, image: MetadataImage) -> None:
        """Decide against this image from now on."""
        self._image = image
        self.settings = BrokerSettings(self._config, image, self.node_id)
        self.replica_control = ReplicaControl(image, self.settings, self.report)

    @property
    def is_active(self) -> bool:
        return self._writer is not None

    @property
    def image(self) -> MetadataImage:
        """What changes are decided against."""
        self.ensure_active()
        return self._image

    @property
    def effective_config(self) -> Config:
        return self.settings.effective()

    def ensure_active(self) -> RecordWriter:
        """Where records go; raises NotController when another node is the active controller."""
        if self._writer is None:
            raise NotController("No controller appears to be active.")
        return self._writer

    # -- writing ---------------------------------------------------------------------------------------------------
    def _write(self, records: Sequence[Any]) -> None:
        writer = self.ensure_active()
        for start in range(0, len(records), MAX_RECORDS_PER_BATCH):
            part = list(records[start : start + MAX_RECORDS_PER_BATCH])
            try:
                writer.append(part, self._clock.wall_ms())
            except NotController:
                self.deactivate()
                raise
            self._last_write_ms = self._clock.now_ms()
            for record in part:
                self._image.replay(record)

    def _commit(self, records: Sequence[Any]) -> None:
        """Write the records of one decision, and apply them when they are committed by that."""
        self.ensure_active()
        if records:
            with pausing(None):
                self._write(records)
                self.publish()

    def publish(self) -> None:
        """Let the broker of a quorum of one apply what changed; brokers of several apply it when it is committed."""
        delta = self._image.take_delta()
        if self.ensure_active().commits_at_once:
            self._apply_delta(delta)

    def deactivate(self) -> None:
        """Another node leads the quorum, or nobody does: what is not committed may never be."""
        self._writer = None
        self._decide_over(MetadataImage())

    # -- topics ----------------------------------------------------------------------------------------------------
    def _placement(self) -> Placement:
        config = self.effective_config
        return Placement(self.image, self.random, config.num_partitions, config.default_replication_factor, random_uuid)

    def create_topics(
        self, wanted: Sequence[topics.NewTopic], *, validate_only: bool = False
    ) -> dict[str, TopicState | KafkaError]:
        """Create each (no name twice), all with one change unless this thread works in slices; the result is the topic,
        or why it was not made."""
        results: dict[str, TopicState | KafkaError] = {}
        placement = self._placement()
        for topic in wanted:
            try:
                topics.check_collision(self.image, topic.name)
            except KafkaError as error:
                results[topic.name] = error
        made: dict[str, list[Any]] = {}
        pause = current_pause()
        for number, topic in enumerate(wanted):
            if pause is not None and not number % TOPICS_AT_ONCE:
                # In a pause another request may create the same topic: nothing may be checked and not written then.
                results |= self._commit_topics(made)
                made = {}
                pause()
            if topic.name in results:
                continue
            try:
                topics.check_new_topic(self.image, topic.name)
                configs.validate_topic_configs(topic.configs, self.effective_config)
                state, records = topics.create_topic(self.image, topic, placement)
                results[topic.name] = planned(state, records)
                if not validate_only:
                    made[topic.name] = records
            except KafkaError as error:
                results[topic.name] = error
        return results | self._commit_topics(made)

    def _commit_topics(self, made: Mapping[str, Sequence[Any]]) -> dict[str, TopicState | KafkaError]:
        """Write the records of new topics, by name, as one change; gives the topics, or why none was made."""
        try:
            self._commit([record for records in made.values() for record in records])
        except KafkaStorageError as error:
            return dict.fromkeys(made, error)
        return {name: self.image.topics[name] for name in made}

    def create_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool
    ) -> None:
        """Grow a topic; raises a KafkaError."""
        records = topics.create_partitions(self.image, name, count, assignments, self._placement())
        if not validate_only:
            self._commit(records)

    def delete_topic(self, name: str | None, topic_id: uuid.UUID | None) -> TopicState:
        """Delete a topic by name or id; raises a KafkaError."""
        state, records = topics.delete_topic(self.image, name, topic_id)
        self._commit(records)
        return state

    # -- partitions ------------------------------------------------------------------------------------------------
    def elect_leaders(
        self, election_type: int, wanted: Sequence[tuple[str, Sequence[int]]] | None
    ) -> list[tuple[str, list[tuple[int, KafkaError | None]]]]:
        """Elections for the partitions that are named, or for all that need one (None): by topic and partition why
        there was none. Raises InvalidRequest."""
        if election_type not in (partitions.PREFERRED, partitions.UNCLEAN):
            raise InvalidRequest(f"Unknown election type {election_type}")
        named = wanted
        if named is None:
            named = [(topic.name, list(topic.partitions)) for topic in self.image.topics.values()]
        records: list[Any] = []
        results = []
        for name, indexes in named:
            outcomes: list[tuple[int, KafkaError | None]] = []
            for index in indexes:
                try:
                    records += partitions.elect_leader(self.replica_control, election_type, name, index)
                    outcomes.append((index, None))
                except ElectionNotNeeded as error:
                    if wanted is not None:
                        outcomes.append((index, error))
                except KafkaError as error:
                    outcomes.append((index, error))
            results.append((name, outcomes))
        self._commit(records)
        return results

    def alter_reassignments(
        self, wanted: Sequence[tuple[str, int, Sequence[int] | None]], *, may_change_factor: bool = True
    ) -> list[KafkaError | None]:
        """Begin (replicas) or take back (None) reassignments of partitions; gives why one was not."""
        records: list[Any] = []
        results: list[KafkaError | None] = []
        for name, index, replicas in wanted:
            try:
                records += partitions.reassign(
                    self.replica_control, name, index, replicas, may_change_factor=may_change_factor
                )
                results.append(None)
            except KafkaError as error:
                results.append(error)
        self._commit(records)
        return results

    def list_reassignments(
        self, wanted: Sequence[tuple[str, Sequence[int]]] | None
    ) -> list[tuple[str, list[PartitionState]]]:
        """Partitions that are being reassigned, by topic: of those that are named, or all."""
        return partitions.reassignments(self.image, wanted)

    # -- settings --------------------------------------------------------------------------------------------------
    def alter_configs(
        self, resource: tuple[int, str], changes: Sequence[configs.ConfigChange], *, validate_only: bool
    ) -> None:
        """Change settings one by one; raises a KafkaError."""
        records = configs.alter_configs(self.image, self.settings, resource, changes)
        if not validate_only:
            self._commit(records)

    def replace_configs(
        self, resource: tuple[int, str], values: Sequence[tuple[str, str | None]], *, validate_only: bool
    ) -> None:
        """Replace all settings of a resource; raises a KafkaError."""
        records = configs.replace_configs(self.image, self.settings, resource, values)
        if not validate_only:
            self._commit(records)

    # -- ACLs ------------------------------------------------------------------------------------------------------
    def create_acls(self, wanted: Sequence[acls.Acl]) -> list[KafkaError | None]:
        """Make each; gives why one was not made."""
        results, records = acls.create(self.image.acls, wanted, random_uuid)
        self._commit(records)
        return results

    def delete_acls(self, filters: Sequence[acls.AclFilter]) -> list[list[acls.Acl]]:
        """Remove what the filters fit; gives it by filter."""
        results, records = acls.delete(self.image.acls, filters)
        self._commit(records)
        return results

    # -- quotas, credentials, features -----------------------------------------------------------------------------
    def alter_client_quotas(
        self, alterations: Sequence[client_quotas.Alteration], *, validate_only: bool
    ) -> dict[client_quotas.Entity, KafkaError | None]:
        """Change quotas; gives by entity why nothing was changed."""
        outcomes, records = client_quotas.alter(self.image.client_quotas, alterations)
        if not validate_only:
            self._commit(records)
        return outcomes

    def alter_scram_credentials(
        self, deletions: Sequence[tuple[str, int]], upsertions: Sequence[scram.Upsertion]
    ) -> scram.Outcomes:
        """Change credentials; gives by user why nothing was changed."""
        outcomes, records = scram.alter(self.image.scram, deletions, upsertions)
        self._commit(records)
        return outcomes

    def update_features(self, updates: Sequence[features.FeatureUpdate], *, validate_only: bool) -> None:
        """Change feature levels, all or none; raises a KafkaError."""
        supported = features.supported_levels(self.image, self.node_id)
        records = features.update(self.image.features, self.node_id, updates, supported)
        if any(record.name == ELIGIBLE_LEADER_REPLICAS and record.feature_level > 0 for record in records):
            records = configs.elr_safety_records(self.image, self._config) + records
        if not validate_only:
            self._commit(records)

    # -- producer ids ----------------------------------------------------------------------------------------------
    def take_producer_ids(self, broker_id: int, broker_epoch: int) -> range:
        """The next block of producer ids for a broker, noted in the metadata log (ProducerIdControlManager). Raises
        StaleBrokerEpoch, and UnknownServerError when there are none left."""
        from kafkatools.core.protocol.schemas.metadata import ProducerIdsRecord

        check_broker_epoch(self.image, broker_id, broker_epoch)
        first = self.image.next_producer_id
        if first > LONG_MAX - PRODUCER_ID_BLOCK:
            raise UnknownServerError(
                "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit"
            )
        end = first + PRODUCER_ID_BLOCK
        self._commit([ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=end)])
        return range(first, end)


def planned(state: TopicState, records: Sequence[Any]) -> TopicState:
    """What a validated topic would look like."""
    image = MetadataImage()
    for record in records:
        image.replay(record)
    return image.topics[state.name]
