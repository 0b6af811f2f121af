"""PreparedTransaction: the identity of an open transaction that another process may commit or abort (KIP-939)."""

from __future__ import annotations

from typing import NamedTuple


class PreparedTransaction(NamedTuple):
    """An open transaction whose records are all acknowledged. After its producer is closed, any holder of this object
    may commit or abort it (`core/admin/prepared_transactions.py`).

    `transaction_version`: 2 where the end of a transaction raises the epoch (KIP-890). `is_empty`: the transaction has
    no partitions and offsets, so the coordinator does not know it and there is nothing to end.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    transaction_version: int = 1
    is_empty: bool = False
