"""Metadata changes that clients request: each is decided against the controller's image and becomes records, which are
written to the metadata log and replayed into the image at once.

Rules: decisions do not overlap. `Controller` adds the requests of nodes and the activation. A quorum of one commits as
it writes: its broker shares the image and applies a change before the response, so a client can write to a created
topic at once. In a quorum of several nodes the image is ahead of the committed one, and the response waits for the
commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.broker_settings import ELIGIBLE_LEADER_REPLICAS, BrokerSettings
from kafkatools.core.broker.metadata.controller import (
    acls,
    client_quotas,
    configs,
    delegation_tokens,
    features,
    partitions,
    scram,
    topics,
)
from kafkatools.core.broker.metadata.controller.large_changes import (
    PARTITIONS_AT_ONCE,
    NewPartitions,
    encoded,
    plan_in_slices,
)
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
    InvalidUpdateVersion,
    KafkaError,
    KafkaStorageError,
    NotController,
    UnknownServerError,
)
from kafkatools.core.java.random import JavaRandom
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas.metadata import ProducerIdsRecord
from kafkatools.core.protocol.slices import current_pause, pausing
from kafkatools.core.protocol.uuids import random_uuid

if TYPE_CHECKING:
    from kafkatools.core.broker.metadata.quorum.raft_log import Records

PRODUCER_ID_BLOCK = 1000
LONG_MAX = 2**63 - 1
Charge = Callable[[int], None]
"""Counts created or deleted partitions for the client's quota. Raises ThrottlingQuotaExceeded."""
MAX_RECORDS_PER_BATCH = 10_000
TOPICS_AT_ONCE = 10
CHANGES_AT_ONCE = 250
"""Reassigning a partition, or electing its leader, takes 10 to 20 us."""


class ClientChanges:
    """Decides and writes clients' changes. Unless this node is the active controller, these raise NotController."""

    def __init__(
        self,
        config: Config,
        node_id: int,
        clock: Clock,
        report: Callable[[str], None],
        apply_delta: Callable[[MetadataDelta], None],
    ) -> None:
        """`apply_delta` applies a change to the broker of a quorum of one."""
        self.node_id = node_id
        self.report = report
        self.random = JavaRandom()
        self._config = config
        self._clock = clock
        self._apply_delta = apply_delta
        self._writer: RecordWriter | None = None
        self._last_write_ms = 0
        self._sliced_changes = 0
        self._image: MetadataImage
        self.settings: BrokerSettings
        self.replica_control: ReplicaControl
        self._decide_over(MetadataImage())

    def _decide_over(self, image: MetadataImage) -> None:
        self._image = image
        self.settings = BrokerSettings(self._config, image, self.node_id)
        self.replica_control = ReplicaControl(image, self.settings, self.report)

    @property
    def is_active(self) -> bool:
        """Return whether this node is the active controller."""
        return self._writer is not None

    @property
    def is_amid_sliced_change(self) -> bool:
        """Return whether a change of many topics is under way, which pauses between two topics."""
        return self._sliced_changes > 0

    @contextmanager
    def sliced_change(self) -> Iterator[None]:
        """Count a change that pauses between two topics as under way inside of the `with` block."""
        self._sliced_changes += 1
        try:
            yield
        finally:
            self._sliced_changes -= 1

    @property
    def image(self) -> MetadataImage:
        """The image that changes are decided against. Raises NotController."""
        self.ensure_active()
        return self._image

    @property
    def effective_config(self) -> Config:
        """The broker configuration that all layers give together."""
        return self.settings.effective()

    def ensure_active(self) -> RecordWriter:
        """Return the writer of the metadata log. Raises NotController when this node is not the active controller."""
        if self._writer is None:
            raise NotController("No controller appears to be active.")
        return self._writer

    def _write(self, records: Sequence[Any]) -> None:
        for start in range(0, len(records), MAX_RECORDS_PER_BATCH):
            part = list(records[start : start + MAX_RECORDS_PER_BATCH])
            self._append(part)
            for record in part:
                self._image.replay(record)

    def _append(self, records: Records) -> None:
        writer = self.ensure_active()
        try:
            writer.append(records, self._clock.wall_ms())
        except NotController:
            self.deactivate()
            raise
        self._last_write_ms = self._clock.now_ms()

    def _commit(self, records: Sequence[Any]) -> None:
        """Write the records of one decision and publish them; does nothing without records. Raises NotController,
        KafkaStorageError."""
        self.ensure_active()
        if records:
            with pausing(None):
                self._write(records)
                self.publish()

    def _commit_partitions(self, change: NewPartitions) -> None:
        """Write new partitions of a topic as one batch, whatever their number, and publish them. Raises NotController,
        KafkaStorageError."""
        with pausing(None):
            self._append(change.batch)
            for record in change.others:
                self._image.replay(record)
            self._image.add_partitions(change.topic_id, change.partitions)
            self.publish()

    def publish(self) -> None:
        """Apply the changes to the broker of a quorum of one; in a larger quorum, brokers apply them when they are
        committed."""
        delta = self._image.take_delta()
        if self.ensure_active().commits_at_once:
            self._apply_delta(delta)

    def deactivate(self) -> None:
        """Stop being the active controller and drop the image with its uncommitted records."""
        self._writer = None
        self._decide_over(MetadataImage())

    def _placement(self) -> Placement:
        config = self.effective_config
        return Placement(self.image, self.random, config.num_partitions, config.default_replication_factor, random_uuid)

    def create_topics(
        self, new_topics: Sequence[topics.NewTopic], *, validate_only: bool = False, charge: Charge = lambda _: None
    ) -> dict[str, TopicState | KafkaError]:
        """Create topics, as one change unless in the slow lane. Returns the topic or the error for each name; with
        `validate_only` nothing is created, and the topic is as it would be. `charge` may refuse a valid topic."""
        placement = self._placement()
        results: dict[str, TopicState | KafkaError] = {**topics.collisions(self.image, new_topics)}
        topic_records: dict[str, list[Any]] = {}
        pause = current_pause()
        for number, topic in enumerate(new_topics):
            size = topics.partition_count(topic, placement)
            if pause is not None and (not number % TOPICS_AT_ONCE or size + _count(topic_records) > PARTITIONS_AT_ONCE):
                # In a pause another request may create the same topic, so all checked topics are written before it.
                results |= self._commit_topics(topic_records)
                topic_records = {}
                pause()
            if topic.name in results:
                continue
            try:
                if pause is not None and size > PARTITIONS_AT_ONCE:
                    planned_topic = self._create_large_topic(topic, placement, charge, validate_only=validate_only)
                    results[topic.name] = planned_topic
                    continue
                with pausing(None):
                    state, records = self._plan_topic(topic, placement)
                charge(size)
                results[topic.name] = planned(state, records) if validate_only else state
                if not validate_only:
                    topic_records[topic.name] = records
            except KafkaError as error:
                results[topic.name] = error
        return results | self._commit_topics(topic_records)

    def _plan_topic(self, topic: topics.NewTopic, placement: Placement) -> tuple[TopicState, list[Any]]:
        topics.check_new_topic(self.image, topic.name)
        configs.validate_topic_configs(topic.configs, self.effective_config)
        return topics.create_topic(placement.image, topic, placement)

    def _create_large_topic(
        self, topic: topics.NewTopic, placement: Placement, charge: Charge, *, validate_only: bool
    ) -> TopicState:
        """Create a topic of very many partitions as one change, which is planned in slices."""

        def plan(image: MetadataImage) -> NewPartitions:
            state, records = self._plan_topic(topic, replace(placement, image=image))
            return encoded(state.topic_id, records, self._clock.wall_ms())

        change = plan_in_slices(lambda: self.image, plan)
        topics.check_new_topic(self.image, topic.name)  # another request may have created it in a pause
        charge(len(change.partitions))
        if validate_only:
            return TopicState(topic.name, change.topic_id, change.partitions)
        self._commit_partitions(change)
        return self.image.topics[topic.name]

    def _commit_topics(self, topic_records: Mapping[str, Sequence[Any]]) -> dict[str, TopicState | KafkaError]:
        """Write the records of new topics as one change. Returns the topics by name, or the error for all of them."""
        try:
            self._commit([record for records in topic_records.values() for record in records])
        except KafkaStorageError as error:
            return dict.fromkeys(topic_records, error)
        return {name: self.image.topics[name] for name in topic_records}

    def create_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool,
        charge: Charge = lambda _: None,
    ) -> None:
        """Increase the number of a topic's partitions to `count`, on these brokers or (None) where the controller
        places them. With `validate_only` nothing changes. Raises the errors of `topics.create_partitions`."""
        placement = self._placement()
        topic = self.image.topics.get(name)
        if topic is not None and current_pause() is not None and count - len(topic.partitions) > PARTITIONS_AT_ONCE:
            plan = self._plan_many_partitions(name, count, assignments, placement)
            charge(len(plan.partitions))
            if not validate_only:
                self._commit_partitions(plan)
            return
        with pausing(None):
            records = topics.create_partitions(self.image, name, count, assignments, placement)
        charge(len(records))
        if not validate_only:
            self._commit(records)

    def _plan_many_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, placement: Placement
    ) -> NewPartitions:
        """Plan very many new partitions as one change, in slices."""

        def plan(image: MetadataImage) -> NewPartitions:
            there = replace(placement, image=image)
            records = topics.create_partitions(image, name, count, assignments, there)
            return encoded(records[0].topic_id, records, self._clock.wall_ms())

        def basis() -> object:
            topic = self.image.topics.get(name)
            return topic and (topic.topic_id, len(topic.partitions))

        return plan_in_slices(lambda: self.image, plan, basis)

    def delete_topic(self, name: str | None, topic_id: uuid.UUID | None, charge: Charge = lambda _: None) -> TopicState:
        """Delete a topic by name or id and return it. Raises InvalidRequest unless exactly one is given,
        UnknownTopicOrPartition, UnknownTopicId, and what `charge` raises."""
        state, records = topics.delete_topic(self.image, name, topic_id)
        charge(len(state.partitions))
        self._commit(records)
        return state

    def elect_leaders(
        self, election_type: int, requested: Sequence[tuple[str, Sequence[int]]] | None
    ) -> list[tuple[str, list[tuple[int, KafkaError | None]]]]:
        """Elect leaders of the requested partitions, or (None) of all that need one. Raises InvalidRequest for an
        unknown type. Returns by topic (partition, error), where None means that a leader was elected. With None,
        partitions that need no election are left out."""
        if election_type not in (partitions.PREFERRED, partitions.UNCLEAN):
            raise InvalidRequest(f"Unknown election type {election_type}")
        candidates = requested
        if candidates is None:
            candidates = [(topic.name, list(topic.partitions)) for topic in self.image.topics.values()]
        records: list[Any] = []
        results = []
        numbers = count()
        for name, indexes in candidates:
            outcomes: list[tuple[int, KafkaError | None]] = []
            for index in indexes:
                if not next(numbers) % CHANGES_AT_ONCE:
                    self._commit_portion(records)
                try:
                    records += partitions.elect_leader(self.replica_control, election_type, name, index)
                    outcomes.append((index, None))
                except ElectionNotNeeded as error:
                    if requested is not None:
                        outcomes.append((index, error))
                except KafkaError as error:
                    outcomes.append((index, error))
            results.append((name, outcomes))
        self._commit(records)
        return results

    def alter_reassignments(
        self, requested: Sequence[tuple[str, int, Sequence[int] | None]], *, may_change_factor: bool = True
    ) -> list[KafkaError | None]:
        """Start (replicas) or cancel (None) partition reassignments. Returns an error or None for each; without
        `may_change_factor`, a changed replication factor is one."""
        records: list[Any] = []
        results: list[KafkaError | None] = []
        for number, (name, index, replicas) in enumerate(requested):
            if not number % CHANGES_AT_ONCE:
                self._commit_portion(records)
            try:
                records += partitions.reassign(
                    self.replica_control, name, index, replicas, may_change_factor=may_change_factor
                )
                results.append(None)
            except KafkaError as error:
                results.append(error)
        self._commit(records)
        return results

    def _commit_portion(self, records: list[Any]) -> None:
        """In the slow lane, write the records so far of a change of many partitions, clear them and pause. The next
        partitions are decided against the image after the pause."""
        pause = current_pause()
        if pause is not None:
            self._commit(records)
            records.clear()
            pause()

    def list_reassignments(
        self, requested: Sequence[tuple[str, Sequence[int]]] | None
    ) -> list[tuple[str, list[PartitionState]]]:
        """Return by topic the partitions under reassignment, of the requested ones or (None) of all."""
        return partitions.reassignments(self.image, requested)

    def alter_configs(
        self, resource: tuple[int, str], changes: Sequence[configs.ConfigChange], *, validate_only: bool
    ) -> None:
        """Apply IncrementalAlterConfigs to a resource; with `validate_only` only check it. Raises a KafkaError, such as
        InvalidConfig or InvalidRequest."""
        records = configs.alter_configs(self.image, self.settings, resource, changes)
        if not validate_only:
            self._commit(records)

    def replace_configs(
        self, resource: tuple[int, str], values: Sequence[tuple[str, str | None]], *, validate_only: bool
    ) -> None:
        """Replace all settings of a resource (AlterConfigs); with `validate_only` only check them. Raises a KafkaError,
        such as InvalidConfig or InvalidRequest."""
        records = configs.replace_configs(self.image, self.settings, resource, values)
        if not validate_only:
            self._commit(records)

    def create_acls(self, new_acls: Sequence[acls.Acl]) -> list[KafkaError | None]:
        """Create ACLs. Returns an error or None for each."""
        results, records = acls.create(self.image.acls, new_acls, random_uuid)
        self._commit(records)
        return results

    def delete_acls(self, filters: Sequence[acls.AclFilter]) -> list[list[acls.Acl]]:
        """Delete the ACLs that match the filters. Returns the deleted ACLs for each filter."""
        results, records = acls.delete(self.image.acls, filters)
        self._commit(records)
        return results

    def alter_client_quotas(
        self, alterations: Sequence[client_quotas.Alteration], *, validate_only: bool
    ) -> dict[client_quotas.Entity, KafkaError | None]:
        """Change client quotas; with `validate_only` only check the changes. Returns an error or None for each
        entity."""
        outcomes, records = client_quotas.alter(self.image.client_quotas, alterations)
        if not validate_only:
            self._commit(records)
        return outcomes

    def alter_scram_credentials(
        self, deletions: Sequence[tuple[str, int]], upsertions: Sequence[scram.Upsertion]
    ) -> scram.Outcomes:
        """Delete and set SCRAM credentials. Returns an error or None for each user."""
        outcomes, records = scram.alter(self.image.scram, deletions, upsertions)
        self._commit(records)
        return outcomes

    def create_token(
        self, owner: str, requester: str, renewers: Sequence[str], lifetime_ms: int
    ) -> tuple[Entity, bytes]:
        """Create a delegation token; returns its record and its HMAC. `lifetime_ms`: its longest life, -1 for that of
        the settings. Raises DelegationTokenAuthDisabled, InvalidPrincipalType."""
        rules = delegation_tokens.token_rules(self._config)
        now_ms = self._clock.wall_ms()
        record = delegation_tokens.create(owner, requester, renewers, lifetime_ms, rules, now_ms)
        self._commit([record])
        return record, delegation_tokens.token_hmac(rules.secret_key, record.token_id)

    def renew_token(self, hmac: bytes, principal: str, period_ms: int) -> int:
        """Renew a delegation token; returns its new expiry in ms since 1970. Raises KafkaError with the reason."""
        rules = delegation_tokens.token_rules(self._config)
        record = delegation_tokens.find(self.image.delegation_tokens, hmac, rules)
        renewed = delegation_tokens.renew(record, principal, period_ms, rules, self._clock.wall_ms())
        self._commit([renewed])
        return int(renewed.expiration_timestamp)

    def expire_token(self, hmac: bytes, principal: str, period_ms: int) -> int:
        """Let a delegation token expire after a period, or remove it with a negative one; returns its expiry in ms
        since 1970. Raises KafkaError with the reason."""
        rules = delegation_tokens.token_rules(self._config)
        record = delegation_tokens.find(self.image.delegation_tokens, hmac, rules)
        expiry_ms, change = delegation_tokens.expire(record, principal, period_ms, self._clock.wall_ms())
        self._commit([change])
        return expiry_ms

    def remove_expired_tokens(self) -> None:
        """Remove expired delegation tokens; does nothing without any, and on a controller that is not active."""
        if self.is_active and self.image.delegation_tokens:
            records = delegation_tokens.removals(self.image.delegation_tokens, self._clock.wall_ms())
            if records:
                self._commit(records)

    def update_features(self, updates: Sequence[features.FeatureUpdate], *, validate_only: bool) -> None:
        """Change feature levels, all or none; with `validate_only` only check them. Raises InvalidUpdateVersion."""
        writer, kraft_version = self.ensure_active(), features.KRAFT_VERSION
        supported = features.supported_levels(self.image, self.node_id)
        levels = {**self.image.features, kraft_version: writer.kraft_version}
        records = features.update_records(levels, self.node_id, updates, supported)
        kraft_levels = [each.level for each in updates if each.name == kraft_version]
        for level in kraft_levels:
            try:
                writer.upgrade_kraft_version(level, validate_only=True)
            except InvalidUpdateVersion as error:
                reason = f"Invalid update version {level} for feature {kraft_version}. {error.message}"
                raise features.refused(reason) from error
        if any(record.name == ELIGIBLE_LEADER_REPLICAS and record.feature_level > 0 for record in records):
            records = configs.elr_safety_records(self.image, self._config) + records
        if not validate_only:
            self._commit(records)
            for level in kraft_levels:
                writer.upgrade_kraft_version(level, validate_only=False)

    def take_producer_ids(self, broker_id: int, broker_epoch: int) -> range:
        """Allocate the next block of producer ids to a broker and record it in the metadata log
        (ProducerIdControlManager). Raises StaleBrokerEpoch, and UnknownServerError when the ids are exhausted."""
        check_broker_epoch(self.image, broker_id, broker_epoch)
        first = self.image.next_producer_id
        if first > LONG_MAX - PRODUCER_ID_BLOCK:
            raise UnknownServerError(
                "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit"
            )
        end = first + PRODUCER_ID_BLOCK
        self._commit([ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=end)])
        return range(first, end)


def _count(topic_records: Mapping[str, Sequence[Any]]) -> int:
    return sum(len(records) for records in topic_records.values())


def planned(state: TopicState, records: Sequence[Any]) -> TopicState:
    """Return the state of a validated topic that is not created."""
    image = MetadataImage()
    for record in records:
        image.replay(record)
    return image.topics[state.name]
