"""The active controller of a quorum: it handles registrations, heartbeats, leaders' reports and clients' changes. Each
decision becomes metadata records, which are written at once and committed then or later.

Source: QuorumController, ClusterControlManager, ActivationRecordsGenerator and PeriodicTaskControlManager of Apache
Kafka 4.3. Rules:

- In a quorum of several nodes, decisions are made against the controller's own image, which also has the uncommitted
  records. It is created at activation and dropped at deactivation. Without it, requests raise NotController. The
  response to a request waits until its records are committed.
- Time is passed in. `tick` fences brokers whose session has expired, balances leaders, elects unclean leaders where
  allowed, and writes a NoOp record after an idle interval. In a quorum of one the only broker is this node: it is not
  fenced, leaders are not balanced, and `tick` is not called.
- A transaction that the previous controller left open is aborted first (KIP-868).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from kafkatools.core.broker.metadata.broker_settings import ELIGIBLE_LEADER_REPLICAS
from kafkatools.core.broker.metadata.controller import (
    configs,
    leader_balance,
    leader_reports,
    registrations,
    sole_broker,
)
from kafkatools.core.broker.metadata.controller.broker_heartbeats import (
    BrokerControlState,
    BrokerHeartbeats,
    HeartbeatRequest,
)
from kafkatools.core.broker.metadata.controller.client_changes import ClientChanges
from kafkatools.core.broker.metadata.controller.partition_change import DIRECTORIES_SINCE
from kafkatools.core.broker.metadata.feature_levels import METADATA_LEVELS, METADATA_VERSION
from kafkatools.core.broker.metadata.image import MetadataDelta, MetadataImage
from kafkatools.core.broker.metadata.image_records import copy_image
from kafkatools.core.broker.server.channels import RecordWriter
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import BrokerIdNotRegistered, InvalidRequest, KafkaError, NotController, UnsupportedVersion
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.schemas.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)

TRANSACTIONS_SINCE = METADATA_LEVELS["3.6-IV1"]
MS_PER_SECOND = 1000
RETRY_MS = 1000


class Controller(ClientChanges):
    """The controller of a node, active while the node leads the quorum."""

    def __init__(
        self,
        config: Config,
        node_id: int,
        clock: Clock,
        cluster_id: str = "",
        bootstrap: Callable[[], Sequence[Any]] = lambda: (),
        report: Callable[[str], None] = lambda line: None,
        apply_delta: Callable[[MetadataDelta], None] = lambda delta: None,
    ) -> None:
        """`bootstrap` returns the first records of a new cluster (bootstrap.checkpoint). `apply_delta` applies a change
        to the broker of a quorum of one."""
        super().__init__(config, node_id, clock, report, apply_delta)
        self.cluster_id = cluster_id
        self.heartbeats = BrokerHeartbeats(config.broker_session_timeout_ms)
        self._bootstrap = bootstrap
        self._next_balance_ms = self._next_unclean_ms = self._retry_ms = 0

    def activate(
        self,
        image: MetadataImage,
        writer: RecordWriter,
        now_ms: int,
        *,
        is_amid_transaction: bool = False,
        last_leader_contact: tuple[int, int] | None = None,
    ) -> None:
        """Become the active controller: `image` has every committed record. Writes the bootstrap records of a new
        cluster, and aborts a transaction that is open in the image or (`is_amid_transaction`) in the log.
        `last_leader_contact` is (previous leader, time of its last response in ms): as a broker, its session counts
        from then. Raises NotController or KafkaStorageError if these records cannot be written."""
        self._decide_over(image if writer.commits_at_once else copy_image(image))
        self._writer = writer
        self.heartbeats = BrokerHeartbeats(self._config.broker_session_timeout_ms)
        for broker in self._image.brokers.values():
            self.heartbeats.register(broker.broker_id, broker.epoch, is_fenced=broker.is_fenced)
        self.heartbeats.begin_sessions(
            {broker.broker_id: broker.epoch for broker in self._image.brokers.values() if not broker.is_fenced},
            now_ms,
            last_leader_contact,
        )
        self._next_balance_ms = now_ms + self._balance_interval_ms
        self._next_unclean_ms = now_ms + self._config["unclean.leader.election.interval.ms"]
        self._last_write_ms = now_ms
        self._write(self._activation_records(is_amid_transaction=is_amid_transaction))

    def deactivate(self) -> None:
        """Stop being the active controller and drop the image with its uncommitted records."""
        super().deactivate()
        self.heartbeats = BrokerHeartbeats(self._config.broker_session_timeout_ms)

    def _activation_records(self, *, is_amid_transaction: bool) -> list[Any]:
        records: list[Any] = []
        if self._image.is_in_transaction or is_amid_transaction:
            records.append(AbortTransactionRecord(reason="Controller failover"))
        if self._image.features:
            return records
        bootstrap_records = list(self._bootstrap())
        levels = {record.name: record.feature_level for record in bootstrap_records if hasattr(record, "feature_level")}
        if levels.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0:
            bootstrap_records.append(configs.cluster_min_isr_record(self._config))
        if levels.get(METADATA_VERSION, 0) >= TRANSACTIONS_SINCE:
            bootstrap_records = [
                BeginTransactionRecord(name="Bootstrap records"),
                *bootstrap_records,
                EndTransactionRecord(),
            ]
        return records + bootstrap_records

    @property
    def _balance_interval_ms(self) -> int:
        return int(self._config["leader.imbalance.check.interval.seconds"]) * MS_PER_SECOND

    @property
    def next_deadline_ms(self) -> int | None:
        """Time in ms at which `tick` is due; None while this node is not active."""
        if not self.is_active:
            return None
        deadlines = [self.heartbeats.next_deadline_ms, self._next_unclean_ms]
        if self._config.auto_leader_rebalance_enable:
            deadlines.append(self._next_balance_ms)
        if self._config.metadata_max_idle_interval_ms > 0:
            deadlines.append(self._last_write_ms + self._config.metadata_max_idle_interval_ms)
        return max(min(deadlines), self._retry_ms)

    def tick(self, now_ms: int) -> None:
        """Do the periodic work that is due; nothing while this node is not active. A failed write is reported and
        retried after RETRY_MS."""
        if not self.is_active or now_ms < self._retry_ms:
            return
        try:
            self._do_what_is_due(now_ms)
        except NotController:
            return  # another node is the active controller now
        except (KafkaError, OSError) as error:
            self._retry_ms = now_ms + RETRY_MS
            self.report(f"The controller cannot write to the metadata log: {error}")

    def _do_what_is_due(self, now_ms: int) -> None:
        self._fence_stale_brokers(now_ms)
        if self._config.auto_leader_rebalance_enable and now_ms >= self._next_balance_ms:
            records = leader_balance.balance(self.replica_control)
            self._commit(records)
            is_done = len(records) < leader_balance.MAX_ELECTIONS
            self._next_balance_ms = now_ms + (self._balance_interval_ms if is_done else 1)
        if now_ms >= self._next_unclean_ms:
            records = leader_balance.elect_unclean_leaders(self.replica_control)
            self._commit(records)
            is_done = len(records) < leader_balance.MAX_ELECTIONS
            self._next_unclean_ms = now_ms + (self._config["unclean.leader.election.interval.ms"] if is_done else 1)
        idle_ms = self._config.metadata_max_idle_interval_ms
        if idle_ms > 0 and now_ms >= self._last_write_ms + idle_ms:
            self._commit([NoOpRecord()])
            self._last_write_ms = now_ms

    def _fence_stale_brokers(self, now_ms: int) -> None:
        """Fence the brokers with expired sessions one by one, so that each election knows those fenced before."""
        while (session := self.heartbeats.expired(now_ms)) is not None:
            broker_id, epoch = session
            broker = self._image.brokers.get(broker_id)
            if broker is None:
                self.heartbeats.remove(broker_id)
            elif broker.epoch == epoch and not broker.is_fenced:
                self._commit(self.replica_control.fence(broker_id))
                self.heartbeats.fence(broker_id)
                self.report(f"Fencing broker {broker_id} at epoch {epoch} because its session has timed out.")
            self.heartbeats.end_session(broker_id, epoch)

    def register_broker(self, entity: Any, now_ms: int) -> int:
        """Register a broker and return its epoch. The same incarnation keeps its epoch. A new one replaces the
        registered one if that one's session has expired, or if it names that one's epoch after a clean stop. Brokers
        with expired sessions are fenced before a new incarnation is registered, so that none of them is elected. Raises
        the errors of `check_registration`."""
        writer = self.ensure_active()
        registered = self._image.brokers.get(entity.broker_id)
        if registered is not None and registered.incarnation_id != entity.incarnation_id:
            self.heartbeats.note_restart(registered.broker_id, registered.epoch)
            self._fence_stale_brokers(now_ms)
        is_clean = registered is not None and getattr(entity, "previous_broker_epoch", -1) == registered.epoch
        has_session = registered is not None and self.heartbeats.has_valid_session(
            registered.broker_id, registered.epoch, now_ms
        )
        registrations.check_registration(self._image, self.cluster_id, entity, has_session=has_session and not is_clean)
        record = registrations.registration_record(self._image, entity, writer.end_offset)
        is_new = registered is None or registered.incarnation_id != entity.incarnation_id
        records: list[Any] = []
        if registered is not None and is_new:
            records = self.replica_control.shut_down(registered.broker_id, is_clean=is_clean)
        self._commit([*records, record])
        if is_new:
            self.heartbeats.remove(entity.broker_id)
        self.heartbeats.register(entity.broker_id, writer.end_offset - 1, is_fenced=record.fenced)
        return int(record.broker_epoch)

    def heartbeat(self, entity: Any, now_ms: int) -> Fields:
        """Handle a broker's heartbeat: restart its session and write what it changes, such as unfencing, fencing, a
        controlled shutdown or offline directories. Returns the response's fields. Raises StaleBrokerEpoch."""
        writer = self.ensure_active()
        broker_id = entity.broker_id
        registrations.check_broker_epoch(self._image, broker_id, entity.broker_epoch)
        self.heartbeats.note_contact(broker_id, entity.broker_epoch, now_ms)
        self._note_directories(entity)
        request = HeartbeatRequest(entity.current_metadata_offset, entity.want_fence, entity.want_shut_down)
        has_leaderships = request.want_shut_down and self.replica_control.has_leaderships(broker_id)
        current, following = self.heartbeats.next_state(broker_id, request, has_leaderships=has_leaderships)
        if current is not following:
            self._commit(self._state_change(broker_id, following))
        self.heartbeats.touch(broker_id, request.metadata_offset, is_fenced=following.is_fenced)
        if following is BrokerControlState.CONTROLLED_SHUTDOWN:
            self.heartbeats.note_controlled_shutdown(broker_id, writer.end_offset - 1)
        return {
            "error_code": 0,
            "is_caught_up": request.metadata_offset >= self.heartbeats.registration_offset(broker_id),
            "is_fenced": following.is_fenced,
            "should_shut_down": following is BrokerControlState.SHUTDOWN_NOW,
        }

    def _note_directories(self, entity: Entity) -> None:
        """Write the offline and cordoned directories of a heartbeat. They come before the broker's new state, or an
        unfenced broker would become the leader of partitions in a directory that has failed, and stay it."""
        broker_id, level = entity.broker_id, self._image.features.get(METADATA_VERSION, 0)
        if level >= DIRECTORIES_SINCE and (offline := getattr(entity, "offline_log_dirs", ())):
            self._commit(self.replica_control.take_directories_offline(broker_id, offline))
        if level >= registrations.CORDONED_SINCE:
            cordoned = getattr(entity, "cordoned_log_dirs", None)
            self._commit(self.replica_control.cordon_directories(broker_id, cordoned))

    def _state_change(self, broker_id: int, following: BrokerControlState) -> list[Any]:
        if following is BrokerControlState.UNFENCED:
            return self.replica_control.unfence(broker_id)
        if following is BrokerControlState.CONTROLLED_SHUTDOWN:
            return self.replica_control.begin_controlled_shutdown(broker_id)
        if self._image.brokers[broker_id].is_fenced:
            return []
        return self.replica_control.fence(broker_id)

    def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker. Raises BrokerIdNotRegistered, and InvalidRequest for the only broker of a node alone."""
        if broker_id not in self.image.brokers:
            raise BrokerIdNotRegistered(f"Broker ID {broker_id} is not currently registered")
        if len(self.image.brokers) == 1 and self.ensure_active().commits_at_once:
            raise InvalidRequest("The only broker of a cluster cannot be unregistered.")
        self._commit(self.replica_control.unregister(broker_id))
        self.heartbeats.remove(broker_id)

    def register_sole_broker(
        self,
        endpoints: Sequence[sole_broker.EndPoint],
        directory_ids: Sequence[uuid.UUID | None],
        *,
        new_epochs: bool,
        rack: str | None = None,
    ) -> int:
        """Register this node, a quorum of one, as controller and as the broker that leads its partitions, and fence the
        brokers of the cluster that its directory is from. Returns the broker epoch. With `new_epochs`, after an unclean
        stop, every partition gets a new leader epoch: clients then notice records that the crash may have cut
        off."""
        self._write([sole_broker.controller_registration(self.node_id, endpoints)])
        epoch = self.ensure_active().end_offset
        self._write([sole_broker.broker_registration(self.node_id, epoch, endpoints, directory_ids, rack)])
        self._write([sole_broker.unfencing(self.node_id, epoch)])
        for broker in self.image.brokers.values():
            if broker.broker_id != self.node_id and not broker.is_fenced:
                self._write(self.replica_control.fence(broker.broker_id))
        self._write(sole_broker.leadership_records(self.image, self.node_id, new_epochs=new_epochs))
        self.publish()
        return epoch

    def adopt_topics(self, topics_on_disk: sole_broker.TopicsOnDisk) -> None:
        """Register the topics that a quorum of one has on disk but not in the metadata log."""
        for topic in sorted(topics_on_disk):
            self._write(sole_broker.adoption_records(self.image, self.node_id, topic, topics_on_disk[topic]))
        self.publish()

    def register_controller(self, entity: Any) -> None:
        """Register a controller's listeners and features. Raises UnsupportedVersion."""
        self._commit([registrations.controller_record(self.image, entity)])

    def alter_partitions(self, entity: Any) -> Fields:
        """Handle AlterPartition of a leader and return the response's fields, with an error code for each rejected
        partition. Raises StaleBrokerEpoch."""
        registrations.check_broker_epoch(self.image, entity.broker_id, entity.broker_epoch)
        records, fields = leader_reports.alter_partitions(self.replica_control, entity)
        self._commit(records)
        return fields

    def directory_failed(self, directory_id: uuid.UUID) -> None:
        """Take a log directory of this node, a quorum of one, offline: its replicas lead nothing. Raises
        KafkaStorageError."""
        self._commit(self.replica_control.take_directories_offline(self.node_id, (directory_id,)))

    def assign_directories(self, entity: Any) -> Fields:
        """Handle AssignReplicasToDirs and return the response's fields, with an error code for each rejected replica.
        Raises StaleBrokerEpoch, UnsupportedVersion."""
        if self.image.features.get(METADATA_VERSION, 0) < DIRECTORIES_SINCE:
            raise UnsupportedVersion("Directory assignment is not supported yet.")
        registrations.check_broker_epoch(self.image, entity.broker_id, entity.broker_epoch)
        records, fields = leader_reports.assign_directories(self.replica_control, entity)
        self._commit(records)
        return fields
