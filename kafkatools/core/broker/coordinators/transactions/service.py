"""Creates the transaction coordinator of a broker, schedules its timers and loads its partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.internal_topic import collect
from kafkatools.core.broker.coordinators.shards import Shards
from kafkatools.core.broker.coordinators.transactions.coordinator import TransactionCoordinator
from kafkatools.core.broker.coordinators.transactions.marker_sender import MarkerSender
from kafkatools.core.broker.coordinators.transactions.markers import MarkerWriter
from kafkatools.core.broker.coordinators.transactions.transaction_log import TransactionLog
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.errors import CoordinatorNotAvailable

TRANSACTION_VERSION = "transaction.version"


def open_transactions(
    host: Host, log: TransactionLog, writer: MarkerWriter, new_producer_id: Callable[[], int]
) -> TransactionCoordinator:
    """Create the transaction coordinator of this broker, and schedule its periodic work. A broker without a cluster
    also loads all transactions and completes those in PrepareCommit or PrepareAbort."""
    config = host.config
    transactions = TransactionCoordinator(
        config,
        log,
        MarkerSender(host, writer),
        host,
        host.timer,
        host.clock,
        new_producer_id,
        lambda: host.image.features.get(TRANSACTION_VERSION, 0),
    )
    if not host.is_clustered:
        for partition in log.partitions():
            transactions.load(record for record in log.read(partition) if record is not None)
    host.every(config.transaction_abort_timed_out_transaction_cleanup_interval_ms, transactions.abort_timed_out)
    host.every(config.transaction_remove_expired_transaction_cleanup_interval_ms, transactions.expire_ids)
    return transactions


def load_partition(
    transactions: TransactionCoordinator, log: TransactionLog, shards: Shards, partition: Partition
) -> Iterator[None]:
    """Load the transactions of a partition of `__transaction_state`. Yields between slices. Completes transactions in
    PrepareCommit or PrepareAbort once their records are committed. A coordinator that failed before may not have
    replicated them, so the next one could decide differently."""
    partition_transactions = yield from collect(log.read(partition))
    transactions.take_over(partition_transactions)
    decided = [transaction for transaction in partition_transactions if transaction.state.is_prepared]
    if not decided:
        return

    def committed(code: int) -> None:
        if code == CoordinatorNotAvailable.code:
            begin_later()
        elif not code:
            transactions.complete_decided(decided)

    def begin_later() -> None:
        shards.host.schedule(1, lambda _now_ms: shards.when_committed(decided[0].transactional_id, committed))

    begin_later()
