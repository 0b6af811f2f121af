"""Copy slices of a topic's partitions to the partitions with the same numbers, exactly once.

Strategy: the consumer's columns go to a transactional producer as they are. Every few seconds the producer commits the
records together with the progress (progress.py, transactions.py).

`auto.offset.reset` is none: records that were deleted before they were read are an error, never passed over.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.core.clock import Clock
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.ends import Ends
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.producer.producer import Producer
from kafkatools.core.records.columns import RecordColumns, RowColumns
from kafkatools.tools.copying.checksum import RecordChecksum
from kafkatools.tools.copying.progress import CopyPlace, PartitionProgress, offsets_of
from kafkatools.tools.copying.transactions import ProgressTransactions
from kafkatools.tools.lines.slices import Selection, cut, cut_before

_POLL_MS = 1000


class TopicCopier:
    """One run of a copy. `progress` is where each partition stands, as committed to the target cluster."""

    def __init__(
        self, consumer: Consumer, producer: Producer, place: CopyPlace, progress: Mapping[int, PartitionProgress]
    ) -> None:
        self._consumer = consumer
        self._producer = producer
        self._place = place
        self.progress = dict(progress)
        self._uncommitted = dict(progress)
        self._transactions = ProgressTransactions(producer)
        self._ends: Ends | None = None
        self._first = {number: item.position for number, item in progress.items()}

    @property
    def copied_records(self) -> int:
        """The number of committed records, those of earlier runs included."""
        return sum(item.checksum.records for item in self.progress.values())

    @property
    def read_offsets(self) -> int:
        """The number of source offsets that this run has passed."""
        return sum(item.position - self._first[number] for number, item in self._uncommitted.items())

    def run(self, clock: Clock) -> None:
        """Copy until every partition is complete. Raises the KafkaError that ended the copy: what was committed stays,
        and closing the producer aborts the rest."""
        ends = self._ends = self._start()
        self._commit(clock.now_ms())  # also what an empty partition has to remember
        while ends.undone():
            fetched = self._consumer.poll_columns(_POLL_MS)
            for item in fetched:
                self._copy(item)
            if not fetched:
                ends.ensure_reachable()
            if self._transactions.is_due(clock.now_ms()):
                self._commit(clock.now_ms())
        for number, progress in self._uncommitted.items():
            self._uncommitted[number] = progress._replace(position=max(progress.position, progress.end))
        self._commit(clock.now_ms())

    def _start(self) -> Ends:
        parts = {number: TopicPartition(self._place.source, number) for number in self.progress}
        open_parts = {parts[number]: item for number, item in self.progress.items() if not item.is_complete}
        self._consumer.assign(open_parts)
        for part, item in open_parts.items():
            self._consumer.seek(part, item.position)
        return Ends.at(self._consumer, {part: item.end for part, item in open_parts.items()})

    def _copy(self, fetched: FetchedColumns) -> None:
        """Send the records of one fetch that belong to the copy, and note the progress."""
        number = fetched.partition
        item = self._uncommitted[number]
        selection = Selection(item.since_ms, item.until_ms)
        checksum = item.checksum
        for run in selection.runs(cut(cut_before(fetched, item.position), item.end)):
            if run.columns.count:
                self._transactions.begin()
                self._producer.send_columns(self._place.target, rows_of(run.columns), number)
                checksum = checksum.plus(run.columns)
                self._transactions.count(run.columns.count)
        offsets = fetched.columns.offsets
        position = max(item.position, offsets[-1] + 1 if offsets else item.position)
        self._uncommitted[number] = item._replace(position=position, checksum=checksum)

    def _commit(self, now_ms: int) -> None:
        """Commit the records sent so far together with the progress. Raises EndUnreachable if the source was recreated:
        records may be those of another topic."""
        if self._ends is not None:
            self._ends.ensure_same_topics()
        self._transactions.commit({self._place.group_id: offsets_of(self._place, self._uncommitted)}, now_ms)
        self.progress = dict(self._uncommitted)


def rows_of(columns: RecordColumns) -> RowColumns:
    """Return fetched records as rows to produce, over the same buffer."""
    headers = None
    if any(columns.header_counts):
        headers = [columns.encoded_headers(row) for row in range(columns.count)]
    return RowColumns(
        columns.buffer,
        columns.value_positions,
        columns.value_lengths,
        columns.key_positions,
        columns.key_lengths,
        columns.timestamps,
        headers,
    )


def checksum_of(consumer: Consumer, partition: TopicPartition, start: int, end: int) -> RecordChecksum:
    """Read the committed records of a partition from `start` to before `end` and return their checksum. Raises
    KafkaError when they cannot be read."""
    consumer.assign([partition])
    consumer.seek(partition, start)
    ends = Ends.at(consumer, {partition: end})
    checksum = RecordChecksum()
    while ends.undone():
        fetched = consumer.poll_columns(_POLL_MS)
        for item in fetched:
            checksum = checksum.plus(cut(item, end).columns)
        if not fetched:
            ends.ensure_reachable()
    return checksum
