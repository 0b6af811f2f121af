"""The offsets of all groups in memory (Kafka's OffsetMetadataManager); `pending` holds those of open transactions.

A change counts for the coordinator as soon as it is written. A client that does not ask for stable offsets reads the
replicated state instead (`committed_of_group`): until the high watermark is behind a change, `ReplacedOffsets` keeps
the value before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup
from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset
from kafkatools.core.broker.coordinators.groups.replaced_offsets import Progress, ReplacedOffsets
from kafkatools.core.broker.coordinators.groups.transactional_offsets import PendingOffsets

Place = tuple[str, int]


class Offsets:
    """By group, then topic and partition."""

    def __init__(self, progress: Callable[[str], Progress] | None = None) -> None:
        self._groups: dict[str, dict[Place, CommittedOffset]] = {}
        self.pending = PendingOffsets()
        self.replaced = ReplacedOffsets(progress)

    def put(self, group_id: str, place: Place, committed: CommittedOffset) -> None:
        """Remember an offset."""
        self.put_all(group_id, ((place, committed),))

    def put_all(self, group_id: str, committed: Iterable[tuple[Place, CommittedOffset]]) -> None:
        """Remember the offsets of a batch."""
        offsets, before = self._groups.setdefault(group_id, {}), self.replaced.batch(group_id)
        for place, each in committed:
            if self.pending:
                self.pending.supersede(group_id, place)
            if before is not None:
                before.setdefault(place, offsets.get(place))
            offsets[place] = each

    def get(self, group_id: str, place: Place) -> CommittedOffset | None:
        """The offset, None when there is none."""
        return self._groups.get(group_id, {}).get(place)

    def of_group(self, group_id: str) -> Mapping[Place, CommittedOffset]:
        """All of a group."""
        return self._groups.get(group_id, {})

    def has_more_than(self, count: int) -> bool:
        """Whether all groups together have more offsets than `count`."""
        return any(found > count for found in accumulate(map(len, self._groups.values())))

    def committed_of_group(self, group_id: str) -> Mapping[Place, CommittedOffset]:
        """The offsets of a group below the high watermark."""
        return self.replaced.before(group_id, self.of_group(group_id))

    def remove(self, group_id: str, place: Place) -> None:
        """Forget an offset."""
        if self.pending:
            self.pending.forget(group_id, place)
        offsets = self._groups.get(group_id)
        if offsets is not None:
            removed, before = offsets.pop(place, None), self.replaced.batch(group_id)
            if before is not None:
                before.setdefault(place, removed)
            if not offsets:
                del self._groups[group_id]

    def remove_group(self, group_id: str) -> None:
        """Forget all of a group, which was deleted."""
        self.pending.forget(group_id)
        removed, before = self._groups.pop(group_id, {}), self.replaced.batch(group_id)
        if before is not None:
            for place, committed in removed.items():
                before.setdefault(place, committed)

    def release(self, is_mine: Callable[[str], bool]) -> None:
        """Forget groups that another node coordinates from now on."""
        self.replaced.release(is_mine)
        for group_id in [group_id for group_id in self._groups if is_mine(group_id)]:
            del self._groups[group_id]

    def take_over(self, other: Offsets) -> None:
        """All offsets of groups that have none here."""
        self._groups.update(other._groups)
        self.replaced.take_over(other.replaced)

    def group_ids(self) -> list[str]:
        """The groups that have any."""
        return list(self._groups)

    def of_topic(self, topic: str) -> Iterator[tuple[str, Place]]:
        """Where a topic's offsets are."""
        for group_id, offsets in self._groups.items():
            for place in offsets:
                if place[0] == topic:
                    yield group_id, place

    def clear(self) -> None:
        """Forget everything."""
        self._groups.clear()
        self.pending.clear()
        self.replaced.release(lambda group_id: True)

    def complete_transaction(self, producer_id: int, is_taken: Callable[[str], bool], *, is_commit: bool) -> list[str]:
        """The marker of a transaction came: its offsets count from now on, or never. Gives the groups."""
        decided = list(self.pending.take(producer_id, is_taken))
        for group_id, place, found in decided:
            if is_commit and found.committed is not None:
                self.pending.supersede(group_id, place, found.order)
                offsets, before = self._groups.setdefault(group_id, {}), self.replaced.batch(group_id)
                if before is not None:
                    before.setdefault(place, offsets.get(place))
                offsets[place] = found.committed
        return [group_id for group_id, _, _ in decided]

    def expired(self, group: AnyGroup, wall_ms: int, retention_ms: int) -> list[Place]:
        """The offsets of a group that nobody has used for so long (cleanupExpiredOffsets)."""
        found = []
        for place, committed in self.of_group(group.group_id).items():
            base_ms = group.expiration_base_ms(place[0], committed.commit_ms)
            if base_ms is None or self.pending.is_pending(group.group_id, place):
                continue
            if committed.expire_ms is None:
                is_expired = wall_ms - base_ms >= retention_ms
            else:
                is_expired = wall_ms >= committed.expire_ms
            if is_expired:
                found.append(place)
        return found
