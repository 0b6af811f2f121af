"""Offsets that groups commit in transactions (the transactional half of Kafka's OffsetMetadataManager).

Rules:
- Such an offset is pending until its transaction's marker is written. Then it is committed or dropped. A partition with
  a pending offset is unstable: clients that require stable offsets must wait (KIP-447).
- Of two commits of a partition the later one in the log wins, whatever the order of their markers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset, Record
from kafkatools.core.broker.coordinators.groups.offsets_topic import OffsetsTopic, Producer
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.errors import InvalidCommitOffsetSize, MessageTooLarge, RecordListTooLarge

Place = tuple[str, int]


class _Pending:
    """A pending offset. `order` numbers commits in log order; `committed` is None once a later commit has won."""

    __slots__ = ("committed", "order")

    def __init__(self, order: int, committed: CommittedOffset | None) -> None:
        self.order = order
        self.committed = committed


class PendingOffsets:
    """Pending offsets by producer id, group and partition."""

    def __init__(self) -> None:
        self._producers: dict[int, dict[str, dict[Place, _Pending]]] = {}
        self._order = 0

    def put(self, producer_id: int, group_id: str, place: Place, committed: CommittedOffset | None) -> None:
        """Add an offset that is pending until its transaction ends; None if a later commit has won already."""
        self._order += 1
        places = self._producers.setdefault(producer_id, {}).setdefault(group_id, {})
        places[place] = _Pending(self._order, committed)

    def supersede(self, group_id: str, place: Place, order: int | None = None) -> None:
        """Mark the pending offsets of a partition that was committed again: their transaction will not commit them. The
        partition stays unstable until their marker. With `order`, only pending offsets with a lower order are
        marked."""
        for groups in self._producers.values():
            pending = groups.get(group_id, {}).get(place)
            if pending is not None and (order is None or pending.order < order):
                pending.committed = None

    def is_pending(self, group_id: str, place: Place) -> bool:
        """Return whether an open transaction has committed an offset of this partition."""
        return any(place in groups.get(group_id, ()) for groups in self._producers.values())

    def has_group(self, group_id: str) -> bool:
        """Return whether an open transaction has committed an offset of this group."""
        return any(group_id in groups for groups in self._producers.values())

    def __iter__(self) -> Iterator[tuple[str, Place]]:
        """Yield group id and partition of each pending offset; one that several transactions commit is repeated."""
        for groups in self._producers.values():
            for group_id, places in groups.items():
                for place in places:
                    yield group_id, place

    def of_group(self, group_id: str) -> Iterator[Place]:
        """Yield the partitions of a group with a pending offset; one that several transactions commit is repeated."""
        for groups in self._producers.values():
            yield from groups.get(group_id, ())

    def take(self, producer_id: int, is_taken: Callable[[str], bool]) -> Iterator[tuple[str, Place, _Pending]]:
        """Remove and yield group id, partition and offset of a producer's pending commits in groups for which
        `is_taken` is true."""
        groups = self._producers.get(producer_id)
        if groups is None:
            return
        for group_id in [group_id for group_id in groups if is_taken(group_id)]:
            for place, pending in groups.pop(group_id).items():
                yield group_id, place, pending
        if not groups:
            del self._producers[producer_id]

    def __bool__(self) -> bool:
        return bool(self._producers)

    def forget(self, group_id: str, place: Place | None = None) -> None:
        """Remove the pending offsets of a deleted group, or of one of its partitions."""
        for producer_id, groups in list(self._producers.items()):
            if place is not None:
                groups.get(group_id, {}).pop(place, None)
            if place is None or not groups.get(group_id):
                groups.pop(group_id, None)
            if not groups:
                del self._producers[producer_id]

    def clear(self) -> None:
        """Remove all pending offsets."""
        self._producers.clear()


def write_pending(
    store: OffsetsTopic,
    pending: PendingOffsets,
    group_id: str,
    producer: Producer,
    offsets: Sequence[tuple[Place, CommittedOffset]],
    records: Sequence[Record],
) -> ProduceStatus | None:
    """Write the encoded offsets of a transaction and add them to `pending`. Returns the append to wait for, None if it
    is replicated. Raises InvalidCommitOffsetSize for offsets larger than a batch may be, or another KafkaError."""
    try:
        status = store.append(group_id, records, producer)
    except (MessageTooLarge, RecordListTooLarge) as error:
        raise InvalidCommitOffsetSize() from error
    for place, committed in offsets:
        pending.put(producer.producer_id, group_id, place, committed)
    return status
