"""The share coordinator: the persisted state of share partitions (Kafka's ShareCoordinatorShard, KIP-932).

Rules: the first record of a share partition is a snapshot of its whole state, and so is the one after
`updates_per_snapshot` updates. InitializeShareGroupState and `prune` also write snapshots; a write in between holds
changes only. A change is appended to the log before requests see it. A request with an older leader epoch or state
epoch is fenced; epoch -1 is not checked in reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from kafkatools.core import errors
from kafkatools.core.broker.coordinators.share_state.share_state import (
    UNINITIALIZED_COUNT,
    ShareKey,
    ShareState,
    ShareUpdate,
    batches_of,
    key_of,
    name_of,
    snapshot_record,
    state_of,
    tombstone,
    update_record,
)
from kafkatools.core.broker.coordinators.share_state.share_state_topic import ShareStateTopic
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.clock import Clock

UNKNOWN_EPOCH = -1


class _StateEntry:
    """A share partition's state, the offset of its last snapshot record, and the number of updates since that
    snapshot."""

    __slots__ = ("snapshot_offset", "state", "updates")

    def __init__(self, state: ShareState, snapshot_offset: int) -> None:
        self.state = state
        self.snapshot_offset = snapshot_offset
        self.updates = 0


@dataclass(eq=False, repr=False)
class ShareCoordinator:
    """The states of all share partitions that this broker coordinates. `has_partition` tells whether the topic's
    partition exists. `ensure_active` raises NotCoordinator or CoordinatorLoadInProgress for the name of a share
    partition that this broker does not coordinate, or whose `__share_group_state` partition is loading."""

    store: ShareStateTopic
    clock: Clock
    has_partition: Callable[[ShareKey], bool]
    ensure_active: Callable[[str], None] = lambda name: None
    _: KW_ONLY
    updates_per_snapshot: int
    cold_interval_ms: int
    _states: dict[ShareKey, _StateEntry] = field(default_factory=dict, init=False)

    # -- requests --------------------------------------------------------------------------------------------------
    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> ProduceStatus | None:
        """InitializeShareGroupState: reset a share partition's state to a start offset (-1: not known yet), without
        batches. Keeps the leader epoch. Returns the append to wait for, None if it is replicated. Raises
        FencedStateEpoch for an older state epoch, InvalidRequest, UnknownTopicOrPartition or another KafkaError."""
        self._check(key)
        entry = self._states.get(key)
        if entry is not None and state_epoch < entry.state.state_epoch:
            raise errors.FencedStateEpoch()
        now_ms = self.clock.wall_ms()
        state = ShareState(
            0 if entry is None else entry.state.snapshot_epoch + 1,
            state_epoch,
            0 if entry is None else entry.state.leader_epoch,
            start_offset,
            UNINITIALIZED_COUNT if start_offset < 0 else 0,
            now_ms,
            now_ms,
        )
        return self._snapshot(key, state)

    def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """ReadShareGroupState: the state of a share partition. Writes a newer `leader_epoch` to the log and the state,
        without waiting for replication; -1 is not checked. Raises InvalidRequest without a state, FencedLeaderEpoch for
        an older leader, or another KafkaError."""
        self.ensure_active(name_of(key))
        entry = self._states.get(key)
        if entry is None:
            raise errors.InvalidRequest("Read operation on uninitialized share partition not allowed.")
        self._check(key)
        if leader_epoch != UNKNOWN_EPOCH and leader_epoch < entry.state.leader_epoch:
            raise errors.FencedLeaderEpoch()
        if leader_epoch > entry.state.leader_epoch:
            self._update(
                key,
                entry,
                ShareUpdate(entry.state.state_epoch, leader_epoch, -1, entry.state.delivery_complete_count, ()),
            )
        return self._states[key].state

    def summary(self, key: ShareKey) -> ShareState | None:
        """ReadShareGroupStateSummary: the state of a share partition, None without one. Raises InvalidRequest for a
        negative partition, UnknownTopicOrPartition, NotCoordinator or CoordinatorLoadInProgress."""
        self._check(key)
        entry = self._states.get(key)
        return None if entry is None else entry.state

    def write(self, key: ShareKey, update: ShareUpdate) -> ProduceStatus | None:
        """WriteShareGroupState: write an update of a share partition's state. Returns the append to wait for, None if
        it is replicated. Raises InvalidRequest without a state, FencedLeaderEpoch or FencedStateEpoch for an older
        epoch, or another KafkaError. The update's state epoch is checked, not stored; -1 skips the check of an
        epoch."""
        self._check(key)
        entry = self._states.get(key)
        if entry is None:
            raise errors.InvalidRequest("Write operation on uninitialized share partition not allowed.")
        if update.leader_epoch != UNKNOWN_EPOCH and update.leader_epoch < entry.state.leader_epoch:
            raise errors.FencedLeaderEpoch()
        if update.state_epoch != UNKNOWN_EPOCH and update.state_epoch < entry.state.state_epoch:
            raise errors.FencedStateEpoch()
        return self._update(key, entry, update)

    def delete(self, key: ShareKey) -> ProduceStatus | None:
        """DeleteShareGroupState: write a tombstone and forget the state of a share partition. Returns the append to
        wait for, None if it is replicated or there was no state. Raises a KafkaError."""
        self._check(key)
        return self._delete(key)

    def _delete(self, key: ShareKey) -> ProduceStatus | None:
        if key not in self._states:
            return None
        _, status = self.store.append(key, tombstone(key))
        del self._states[key]
        return status

    def _check(self, key: ShareKey) -> None:
        if key.partition < 0:
            raise errors.InvalidRequest("The partition id cannot be a negative number.")
        self.ensure_active(name_of(key))
        if not self.has_partition(key):
            raise errors.UnknownTopicOrPartition()

    # -- writing ---------------------------------------------------------------------------------------------------
    def _update(self, key: ShareKey, entry: _StateEntry, update: ShareUpdate) -> ProduceStatus | None:
        state = entry.state.with_update(
            update.start_offset, update.delivery_complete_count, update.leader_epoch, update.batches
        )
        if entry.updates >= self.updates_per_snapshot:
            return self._snapshot_again(key, state)
        _, status = self.store.append(key, update_record(key, state.snapshot_epoch, update))
        entry.state = state
        entry.updates += 1
        return status

    def _snapshot_again(self, key: ShareKey, state: ShareState) -> ProduceStatus | None:
        now_ms = self.clock.wall_ms()
        return self._snapshot(key, replace(state, snapshot_epoch=state.snapshot_epoch + 1, write_timestamp=now_ms))

    def _snapshot(self, key: ShareKey, state: ShareState) -> ProduceStatus | None:
        offset, status = self.store.append(key, snapshot_record(key, state))
        self._states[key] = _StateEntry(state, offset)
        return status

    # -- periodic work ---------------------------------------------------------------------------------------------
    def prune(self) -> None:
        """Write new snapshots of states whose last snapshot is at least `cold_interval_ms` old. Then delete the log
        before the oldest snapshot of each `__share_group_state` partition. Raises the first KafkaError after trying all
        states. A state whose new snapshot failed keeps its old one in the log."""
        now_ms = self.clock.wall_ms()
        oldest: dict[int, int] = {}
        idle = [
            key for key, entry in self._states.items() if now_ms - entry.state.write_timestamp >= self.cold_interval_ms
        ]
        failures = _failures(idle, lambda key: self._snapshot_again(key, self._states[key].state))
        for key, entry in self._states.items():
            index = self.store.index_of(key)
            oldest[index] = min(oldest.get(index, entry.snapshot_offset), entry.snapshot_offset)
        for index, offset in oldest.items():
            self.store.prune(index, offset)
        if failures:
            raise failures[0]

    def forget_topic(self, topic_id: object) -> None:
        """Delete the states of a deleted topic, with tombstones. Raises the first KafkaError after trying all states; a
        state that failed is kept."""
        failures = _failures([key for key in self._states if key.topic_id == topic_id], self._delete)
        if failures:
            raise failures[0]

    def unload(self) -> None:
        """Forget all states because `__share_group_state` was deleted."""
        self._states.clear()

    # -- loading and unloading -------------------------------------------------------------------------------------
    def release(self, is_released: Callable[[str], bool]) -> None:
        """Forget the states of share partitions for whose name (`group:topic id:partition`) `is_released` is true.
        Another broker now coordinates them. Writes nothing."""
        for key in [key for key in self._states if is_released(name_of(key))]:
            del self._states[key]

    def load(self, records: Iterable[tuple[int, Any, Any]]) -> None:
        """Apply records of `__share_group_state` in offset order: rows of offset, key entity and value entity. A
        tombstone removes a state; an update without an earlier snapshot is ignored."""
        for offset, key_entity, value in records:
            key = key_of(key_entity)
            if value is None:
                self._states.pop(key, None)
            elif type(key_entity).__schema__.name == "ShareSnapshotKey":
                self._states[key] = _StateEntry(state_of(value), offset)
            elif key in self._states:
                entry = self._states[key]
                entry.updates += 1
                entry.state = entry.state.with_update(
                    value.start_offset,
                    value.delivery_complete_count,
                    value.leader_epoch,
                    batches_of(value.state_batches),
                )


def _failures(keys: Iterable[ShareKey], work: Callable[[ShareKey], object]) -> list[errors.KafkaError]:
    """Call `work` for each key. Returns the KafkaErrors raised."""
    failures = []
    for key in keys:
        try:
            work(key)
        except errors.KafkaError as error:
            failures.append(error)
    return failures
