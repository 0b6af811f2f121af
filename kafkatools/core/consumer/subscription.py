"""Which partitions are read and where: Kafka's SubscriptionState.

Rules: no I/O and no clock; `now_ms` is passed in. A partition is always in one FetchState and only FETCHING partitions
are fetched. Every change of the position's leader epoch sends a partition with a known offset epoch through
AWAIT_VALIDATION (KIP-320), so that a log that was truncated behind our back is noticed and not read on. Partitions keep
an order; one that was just read moves to the end of it.
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
    """A leader (node id, -1 = none) and its epoch (-1 = not known)."""

    leader: int = -1
    epoch: int = -1


class FetchPosition(NamedTuple):
    """The next offset to read, the epoch of the record before it and the leader it is valid for."""

    offset: int
    offset_epoch: int = -1
    leader: LeaderAndEpoch = LeaderAndEpoch()


class FetchState(enum.Enum):
    """What has to happen before a partition can be fetched."""

    INITIALIZING = "initializing"
    FETCHING = "fetching"
    AWAIT_RESET = "await_reset"
    AWAIT_VALIDATION = "await_validation"


class ResetKind(enum.Enum):
    """The kinds of auto.offset.reset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    BY_DURATION = "by_duration"


class AutoOffsetResetStrategy(NamedTuple):
    """auto.offset.reset: earliest, latest, none or by_duration:<ISO 8601 duration> (KIP-1106)."""

    kind: ResetKind
    duration_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> AutoOffsetResetStrategy:
        """Reads a setting; raises ConfigError for anything else."""
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
        """The timestamp a ListOffsets request asks for."""
        if self.kind is ResetKind.BY_DURATION:
            return max(0, wall_ms - self.duration_ms)
        return EARLIEST_TIMESTAMP if self.kind is ResetKind.EARLIEST else LATEST_TIMESTAMP


class TopicPartitionState:
    """The state of one assigned partition."""

    __slots__ = (
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "next_retry_ms",
        "paused",
        "pending_revocation",
        "position",
        "preferred_read_replica",
        "preferred_replica_expires_ms",
        "reset_strategy",
        "state",
    )

    def __init__(self) -> None:
        self.state = FetchState.INITIALIZING
        self.position: FetchPosition | None = None
        self.paused = False
        self.pending_revocation = False
        self.reset_strategy: AutoOffsetResetStrategy | None = None
        self.next_retry_ms = 0
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.preferred_read_replica: int | None = None
        self.preferred_replica_expires_ms = 0

    @property
    def is_fetchable(self) -> bool:
        """Whether the partition may be asked for."""
        return self.state is FetchState.FETCHING and not self.paused and not self.pending_revocation

    def has_valid_position(self) -> bool:
        """Whether records from the position on may be handed out."""
        return self.state is FetchState.FETCHING

    def reset(self, strategy: AutoOffsetResetStrategy) -> None:
        self.state, self.reset_strategy = FetchState.AWAIT_RESET, strategy
        self.position, self.next_retry_ms = None, 0

    def seek_validated(self, position: FetchPosition) -> None:
        self.state, self.position = FetchState.FETCHING, position
        self.reset_strategy, self.next_retry_ms = None, 0

    def seek_unvalidated(self, position: FetchPosition) -> None:
        self.seek_validated(position)
        self.validate(position)

    def validate(self, position: FetchPosition) -> None:
        """Goes through validation when the position has both epochs it needs, else is taken as it is."""
        self.position, self.next_retry_ms = position, 0
        needed = position.offset_epoch >= 0 and position.leader.epoch >= 0
        self.state = FetchState.AWAIT_VALIDATION if needed else FetchState.FETCHING


class SubscriptionState:
    """The assigned partitions, their positions and what they wait for."""

    def __init__(self, default_reset: AutoOffsetResetStrategy) -> None:
        self.default_reset = default_reset
        self._assignment: dict[TopicPartition, TopicPartitionState] = {}

    # --- assignment

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Takes exactly these partitions; those that stay keep their position."""
        old = self._assignment
        self._assignment = {part: old.get(part) or TopicPartitionState() for part in partitions}

    def assigned_partitions(self) -> list[TopicPartition]:
        """The partitions in fetch order."""
        return list(self._assignment)

    def is_assigned(self, partition: TopicPartition) -> bool:
        return partition in self._assignment

    def topics(self) -> set[str]:
        """The topics metadata is needed for."""
        return {part.topic for part in self._assignment}

    def state(self, partition: TopicPartition) -> TopicPartitionState:
        """The state of an assigned partition; raises ValueError for another."""
        found = self._assignment.get(partition)
        if found is None:
            raise ValueError(f"No current assignment for partition {partition}")
        return found

    def state_or_none(self, partition: TopicPartition) -> TopicPartitionState | None:
        return self._assignment.get(partition)

    def move_partition_to_end(self, partition: TopicPartition) -> None:
        """Lets the other partitions go first the next time, so that none starves."""
        state = self._assignment.pop(partition, None)
        if state is not None:
            self._assignment[partition] = state

    # --- positions

    def position(self, partition: TopicPartition) -> FetchPosition | None:
        return self.state(partition).position

    def seek(self, partition: TopicPartition, position: FetchPosition) -> None:
        self.state(partition).seek_unvalidated(position)

    def pause(self, partition: TopicPartition) -> None:
        self.state(partition).paused = True

    def resume(self, partition: TopicPartition) -> None:
        self.state(partition).paused = False

    def paused_partitions(self) -> list[TopicPartition]:
        return [part for part, state in self._assignment.items() if state.paused]

    def is_fetchable(self, partition: TopicPartition) -> bool:
        state = self._assignment.get(partition)
        return state is not None and state.is_fetchable

    def fetchable_partitions(self, wanted: Callable[[TopicPartition], bool]) -> list[TopicPartition]:
        return [part for part, state in self._assignment.items() if state.is_fetchable and wanted(part)]

    # --- reset

    def request_offset_reset(self, partition: TopicPartition, strategy: AutoOffsetResetStrategy | None = None) -> None:
        """Asks for a new position by `strategy` (default: auto.offset.reset)."""
        self.state(partition).reset(strategy or self.default_reset)

    def has_default_reset_policy(self) -> bool:
        return self.default_reset.kind is not ResetKind.NONE

    def initializing_partitions(self) -> list[TopicPartition]:
        """The partitions that have no position yet and do not wait for one."""
        return [
            part
            for part, state in self._assignment.items()
            if state.state is FetchState.INITIALIZING and not state.pending_revocation
        ]

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing more is fetched or handed out of these: their offsets are being committed before they go."""
        for part in partitions:
            state = self._assignment.get(part)
            if state is not None:
                state.pending_revocation = True

    def reset_initializing_positions(self, among: Iterable[TopicPartition] | None = None) -> None:
        """Partitions that have no position yet go to the default policy; raises NoOffsetForPartition without one."""
        waiting = self.initializing_partitions()
        if among is not None:
            chosen = set(among)
            waiting = [part for part in waiting if part in chosen]
        if waiting and not self.has_default_reset_policy():
            raise NoOffsetForPartition(waiting)
        for part in waiting:
            self.request_offset_reset(part)

    def partitions_needing_reset(self, now_ms: int) -> dict[TopicPartition, AutoOffsetResetStrategy]:
        return {
            part: state.reset_strategy
            for part, state in self._assignment.items()
            if state.state is FetchState.AWAIT_RESET and state.next_retry_ms <= now_ms and state.reset_strategy
        }

    def maybe_seek_unvalidated(
        self, partition: TopicPartition, position: FetchPosition, strategy: AutoOffsetResetStrategy
    ) -> None:
        """Takes the answer to a reset, unless the partition was moved, seeked or given away meanwhile."""
        state = self._awaiting_reset(partition, strategy)
        if state is not None:
            state.seek_unvalidated(position)

    def maybe_replace_reset(
        self, partition: TopicPartition, old: AutoOffsetResetStrategy, new: AutoOffsetResetStrategy
    ) -> None:
        """Asks by another policy, when the partition still waits for the answer to the old one."""
        state = self._awaiting_reset(partition, old)
        if state is not None:
            state.reset(new)

    def _awaiting_reset(
        self, partition: TopicPartition, strategy: AutoOffsetResetStrategy
    ) -> TopicPartitionState | None:
        """The state of a partition that waits for the answer to a reset by this policy."""
        state = self._assignment.get(partition)
        if state is None or state.state is not FetchState.AWAIT_RESET or state.reset_strategy != strategy:
            return None
        return state

    # --- validation

    def maybe_validate_position_for_current_leader(self, partition: TopicPartition, leader: LeaderAndEpoch) -> bool:
        """Notes the leader of now; True when the position has to be validated against it."""
        state = self._assignment.get(partition)
        if state is None or state.position is None or state.state is FetchState.AWAIT_RESET:
            return False
        if state.position.leader != leader and leader.leader >= 0:
            state.validate(state.position._replace(leader=leader))
        return state.state is FetchState.AWAIT_VALIDATION

    def partitions_needing_validation(self, now_ms: int) -> list[TopicPartition]:
        return [
            part
            for part, state in self._assignment.items()
            if state.state is FetchState.AWAIT_VALIDATION and state.next_retry_ms <= now_ms
        ]

    def complete_validation(self, partition: TopicPartition) -> None:
        """The broker cannot tell epochs' ends: the position is taken as it is."""
        state = self._assignment.get(partition)
        if state is not None and state.state is FetchState.AWAIT_VALIDATION:
            state.state = FetchState.FETCHING

    def maybe_complete_validation(
        self, partition: TopicPartition, asked: FetchPosition, epoch: int, end_offset: int
    ) -> None:
        """Compares a position with the end of its epoch on the leader.

        Moves back to the end of the epoch when the log was truncated below the position, or resets; raises
        LogTruncation when there is no reset policy. An answer for a position that has changed meanwhile is ignored.
        """
        state = self._assignment.get(partition)
        if state is None or state.state is not FetchState.AWAIT_VALIDATION or state.position != asked:
            return
        undefined = end_offset < 0 or epoch < 0
        if not undefined and end_offset >= asked.offset:
            state.state = FetchState.FETCHING
        elif not self.has_default_reset_policy():
            raise LogTruncation(*partition, asked.offset, None if undefined else end_offset)
        elif undefined:
            self.request_offset_reset(partition)
        else:
            state.seek_validated(FetchPosition(end_offset, epoch, asked.leader))

    def set_next_retry(self, partitions: Iterable[TopicPartition], retry_ms: int) -> None:
        """Resets and validations that are on their way are not asked for again before `retry_ms`."""
        for part in partitions:
            state = self._assignment.get(part)
            if state is not None:
                state.next_retry_ms = retry_ms

    # --- read replicas (KIP-392)

    def preferred_read_replica(self, partition: TopicPartition, now_ms: int) -> int | None:
        """The follower the leader told us to read from, as long as that holds."""
        state = self._assignment.get(partition)
        if state is None or state.preferred_read_replica is None:
            return None
        if now_ms >= state.preferred_replica_expires_ms:
            state.preferred_read_replica = None
        return state.preferred_read_replica

    def set_preferred_read_replica(self, partition: TopicPartition, node: int, expires_ms: int) -> None:
        state = self._assignment.get(partition)
        if state is not None and state.preferred_read_replica != node:
            state.preferred_read_replica, state.preferred_replica_expires_ms = node, expires_ms

    def clear_preferred_read_replica(self, partition: TopicPartition) -> int | None:
        """Goes back to the leader; returns the replica that was read."""
        state = self._assignment.get(partition)
        if state is None:
            return None
        old, state.preferred_read_replica = state.preferred_read_replica, None
        return old
