"""Idempotent batches that the disk refused, and the batches of the same producer that were in flight behind them.

A producer has up to five batches in flight. When the disk refuses one of them, the batches behind it do not continue
the producer's sequence any more. They get KafkaStorageError as well, and the producer sends all of them again, in
order. OutOfOrderSequenceNumber would tell the producer that records are lost; librdkafka then begins a new epoch in all
of its partitions, where a batch in flight is written a second time. If the log knew nothing of the producer yet, the
later batch would even be appended, and the refused one lost.
"""

from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.producers.append import ProducerEntry
from kafkatools.core.records.header import NO_PRODUCER_ID, BatchHeader

MAX_PRODUCERS = 10_000
_SEQUENCES = 1 << 31


class FailedAppends:
    """Epoch and first sequence of the oldest refused batch of each producer of one partition."""

    def __init__(self) -> None:
        self._refused: dict[int, tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._refused)

    def note(self, producer_id: int, producer_epoch: int, first_sequence: int) -> None:
        """Note that the disk refused a batch."""
        if producer_id == NO_PRODUCER_ID:
            return
        known = self._refused.get(producer_id)
        if known is not None and known[0] == producer_epoch and not _is_before(first_sequence, known[1]):
            return
        if known is None and len(self._refused) >= MAX_PRODUCERS:
            del self._refused[next(iter(self._refused))]
        self._refused[producer_id] = producer_epoch, first_sequence

    def check(self, header: BatchHeader, entry: ProducerEntry | None) -> None:
        """Raise KafkaStorageError for a batch behind a refused batch, until the refused batch is appended."""
        refused = self._refused.get(header.producer_id)
        if refused is None:
            return
        epoch, sequence = refused
        is_appended = entry is not None and bool(entry.batches) and entry.producer_epoch == epoch
        if is_appended and entry is not None:
            is_appended = not _is_before(entry.last_sequence, sequence)
        if is_appended or header.producer_epoch > epoch:
            del self._refused[header.producer_id]
        elif header.producer_epoch == epoch and _is_before(sequence, header.base_sequence):
            raise KafkaStorageError(
                f"Sequence {header.base_sequence} of producer {header.producer_id} waits for sequence {sequence}, "
                "which the disk refused"
            )


def _is_before(first: int, second: int) -> bool:
    """Whether a sequence comes before another one, across the wrap after 2^31 - 1."""
    return 0 < (second - first) % _SEQUENCES < _SEQUENCES // 2
