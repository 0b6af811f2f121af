"""PreparedTransaction: who ends a transaction that its producer has left open on purpose (KIP-939)."""

from __future__ import annotations

from typing import NamedTuple


class PreparedTransaction(NamedTuple):
    """A transaction whose records are all acknowledged: whoever has this may commit or abort it, once its producer is
    closed (`core/admin/prepared_transactions.py`).

    `transaction_version`: 2 where the end raises the epoch (KIP-890). `is_empty`: nothing was added to it, so that the
    coordinator knows of no transaction, and there is none to end.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    transaction_version: int = 1
    is_empty: bool = False
