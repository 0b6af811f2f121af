"""Creates the group, transaction and share coordinators of one broker, and passes elections and topic changes to them.

Rules: a coordinator that a broker may never need is created on first use, so that the broker starts faster.
`ReplicaManager` calls `on_elected` and `on_resigned`, which pass the partition to the coordinator of its topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from kafkatools.core.broker.coordinators.groups import service as group_service
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.groups.offsets_topic import OffsetsTopic
from kafkatools.core.broker.coordinators.groups.share.groups import ShareSurroundings
from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.shards import Shards
from kafkatools.core.broker.metadata.image import MetadataDelta
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.errors import error_for_code

if TYPE_CHECKING:
    from kafkatools.core.broker.coordinators.share_state.coordinator import ShareCoordinator
    from kafkatools.core.broker.coordinators.share_state.persister import StatePersister
    from kafkatools.core.broker.coordinators.share_state.share_state_topic import ShareStateTopic
    from kafkatools.core.broker.coordinators.transactions.add_partitions import AddPartitions
    from kafkatools.core.broker.coordinators.transactions.coordinator import TransactionCoordinator
    from kafkatools.core.broker.coordinators.transactions.markers import MarkerWriter
    from kafkatools.core.broker.coordinators.transactions.transaction_log import TransactionLog
    from kafkatools.core.broker.replicas.share.partition_manager import SharePartitionManager

TRANSACTION_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
MINUTE_MS = 60_000


class Coordination:
    """The coordinators of one broker: creates them, and passes elections and topic changes to them. `groups`,
    `transactions` and `share` are the led partitions of `__consumer_offsets`, `__transaction_state` and
    `__share_group_state`, with their load state."""

    def __init__(self, host: Host, new_producer_id: Callable[[], int]) -> None:
        self.host = host
        self.offsets_topic = OffsetsTopic(host)
        self._new_producer_id = new_producer_id
        self._has_started = False
        surroundings = ShareSurroundings(
            states=lambda: self.share_states,
            persister=lambda: self.persister if host.is_clustered else None,
            group_emptied=lambda group_id: self.share_partitions.forget_group(group_id),
        )
        self.group_coordinator = group_service.make_groups(
            host, self.offsets_topic, surroundings, lambda group_id: self.groups.ensure_active(group_id)
        )
        self.groups = Shards(
            host,
            OffsetsTopic.name,
            host.config.offsets_commit_timeout_ms,
            lambda partition: group_service.load_partition(host, self.group_coordinator, partition),
            self.group_coordinator.release,
            self.group_coordinator.send_responses,
        )

    def start(self) -> None:
        """Load the state from the internal topics, on a broker that runs without a cluster. In a cluster each election
        loads its partition instead. An existing `__transaction_state` also opens the transaction coordinator, so that
        open transactions time out without a request from a client."""
        self._has_started = True
        if not self.is_clustered:
            group_service.load_all(self.host, self.offsets_topic, self.group_coordinator)
        if TRANSACTION_TOPIC in self.host.image.topics:
            _ = self.transaction_coordinator

    @property
    def is_clustered(self) -> bool:
        """Return whether other brokers may be coordinators too. False on a broker that runs without a cluster."""
        return self.host.is_clustered

    # -- groups ----------------------------------------------------------------------------------------------------
    def expire_offsets(self) -> None:
        """Delete committed offsets that have expired by offsets.retention.minutes, and empty groups without offsets.
        Called periodically."""
        self.group_coordinator.expiry.start(self.host.config.offsets_retention_minutes * MINUTE_MS)

    # -- transactions ----------------------------------------------------------------------------------------------
    @cached_property
    def transaction_coordinator(self) -> TransactionCoordinator:
        """This broker's transaction coordinator, created on first use or at start if `__transaction_state` exists."""
        from kafkatools.core.broker.coordinators.transactions.service import open_transactions

        return open_transactions(self.host, self.transaction_log, self.marker_writer, self._new_producer_id)

    @cached_property
    def transactions(self) -> Shards:
        """The `__transaction_state` partitions that this broker leads, with their load state."""
        from kafkatools.core.broker.coordinators.transactions.service import load_partition

        return Shards(
            self.host,
            TRANSACTION_TOPIC,
            self.host.config.request_timeout_ms,
            lambda partition: load_partition(
                self.transaction_coordinator, self.transaction_log, self.transactions, partition
            ),
            lambda is_released: self.transaction_coordinator.release(is_released),
        )

    @cached_property
    def transaction_log(self) -> TransactionLog:
        """Reads and appends to the `__transaction_state` partitions that this broker leads."""
        from kafkatools.core.broker.coordinators.transactions.transaction_log import TransactionLog

        return TransactionLog(self.host, lambda name: self.transactions.ensure_active(name))

    @cached_property
    def marker_writer(self) -> MarkerWriter:
        """Writes transaction markers to partitions that this broker leads."""
        from kafkatools.core.broker.coordinators.transactions.markers import MarkerWriter

        return MarkerWriter(self.host, self.group_coordinator, self.groups)

    @cached_property
    def add_partitions(self) -> AddPartitions:
        """Asks transaction coordinators, here and on other brokers, to add partitions to a transaction or verify
        them."""
        from kafkatools.core.broker.coordinators.transactions.add_partitions import AddPartitions

        return AddPartitions(self.host, lambda: self.transaction_coordinator)

    # -- share groups ----------------------------------------------------------------------------------------------
    @cached_property
    def share_states(self) -> ShareCoordinator:
        """The share coordinator of this broker, created on first use."""
        from kafkatools.core.broker.coordinators.share_state.service import open_share_coordinator

        return open_share_coordinator(self.host, self.share_state_topic, lambda name: self.share.ensure_active(name))

    @cached_property
    def share_state_topic(self) -> ShareStateTopic:
        """Reads and appends to the `__share_group_state` partitions that this broker leads."""
        from kafkatools.core.broker.coordinators.share_state.share_state_topic import ShareStateTopic

        return ShareStateTopic(self.host)

    @cached_property
    def share(self) -> Shards:
        """The `__share_group_state` partitions that this broker leads, with their load state."""
        from kafkatools.core.broker.coordinators.share_state.service import load_partition

        return Shards(
            self.host,
            SHARE_TOPIC,
            self.host.config.share_coordinator_write_timeout_ms,
            lambda partition: load_partition(self.share_states, self.share_state_topic, partition),
            lambda is_released: self.share_states.release(is_released),
        )

    @cached_property
    def persister(self) -> StatePersister:
        """Reads and writes share partition states through the share coordinators of this and other brokers."""
        from kafkatools.core.broker.coordinators.share_state.persister import StatePersister

        return StatePersister(self.host, self.share_state_topic, lambda: self.share_states, lambda: self.share)

    @cached_property
    def share_partitions(self) -> SharePartitionManager:
        """The share partitions that this broker leads, with their acquired records. Created on first use."""
        from kafkatools.core.broker.replicas.share.partition_manager import SharePartitionManager

        return SharePartitionManager(
            self.host,
            self.group_coordinator.share.settings,
            lambda: self.share_states,
            self.persister if self.is_clustered else None,
        )

    def when_states_committed(
        self, statuses: Mapping[str, ProduceStatus | None], on_committed: Callable[[dict[str, int]], None]
    ) -> None:
        """Call `on_committed` once the writes of these share partitions are committed, have failed or timed out.
        `statuses` are the appends on this broker, by the key of the share partition (`group:topic id:partition`).
        `on_committed` gets the error codes of failed writes by that key."""
        if self.is_clustered:
            self.share.when_all_committed(statuses, on_committed)
            return

        def respond(_first_code: int) -> None:
            failed = {name: status.error_code for name, status in statuses.items() if status and status.error_code}
            on_committed({name: coordinator_error_code(error_for_code(code)()) for name, code in failed.items()})

        self.host.when_durable(list(statuses.values()), respond)

    # -- elections and topics --------------------------------------------------------------------------------------
    def _shards_of(self, partition: Partition) -> Shards | None:
        """Drop the share partitions of a partition whose leader changed. Return the shards of its topic; None for a
        topic without a coordinator, and on a broker without a cluster."""
        if not self.is_clustered:
            return None
        if self._has_opened("share_partitions"):
            self.share_partitions.drop(partition)
        if partition.topic == OffsetsTopic.name:
            return self.groups
        if partition.topic == TRANSACTION_TOPIC:
            return self.transactions
        return self.share if partition.topic == SHARE_TOPIC else None

    def on_elected(self, partition: Partition) -> None:
        """Load a partition of an internal topic after this broker became its leader or got a new leader epoch. For any
        topic, drop the partition's share partitions. Does nothing on a broker without a cluster."""
        shards = self._shards_of(partition)
        if shards is not None:
            shards.on_elected(partition)

    def on_resigned(self, partition: Partition) -> None:
        """Unload a partition of an internal topic that this broker no longer leads. For any topic, drop the partition's
        share partitions. Does nothing on a broker without a cluster."""
        shards = self._shards_of(partition)
        if shards is not None:
            shards.on_resigned(partition)

    def _has_opened(self, name: str) -> bool:
        return name in self.__dict__

    def apply_delta(self, delta: MetadataDelta) -> None:
        """Update groups, share partitions and transactions for created, changed and deleted topics. Forgets all groups
        or transactions if their internal topic was deleted. Does nothing before `start`."""
        if not self._has_started:
            return
        groups, image = self.group_coordinator, self.host.image
        group_service.note_topics(groups, delta)
        if not delta.removed_topics:
            return
        group_service.note_deleted_topics(groups, self.groups, image, delta)
        if self._has_opened("share_partitions") or SHARE_TOPIC in image.topics:
            self.share_partitions.note_deleted_topics(delta)
            groups.share.forget_topics({topic.topic_id for topic in delta.removed_topics.values()})
        is_log_gone = any(topic.name == TRANSACTION_TOPIC for topic in delta.removed_topics.values())
        if is_log_gone and self._has_opened("transaction_coordinator"):
            self.transaction_coordinator.unload()
