"""The records of the last poll until they are acknowledged (ShareFetch and ShareInFlightBatch of Kafka).

Rules: a record is in flight from the poll that returned it until its acknowledgement is taken to be sent. A renewed
record is in flight again with the poll after its renewal was confirmed, and that poll returns it again (KIP-1222). An
offset may be acknowledged several times before it is sent: the last type counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.share.acknowledgements import (
    AcknowledgedRange,
    Acknowledgements,
    AcknowledgeType,
    ranges_of,
)
from kafkatools.core.consumer.share.acquired import AcquiredRecords, only, runs_of
from kafkatools.core.consumer.share.session import PartitionId
from kafkatools.core.errors import IllegalState
from kafkatools.core.topic_partition import TopicPartition

NOT_IN_FLIGHT = "The record cannot be acknowledged."


class TakenAcknowledgements(NamedTuple):
    """Acknowledgements to send to the node that delivered the records."""

    node: int
    place: tuple[PartitionId, TopicPartition]
    content: Acknowledgements


class InFlightPartition:
    """The records of one partition that one node delivered and the application has not acknowledged."""

    def __init__(self, node: int, place: tuple[PartitionId, TopicPartition]) -> None:
        self.node = node
        self.place = place
        self._columns: list[FetchedColumns] = []
        self._settled: list[AcknowledgedRange] = []
        self._offsets: set[int] | None = set()  # None: all offsets of `_columns`
        self._kinds: dict[int, int] = {}
        self._renewing: set[int] = set()
        self._renewed: set[int] = set()

    def add(self, columns: Iterable[FetchedColumns], settled: Iterable[AcknowledgedRange]) -> None:
        """Add newly delivered records, and acknowledgements that are not the application's."""
        fresh = list(columns)
        if self._offsets is not None and not self._offsets and not self._renewing and not self._renewed:
            self._columns, self._offsets = fresh, None
        elif fresh:
            self._open_offsets().update(offset for item in fresh for offset in item.columns.offsets)
            self._columns += fresh
        self._settled += settled

    def _open_offsets(self) -> set[int]:
        if self._offsets is None:
            self._offsets = {offset for item in self._columns for offset in item.columns.offsets}
        return self._offsets

    @property
    def count(self) -> int:
        """The number of records in flight."""
        if self._offsets is not None:
            return len(self._offsets)
        return sum(item.columns.count for item in self._columns)

    @property
    def is_acknowledged(self) -> bool:
        """Return whether every record in flight has an acknowledgement."""
        return len(self._kinds) == self.count

    @property
    def is_renewing(self) -> bool:
        """Return whether renewals are unconfirmed, or confirmed and not returned by a poll yet."""
        return bool(self._renewing or self._renewed)

    def has(self, offset: int) -> bool:
        """Return whether the record is in flight."""
        return offset in self._open_offsets()

    def acknowledge(self, offset: int, kind: AcknowledgeType) -> None:
        """Acknowledge a record that is in flight."""
        self._kinds[offset] = kind

    def acknowledge_absent(self, offset: int, kind: AcknowledgeType) -> None:
        """Acknowledge a record that is in flight and has no acknowledgement yet."""
        self._kinds.setdefault(offset, kind)

    def take(self, *, accept_all: bool) -> Acknowledgements:
        """Remove the acknowledged records and return their acknowledgements, to be sent; with `accept_all` those of
        all records in flight."""
        ranges, self._settled = self._settled, []
        kinds, self._kinds = self._kinds, {}
        if accept_all and not kinds:
            ranges += [AcknowledgedRange(first, last, AcknowledgeType.ACCEPT) for first, last in self._runs()]
            self._offsets = set()
        elif kinds:
            if accept_all:
                kinds = {**dict.fromkeys(self._open_offsets(), int(AcknowledgeType.ACCEPT)), **kinds}
            ranges += ranges_of(kinds)
            self._open_offsets().difference_update(kinds)
            self._renewing.update(offset for offset, kind in kinds.items() if kind == AcknowledgeType.RENEW)
        if not self.count and not self.is_renewing:
            self._columns = []
        return Acknowledgements(ranges)

    def _runs(self) -> Iterator[tuple[int, int]]:
        if self._offsets is not None:
            yield from runs_of(sorted(self._offsets))
            return
        for item in self._columns:
            yield from runs_of(item.columns.offsets)

    def handle_outcome(self, acknowledgements: Acknowledgements, *, is_confirmed: bool) -> None:
        """Note the result of sent acknowledgements: confirmed renewals return with the next poll, refused ones are
        gone."""
        for offset in acknowledgements.renewed_offsets():
            if offset in self._renewing:
                self._renewing.discard(offset)
                if is_confirmed:
                    self._renewed.add(offset)

    def take_renewed(self) -> None:
        """Put the records whose renewal was confirmed in flight again."""
        if self._renewed:
            self._open_offsets().update(self._renewed)
            self._renewed = set()

    def columns(self) -> list[FetchedColumns]:
        """Return the records in flight as columns."""
        if self._offsets is None:
            return list(self._columns)
        offsets = self._offsets
        return [part for item in self._columns for part in only(item, offsets)]


class InFlightRecords:
    """All records in flight, by partition and delivering node."""

    def __init__(self) -> None:
        self._partitions: dict[tuple[PartitionId, int], InFlightPartition] = {}

    @property
    def count(self) -> int:
        """The number of records in flight."""
        return sum(part.count for part in self._partitions.values())

    @property
    def is_acknowledged(self) -> bool:
        """Return whether every record in flight has an acknowledgement."""
        return all(part.is_acknowledged for part in self._partitions.values())

    @property
    def is_renewing(self) -> bool:
        """Return whether a renewed record has not been returned by a poll yet."""
        return any(part.is_renewing for part in self._partitions.values())

    def add(self, acquired: AcquiredRecords) -> None:
        """Add the records of a ShareFetch that a poll returns."""
        key = acquired.id, acquired.node
        if key not in self._partitions:
            self._partitions[key] = InFlightPartition(acquired.node, (acquired.id, acquired.partition))
        self._partitions[key].add(acquired.columns, acquired.settled)

    def acknowledge(self, partition: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """Acknowledge one record. Raises IllegalState when it is not in flight."""
        for part in self._partitions.values():
            if part.place[1] == partition and part.has(offset):
                part.acknowledge(offset, kind)
                return
        raise IllegalState(NOT_IN_FLIGHT)

    def release_unseen(self, partition: TopicPartition, offset: int) -> None:
        """Release a record that the application has not seen, unless it is acknowledged or no longer in flight."""
        for part in self._partitions.values():
            if part.place[1] == partition and part.has(offset):
                part.acknowledge_absent(offset, AcknowledgeType.RELEASE)

    def take(self, *, accept_all: bool = False) -> list[TakenAcknowledgements]:
        """Remove the acknowledged records and return their acknowledgements with the node that delivered them."""
        taken = [
            TakenAcknowledgements(part.node, part.place, part.take(accept_all=accept_all))
            for part in self._partitions.values()
        ]
        self._partitions = {key: part for key, part in self._partitions.items() if part.count or part.is_renewing}
        return [item for item in taken if item.content]

    def handle_outcome(
        self, node: int, partition: PartitionId, acknowledgements: Acknowledgements, *, is_confirmed: bool
    ) -> None:
        """Note the result of sent acknowledgements, for their renewals."""
        part = self._partitions.get((partition, node))
        if part is not None:
            part.handle_outcome(acknowledgements, is_confirmed=is_confirmed)
            if not part.count and not part.is_renewing:
                del self._partitions[partition, node]

    def take_renewed(self) -> None:
        """Put the records whose renewal was confirmed in flight again."""
        for part in self._partitions.values():
            part.take_renewed()

    def columns(self) -> Sequence[FetchedColumns]:
        """Return the records in flight as columns, partition by partition."""
        return [item for part in self._partitions.values() for item in part.columns()]
