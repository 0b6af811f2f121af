"""Batches of idempotent producers that failed with a disk error, and the producer's in-flight batches after them.

A producer has up to five batches in flight. After one of them fails with a disk error, the later ones no longer
continue the producer's sequence. They get KafkaStorageError as well, and the producer sends all of them again, in
order. OutOfOrderSequenceNumber would tell the producer that records are lost. librdkafka then begins a new epoch in all
of its partitions, where a batch in flight is written a second time. If the log did not know the producer yet, a later
batch would even be appended, and the failed one lost.
"""

from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.producers.append import ProducerEntry
from kafkatools.core.records.header import NO_PRODUCER_ID, BatchHeader

MAX_PRODUCERS = 10_000
_SEQUENCES = 1 << 31


class FailedAppends:
    """The epoch and first sequence of each producer's oldest batch that failed with a disk error, in one partition.
    Beyond 10,000 producers the entry made first is dropped."""

    def __init__(self) -> None:
        self._refused: dict[int, tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._refused)

    def note(self, producer_id: int, producer_epoch: int, first_sequence: int) -> None:
        """Record a batch that failed with a disk error. A later batch of the same epoch, or one without a producer id,
        changes nothing; a batch of another epoch replaces the entry."""
        if producer_id == NO_PRODUCER_ID:
            return
        refused = self._refused.get(producer_id)
        if refused is not None and refused[0] == producer_epoch and not _is_before(first_sequence, refused[1]):
            return
        if refused is None and len(self._refused) >= MAX_PRODUCERS:
            del self._refused[next(iter(self._refused))]
        self._refused[producer_id] = producer_epoch, first_sequence

    def check(self, header: BatchHeader, entry: ProducerEntry | None) -> None:
        """Raise KafkaStorageError for a batch after its producer's failed one in the same epoch. Forget the failure
        instead if `entry`, the producer's state, shows that the failed batch was appended since, or if the batch has a
        newer epoch."""
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
                f"Sequence {header.base_sequence} of producer {header.producer_id} must wait for sequence {sequence}, "
                "whose append failed with a disk error"
            )


def _is_before(first: int, second: int) -> bool:
    """Return whether a sequence comes before another one, by less than 2^30. Sequences wrap to 0 after 2^31 - 1."""
    return 0 < (second - first) % _SEQUENCES < _SEQUENCES // 2
