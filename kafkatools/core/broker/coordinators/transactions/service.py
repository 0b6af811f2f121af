"""The transaction coordinator of a broker: wired to its topic, timers and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.internal_topic import collect
from kafkatools.core.broker.coordinators.shards import Shards
from kafkatools.core.broker.coordinators.transactions.coordinator import (
    Surroundings,
    TransactionCoordinator,
    TransactionSettings,
)
from kafkatools.core.broker.coordinators.transactions.durability import Durability
from kafkatools.core.broker.coordinators.transactions.marker_sender import MarkerSender
from kafkatools.core.broker.coordinators.transactions.markers import MarkerWriter
from kafkatools.core.broker.coordinators.transactions.transaction import Transaction
from kafkatools.core.broker.coordinators.transactions.transaction_log import TOPIC, TransactionLog
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.errors import CoordinatorNotAvailable

TRANSACTION_VERSION = "transaction.version"


def open_transactions(
    host: Host, log: TransactionLog, writer: MarkerWriter, new_producer_id: Callable[[], int]
) -> TransactionCoordinator:
    """The coordinator with every transaction of before; those whose end was decided are completed."""
    config = host.config
    around = Surroundings(
        log,
        MarkerSender(host, writer),
        Durability(host),
        host.timer,
        host.clock,
        new_producer_id,
        lambda: host.image.features.get(TRANSACTION_VERSION, 0),
    )
    settings = TransactionSettings(
        config.transaction_max_timeout_ms,
        config.transactional_id_expiration_ms,
        config.add_partitions_to_txn_retry_backoff_max_ms,
    )
    transactions = TransactionCoordinator(settings, around)
    if not host.is_clustered:
        for partition in log.partitions():
            transactions.load(each for each in log.read(partition) if each is not None)
    host.every(config.transaction_abort_timed_out_transaction_cleanup_interval_ms, transactions.abort_timed_out)
    host.every(config.transaction_remove_expired_transaction_cleanup_interval_ms, transactions.expire_ids)
    return transactions


@dataclass(eq=False, repr=False)
class TransactionKeeper:
    """The part of the transaction coordinator that its shards call. `coordinator` and `shards` open theirs when they
    are first needed."""

    topic = TOPIC

    host: Host
    log: TransactionLog
    coordinator: Callable[[], TransactionCoordinator]
    shards: Callable[[], Shards]

    def load(self, partition: Partition) -> Iterator[None]:
        """Read a partition, a slice with each step. Transactions whose end was decided are completed when that is
        committed: a node that fails before may not have told the one after it."""
        found = yield from collect(self.log.read(partition))
        self.coordinator().take_over(found)
        decided = [transaction for transaction in found if transaction.state.is_prepared]
        if decided:
            self._complete_when_committed(decided)

    def _complete_when_committed(self, decided: Sequence[Transaction]) -> None:

        def committed(code: int) -> None:
            if code == CoordinatorNotAvailable.code:
                self._complete_when_committed(decided)
            elif not code:
                self.coordinator().complete_decided(decided)

        def begin(_now_ms: int) -> None:
            self.shards().when_committed(decided[0].transactional_id, committed)

        self.host.schedule(1, begin)

    def unload(self, is_mine: Callable[[str], bool]) -> None:
        """Transactional ids go on elsewhere."""
        self.coordinator().release(is_mine)

    def tell(self) -> None:
        """Who waits, waits for an append."""
