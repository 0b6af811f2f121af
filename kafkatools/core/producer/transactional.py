"""Narrow a producer's TransactionManager to its transactional subclass, without importing that where it is not
needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.producer.transaction_manager import TransactionManager

if TYPE_CHECKING:
    from kafkatools.core.producer.transactions import TransactionalManager


def as_transactional(manager: TransactionManager | None) -> TransactionalManager | None:
    """The manager if it belongs to a transactional producer, else None."""
    if manager is None or not manager.is_transactional:
        return None
    from kafkatools.core.producer.transactions import TransactionalManager

    assert isinstance(manager, TransactionalManager)
    return manager
