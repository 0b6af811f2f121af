"""The assigned partitions and their fetch positions (Kafka's SubscriptionState).

Rules: no I/O and no clock; `now_ms` is passed in. Each partition is in exactly one FetchState; only FETCHING partitions
are fetched. A new leader epoch sends a position with an offset epoch through AWAIT_VALIDATION (KIP-320), which detects
a truncated log. Partitions keep an order; a partition that was just read moves to the end.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kafkatools.core.config.setting import parse_iso_duration_ms
from kafkatools.core.consumer.errors import LogTruncation, NoOffsetForPartition
from kafkatools.core.errors import ConfigError
from kafkatools.core.topic_partition import TopicPartition as TopicPartition

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1


class LeaderAndEpoch(NamedTuple):
    """A partition leader's node id (-1 = none) and leader epoch (-1 = unknown)."""

    leader: int = -1
    epoch: int = -1


class FetchPosition(NamedTuple):
    """The next offset to read, the epoch of the record before it (-1 = unknown), and the leader it is valid for."""

    offset: int
    offset_epoch: int = -1
    leader: LeaderAndEpoch = LeaderAndEpoch()


@enum.unique
class FetchState(enum.Enum):
    """The fetch states of a partition: without position, fetching, waiting for an offset reset or for validation."""

    INITIALIZING = "initializing"
    FETCHING = "fetching"
    AWAIT_RESET = "await_reset"
    AWAIT_VALIDATION = "await_validation"


@enum.unique
class ResetKind(enum.Enum):
    """The kinds of auto.offset.reset policies."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    BY_DURATION = "by_duration"


class AutoOffsetResetStrategy(NamedTuple):
    """A parsed auto.offset.reset value: earliest, latest, none or by_duration:<ISO 8601 duration> (KIP-1106)."""

    kind: ResetKind
    duration_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> AutoOffsetResetStrategy:
        """Parse an auto.offset.reset value. Raises ConfigError for an invalid one."""
        word = text.strip().lower()
        if word in ("earliest", "latest", "none"):
            return cls(ResetKind(word))
        if word.startswith("by_duration:"):
            duration_ms = parse_iso_duration_ms(text.strip()[len("by_duration:") :])
            if duration_ms is not None:
                return cls(ResetKind.BY_DURATION, duration_ms)
        raise ConfigError(
            f"Invalid value {text} for configuration auto.offset.reset: Invalid value `{text}` for configuration "
            "auto.offset.reset. The value must be either 'earliest', 'latest', 'none' or of the format "
            "'by_duration:<PnDTnHnMn.nS.>'."
        )

    def timestamp(self, wall_ms: int) -> int:
        """Return the ListOffsets timestamp: -2 (earliest), -1 (latest or none), or `wall_ms` minus the duration, at
        least 0."""
        if self.kind is ResetKind.BY_DURATION:
            return max(0, wall_ms - self.duration_ms)
        return EARLIEST_TIMESTAMP if self.kind is ResetKind.EARLIEST else LATEST_TIMESTAMP


class TopicPartitionState:
    """The fetch state, position and log offsets of one assigned partition."""

    __slots__ = (
        "state",
        "position",
        "paused",
        "pending_revocation",
        "reset_strategy",
        "next_retry_ms",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "preferred_read_replica",
        "preferred_replica_expires_ms",
    )

    def __init__(self) -> None:
        self.state = FetchState.INITIALIZING
        self.position: FetchPosition | None = None
        self.paused = self.pending_revocation = False
        self.reset_strategy: AutoOffsetResetStrategy | None = None
        self.next_retry_ms = 0
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.preferred_read_replica: int | None = None
        self.preferred_replica_expires_ms = 0

    @property
    def is_fetchable(self) -> bool:
        """Return whether the partition may be fetched: FETCHING, not paused and not being revoked."""
        return self.state is FetchState.FETCHING and not self.paused and not self.pending_revocation

    def has_valid_position(self) -> bool:
        """Return whether the position is set and validated (state FETCHING)."""
        return self.state is FetchState.FETCHING

    def reset(self, strategy: AutoOffsetResetStrategy) -> None:
        """Drop the position and wait for the offset that `strategy` finds."""
        self.state, self.reset_strategy = FetchState.AWAIT_RESET, strategy
        self.position, self.next_retry_ms = None, 0

    def seek_validated(self, position: FetchPosition) -> None:
        """Set the position and fetch from it at once."""
        self.state, self.position = FetchState.FETCHING, position
        self.reset_strategy, self.next_retry_ms = None, 0

    def seek_unvalidated(self, position: FetchPosition) -> None:
        """Set the position and validate it first when its epochs are known."""
        self.seek_validated(position)
        self.validate(position)

    def validate(self, position: FetchPosition) -> None:
        """Set the position; it awaits validation when both its epochs are known, else it is fetched at once."""
        self.position, self.next_retry_ms = position, 0
        needed = position.offset_epoch >= 0 and position.leader.epoch >= 0
        self.state = FetchState.AWAIT_VALIDATION if needed else FetchState.FETCHING


class SubscriptionState:
    """The assigned partitions in fetch order, with their positions, resets and validations."""

    def __init__(self, default_reset: AutoOffsetResetStrategy) -> None:
        self.default_reset = default_reset
        self._assignment: dict[TopicPartition, TopicPartitionState] = {}
        self.assignment_version = 0
        """A counter that grows with every call of `assign`."""

    # --- assignment

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment; partitions that stay assigned keep their state."""
        old = self._assignment
        self.assignment_version += 1
        self._assignment = {part: old.get(part) or TopicPartitionState() for part in partitions}

    def assigned_partitions(self) -> list[TopicPartition]:
        """Return the assigned partitions in fetch order."""
        return list(self._assignment)

    def is_assigned(self, partition: TopicPartition) -> bool:
        """Return whether the partition is assigned."""
        return partition in self._assignment

    def topics(self) -> set[str]:
        """Return the topics of the assigned partitions."""
        return {part.topic for part in self._assignment}

    def state(self, partition: TopicPartition) -> TopicPartitionState:
        """Return the state of an assigned partition. Raises ValueError for a partition that is not assigned."""
        state = self._assignment.get(partition)
        if state is None:
            raise ValueError(f"No current assignment for partition {partition}")
        return state

    def state_or_none(self, partition: TopicPartition) -> TopicPartitionState | None:
        """Return the partition's state, None when it is not assigned."""
        return self._assignment.get(partition)

    def move_partition_to_end(self, partition: TopicPartition) -> None:
        """Move a partition to the end of the fetch order, so that no partition starves."""
        state = self._assignment.pop(partition, None)
        if state is not None:
            self._assignment[partition] = state

    # --- positions

    def position(self, partition: TopicPartition) -> FetchPosition | None:
        """Return the partition's position, None before it is set. Raises ValueError when not assigned."""
        return self.state(partition).position

    def seek(self, partition: TopicPartition, position: FetchPosition) -> None:
        """Set an assigned partition's position, to be validated if its epochs are known. Raises ValueError when not
        assigned."""
        self.state(partition).seek_unvalidated(position)

    def pause(self, partition: TopicPartition) -> None:
        """Stop fetching an assigned partition until `resume`. Raises ValueError when not assigned."""
        self.state(partition).paused = True

    def resume(self, partition: TopicPartition) -> None:
        """Fetch a paused partition again. Raises ValueError when not assigned."""
        self.state(partition).paused = False

    def paused_partitions(self) -> list[TopicPartition]:
        """Return the paused partitions."""
        return [part for part, state in self._assignment.items() if state.paused]

    def fetchable_partitions(self, predicate: Callable[[TopicPartition], bool]) -> list[TopicPartition]:
        """Return the fetchable partitions that satisfy the predicate, in fetch order."""
        return [part for part, state in self._assignment.items() if state.is_fetchable and predicate(part)]

    # --- reset

    def request_offset_reset(self, partition: TopicPartition, strategy: AutoOffsetResetStrategy | None = None) -> None:
        """Drop a partition's position and reset it by `strategy` (default: auto.offset.reset). Raises ValueError when
        not assigned."""
        self.state(partition).reset(strategy or self.default_reset)

    def has_default_reset_policy(self) -> bool:
        """Return whether auto.offset.reset is not none."""
        return self.default_reset.kind is not ResetKind.NONE

    def initializing_partitions(self) -> list[TopicPartition]:
        """Return the partitions that have no position and no reset pending; partitions being revoked are left out."""
        return [
            part
            for part, state in self._assignment.items()
            if state.state is FetchState.INITIALIZING and not state.pending_revocation
        ]

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching and returning these partitions while their offsets are committed before revocation."""
        for part in partitions:
            state = self._assignment.get(part)
            if state is not None:
                state.pending_revocation = True

    def reset_initializing_positions(self, among: Iterable[TopicPartition] | None = None) -> None:
        """Request an offset reset of the partitions (None: all) in state INITIALIZING. Raises NoOffsetForPartition for
        auto.offset.reset=none."""
        waiting = self.initializing_partitions()
        if among is not None:
            candidates = set(among)
            waiting = [part for part in waiting if part in candidates]
        if waiting and not self.has_default_reset_policy():
            raise NoOffsetForPartition(waiting)
        for part in waiting:
            self.request_offset_reset(part)

    def partitions_needing_reset(self, now_ms: int) -> dict[TopicPartition, AutoOffsetResetStrategy]:
        """Return the partitions that await a reset and whose retry time has come, with their reset strategies."""
        return {
            part: state.reset_strategy
            for part, state in self._assignment.items()
            if state.state is FetchState.AWAIT_RESET and state.next_retry_ms <= now_ms and state.reset_strategy
        }

    def maybe_seek_unvalidated(
        self, partition: TopicPartition, position: FetchPosition, strategy: AutoOffsetResetStrategy
    ) -> None:
        """Apply a reset's offset unless the partition was unassigned, sought or reset otherwise since the request."""
        state = self._awaiting_reset(partition, strategy)
        if state is not None:
            state.seek_unvalidated(position)

    def maybe_replace_reset(
        self, partition: TopicPartition, old: AutoOffsetResetStrategy, new: AutoOffsetResetStrategy
    ) -> None:
        """Replace the pending reset strategy `old` by `new`, if the partition still waits for `old`."""
        state = self._awaiting_reset(partition, old)
        if state is not None:
            state.reset(new)

    def _awaiting_reset(
        self, partition: TopicPartition, strategy: AutoOffsetResetStrategy
    ) -> TopicPartitionState | None:
        """Return the state of a partition that waits for a reset by this strategy, else None."""
        state = self._assignment.get(partition)
        if state is None or state.state is not FetchState.AWAIT_RESET or state.reset_strategy != strategy:
            return None
        return state

    # --- validation

    def maybe_validate_position_for_current_leader(self, partition: TopicPartition, leader: LeaderAndEpoch) -> bool:
        """Store the current leader in the position, if there is a leader; return whether the position awaits
        validation. False for a partition that is not assigned, has no position or awaits a reset."""
        state = self._assignment.get(partition)
        if state is None or state.position is None or state.state is FetchState.AWAIT_RESET:
            return False
        if state.position.leader != leader and leader.leader >= 0:
            state.validate(state.position._replace(leader=leader))
        return state.state is FetchState.AWAIT_VALIDATION

    def partitions_needing_validation(self, now_ms: int) -> list[TopicPartition]:
        """Return the partitions whose position awaits validation and whose retry time has come."""
        return [
            part
            for part, state in self._assignment.items()
            if state.state is FetchState.AWAIT_VALIDATION and state.next_retry_ms <= now_ms
        ]

    def complete_validation(self, partition: TopicPartition) -> None:
        """Accept a position without validation, because the broker is too old for OffsetForLeaderEpoch."""
        state = self._assignment.get(partition)
        if state is not None and state.state is FetchState.AWAIT_VALIDATION:
            state.state = FetchState.FETCHING

    def maybe_complete_validation(
        self, partition: TopicPartition, requested: FetchPosition, epoch: int, end_offset: int
    ) -> None:
        """Validate a position against the leader's end offset for its epoch (-1 = undefined). When the log was
        truncated below the position, the position moves back to that end offset. An undefined end resets the position.
        Raises LogTruncation in both cases when auto.offset.reset=none. A response for a position that has changed since
        the request is ignored."""
        state = self._assignment.get(partition)
        if state is None or state.state is not FetchState.AWAIT_VALIDATION or state.position != requested:
            return
        undefined = end_offset < 0 or epoch < 0
        if not undefined and end_offset >= requested.offset:
            state.state = FetchState.FETCHING
        elif not self.has_default_reset_policy():
            raise LogTruncation(*partition, requested.offset, None if undefined else end_offset)
        elif undefined:
            self.request_offset_reset(partition)
        else:
            state.seek_validated(FetchPosition(end_offset, epoch, requested.leader))

    def set_next_retry(self, partitions: Iterable[TopicPartition], retry_ms: int) -> None:
        """Delay further reset and validation requests for these partitions until `retry_ms`."""
        for part in partitions:
            state = self._assignment.get(part)
            if state is not None:
                state.next_retry_ms = retry_ms

    # --- read replicas (KIP-392)

    def preferred_read_replica(self, partition: TopicPartition, now_ms: int) -> int | None:
        """Return the follower to read from (KIP-392), None when the leader named none. An expired preference is dropped
        and returns None."""
        state = self._assignment.get(partition)
        if state is None or state.preferred_read_replica is None:
            return None
        if now_ms >= state.preferred_replica_expires_ms:
            state.preferred_read_replica = None
        return state.preferred_read_replica

    def set_preferred_read_replica(self, partition: TopicPartition, node: int, expires_ms: int) -> None:
        """Read the partition from this follower until `expires_ms` (KIP-392). Naming the present follower again does
        not extend its time."""
        state = self._assignment.get(partition)
        if state is not None and state.preferred_read_replica != node:
            state.preferred_read_replica, state.preferred_replica_expires_ms = node, expires_ms

    def clear_preferred_read_replica(self, partition: TopicPartition) -> int | None:
        """Read from the leader again; return the follower that was preferred, or None."""
        state = self._assignment.get(partition)
        if state is None:
            return None
        old, state.preferred_read_replica = state.preferred_read_replica, None
        return old
