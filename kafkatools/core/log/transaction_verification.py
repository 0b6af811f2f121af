"""Transactional writes that the transaction coordinator does not know of (KIP-890)."""

from typing import TYPE_CHECKING

from kafkatools.core.errors import InvalidProducerEpoch, InvalidTxnState
from kafkatools.core.log.batch_headers import BatchHeader
from kafkatools.core.log.producer_append import AppendOrigin

if TYPE_CHECKING:
    from kafkatools.core.log.partition_log import PartitionLog


def ensure_verified(log: "PartitionLog", header: BatchHeader, origin: AppendOrigin) -> None:
    """Raise unless a write that the coordinator did not confirm belongs to a transaction that is open already
    (UnifiedLog.analyzeAndValidateProducerState)."""
    if not header.is_transactional or header.is_control:
        return
    if origin not in (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR):
        return
    if log.has_ongoing_transaction(header.producer_id, header.producer_epoch):
        return
    entry = log.producer_state.producers.get(header.producer_id)
    if entry is not None and header.producer_epoch < entry.producer_epoch:
        raise InvalidProducerEpoch(
            f"Epoch of producer {header.producer_id} is {header.producer_epoch}, which is smaller than the last "
            f"seen epoch {entry.producer_epoch}"
        )
    if log.config.transaction_partition_verification_enable:
        raise InvalidTxnState("Record was not part of an ongoing transaction")
