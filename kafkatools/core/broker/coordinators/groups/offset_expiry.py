"""Expiry of committed offsets (cleanupGroupMetadata, cleanupExpiredOffsets), in between the requests of clients.

Rules: offsets are checked and deleted in chunks, for some milliseconds per turn. Between two chunks a request may
commit or delete offsets, and groups may change, be deleted or move to another broker. So each chunk looks up its
offsets, and work on a group ends when another group or none has its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup
from kafkatools.core.broker.coordinators.groups.keyed_timer import KeyedTimer
from kafkatools.core.broker.coordinators.groups.offsets import Offsets, Place
from kafkatools.core.broker.coordinators.groups.share.group import ShareGroup
from kafkatools.core.errors import KafkaError

OFFSETS_IN_CHUNK = 1000


@dataclass(eq=False, repr=False)
class OffsetExpiry:
    """Deletes expired offsets and the groups that they leave empty, by `delete_offsets` and `delete_group`."""

    groups: Mapping[str, AnyGroup]
    offsets: Offsets
    delete_offsets: Callable[[str, list[Place]], None]
    delete_group: Callable[[AnyGroup], None]
    timer: KeyedTimer

    def start(self, retention_ms: int) -> None:
        """Delete the expired offsets of all groups but share groups, and empty groups without offsets. Work that takes
        longer than a turn goes on in the next ones. Reports failed writes."""
        self.timer.run_in_slices("offset expiry", self._chunks(retention_ms))

    def _chunks(self, retention_ms: int) -> Iterator[None]:
        for group_id in list(self.groups):  # not the groups: to free all deleted ones at the end would take long
            group = self.groups.get(group_id)
            if group is None or isinstance(group, ShareGroup):
                continue
            try:
                yield from self._chunks_of(group_id, group, retention_ms)
            except KafkaError as error:
                self.timer.note_failure(error)

    def _chunks_of(self, group_id: str, group: AnyGroup, retention_ms: int) -> Iterator[None]:
        places = list(self.offsets.of_group(group_id))
        for start in range(0, len(places), OFFSETS_IN_CHUNK):
            if self.groups.get(group_id) is not group:
                return
            chunk = places[start : start + OFFSETS_IN_CHUNK]
            self.delete_offsets(group_id, [place for place in chunk if self._is_expired(group, place, retention_ms)])
            yield
        if self.groups.get(group_id) is group and group.is_empty and not self.offsets.has_group(group_id):
            self.delete_group(group)
            yield

    def _is_expired(self, group: AnyGroup, place: Place, retention_ms: int) -> bool:
        """Return whether `retention_ms` have passed since the start of the offset's retention (`expiration_base_ms`:
        the commit, or when a group that had members became empty), or the commit's own expiry time if it has one. An
        offset whose retention has not started, or a partition with a pending offset, does not expire."""
        committed = self.offsets.get(group.group_id, place)
        if committed is None:
            return False
        base_ms = group.expiration_base_ms(place[0], committed.commit_ms)
        if base_ms is None or self.offsets.pending.is_pending(group.group_id, place):
            return False
        expiry_ms = base_ms + retention_ms if committed.expire_ms is None else committed.expire_ms
        return self.timer.clock.wall_ms() >= expiry_ms
