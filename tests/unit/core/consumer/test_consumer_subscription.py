"""Positions and what they wait for: reset, validation against leader epochs, pause (SubscriptionStateTest of Kafka)."""

from __future__ import annotations

import pytest

from kafkatools.core.consumer.errors import LogTruncation, NoOffsetForPartition
from kafkatools.core.consumer.subscription import (
    AutoOffsetResetStrategy,
    FetchPosition,
    FetchState,
    LeaderAndEpoch,
    ResetKind,
    SubscriptionState,
    TopicPartition,
)
from kafkatools.core.errors import ConfigError

P0, P1 = TopicPartition("topic", 0), TopicPartition("topic", 1)
LEADER = LeaderAndEpoch(1, 5)


def assigned(reset: str = "latest", *partitions: TopicPartition) -> SubscriptionState:
    state = SubscriptionState(AutoOffsetResetStrategy.parse(reset))
    state.assign(partitions or (P0,))
    return state


def test_new_partition_is_reset_to_the_default_policy() -> None:
    state = assigned("earliest")
    assert not state.state(P0).is_fetchable
    state.reset_initializing_positions()
    strategies = state.partitions_needing_reset(now_ms=0)
    assert strategies[P0].kind is ResetKind.EARLIEST
    state.maybe_seek_unvalidated(P0, FetchPosition(7), strategies[P0])
    assert state.position(P0) == FetchPosition(7)
    assert state.state(P0).is_fetchable


def test_without_a_policy_a_partition_without_position_is_an_error() -> None:
    state = assigned("none", P0, P1)
    with pytest.raises(
        NoOffsetForPartition, match=r"Undefined offset with no reset policy for partitions: \[topic-0, topic-1\]"
    ):
        state.reset_initializing_positions()


def test_seek_during_a_reset_wins_over_its_answer() -> None:
    state = assigned("earliest")
    state.reset_initializing_positions()
    strategy = state.partitions_needing_reset(0)[P0]
    state.seek(P0, FetchPosition(100))
    state.maybe_seek_unvalidated(P0, FetchPosition(7), strategy)
    assert state.position(P0) == FetchPosition(100)


def test_answer_to_an_older_reset_is_ignored() -> None:
    state = assigned("earliest")
    earliest = AutoOffsetResetStrategy(ResetKind.EARLIEST)
    state.request_offset_reset(P0, AutoOffsetResetStrategy(ResetKind.LATEST))
    state.maybe_seek_unvalidated(P0, FetchPosition(7), earliest)
    assert state.position(P0) is None


def test_reset_on_its_way_is_not_asked_again_before_the_retry() -> None:
    state = assigned("earliest")
    state.reset_initializing_positions()
    state.set_next_retry([P0], 100)
    assert state.partitions_needing_reset(99) == {}
    assert list(state.partitions_needing_reset(100)) == [P0]


def test_assign_keeps_the_position_of_what_stays() -> None:
    state = assigned("latest", P0, P1)
    state.seek(P0, FetchPosition(3))
    state.assign([P0])
    assert state.position(P0) == FetchPosition(3)
    with pytest.raises(ValueError, match="No current assignment for partition topic-1"):
        state.position(P1)


def test_pause_stops_fetching_and_keeps_the_position() -> None:
    state = assigned()
    state.seek(P0, FetchPosition(3))
    state.pause(P0)
    assert not state.state(P0).is_fetchable
    assert state.paused_partitions() == [P0]
    state.resume(P0)
    assert state.state(P0).is_fetchable
    assert state.position(P0) == FetchPosition(3)


def test_read_partition_goes_to_the_end_of_the_order() -> None:
    state = assigned("latest", P0, P1)
    state.move_partition_to_end(P0)
    assert state.assigned_partitions() == [P1, P0]


def awaiting_validation(reset: str = "latest") -> SubscriptionState:
    state = assigned(reset)
    state.seek(P0, FetchPosition(20, 5, LEADER))
    assert state.state(P0).state is FetchState.AWAIT_VALIDATION
    return state


def test_position_with_epochs_is_validated_when_the_leader_changes() -> None:
    state = awaiting_validation()
    assert not state.state(P0).is_fetchable
    state.maybe_complete_validation(P0, FetchPosition(20, 5, LEADER), 5, 20)
    assert state.state(P0).is_fetchable
    assert not state.maybe_validate_position_for_current_leader(P0, LEADER)
    assert state.maybe_validate_position_for_current_leader(P0, LeaderAndEpoch(2, 6))
    assert state.position(P0) == FetchPosition(20, 5, LeaderAndEpoch(2, 6))


def test_position_without_an_offset_epoch_needs_no_validation() -> None:
    state = assigned()
    state.seek(P0, FetchPosition(20))
    assert not state.maybe_validate_position_for_current_leader(P0, LEADER)
    assert state.state(P0).is_fetchable


def test_truncated_log_moves_the_position_back() -> None:
    state = awaiting_validation()
    state.maybe_complete_validation(P0, FetchPosition(20, 5, LEADER), 4, 13)
    assert state.position(P0) == FetchPosition(13, 4, LEADER)
    assert state.state(P0).is_fetchable


def test_truncated_log_without_a_policy_is_an_error_that_says_where() -> None:
    state = awaiting_validation("none")
    with pytest.raises(LogTruncation, match="topic-0 at position 20: the logs diverge at offset 13"):
        state.maybe_complete_validation(P0, FetchPosition(20, 5, LEADER), 4, 13)


def test_epoch_the_broker_does_not_know_leads_to_a_reset() -> None:
    state = awaiting_validation("earliest")
    state.maybe_complete_validation(P0, FetchPosition(20, 5, LEADER), -1, -1)
    assert list(state.partitions_needing_reset(0)) == [P0]
    with pytest.raises(LogTruncation, match="unknown"):
        awaiting_validation("none").maybe_complete_validation(P0, FetchPosition(20, 5, LEADER), -1, -1)


def test_validation_answer_for_an_older_position_is_ignored() -> None:
    state = awaiting_validation()
    state.seek(P0, FetchPosition(50, 5, LEADER))
    state.maybe_complete_validation(P0, FetchPosition(20, 5, LEADER), 4, 13)
    assert state.position(P0) == FetchPosition(50, 5, LEADER)
    assert not state.state(P0).is_fetchable


def test_preferred_read_replica_holds_until_it_expires() -> None:
    state = assigned()
    state.set_preferred_read_replica(P0, 3, expires_ms=1000)
    assert state.preferred_read_replica(P0, 999) == 3
    assert state.preferred_read_replica(P0, 1000) is None
    state.set_preferred_read_replica(P0, 3, expires_ms=2000)
    assert state.clear_preferred_read_replica(P0) == 3
    assert state.clear_preferred_read_replica(P0) is None


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("by_duration:PT1H", 3600_000), ("by_duration:P1DT2H3M4.5S", 93784_500), ("by_duration:PT0S", 0)],
)
def test_reset_by_duration(text: str, expected_ms: int) -> None:
    strategy = AutoOffsetResetStrategy.parse(text)
    assert strategy == AutoOffsetResetStrategy(ResetKind.BY_DURATION, expected_ms)
    assert strategy.timestamp(wall_ms=100_000_000) == 100_000_000 - expected_ms


@pytest.mark.parametrize("text", ["", "soon", "by_duration:", "by_duration:1h", "by_duration:-PT1S", "by_duration:PT"])
def test_reset_policy_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        AutoOffsetResetStrategy.parse(text)


def test_timestamps_of_the_fixed_policies() -> None:
    assert AutoOffsetResetStrategy.parse("earliest").timestamp(5) == -2
    assert AutoOffsetResetStrategy.parse("latest").timestamp(5) == -1
