"""The committed offsets of all groups in memory (Kafka's OffsetMetadataManager); `pending` has those of open
transactions.

A write changes the coordinator's offsets at once. A client that does not require stable offsets reads only replicated
offsets (`committed_of_group`): `ReplacedOffsets` keeps the value before each change above the high watermark.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import accumulate

from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset
from kafkatools.core.broker.coordinators.groups.replaced_offsets import ReplacedOffsets
from kafkatools.core.broker.coordinators.groups.replaced_values import Progress
from kafkatools.core.broker.coordinators.groups.transactional_offsets import PendingOffsets

Place = tuple[str, int]


class Offsets:
    """Committed offsets by group, topic and partition."""

    def __init__(self, progress: Callable[[str], Progress] | None = None) -> None:
        self._groups: dict[str, dict[Place, CommittedOffset]] = {}
        self.pending = PendingOffsets()
        self.replaced = ReplacedOffsets(progress)

    def put(self, group_id: str, place: Place, committed: CommittedOffset) -> None:
        """Set a committed offset."""
        self.put_all(group_id, ((place, committed),))

    def put_all(self, group_id: str, committed: Iterable[tuple[Place, CommittedOffset]]) -> None:
        """Set the committed offsets of one batch. Pending transactional offsets of the same partitions are no longer
        committed with their transaction."""
        offsets, replaced = self._groups.setdefault(group_id, {}), self.replaced.batch(group_id)
        for place, offset in committed:
            if self.pending:
                self.pending.supersede(group_id, place)
            if replaced is not None:
                replaced.setdefault(place, offsets.get(place))
            offsets[place] = offset

    def get(self, group_id: str, place: Place) -> CommittedOffset | None:
        """The committed offset of a partition; None without one."""
        return self._groups.get(group_id, {}).get(place)

    def has(self, group_id: str, place: Place) -> bool:
        """Return whether a partition has a committed or pending offset."""
        return self.get(group_id, place) is not None or self.pending.is_pending(group_id, place)

    def has_group(self, group_id: str) -> bool:
        """Return whether a group has a committed or pending offset."""
        return bool(self.of_group(group_id)) or self.pending.has_group(group_id)

    def of_group(self, group_id: str) -> Mapping[Place, CommittedOffset]:
        """The committed offsets of a group by partition, including those above the high watermark."""
        return self._groups.get(group_id, {})

    def has_more_than(self, count: int) -> bool:
        """Return whether all groups together have more than `count` offsets."""
        return any(total > count for total in accumulate(map(len, self._groups.values())))

    def committed_of_group(self, group_id: str) -> Mapping[Place, CommittedOffset]:
        """The committed offsets of a group by partition, as of the high watermark."""
        return self.replaced.before(group_id, self.of_group(group_id))

    def remove(self, group_id: str, place: Place) -> None:
        """Remove a committed offset and pending offsets of its partition."""
        if self.pending:
            self.pending.forget(group_id, place)
        offsets = self._groups.get(group_id)
        if offsets is not None:
            removed, replaced = offsets.pop(place, None), self.replaced.batch(group_id)
            if replaced is not None:
                replaced.setdefault(place, removed)
            if not offsets:
                del self._groups[group_id]

    def remove_group(self, group_id: str) -> None:
        """Remove all committed and pending offsets of a deleted group."""
        self.pending.forget(group_id)
        removed, replaced = self._groups.pop(group_id, {}), self.replaced.batch(group_id)
        if replaced is not None:
            for place, committed in removed.items():
                replaced.setdefault(place, committed)

    def release(self, is_released: Callable[[str], bool]) -> None:
        """Drop the committed offsets of the groups for which `is_released` is true, those of an unloaded
        `__consumer_offsets` partition. Pending offsets stay."""
        self.replaced.release(is_released)
        for group_id in [group_id for group_id in self._groups if is_released(group_id)]:
            del self._groups[group_id]

    def take_over(self, other: Offsets) -> None:
        """Add the offsets of loaded groups."""
        self._groups.update(other._groups)
        self.replaced.take_over(other.replaced)

    def group_ids(self) -> list[str]:
        """The ids of groups with committed offsets."""
        return list(self._groups)

    def of_topics(self, topics: Container[str]) -> Iterator[tuple[str, Place, uuid.UUID | None]]:
        """Group id, partition and stored topic id of each committed or pending offset of some topics. A pending offset
        has no topic id."""
        for group_id, offsets in self._groups.items():
            for place, committed in offsets.items():
                if place[0] in topics:
                    yield group_id, place, committed.topic_id
        for group_id, place in self.pending:
            if place[0] in topics and self.get(group_id, place) is None:
                yield group_id, place, None

    def places(self, group_id: str) -> list[Place]:
        """The partitions of a group with a committed or pending offset."""
        return list(dict.fromkeys((*self.of_group(group_id), *self.pending.of_group(group_id))))

    def clear(self) -> None:
        """Remove all committed and pending offsets."""
        self._groups.clear()
        self.pending.clear()
        self.replaced.release(lambda group_id: True)

    def complete_transaction(self, producer_id: int, is_taken: Callable[[str], bool], *, is_commit: bool) -> list[str]:
        """Commit or drop a producer's pending offsets in groups for which `is_taken` is true. An offset is dropped even
        on commit if a later commit of its partition exists. Returns the group id of each pending offset, with
        repetitions."""
        pending_offsets = list(self.pending.take(producer_id, is_taken))
        for group_id, place, pending_offset in pending_offsets:
            if is_commit and pending_offset.committed is not None:
                self.pending.supersede(group_id, place, pending_offset.order)
                offsets, replaced = self._groups.setdefault(group_id, {}), self.replaced.batch(group_id)
                if replaced is not None:
                    replaced.setdefault(place, offsets.get(place))
                offsets[place] = pending_offset.committed
        return [group_id for group_id, _, _ in pending_offsets]
