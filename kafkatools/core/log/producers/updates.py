"""Check batches against a partition's producer state before an append, and replay batches of the log into that
state."""

from typing import NamedTuple

from kafkatools.core.log.format.transaction_index import TransactionIndex
from kafkatools.core.log.producers.append import (
    NO_TRANSACTION_VERSION,
    AppendOrigin,
    CompletedTransaction,
    ProducerAppendInfo,
)
from kafkatools.core.log.producers.state import ProducerStateManager
from kafkatools.core.records.header import NO_PRODUCER_ID, BatchHeader


class EndMarker(NamedTuple):
    """A transaction marker: commit or abort, coordinator epoch, timestamp in ms."""

    is_abort: bool
    coordinator_epoch: int
    timestamp: int


def read_end_marker(batch: memoryview) -> EndMarker | None:
    """Return the transaction marker in a control batch, None for a batch emptied by the cleaner. Raises CorruptRecord
    for another control record."""
    from kafkatools.core.records.batch import RecordBatch
    from kafkatools.core.records.control import ControlRecordType, EndTransactionMarker

    columns = RecordBatch(batch).columns()
    if columns.count == 0:
        return None
    marker = EndTransactionMarker.parse(columns.key(0), columns.value(0))
    return EndMarker(marker.type is ControlRecordType.ABORT, marker.coordinator_epoch, columns.timestamps[0])


def append_batch(
    info: ProducerAppendInfo,
    header: BatchHeader,
    batch: memoryview,
    base_offset: int,
    max_timestamp: int,
    transaction_version: int = NO_TRANSACTION_VERSION,
) -> CompletedTransaction | None:
    """Check a data batch or a transaction marker against a producer's state, and add it to `info`. Return the
    transaction that a marker ends, else None. Raises as ProducerAppendInfo does, and CorruptRecord for a control batch
    that is no marker."""
    if not header.is_control:
        info.append_data(header, base_offset, max_timestamp)
        return None
    marker = read_end_marker(batch)
    if marker is None:
        return None
    return info.append_marker(
        header,
        base_offset,
        is_abort=marker.is_abort,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=marker.timestamp,
        transaction_version=transaction_version,
    )


def replay_batch(
    state: ProducerStateManager, header: BatchHeader, batch: memoryview, txn_index: TransactionIndex | None
) -> None:
    """Apply a batch of the log to the producer state, up to the offset after it (UnifiedLog.loadProducersFromRecords,
    LogSegment.updateProducerState). An aborted transaction is added to `txn_index`, unless None. Raises CorruptRecord,
    InvalidTxnState, OSError."""
    if header.producer_id != NO_PRODUCER_ID:
        info = state.prepare_update(header.producer_id, AppendOrigin.REPLICATION)
        completed = append_batch(info, header, batch, header.base_offset, header.max_timestamp)
        state.update(info)
        if completed is not None:
            if completed.is_aborted and txn_index is not None:
                txn_index.append(state.aborted_entry(completed))
            state.complete_transaction(completed)
    state.map_end_offset = header.last_offset + 1
