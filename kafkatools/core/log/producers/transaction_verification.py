"""KIP-890 checks on the first batch of a transaction: the transaction coordinator must know of this partition, and no
earlier batch may be missing (VerificationStateEntry)."""

from dataclasses import dataclass

from kafkatools.core.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequenceNumber
from kafkatools.core.log.format.filenames import TopicPartition
from kafkatools.core.log.producers.append import AppendOrigin, ProducerEntry
from kafkatools.core.log.producers.state import ProducerStateManager
from kafkatools.core.records.header import BatchHeader

MAX_ATTEMPTS = 10_000
EPOCH_BUMP_VERSION = 2


@dataclass(slots=True, eq=False)
class Attempt:
    """A producer's attempt to begin a transaction: its epoch, the lowest sequence it has sent, and whether each
    transaction bumps the epoch (transaction version 2)."""

    producer_epoch: int
    lowest_sequence: int
    bumps_epoch: bool


class Attempts:
    """The producers of one partition that have not appended the first batch of a transaction that they began. Beyond
    10,000 producers the oldest entry is dropped."""

    def __init__(self) -> None:
        self._attempts: dict[int, Attempt] = {}

    def __bool__(self) -> bool:
        return bool(self._attempts)

    def note(self, producer_id: int, producer_epoch: int, sequence: int, *, bumps_epoch: bool) -> Attempt:
        """Record a batch whose transaction is about to be verified with the coordinator, and return its attempt. The
        lowest sequence of the producer's newest epoch counts; a batch of an older epoch is not recorded."""
        attempt = self._attempts.get(producer_id)
        if attempt is not None and attempt.producer_epoch == producer_epoch:
            attempt.lowest_sequence = min(attempt.lowest_sequence, sequence)
            return attempt
        begun = Attempt(producer_epoch, sequence, bumps_epoch)
        if attempt is None or attempt.producer_epoch < producer_epoch:
            if len(self._attempts) >= MAX_ATTEMPTS:
                del self._attempts[next(iter(self._attempts))]
            self._attempts[producer_id] = begun
        return begun

    def holds(self, producer_id: int, attempt: Attempt) -> bool:
        """Return whether neither a batch nor a marker of the producer was appended since the attempt was recorded
        (VerificationGuard). After a marker the coordinator's confirmation says nothing about the open transaction: it
        may be that of the one that the marker ended."""
        return self._attempts.get(producer_id) is attempt

    def forget(self, producer_id: int) -> None:
        """Forget a producer's attempt, if there is one."""
        self._attempts.pop(producer_id, None)

    def note_append(self, header: BatchHeader, transaction_version: int) -> None:
        """Forget a producer's attempt after a batch, which has begun the transaction, or a marker, which has ended it.
        With transaction version 2 a marker has the epoch of the producer's next transaction, whose attempt stays."""
        attempt = self._attempts.get(header.producer_id)
        if attempt is None:
            return
        is_of_last = header.is_control and transaction_version >= EPOCH_BUMP_VERSION
        if not is_of_last or attempt.producer_epoch < header.producer_epoch:
            del self._attempts[header.producer_id]

    def check(
        self, header: BatchHeader, entry: ProducerEntry | None, end_offset: int, topic_partition: TopicPartition
    ) -> None:
        """Raise OutOfOrderSequenceNumber when an earlier batch of the producer's noted attempt is missing
        (ProducerAppendInfo.checkSequence). Other batches, and producers without an attempt, pass. `entry`: the
        producer's state in this partition; `end_offset`: the log end offset, for the message."""
        attempt = self._attempts.get(header.producer_id)
        if attempt is None or not header.is_transactional:
            return
        if attempt.bumps_epoch and header.base_sequence != 0 and (entry is None or not entry.batches):
            raise OutOfOrderSequenceNumber(
                f"Invalid sequence number for producer {header.producer_id} at offset {end_offset} in "
                f"partition {topic_partition}: {header.base_sequence} (incoming seq. number). Expected sequence 0 "
                f"for transactions v2 idempotent producer with no existing state."
            )
        if header.base_sequence > attempt.lowest_sequence:
            raise OutOfOrderSequenceNumber(
                f"Out of order sequence number for producer {header.producer_id} at offset {end_offset} in "
                f"partition {topic_partition}: {header.base_sequence} (incoming seq. number), "
                f"{attempt.lowest_sequence} (earliest seen sequence)"
            )


def ensure_verified(
    header: BatchHeader, origin: AppendOrigin, state: ProducerStateManager, *, is_required: bool
) -> None:
    """Refuse a transactional data batch of a client or coordinator that was not verified, unless its transaction is
    open already (UnifiedLog.analyzeAndValidateProducerState).

    Raises InvalidProducerEpoch for an epoch below the producer's. Raises InvalidTxnState if `is_required`
    (transaction.partition.verification.enable); else the batch is accepted.
    """
    if not header.is_transactional or header.is_control:
        return
    if origin not in (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR):
        return
    if state.has_ongoing_transaction(header.producer_id, header.producer_epoch):
        return
    entry = state.producers.get(header.producer_id)
    if entry is not None and header.producer_epoch < entry.producer_epoch:
        raise InvalidProducerEpoch(
            f"Epoch of producer {header.producer_id} is {header.producer_epoch}, which is smaller than the last "
            f"seen epoch {entry.producer_epoch}"
        )
    if is_required:
        raise InvalidTxnState("Record was not part of an ongoing transaction")
