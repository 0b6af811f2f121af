"""The controller of a quorum of one: every change becomes records, the records go to the metadata log, then to the
image, then to whoever applies them.

Rules: a request is decided against the image as it is now and written at once, so decisions never overlap. Applying a
delta (creating or dropping partition logs) happens before the answer, so that a created topic can be written to when
the client hears of it. `QuorumController` is the same over a quorum's log: there a change is written when a method
returns, and committed later.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.batches import SUPPORTED_FEATURES
from kafkatools.core.broker.metadata.broker_settings import ELIGIBLE_LEADER_REPLICAS, BrokerSettings
from kafkatools.core.broker.metadata.controller import acls, client_quotas, configs, features, partitions, scram, topics
from kafkatools.core.broker.metadata.controller.placement import Placement
from kafkatools.core.broker.metadata.controller.replica_control import ReplicaControl
from kafkatools.core.broker.metadata.directory_ids import default_directory
from kafkatools.core.broker.metadata.image import (
    BROKER_RESOURCE,
    MetadataDelta,
    MetadataImage,
    PartitionState,
    TopicState,
)
from kafkatools.core.broker.metadata.image_records import image_records
from kafkatools.core.broker.metadata.metadata_log import MetadataLog
from kafkatools.core.broker.server.channels import RecordWriter
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import (
    BrokerIdNotRegistered,
    ElectionNotNeeded,
    InvalidRequest,
    KafkaError,
    KafkaStorageError,
    NotController,
    UnknownServerError,
)
from kafkatools.core.java.random import JavaRandom
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.uuids import random_uuid

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Fields

PRODUCER_ID_BLOCK = 1000
LONG_MAX = 2**63 - 1
RECORDS_PER_BATCH = 2000


class Controller:
    """Metadata changes and the answers about them."""

    def __init__(
        self,
        log: MetadataLog | None,
        config: Config,
        node_id: int,
        directory_ids: tuple[uuid.UUID | None, ...],
        clock: Clock,
        *,
        apply_delta: Callable[[MetadataDelta], None] = lambda delta: None,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`log`, `directory_ids` (log directories that are online) and `apply_delta` are those of a quorum of one."""
        self.node_id = node_id
        self.broker_epoch = -1
        self._apply_delta = apply_delta
        self.report = report
        self.random = JavaRandom()
        self._config = config
        self._log = log
        self._writer: RecordWriter | None = log
        self._clock = clock
        self._directory_ids = directory_ids
        self._image: MetadataImage
        self.settings: BrokerSettings
        self.replica_control: ReplicaControl
        self._decide_over(MetadataImage())

    def _decide_over(self, image: MetadataImage) -> None:
        """From now on this is what changes are decided against."""
        self._image = image
        self.settings = BrokerSettings(self._config, image, self.node_id)
        self.replica_control = ReplicaControl(image, self.settings, lambda line: self.report(line))

    @property
    def image(self) -> MetadataImage:
        """What changes are decided against."""
        return self._image

    @property
    def log(self) -> MetadataLog:
        """The metadata log of a quorum of one."""
        assert self._log is not None, "a quorum of one"
        return self._log

    @property
    def effective_config(self) -> Config:
        return self.settings.effective()

    # -- start -----------------------------------------------------------------------------------------------------
    def start(
        self, endpoints: Sequence[tuple[str, str, int]], bootstrap: Sequence[Any] | None, *, is_clean: bool
    ) -> None:
        """Replay the log, begin a leader epoch, register controller and broker; after an unclean stop every partition
        gets a new leader epoch, so that clients notice what a crash may have cut off. `bootstrap` are the first
        records of a new cluster."""
        from kafkatools.core.protocol.schemas.metadata import (
            BeginTransactionRecord,
            BrokerRegistrationChangeRecord,
            ConfigRecord,
            EndTransactionRecord,
        )

        self.log.replay(self.image.replay)
        self.log.lead(self._clock.wall_ms())
        if bootstrap is not None:
            min_isr = ConfigRecord(
                resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value="1"
            )
            self._write([BeginTransactionRecord(name="Bootstrap records"), *bootstrap, min_isr, EndTransactionRecord()])
        self._write([self._controller_registration(endpoints)])
        self.broker_epoch = self.log.end_offset
        self._write([self._broker_registration(endpoints)])
        self._write(
            [
                BrokerRegistrationChangeRecord(
                    version=0, broker_id=self.node_id, broker_epoch=self.broker_epoch, fenced=-1
                )
            ]
        )
        self._write(self._leadership_records(new_epochs=not is_clean and bootstrap is None))
        self.publish()

    def _features(self) -> list[Fields]:
        return [
            {"name": name, "min_supported_version": low, "max_supported_version": high}
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ]

    def _controller_registration(self, endpoints: Sequence[tuple[str, str, int]]) -> Any:
        from kafkatools.core.protocol.schemas.metadata import RegisterControllerRecord

        points = [
            {"name": "CONTROLLER", "host": host, "port": port, "security_protocol": 0} for _, host, port in endpoints
        ]
        return RegisterControllerRecord(
            controller_id=self.node_id, incarnation_id=random_uuid(), end_points=points, features=self._features()
        )

    def _broker_registration(self, endpoints: Sequence[tuple[str, str, int]]) -> Any:
        from kafkatools.core.protocol.schemas.metadata import RegisterBrokerRecord

        points = [{"name": name, "host": host, "port": port, "security_protocol": 0} for name, host, port in endpoints]
        return RegisterBrokerRecord(
            version=3,
            broker_id=self.node_id,
            incarnation_id=random_uuid(),
            broker_epoch=self.broker_epoch,
            end_points=points,
            features=self._features(),
            rack=None,
            fenced=True,
            log_dirs=self._directory_ids,
        )

    def _leadership_records(self, *, new_epochs: bool) -> list[Any]:
        """This node leads whatever it has a replica of: partitions led by nobody or by another node, and with
        `new_epochs` all."""
        from kafkatools.core.protocol.schemas.metadata import PartitionChangeRecord

        records = []
        for topic in self.image.topics.values():
            for partition in topic.partitions.values():
                if self.node_id not in partition.replicas:
                    continue
                if new_epochs or partition.leader != self.node_id:
                    isr = None if partition.isr == (self.node_id,) else (self.node_id,)
                    records.append(
                        PartitionChangeRecord(
                            version=0,
                            partition_id=partition.partition_id,
                            topic_id=topic.topic_id,
                            isr=isr,
                            leader=self.node_id,
                        )
                    )
        return records

    # -- writing ---------------------------------------------------------------------------------------------------
    def _write(self, records: Sequence[Any]) -> None:
        if self._writer is None:
            raise NotController()
        for start in range(0, len(records), RECORDS_PER_BATCH):
            part = list(records[start : start + RECORDS_PER_BATCH])
            self._writer.append(part, self._clock.wall_ms())
            for record in part:
                self.image.replay(record)

    def publish(self) -> None:
        """Let the broker apply what changed."""
        self._apply_delta(self.image.take_delta())

    # -- topics ----------------------------------------------------------------------------------------------------
    def _placement(self) -> Placement:
        config = self.effective_config
        return Placement(self.image, self.random, config.num_partitions, config.default_replication_factor, random_uuid)

    def create_topics(
        self, wanted: Sequence[topics.NewTopic], *, validate_only: bool = False
    ) -> dict[str, TopicState | KafkaError]:
        """Create each (no name twice); the result is the topic, or why it was not made."""
        results: dict[str, TopicState | KafkaError] = {}
        placement = self._placement()
        for topic in wanted:
            try:
                topics.check_collision(self.image, topic.name)
            except KafkaError as error:
                results[topic.name] = error
        made: list[Any] = []
        for topic in wanted:
            if topic.name in results:
                continue
            try:
                topics.check_new_topic(self.image, topic.name)
                configs.validate_topic_configs(topic.configs, self.effective_config)
                state, records = topics.create_topic(self.image, topic, placement)
                results[topic.name] = planned(state, records)
                made += records
            except KafkaError as error:
                results[topic.name] = error
        if validate_only:
            return results
        try:
            self._write(made)
        except KafkaStorageError as error:
            return {name: error if isinstance(r, TopicState) else r for name, r in results.items()}
        self.publish()
        return {name: self.image.topics[name] if isinstance(r, TopicState) else r for name, r in results.items()}

    def create_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool
    ) -> None:
        """Grow a topic; raises a KafkaError."""
        records = topics.create_partitions(self.image, name, count, assignments, self._placement())
        if not validate_only:
            self._write(records)
            self.publish()

    def delete_topic(self, name: str | None, topic_id: uuid.UUID | None) -> TopicState:
        """Delete a topic by name or id; raises a KafkaError."""
        state, records = topics.delete_topic(self.image, name, topic_id)
        self._write(records)
        self.publish()
        return state

    def adopt_topic(self, name: str, topic_id: uuid.UUID, partitions: Mapping[int, int]) -> None:
        """Register a topic found on disk, partition number -> leader epoch, when no metadata log knew it."""
        from kafkatools.core.protocol.schemas.metadata import PartitionRecord, TopicRecord

        me = (self.node_id,)
        records = [TopicRecord(name=name, topic_id=topic_id)]
        for index, epoch in sorted(partitions.items()):
            records.append(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=me,
                    isr=me,
                    leader=self.node_id,
                    leader_epoch=epoch,
                    partition_epoch=0,
                    directories=(default_directory(self.image, self.node_id),),
                )
            )
        self._write(records)

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
        self._write(records)
        self.publish()
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
        self._write(records)
        self.publish()
        return results

    def list_reassignments(
        self, wanted: Sequence[tuple[str, Sequence[int]]] | None
    ) -> list[tuple[str, list[PartitionState]]]:
        """Partitions that are being reassigned, by topic: of those that are named, or all."""
        return partitions.reassignments(self.image, wanted)

    def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker. Raises BrokerIdNotRegistered; the only broker stays."""
        if broker_id not in self.image.brokers:
            raise BrokerIdNotRegistered(f"Broker ID {broker_id} is not currently registered")
        if len(self.image.brokers) == 1:
            raise InvalidRequest("The only broker of a cluster cannot be unregistered.")
        self._write(self.replica_control.unregister(broker_id))
        self.publish()

    def assign_directories(self, fields: Mapping[str, Any]) -> Any:
        """Note in which directories this broker's replicas are: AssignReplicasToDirs, its answer."""
        from kafkatools.core.broker.metadata.controller.leader_reports import assign_directories
        from kafkatools.core.protocol import messages

        entity = messages.build(messages.request_type(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0), fields)
        records, answer = assign_directories(self.replica_control, entity)
        self._write(records)
        self.publish()
        return messages.build(messages.response_type(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0), answer)

    def directory_failed(self, directory_id: uuid.UUID) -> None:
        """A directory of this broker is offline: nobody leads what lies there."""
        self._write(self.replica_control.take_directories_offline(self.node_id, (directory_id,)))
        self.publish()

    # -- settings --------------------------------------------------------------------------------------------------
    def alter_configs(
        self, resource: tuple[int, str], changes: Sequence[configs.ConfigChange], *, validate_only: bool
    ) -> None:
        """Change settings one by one; raises a KafkaError."""
        records = configs.alter_configs(self.image, self.settings, resource, changes)
        if not validate_only:
            self._write(records)
            self.publish()

    def replace_configs(
        self, resource: tuple[int, str], values: Sequence[tuple[str, str | None]], *, validate_only: bool
    ) -> None:
        """Replace all settings of a resource; raises a KafkaError."""
        records = configs.replace_configs(self.image, self.settings, resource, values)
        if not validate_only:
            self._write(records)
            self.publish()

    # -- ACLs ------------------------------------------------------------------------------------------------------
    def create_acls(self, wanted: Sequence[acls.Acl]) -> list[KafkaError | None]:
        """Make each; gives why one was not made."""
        results, records = acls.create(self.image.acls, wanted, random_uuid)
        self._write(records)
        return results

    def delete_acls(self, filters: Sequence[acls.AclFilter]) -> list[list[acls.Acl]]:
        """Remove what the filters fit; gives it by filter."""
        results, records = acls.delete(self.image.acls, filters)
        self._write(records)
        return results

    # -- quotas, credentials, features -----------------------------------------------------------------------------
    def alter_client_quotas(
        self, alterations: Sequence[client_quotas.Alteration], *, validate_only: bool
    ) -> dict[client_quotas.Entity, KafkaError | None]:
        """Change quotas; gives by entity why nothing was changed."""
        outcomes, records = client_quotas.alter(self.image.client_quotas, alterations)
        if not validate_only:
            self._write(records)
        return outcomes

    def alter_scram_credentials(
        self, deletions: Sequence[tuple[str, int]], upsertions: Sequence[scram.Upsertion]
    ) -> scram.Outcomes:
        """Change credentials; gives by user why nothing was changed."""
        outcomes, records = scram.alter(self.image.scram, deletions, upsertions)
        self._write(records)
        return outcomes

    def update_features(self, updates: Sequence[features.FeatureUpdate], *, validate_only: bool) -> None:
        """Change feature levels, all or none; raises a KafkaError."""
        supported = features.supported_levels(self.image, self.node_id)
        records = features.update(self.image.features, self.node_id, updates, supported)
        if any(record.name == ELIGIBLE_LEADER_REPLICAS and record.feature_level > 0 for record in records):
            records = configs.elr_safety_records(self.image, self._config) + records
        if not validate_only:
            self._write(records)
            self.publish()

    @property
    def quorum_position(self) -> tuple[int, int]:
        """Leader epoch and end offset of the metadata log."""
        return self.log.epoch, self.log.end_offset

    # -- producer ids ----------------------------------------------------------------------------------------------
    def take_producer_ids(self, broker_id: int | None = None, broker_epoch: int | None = None) -> range:
        """The next block of producer ids, noted in the metadata log (ProducerIdControlManager); for this broker when
        none is named. Raises UnknownServerError when there are none left."""
        from kafkatools.core.protocol.schemas.metadata import ProducerIdsRecord

        first = self.image.next_producer_id
        if first > LONG_MAX - PRODUCER_ID_BLOCK:
            raise UnknownServerError(
                "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit"
            )
        end = first + PRODUCER_ID_BLOCK
        record = ProducerIdsRecord(
            broker_id=self.node_id if broker_id is None else broker_id,
            broker_epoch=self.broker_epoch if broker_epoch is None else broker_epoch,
            next_producer_id=end,
        )
        self._write([record])
        return range(first, end)

    def maybe_snapshot(self) -> bool:
        """Write a metadata snapshot when it is time for one."""
        return self.log.maybe_snapshot(lambda: image_records(self.image), self._clock.now_ms(), self._clock.wall_ms())

    def close(self) -> None:
        """Close the metadata log."""
        self.log.close()


def planned(state: TopicState, records: Sequence[Any]) -> TopicState:
    """What a validated topic would look like."""
    image = MetadataImage()
    for record in records:
        image.replay(record)
    return image.topics[state.name]
