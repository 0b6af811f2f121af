"""The quorum's state from its leader, for DescribeQuorum."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import NamedTuple

from kafkatools.core.broker.metadata.quorum.quorum_states import Leader, ReplicaProgress


class ReplicaDescription(NamedTuple):
    """A voter or observer; timestamps in ms since 1970, -1 when unknown. Static voters have no directory id, as in
    Kafka."""

    replica_id: int
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    replica_directory_id: uuid.UUID | None = None


class QuorumDescription(NamedTuple):
    """The leader's view of the quorum; replicas are sorted by id."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]


def quorum_description(state: Leader, now_ms: int, wall_ms: int) -> QuorumDescription:
    """Describe the quorum from the leader's state, after removing observers that no longer fetch."""
    state.forget_observers(now_ms)

    def described(progress: ReplicaProgress) -> ReplicaDescription:
        if progress.replica_id == state.leader_id:
            return ReplicaDescription(progress.replica_id, progress.end_offset, wall_ms, wall_ms, progress.directory_id)
        fetched, caught_up = (
            -1 if at is None else wall_ms - (now_ms - at) for at in (progress.last_fetch_ms, progress.last_caught_up_ms)
        )
        return ReplicaDescription(progress.replica_id, progress.end_offset, fetched, caught_up, progress.directory_id)

    def all_of(replicas: Iterable[ReplicaProgress]) -> tuple[ReplicaDescription, ...]:
        return tuple(sorted((described(progress) for progress in replicas), key=lambda replica: replica.replica_id))

    voters, observers = all_of(state.voters.values()), all_of(state.observers.values())
    return QuorumDescription(state.leader_id, state.epoch, state.high_watermark, voters, observers)
