"""The coordinator's decisions that depend on time, on failures and on long lives; the rest is in the stories."""

from __future__ import annotations

from typing import Any

import pytest

from kafkatools.core.broker.coordinators.transactions.coordinator import ProducerIdentity
from kafkatools.core.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaStorageError,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    RequestTimedOut,
    TransactionAbortable,
    UnknownServerError,
)

PID = 1000
T, U = ("t", 0), ("u", 3)
LAST = 32766
BUSY, FENCED = ConcurrentTransactions.code, ProducerFenced.code


def test_a_transaction_writes_its_states_and_its_markers(harness: Any) -> None:
    assert harness.init() == (0, PID, 0)
    assert harness.add((PID, 0), T) == 0
    assert harness.add((PID, 0), T) == 0  # known already: nothing is written
    assert harness.add((PID, 0), U) == 0
    assert harness.end((PID, 0), commit=True) == (0, PID, 1)
    assert harness.log.states() == ["Empty", "Ongoing", "Ongoing", "PrepareCommit", "CompleteCommit"]
    assert [(place, marker.is_commit) for place, marker in harness.partitions.markers] == [(T, True), (U, True)]
    (_, marker), _ = harness.partitions.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_version) == (
        PID,
        1,
        3,
        2,
    )


@pytest.mark.parametrize(("version", "epoch"), [(0, 0), (2, 1)])
def test_only_transaction_version_2_raises_the_epoch(harness: Any, version: int, epoch: int) -> None:
    harness.init()
    harness.add((PID, 0), T, version=version)
    assert harness.end((PID, 0), commit=False, version=version) == (0, PID, epoch)
    assert harness.partitions.markers[0][1].producer_epoch == epoch


# -- epochs that run out: answers of Apache Kafka 4.3.1 at epoch 32766 -------------------------------------------------
def exhausted(harness: Any) -> ProducerIdentity:
    harness.init()
    harness.set_epoch(LAST)
    return ProducerIdentity(PID, LAST)


def test_the_last_epoch_is_followed_by_a_new_producer_id(harness: Any) -> None:
    exhausted(harness)
    assert harness.init() == (0, PID + 1, 0)


def test_a_producer_that_goes_on_at_the_last_epoch_gets_a_new_id_and_may_ask_again(harness: Any) -> None:
    producer = exhausted(harness)
    assert harness.init(producer) == (0, PID + 1, 0)
    assert harness.init(producer) == (0, PID + 1, 0)
    assert harness.init(ProducerIdentity(PID, LAST - 1))[0] == FENCED
    assert harness.init(ProducerIdentity(PID + 1, 0)) == (0, PID + 1, 1)


def test_ending_a_transaction_at_the_last_epoch_gives_a_new_id(harness: Any) -> None:
    producer = exhausted(harness)
    harness.add(producer, T)
    assert harness.end(producer, commit=True) == (0, PID + 1, 0)
    assert harness.partitions.markers[0][1].producer_epoch == LAST + 1
    assert harness.partitions.markers[0][1].producer_id == PID
    assert harness.end(producer, commit=True) == (0, PID + 1, 0)
    assert harness.end(producer, commit=False)[0] == InvalidTxnState.code
    harness.restart()
    assert harness.end(producer, commit=True) == (0, PID + 1, 0)
    assert harness.add((PID + 1, 0), T) == 0


def test_fencing_at_the_last_epoch_gives_a_new_id(harness: Any) -> None:
    producer = exhausted(harness)
    harness.add(producer, T)
    assert harness.init() == (BUSY, -1, -1)
    assert harness.state == "CompleteAbort"
    assert (harness.transaction.value.producer_id, harness.transaction.value.producer_epoch) == (PID + 1, 0)
    assert harness.init() == (0, PID + 1, 1)


def test_the_last_epoch_but_one_is_not_the_last(harness: Any) -> None:
    harness.init()
    harness.set_epoch(LAST - 1)
    assert harness.end((PID, LAST - 1), commit=False) == (0, PID, LAST)
    assert harness.end((PID, LAST), commit=False) == (0, PID + 1, 0)


# -- time --------------------------------------------------------------------------------------------------------------
def test_a_transaction_that_is_open_too_long_is_aborted_and_its_producer_fenced(harness: Any) -> None:
    harness.init(timeout_ms=10_000)
    harness.add((PID, 0), T)
    harness.clock.set_wall_ms(harness.clock.wall_ms() + 10_000)
    harness.coordinator.abort_timed_out()
    assert harness.state == "Ongoing"
    harness.clock.set_wall_ms(harness.clock.wall_ms() + 1)
    harness.coordinator.abort_timed_out()
    assert (harness.state, harness.transaction.value.producer_epoch) == ("CompleteAbort", 1)
    assert harness.partitions.markers[0][1].is_commit is False
    assert harness.add((PID, 0), T) == FENCED
    harness.coordinator.abort_timed_out()
    assert harness.log.states()[-2:] == ["PrepareAbort", "CompleteAbort"]


def test_a_transaction_is_aborted_when_there_is_a_producer_id_to_go_on_with(harness: Any) -> None:
    producer = exhausted(harness)
    harness.add(producer, T)
    harness.clock.set_wall_ms(harness.clock.wall_ms() + 60_001)
    harness.lacks_producer_ids = True
    harness.coordinator.abort_timed_out()
    assert harness.init()[0] == CoordinatorLoadInProgress.code
    assert harness.state == "Ongoing"
    harness.lacks_producer_ids = False
    harness.coordinator.abort_timed_out()
    assert (harness.state, harness.transaction.value.producer_id) == ("CompleteAbort", PID + 1)


def test_an_old_clusters_time_out_raises_the_epoch_too(harness: Any) -> None:
    harness.version = 0
    harness.init(timeout_ms=10_000)
    harness.add((PID, 0), T, version=0)
    harness.clock.set_wall_ms(harness.clock.wall_ms() + 10_001)
    harness.coordinator.abort_timed_out()
    assert (harness.state, harness.transaction.value.producer_epoch) == ("CompleteAbort", 1)
    assert harness.init() == (0, PID, 2)


def test_ids_that_nobody_uses_are_forgotten_with_a_tombstone(harness: Any) -> None:
    harness.init()
    harness.clock.set_wall_ms(harness.clock.wall_ms() + 604_800_000 - 1)
    harness.coordinator.expire_ids()
    assert "x" in harness.coordinator.transactions
    harness.clock.set_wall_ms(harness.clock.wall_ms() + 1)
    harness.log.failure = NotEnoughReplicas()
    harness.coordinator.expire_ids()
    assert harness.transaction.pending is None
    harness.log.failure = None
    harness.coordinator.expire_ids()
    assert harness.log.states() == ["Empty", "tombstone"]
    assert harness.init() == (0, PID + 1, 0)


def test_an_open_transaction_does_not_expire(harness: Any) -> None:
    harness.init()
    harness.add((PID, 0), T)
    harness.clock.set_wall_ms(harness.clock.wall_ms() + 10 * 604_800_000)
    harness.coordinator.expire_ids()
    assert harness.state == "Ongoing"


# -- what is pending ---------------------------------------------------------------------------------------------------
def test_nobody_is_answered_before_a_change_is_durable_and_others_are_told_to_wait(harness: Any) -> None:
    harness.init()
    harness.disk.is_slow = True
    harness.answers.clear()
    harness.coordinator.add_partitions("x", ProducerIdentity(PID, 0), [T], 2, harness._answer)
    assert harness.answers == []
    assert harness.init()[0] == harness.add((PID, 0), U) == harness.end((PID, 0), commit=True)[0] == BUSY
    harness.disk.sync()
    assert (harness.answer[0], harness.state) == (0, "Ongoing")


def test_markers_are_durable_before_a_transaction_is_complete(harness: Any) -> None:
    harness.init()
    harness.add((PID, 0), T)
    harness.disk.is_slow = True
    harness.answers.clear()
    harness.coordinator.end_transaction("x", end_request(commit=True), harness._answer)
    assert (harness.answers, harness.partitions.markers) == ([], [])
    harness.disk.sync()
    assert (harness.answers, harness.state) == ([(0, PID, 1)], "PrepareCommit")
    assert len(harness.partitions.markers) == 1
    assert harness.log.states()[-1] == "PrepareCommit"
    assert harness.add((PID, 1), T) == BUSY
    harness.disk.sync()
    assert (harness.log.states()[-1], harness.state) == ("CompleteCommit", "CompleteCommit")


def test_the_first_batch_of_the_next_transaction_waits_for_the_markers_of_the_last(harness: Any) -> None:
    harness.init()
    harness.add((PID, 0), T)
    harness.disk.is_slow = True
    harness.coordinator.end_transaction("x", end_request(commit=True), harness._answer)
    harness.disk.sync()
    harness.answers.clear()
    harness.coordinator.add_partitions_when_settled("x", ProducerIdentity(PID, 1), [U], 2, harness._answer)
    assert harness.answers == []
    harness.disk.sync()
    assert harness.log.states()[-2:] == ["CompleteCommit", "Ongoing"]
    harness.disk.sync()
    assert (harness.answer[0], harness.state) == (0, "Ongoing")
    harness.advance(1000)
    assert len(harness.answers) == 1


def test_it_does_not_wait_for_ever(harness: Any) -> None:
    harness.init()
    harness.add((PID, 0), T)
    harness.partitions.broken = {T}
    harness.end((PID, 0), commit=True)
    harness.answers.clear()
    harness.coordinator.add_partitions_when_settled("x", ProducerIdentity(PID, 1), [U], 2, harness._answer)
    harness.advance(99)
    assert harness.answers == []
    harness.advance(1)
    assert harness.answer[0] == BUSY
    harness.partitions.broken = set()
    harness.advance(5000)
    assert (harness.state, len(harness.answers)) == ("CompleteCommit", 1)


def end_request(*, commit: bool) -> Any:
    from kafkatools.core.broker.coordinators.transactions.ending import EndRequest

    return EndRequest(PID, 0, commit, 2)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (NotEnoughReplicas(), CoordinatorNotAvailable.code),
        (KafkaStorageError(), NotCoordinator.code),
        (RequestTimedOut(), CoordinatorNotAvailable.code),
    ],
)
def test_a_failed_write_changes_nothing(harness: Any, failure: Exception, code: int) -> None:
    harness.init()
    harness.log.failure = failure
    assert harness.add((PID, 0), T) == code
    harness.log.failure = None
    assert (harness.state, harness.transaction.pending) == ("Empty", None)
    assert harness.add((PID, 0), T) == 0


def test_a_write_that_never_became_durable_changes_nothing(harness: Any) -> None:
    harness.init()
    harness.disk.is_slow = True
    harness.coordinator.add_partitions("x", ProducerIdentity(PID, 0), [T], 2, harness._answer)
    harness.disk.sync(RequestTimedOut.code)
    assert harness.answer[0] == CoordinatorNotAvailable.code
    assert (harness.state, harness.transaction.pending) == ("Empty", None)


def test_a_fence_that_was_not_written_does_not_use_up_epochs(harness: Any) -> None:
    harness.version = 0
    harness.init()
    harness.add((PID, 0), T, version=0)
    harness.log.failure = NotEnoughReplicas()
    for _ in range(3):
        assert harness.init()[0] == CoordinatorNotAvailable.code
    assert harness.transaction.value.producer_epoch == 1
    harness.log.failure = None
    assert harness.init()[0] == BUSY
    assert harness.init() == (0, PID, 2)


# -- markers -----------------------------------------------------------------------------------------------------------
def test_a_partition_that_cannot_be_written_to_is_tried_again_until_it_can(harness: Any) -> None:
    harness.init()
    harness.add((PID, 0), T, U)
    harness.partitions.broken = {U}
    assert harness.end((PID, 0), commit=True) == (0, PID, 1)
    assert harness.state == "PrepareCommit"
    harness.advance(5000)
    assert harness.state == "PrepareCommit"
    assert harness.init()[0] == BUSY
    harness.partitions.broken = set()
    harness.advance(1000)
    assert harness.state == "CompleteCommit"
    assert [place for place, _ in harness.partitions.markers] == [T, U]


def test_a_completed_state_that_cannot_be_written_is_tried_again(harness: Any) -> None:
    harness.init()
    harness.add((PID, 0), T)
    harness.disk.is_slow = True
    harness.coordinator.end_transaction("x", end_request(commit=False), harness._answer)
    harness.disk.sync()
    harness.log.failure = KafkaStorageError()
    harness.disk.sync()
    assert harness.state == "PrepareAbort"
    harness.log.failure = None
    harness.disk.is_slow = False
    harness.advance(1000)
    assert harness.state == "CompleteAbort"


def test_a_coordinator_whose_markers_are_refused_does_not_go_on(harness: Any) -> None:
    harness.init()
    harness.add((PID, 0), T)
    harness.partitions.refusal = InvalidProducerEpoch()
    harness.end((PID, 0), commit=True)
    harness.partitions.refusal = None
    harness.advance(10_000)
    assert (harness.state, harness.partitions.markers) == ("PrepareCommit", [])
    assert len(harness.partitions.noted) == 1


@pytest.mark.parametrize("commit", [True, False])
def test_a_start_finishes_what_was_decided(harness: Any, commit: bool) -> None:
    harness.init()
    harness.add((PID, 0), T, U)
    harness.partitions.broken = {T, U}
    harness.end((PID, 0), commit=commit)
    harness.partitions.broken = set()
    harness.log.epoch = 4
    harness.restart()
    assert harness.state == ("CompleteCommit" if commit else "CompleteAbort")
    assert [(place, marker.is_commit, marker.coordinator_epoch) for place, marker in harness.partitions.markers] == [
        (T, commit, 4),
        (U, commit, 4),
    ]
    assert harness.add((PID, 1), T) == 0


def test_a_start_leaves_open_transactions_open(harness: Any) -> None:
    harness.init()
    harness.add((PID, 0), T)
    harness.restart()
    assert harness.state == "Ongoing"
    assert harness.coordinator.verify_partitions("x", ProducerIdentity(PID, 1), [T]) == {T: ProducerFenced.code}
    assert harness.coordinator.verify_partitions("y", ProducerIdentity(PID, 0), [T]) == {
        T: InvalidProducerIdMapping.code
    }
    assert harness.coordinator.verify_partitions("x", ProducerIdentity(PID, 0), [T, U]) == {
        T: 0,
        U: TransactionAbortable.code,
    }
    assert harness.end((PID, 0), commit=True) == (0, PID, 1)


def test_a_record_that_is_too_large_is_no_fault_of_the_client(harness: Any) -> None:
    from kafkatools.core.errors import RecordListTooLarge

    harness.init()
    harness.log.failure = RecordListTooLarge()
    assert harness.add((PID, 0), T) == UnknownServerError.code
