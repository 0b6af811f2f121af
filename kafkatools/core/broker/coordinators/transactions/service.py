"""The transaction coordinator of a node: wired to its topic, timers and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from kafkatools.core.broker.coordinators.internal_topic import follows_elections
from kafkatools.core.broker.coordinators.transactions.coordinator import (
    Surroundings,
    TransactionCoordinator,
    TransactionSettings,
)
from kafkatools.core.broker.coordinators.transactions.durability import Durability
from kafkatools.core.broker.coordinators.transactions.marker_sender import MarkerSender
from kafkatools.core.broker.coordinators.transactions.transaction import Transaction
from kafkatools.core.broker.coordinators.transactions.transaction_log import TOPIC, TransactionLog
from kafkatools.core.errors import CoordinatorNotAvailable

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node
    from kafkatools.core.broker.replicas.partition import Partition

TRANSACTION_VERSION = "transaction.version"


def open_transactions(node: Node) -> TransactionCoordinator:
    """The coordinator with every transaction of before; those whose end was decided are completed."""
    config = node.config
    log = TransactionLog(node)
    around = Surroundings(
        log,
        MarkerSender(node),
        Durability(node),
        node.timer,
        node.clock,
        node.producer_ids.next_id,
        lambda: node.image.features.get(TRANSACTION_VERSION, 0),
    )
    settings = TransactionSettings(
        config.transaction_max_timeout_ms,
        config.transactional_id_expiration_ms,
        config.add_partitions_to_txn_retry_backoff_max_ms,
    )
    transactions = TransactionCoordinator(settings, around)
    if not follows_elections(node):
        for partition in log.partitions():
            transactions.load(each for each in log.read(partition) if each is not None)
    return transactions


class TransactionKeeper:
    """The transaction coordinator, as its shards know it."""

    topic = TOPIC

    def __init__(self, node: Node) -> None:
        self._node = node

    def load(self, partition: Partition) -> Iterator[None]:
        """Read a partition, a slice with each step. Transactions whose end was decided are completed when that is
        committed: a node that fails before may not have told the one after it."""
        found = []
        for transaction in TransactionLog(self._node).read(partition):
            if transaction is None:
                yield
            else:
                found.append(transaction)
        self._node.transactions.take_over(found)
        decided = [transaction for transaction in found if transaction.state.is_prepared]
        if decided:
            self._complete_when_committed(decided)

    def _complete_when_committed(self, decided: Sequence[Transaction]) -> None:
        node = self._node

        def committed(code: int) -> None:
            if code == CoordinatorNotAvailable.code:
                self._complete_when_committed(decided)
            elif not code:
                node.transactions.complete_decided(decided)

        def begin(_now_ms: int) -> None:
            node.coordination.transactions.when_committed(decided[0].transactional_id, committed)

        node.timer.schedule(1, begin, node.clock.now_ms())

    def unload(self, is_mine: Callable[[str], bool]) -> None:
        """Transactional ids go on elsewhere."""
        self._node.transactions.release(is_mine)

    def tell(self) -> None:
        """Who waits, waits for an append."""
