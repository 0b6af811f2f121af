"""The transactional half of a producer's manager, loaded only where transactional.id is set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.producer.transaction_manager import TransactionManager

if TYPE_CHECKING:
    from kafkatools.core.producer.transactions import TransactionalManager


def as_transactional(manager: TransactionManager | None) -> TransactionalManager | None:
    """The manager where it knows transactions; whoever has none does not load them."""
    if manager is None or not manager.is_transactional:
        return None
    from kafkatools.core.producer.transactions import TransactionalManager

    assert isinstance(manager, TransactionalManager)
    return manager
