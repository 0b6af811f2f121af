"""The states of a classic group and the way from one to another (Kafka's ClassicGroupState)."""

from __future__ import annotations

from enum import Enum


class GroupState(Enum):
    """A group's state; the value is the name that clients see."""

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
    """Whether a group in `previous` may become `state`."""
    return previous in PREVIOUS_STATES[state]
