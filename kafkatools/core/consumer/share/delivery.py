"""From acquired records to the records that a poll returns: deserialization and the errors of damaged batches.

Rules: sound records before a failure are returned first, and the next poll raises the error. A record that cannot be
deserialized is released under the policy `fail` and rejected under `skip` (ShareCompletedFetch); the acquired records
of a damaged batch are rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.consumer_records import ConsumerRecord, records_of
from kafkatools.core.consumer.poison import RecordDecoder, RecordDeserializationError
from kafkatools.core.consumer.share.acknowledgements import AcknowledgedRange, AcknowledgeType
from kafkatools.core.consumer.share.acquired import AcquiredRecords, only
from kafkatools.core.consumer.share.in_flight import InFlightRecords
from kafkatools.core.errors import KafkaError
from kafkatools.core.topic_partition import TopicPartition


class Delivery:
    """Puts acquired records in flight and deserializes them."""

    def __init__(self, in_flight: InFlightRecords, decoder: RecordDecoder) -> None:
        self._in_flight = in_flight
        self._decoder = decoder
        self._decoded: dict[tuple[TopicPartition, int], ConsumerRecord] = {}
        self._error: KafkaError | None = None

    def raise_error(self) -> None:
        """Raise the error that followed the records of the last poll, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def deliver(self, acquired: Iterable[AcquiredRecords], *, is_raw: bool) -> None:
        """Put records in flight; with deserializers and not `is_raw`, only those that can be deserialized."""
        self._decoded = {}
        for item in acquired:
            error: KafkaError | None = item.error
            if self._decoder and not is_raw:
                item, failure = self._deserialize(item)
                error = failure or error
            self._in_flight.add(item)
            self._error = self._error or error

    def _deserialize(self, item: AcquiredRecords) -> tuple[AcquiredRecords, KafkaError | None]:
        columns: list[FetchedColumns] = []
        settled = list(item.settled)
        first: KafkaError | None = None
        for run in item.columns:
            sound: set[int] = set()
            for record in records_of(run):
                try:
                    self._decoded[item.partition, record.offset] = self._decoder.decode_record(record)
                    sound.add(record.offset)
                except RecordDeserializationError as error:
                    kind = AcknowledgeType.RELEASE if self._decoder.fails else AcknowledgeType.REJECT
                    settled.append(AcknowledgedRange(record.offset, record.offset, kind))
                    if self._decoder.fails:
                        first = first or _released(error)
                    else:
                        self._decoder.log.warning("Rejected: %s", error)
            columns += only(run, sound) if len(sound) < run.columns.count else [run]
        return item._replace(columns=columns, settled=settled), first

    def records(self, columns: Sequence[FetchedColumns]) -> list[ConsumerRecord]:
        """Return the records of these columns, deserialized."""
        if not self._decoder:
            return [record for item in columns for record in records_of(item)]
        return [
            self._decoded.get((TopicPartition(record.topic, record.partition), record.offset), record)
            for item in columns
            for record in records_of(item)
        ]


def _released(error: RecordDeserializationError) -> RecordDeserializationError:
    released = RecordDeserializationError(error.record, error.is_key, error.cause, "The record has been released.")
    released.__cause__ = error.cause
    return released
