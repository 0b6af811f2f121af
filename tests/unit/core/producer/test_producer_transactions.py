"""Sequences of the idempotent producer: assigned once, never reused within an epoch (KIP-98, KIP-360)."""

from __future__ import annotations

import pytest

from kafkatools.core.errors import (
    ClusterAuthorizationFailed,
    IllegalState,
    InvalidRecord,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    Timeout,
    UnknownProducerId,
)
from kafkatools.core.producer.futures import TopicPartition
from kafkatools.core.producer.producer_batch import Payload, ProducerBatch
from kafkatools.core.producer.transaction_manager import (
    ProduceOutcome,
    State,
    TransactionManager,
    increment_sequence,
    sequence_before,
)
from kafkatools.core.records.builder import BatchBuilder

PLACE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def ready_manager(epoch: int = 0) -> TransactionManager:
    manager = TransactionManager()
    assert manager.bump_epoch_and_reset_id_if_needed()
    manager.handle_init_producer_id(77, epoch)
    return manager


def batch_of(records: int, place: TopicPartition = PLACE) -> ProducerBatch:
    batch = ProducerBatch(place, BatchBuilder(16384), now_ms=0)
    for _ in range(records):
        assert batch.try_append(Payload(0, None, b"v", ()), None, 0)
    return batch


def sent(manager: TransactionManager, records: int, place: TopicPartition = PLACE) -> ProducerBatch:
    batch = batch_of(records, place)
    manager.maybe_update_identity(place)
    assert not manager.should_stop_drain(batch)
    manager.assign_sequence(batch)
    batch.close()
    return batch


def test_sequences_count_records_per_partition() -> None:
    manager = ready_manager()
    assert [sent(manager, 3).base_sequence, sent(manager, 2).base_sequence, sent(manager, 1, OTHER).base_sequence] == [
        0,
        3,
        0,
    ]


def test_after_the_last_sequence_comes_zero() -> None:
    assert increment_sequence(2**31 - 1, 1) == 0
    assert sequence_before(2**31 - 1, 0)
    assert not sequence_before(0, 2**31 - 1)
    assert not sequence_before(5, 5)


def test_a_later_batch_that_is_out_of_order_waits_for_the_earlier_one() -> None:
    manager = ready_manager()
    first, second = sent(manager, 1), sent(manager, 1)
    assert manager.can_retry(ProduceOutcome(OutOfOrderSequenceNumber), second)
    manager.bump_epoch_and_reset_id_if_needed()
    assert manager.identity.epoch == 0
    assert manager.should_stop_drain(second)
    assert not manager.should_stop_drain(first)
    manager.handle_completed_batch(first, ProduceOutcome(None, 10))
    assert not manager.should_stop_drain(second)


def test_the_next_batch_out_of_order_means_a_gap_and_bumps_the_epoch() -> None:
    manager = ready_manager()
    first = sent(manager, 2)
    manager.handle_completed_batch(first, ProduceOutcome(None, 0))
    second, third = sent(manager, 1), sent(manager, 4)
    assert manager.can_retry(ProduceOutcome(OutOfOrderSequenceNumber), second)
    assert not manager.bump_epoch_and_reset_id_if_needed()
    assert manager.identity == (77, 1)
    assert [(batch.producer_epoch, batch.base_sequence) for batch in (second, third)] == [(1, 0), (1, 1)]
    assert sent(manager, 1).base_sequence == 5


def test_a_batch_that_a_later_one_has_overtaken_starts_a_new_epoch() -> None:
    manager = ready_manager()
    first, second, third = sent(manager, 2), sent(manager, 2), sent(manager, 1)
    manager.handle_completed_batch(third, ProduceOutcome(None, 0))
    assert manager.can_retry(ProduceOutcome(OutOfOrderSequenceNumber), first)
    assert not manager.bump_epoch_and_reset_id_if_needed()
    assert [(batch.producer_epoch, batch.base_sequence) for batch in (first, second)] == [(1, 0), (1, 2)]


def test_a_late_success_of_the_former_epoch_counts_nothing_in_the_new_one() -> None:
    manager = ready_manager()
    expired = sent(manager, 2)
    manager.handle_failed_batch(expired, Timeout("expired"), adjust_sequences=False)
    manager.request_epoch_bump_for(PLACE)
    manager.bump_epoch_and_reset_id_if_needed()
    first = sent(manager, 1)
    assert (first.producer_epoch, first.base_sequence) == (1, 0)
    manager.handle_completed_batch(expired, ProduceOutcome(None, 0))
    assert manager.awaits_first_response(batch_of(1))
    manager.handle_completed_batch(first, ProduceOutcome(None, 2))
    assert not manager.awaits_first_response(batch_of(1))


def test_other_partitions_follow_a_bump_when_they_have_nothing_in_flight() -> None:
    manager = ready_manager()
    elsewhere = sent(manager, 3, OTHER)
    manager.request_epoch_bump_for(PLACE)
    manager.bump_epoch_and_reset_id_if_needed()
    waiting = batch_of(1, OTHER)
    assert manager.should_stop_drain(waiting)
    manager.handle_completed_batch(elsewhere, ProduceOutcome(None, 0))
    manager.maybe_update_identity(OTHER)
    manager.assign_sequence(waiting)
    assert (waiting.producer_epoch, waiting.base_sequence) == (1, 0)


def test_a_batch_with_a_new_sequence_that_is_refused_too_starts_another_epoch() -> None:
    manager = ready_manager()
    first, second = sent(manager, 1), sent(manager, 1)
    manager.request_epoch_bump_for(PLACE)
    manager.bump_epoch_and_reset_id_if_needed()
    manager.handle_completed_batch(first, ProduceOutcome(None, 0))
    assert manager.can_retry(ProduceOutcome(OutOfOrderSequenceNumber), second)
    manager.bump_epoch_and_reset_id_if_needed()
    assert manager.identity.epoch == 1  # that response was about the sequence before
    second.close()
    assert manager.can_retry(ProduceOutcome(OutOfOrderSequenceNumber), second)
    manager.bump_epoch_and_reset_id_if_needed()
    assert (second.producer_epoch, second.base_sequence) == (2, 0)


def test_a_failed_batch_leaves_no_gap_behind() -> None:
    manager = ready_manager()
    refused, following = sent(manager, 2), sent(manager, 1)
    manager.handle_failed_batch(refused, InvalidRecord(), adjust_sequences=True)
    manager.bump_epoch_and_reset_id_if_needed()
    assert (following.producer_epoch, following.base_sequence) == (1, 0)


def test_an_expired_batch_that_was_sent_holds_new_ones_back_until_resolved() -> None:
    manager = ready_manager()
    lost, later = sent(manager, 1), sent(manager, 1)
    manager.handle_failed_batch(lost, InvalidRecord(), adjust_sequences=False)
    assert manager.should_stop_drain(batch_of(1))
    manager.handle_completed_batch(later, ProduceOutcome(None, 5))
    manager.maybe_resolve_sequences()
    manager.bump_epoch_and_reset_id_if_needed()
    assert manager.identity.epoch == 0
    assert sent(manager, 1).base_sequence == 2


def test_an_unresolved_sequence_that_nobody_acknowledged_bumps_the_epoch() -> None:
    manager = ready_manager()
    lost = sent(manager, 3)
    manager.handle_failed_batch(lost, InvalidRecord(), adjust_sequences=False)
    manager.maybe_resolve_sequences()
    manager.bump_epoch_and_reset_id_if_needed()
    fresh = sent(manager, 1)
    assert (fresh.producer_epoch, fresh.base_sequence) == (1, 0)


def test_an_unknown_producer_id_starts_again_under_a_new_epoch() -> None:
    manager = ready_manager()
    manager.handle_completed_batch(sent(manager, 4), ProduceOutcome(None, 0))
    batch = sent(manager, 2)
    assert manager.can_retry(ProduceOutcome(UnknownProducerId, log_start_offset=100), batch)
    manager.bump_epoch_and_reset_id_if_needed()
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_without_a_log_start_offset_an_unknown_producer_id_is_tried_again_as_it_is() -> None:
    manager = ready_manager()
    batch = sent(manager, 2)
    assert manager.can_retry(ProduceOutcome(UnknownProducerId, log_start_offset=-1), batch)
    manager.bump_epoch_and_reset_id_if_needed()
    assert batch.producer_epoch == 0


def test_the_last_epoch_is_followed_by_a_new_producer_id() -> None:
    manager = ready_manager(epoch=32767)
    batch = sent(manager, 2)
    manager.request_epoch_bump_for(PLACE)
    assert manager.bump_epoch_and_reset_id_if_needed()
    assert manager.state is State.INITIALIZING
    manager.handle_init_producer_id(78, 0)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (78, 0, 0)


def test_a_retriable_error_is_tried_again_and_others_are_not() -> None:
    manager = ready_manager()
    batch = sent(manager, 1)
    assert manager.can_retry(ProduceOutcome(NotLeaderOrFollower), batch)
    assert not manager.can_retry(ProduceOutcome(InvalidRecord), batch)


def test_a_fatal_error_stops_everything() -> None:
    manager = ready_manager()
    batch = sent(manager, 1)
    error = ClusterAuthorizationFailed()
    manager.handle_failed_batch(batch, error, adjust_sequences=True)
    assert manager.has_fatal_error
    assert manager.last_error is error
    assert manager.should_stop_drain(batch_of(1))


def test_an_illegal_transition_is_refused() -> None:
    with pytest.raises(IllegalState, match="UNINITIALIZED to state COMMITTING_TRANSACTION"):
        TransactionManager().transition_to(State.COMMITTING_TRANSACTION)
