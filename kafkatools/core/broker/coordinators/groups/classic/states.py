"""The states of a classic group and the transitions between them (Kafka's ClassicGroupState)."""

from __future__ import annotations

from enum import Enum, unique


@unique
class GroupState(Enum):
    """The state of a classic group; the value is the name that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


PREVIOUS_STATES: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset([GroupState.PREPARING_REBALANCE]),
    GroupState.PREPARING_REBALANCE: frozenset([GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY]),
    GroupState.COMPLETING_REBALANCE: frozenset([GroupState.PREPARING_REBALANCE]),
    GroupState.STABLE: frozenset([GroupState.COMPLETING_REBALANCE]),
    GroupState.DEAD: frozenset(GroupState),
}


def may_follow(state: GroupState, previous: GroupState) -> bool:
    """Return whether the transition from `previous` to `state` is valid."""
    return previous in PREVIOUS_STATES[state]
