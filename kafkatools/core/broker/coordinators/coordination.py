"""All that a broker coordinates: groups, transactions and the states of share partitions. Makes the coordinators and
hands each what it uses.

Rules: what a broker may never need is opened when it is first needed, so that a start is short. `ReplicaManager` tells
of elections here, and they go to the coordinator that they concern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from kafkatools.core.broker.coordinators.groups import service as group_service
from kafkatools.core.broker.coordinators.groups.offsets_topic import OffsetsTopic
from kafkatools.core.broker.coordinators.groups.service import GroupKeeper
from kafkatools.core.broker.coordinators.groups.share.groups import ShareSurroundings
from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.shards import Shards
from kafkatools.core.broker.coordinators.transactions.durability import Durability
from kafkatools.core.broker.metadata.image import MetadataDelta
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.broker.replicas.partition import Partition

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
    """The coordinators of one broker. `groups`, `transactions` and `share` are the partitions of their topics."""

    def __init__(self, host: Host, new_producer_id: Callable[[], int]) -> None:
        self.host = host
        self.durability = Durability(host)
        self.offsets_topic = OffsetsTopic(host)
        self._new_producer_id = new_producer_id
        self._has_started = False
        around = ShareSurroundings(
            states=lambda: self.share_states,
            persister=lambda: self.persister if host.is_clustered else None,
            member_left=lambda group_id, member_id: self.share_partitions.note_member_left(group_id, member_id),
            group_emptied=lambda group_id: self.share_partitions.forget_group(group_id),
        )
        self.group_coordinator = group_service.make_groups(host, self.offsets_topic, around, self._ensure_group_active)
        keeper = GroupKeeper(host, self.group_coordinator)
        self.groups = Shards(host, keeper, host.config.offsets_commit_timeout_ms)

    def _ensure_group_active(self, group_id: str) -> None:
        self.groups.ensure_active(group_id)

    def start(self) -> None:
        """Read what was kept before, where all of it is coordinated here: on a node on its own."""
        self._has_started = True
        if not self.is_clustered:
            group_service.load_all(self.host, self.offsets_topic, self.group_coordinator)
        if TRANSACTION_TOPIC in self.host.image.topics:
            assert self.transaction_coordinator, "opened: its transactions time out even if nobody asks for them"

    @property
    def is_clustered(self) -> bool:
        """Whether other nodes coordinate too."""
        return self.host.is_clustered

    # -- groups ----------------------------------------------------------------------------------------------------
    def expire_offsets(self) -> None:
        """The periodic search for offsets that nobody uses (offsets.retention.minutes)."""
        self.group_coordinator.expire_offsets(self.host.config.offsets_retention_minutes * MINUTE_MS)

    # -- transactions ----------------------------------------------------------------------------------------------
    @cached_property
    def transaction_coordinator(self) -> TransactionCoordinator:
        """The transaction coordinator; opened at start when there were transactions before, else when first asked."""
        from kafkatools.core.broker.coordinators.transactions.service import open_transactions

        return open_transactions(self.host, self.transaction_log, self.marker_writer, self._new_producer_id)

    @cached_property
    def transactions(self) -> Shards:
        """Transactional ids."""
        from kafkatools.core.broker.coordinators.transactions.service import TransactionKeeper

        keeper = TransactionKeeper(
            self.host, self.transaction_log, lambda: self.transaction_coordinator, lambda: self.transactions
        )
        return Shards(self.host, keeper, self.host.config.request_timeout_ms)

    @cached_property
    def transaction_log(self) -> TransactionLog:
        """`__transaction_state` on this node."""
        from kafkatools.core.broker.coordinators.transactions.transaction_log import TransactionLog

        return TransactionLog(self.host, lambda name: self.transactions.ensure_active(name))

    @cached_property
    def marker_writer(self) -> MarkerWriter:
        """Writes transaction markers to partitions of this node."""
        from kafkatools.core.broker.coordinators.transactions.markers import MarkerWriter

        return MarkerWriter(self.host, self.group_coordinator, self.groups)

    @cached_property
    def add_partitions(self) -> AddPartitions:
        """What is asked of the coordinators of transactions."""
        from kafkatools.core.broker.coordinators.transactions.add_partitions import AddPartitions

        return AddPartitions(self.host, lambda: self.transaction_coordinator)

    # -- share groups ----------------------------------------------------------------------------------------------
    @cached_property
    def share_states(self) -> ShareCoordinator:
        """The share coordinator; read back when it is first needed."""
        from kafkatools.core.broker.coordinators.share_state.service import open_share_coordinator

        return open_share_coordinator(self.host, self.share_state_topic, lambda name: self.share.ensure_active(name))

    @cached_property
    def share_state_topic(self) -> ShareStateTopic:
        """`__share_group_state` on this node."""
        from kafkatools.core.broker.coordinators.share_state.share_state_topic import ShareStateTopic

        return ShareStateTopic(self.host)

    @cached_property
    def share(self) -> Shards:
        """The states of share partitions."""
        from kafkatools.core.broker.coordinators.share_state.service import ShareKeeper

        keeper = ShareKeeper(self.share_state_topic, lambda: self.share_states)
        return Shards(self.host, keeper, self.host.config.share_coordinator_write_timeout_ms)

    @cached_property
    def persister(self) -> StatePersister:
        """What is asked of share coordinators."""
        from kafkatools.core.broker.coordinators.share_state.persister import StatePersister

        return StatePersister(self.host, self.share_state_topic, lambda: self.share_states, lambda: self.share)

    @cached_property
    def share_partitions(self) -> SharePartitionManager:
        """What share groups have under way; made when first asked for."""
        from kafkatools.core.broker.replicas.share.partition_manager import SharePartitionManager

        return SharePartitionManager(
            self.host,
            self.group_coordinator.share.settings,
            lambda: self.share_states,
            self.persister if self.is_clustered else None,
        )

    def when_states_committed(
        self, names: Iterable[str], statuses: Sequence[ProduceStatus | None], done: Callable[[dict[str, int]], None]
    ) -> None:
        """Call back, now or later, with the error codes of the share partitions' states that were not kept."""
        if self.is_clustered:
            self.share.when_all_committed(names, done)
        else:
            self.durability.when_durable(statuses, lambda _code: done({}))

    # -- elections and topics --------------------------------------------------------------------------------------
    def _of(self, topic: str) -> Shards | None:
        if topic == OffsetsTopic.name:
            return self.groups
        if topic == TRANSACTION_TOPIC:
            return self.transactions
        return self.share if topic == SHARE_TOPIC else None

    def on_elected(self, partition: Partition) -> None:
        """This node leads a partition, in a new epoch."""
        self._tell_gone(partition)
        shards = self._of(partition.topic) if self.is_clustered else None
        if shards is not None:
            shards.on_elected(partition)

    def on_resigned(self, partition: Partition) -> None:
        """It does not lead it any more."""
        self._tell_gone(partition)
        shards = self._of(partition.topic) if self.is_clustered else None
        if shards is not None:
            shards.on_resigned(partition)

    def _tell_gone(self, partition: Partition) -> None:
        """Share partitions are forgotten when the partition is led elsewhere or in another epoch."""
        if self.is_clustered and self._has_opened("share_partitions"):
            self.share_partitions.note_gone(partition)

    def _has_opened(self, name: str) -> bool:
        """Whether one of the parts that are opened when they are first needed is there."""
        return name in self.__dict__

    def apply_delta(self, delta: MetadataDelta) -> None:
        """Act on topics that were made, changed or deleted. Before the start nothing is kept that they concern."""
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
