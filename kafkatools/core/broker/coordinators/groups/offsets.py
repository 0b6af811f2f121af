"""The committed offsets of all groups in memory (Kafka's OffsetMetadataManager); `pending` holds those of open
transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup
from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset
from kafkatools.core.broker.coordinators.groups.transactional_offsets import PendingOffsets

Place = tuple[str, int]


class Offsets:
    """By group, then topic and partition."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Place, CommittedOffset]] = {}
        self.pending = PendingOffsets()

    def put(self, group_id: str, place: Place, committed: CommittedOffset) -> None:
        """Remember an offset."""
        if self.pending:
            self.pending.supersede(group_id, place)
        self._groups.setdefault(group_id, {})[place] = committed

    def get(self, group_id: str, place: Place) -> CommittedOffset | None:
        """The offset, None when there is none."""
        return self._groups.get(group_id, {}).get(place)

    def of_group(self, group_id: str) -> Mapping[Place, CommittedOffset]:
        """All of a group."""
        return self._groups.get(group_id, {})

    def remove(self, group_id: str, place: Place) -> None:
        """Forget an offset."""
        if self.pending:
            self.pending.forget(group_id, place)
        offsets = self._groups.get(group_id)
        if offsets is not None:
            offsets.pop(place, None)
            if not offsets:
                del self._groups[group_id]

    def remove_group(self, group_id: str) -> None:
        """Forget all of a group."""
        self.pending.forget(group_id)
        self._groups.pop(group_id, None)

    def take_over(self, other: Offsets) -> None:
        """All offsets of groups that have none here."""
        self._groups.update(other._groups)

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

    def complete_transaction(self, producer_id: int, is_taken: Callable[[str], bool], *, is_commit: bool) -> list[str]:
        """The marker of a transaction came: its offsets count from now on, or never. Gives the groups."""
        decided = list(self.pending.take(producer_id, is_taken))
        for group_id, place, found in decided:
            if is_commit and found.committed is not None:
                self.pending.supersede(group_id, place, found.order)
                self._groups.setdefault(group_id, {})[place] = found.committed
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
