"""The records a share group has under way: acquired, acknowledged, released, archived, and where the start moves."""

from __future__ import annotations

import pytest

from kafkatools.core.broker.coordinators.share_state.share_state import ShareState, ShareUpdate, StateBatch
from kafkatools.core.broker.replicas.share.partition import Acknowledgement, Acquired, SharePartition, Wish
from kafkatools.core.errors import InvalidRecordState, InvalidRequest, KafkaStorageError

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
RECORD_LIMIT = 1
BATCHES = [(0, 4), (5, 9), (10, 14)]


class Limits:
    lock_ms, deliveries, locks = 1000, 3, 100

    def lock_duration_ms(self) -> int:
        return self.lock_ms

    def delivery_count_limit(self) -> int:
        return self.deliveries

    def max_record_locks(self) -> int:
        return self.locks


class Bench:
    """A share partition whose updates are kept in a list."""

    def __init__(self, state: ShareState | None = None) -> None:
        self.updates: list[ShareUpdate] = []
        self.limits = Limits()
        self.is_broken = False
        self.shared = SharePartition(state or ShareState(start_offset=0), 7, self.limits, self.write)

    def write(self, update: ShareUpdate) -> None:
        if self.is_broken:
            raise KafkaStorageError()
        self.updates.append(update)

    def acquire(self, member: str = "a", count: int = 500, batch_size: int = 500, mode: int = 0) -> list[Acquired]:
        offset = self.shared.next_fetch_offset()
        batches = [(first, last) for first, last in BATCHES if last >= offset]
        return self.shared.acquire(Wish(member, count, batch_size, mode), batches, offset, 0)

    def acknowledge(self, first: int, last: int, *types: int, member: str = "a", now_ms: int = 0) -> None:
        self.shared.acknowledge(member, [Acknowledgement(first, last, types)], now_ms)


def test_records_are_acquired_once_and_acknowledging_all_moves_the_start() -> None:
    bench = Bench()
    assert bench.acquire() == [(0, 14, 1)]
    assert bench.acquire("b") == []
    bench.acknowledge(0, 14, ACCEPT)
    assert (bench.shared.start_offset, bench.shared.next_fetch_offset()) == (15, 15)
    assert bench.updates == [ShareUpdate(0, 7, 0, 15, [StateBatch(0, 14, ACKNOWLEDGED, 1)])]


def test_a_record_below_that_is_under_way_holds_the_start() -> None:
    bench = Bench()
    bench.acquire()
    bench.acknowledge(5, 9, ACCEPT)
    assert (bench.shared.start_offset, bench.shared.delivery_complete_count, bench.shared.in_flight_count) == (0, 5, 10)
    bench.acknowledge(0, 4, REJECT)
    assert (bench.shared.start_offset, bench.shared.delivery_complete_count) == (10, 0)


def test_each_offset_may_have_a_type_of_its_own() -> None:
    bench = Bench()
    bench.acquire()
    bench.acknowledge(0, 4, ACCEPT, RELEASE, REJECT, GAP, ACCEPT)
    assert bench.updates[0].batches == [
        StateBatch(0, 0, ACKNOWLEDGED, 1),
        StateBatch(1, 1, AVAILABLE, 1),
        StateBatch(2, 3, ARCHIVED, 1),
        StateBatch(4, 4, ACKNOWLEDGED, 1),
    ]
    assert bench.acquire("b") == [(1, 1, 2)]


def test_the_last_delivery_that_fails_archives() -> None:
    bench = Bench()
    for delivery in (1, 2, 3):
        assert bench.acquire(count=1, mode=RECORD_LIMIT) == [(0, 0, delivery)]
        bench.acknowledge(0, 0, RELEASE)
    assert bench.shared.start_offset == 1
    assert bench.updates[-1].batches == [StateBatch(0, 0, ARCHIVED, 3)]


def test_records_that_failed_often_are_delivered_in_ever_smaller_parts() -> None:
    bench = Bench()
    bench.limits.deliveries = 5
    for _ in range(3):
        assert bench.acquire()[0][:2] == (0, 14)
        bench.acknowledge(0, 14, RELEASE)
    assert bench.acquire() == [(0, 6, 4)]
    bench.acknowledge(0, 6, RELEASE)
    assert bench.acquire() == [(0, 0, 5)]


def test_a_lock_that_ended_releases_and_renewing_keeps_it() -> None:
    bench = Bench()
    bench.acquire()
    bench.acknowledge(0, 4, RENEW, now_ms=600)
    assert bench.updates == []
    assert bench.shared.next_expiration_ms == 1000
    bench.shared.expire_locks(1000)
    assert bench.shared.next_expiration_ms == 1600
    assert [(run[0], run[1]) for run in bench.acquire("b")] == [(5, 14)]
    bench.acknowledge(0, 4, ACCEPT)
    assert bench.shared.start_offset == 5


def test_a_member_that_goes_releases_what_it_has_and_only_that() -> None:
    bench = Bench()
    bench.acquire("a", count=5)
    bench.acquire("b", count=5)
    bench.shared.release_member("a")
    assert bench.updates[-1].batches == [StateBatch(0, 4, AVAILABLE, 1)]
    assert bench.acquire("c", count=5) == [(0, 4, 2)]
    bench.acknowledge(5, 9, ACCEPT, member="b")


@pytest.mark.parametrize(
    ("first", "last", "member", "error"),
    [
        (20, 30, "a", InvalidRequest),
        (3, 20, "a", InvalidRequest),
        (0, 14, "b", InvalidRecordState),
        (5, 9, "a", InvalidRecordState),
        (4, 6, "a", InvalidRecordState),
        (3, 4, "a", InvalidRecordState),
    ],
)
def test_what_cannot_be_acknowledged_changes_nothing(
    first: int, last: int, member: str, error: type[Exception]
) -> None:
    bench = Bench()
    bench.acquire()
    bench.acknowledge(5, 9, ACCEPT)
    with pytest.raises(error):
        bench.shared.acknowledge(member, [Acknowledgement(0, 3, [ACCEPT]), Acknowledgement(first, last, [ACCEPT])], 0)
    assert len(bench.updates) == 1
    bench.acknowledge(0, 4, ACCEPT)
    assert bench.shared.start_offset == 10


def test_what_is_not_written_does_not_count() -> None:
    bench = Bench()
    bench.acquire()
    bench.is_broken = True
    with pytest.raises(KafkaStorageError):
        bench.acknowledge(0, 14, ACCEPT)
    bench.is_broken = False
    bench.acknowledge(0, 14, ACCEPT)
    assert bench.shared.start_offset == 15


def test_limits_go_to_the_end_of_a_batch_or_are_strict() -> None:
    assert Bench().acquire(count=7) == [(0, 9, 1)]
    assert Bench().acquire(count=7, mode=RECORD_LIMIT) == [(0, 6, 1)]
    assert Bench().acquire(batch_size=5) == [(0, 4, 1), (5, 9, 1), (10, 14, 1)]


def test_no_more_records_are_in_flight_than_allowed() -> None:
    bench = Bench()
    bench.limits.locks = 8
    assert bench.acquire() == [(0, 9, 1)]
    assert not bench.shared.has_room()
    bench.acknowledge(5, 9, ACCEPT)
    assert bench.shared.has_room()
    bench.shared.release_member("a")
    bench.limits.locks = 1
    assert bench.shared.has_room()  # what was delivered before is delivered again
    assert bench.acquire() == [(0, 4, 2)]


def test_a_state_that_was_read_back_is_gone_on_with() -> None:
    batches = (StateBatch(3, 4, ACKNOWLEDGED, 1), StateBatch(6, 7, AVAILABLE, 1), StateBatch(8, 8, ARCHIVED, 3))
    bench = Bench(ShareState(state_epoch=4, start_offset=3, batches=batches))
    assert bench.shared.start_offset == 5
    assert bench.acquire() == [(5, 5, 1), (6, 7, 2), (9, 14, 1)]
    bench.acknowledge(5, 7, ACCEPT)
    assert bench.shared.start_offset == 9
    assert bench.updates[0].state_epoch == 4


def test_offsets_that_compaction_took_away_are_archived() -> None:
    bench = Bench()
    bench.acquire()
    bench.acknowledge(0, 14, RELEASE)
    assert bench.shared.acquire(Wish("a", 500, 500), [(10, 14)], 0, 0) == [(10, 14, 2)]
    assert bench.shared.start_offset == 10


def test_acknowledged_records_behind_a_hole_that_compaction_left_are_not_delivered_again() -> None:
    bench = Bench()
    wish = Wish("a", 500, 500)
    assert bench.shared.acquire(wish, [(5, 9)], 0, 0) == [(5, 9, 1)]
    bench.acknowledge(5, 9, ACCEPT)
    assert (bench.shared.start_offset, bench.shared.next_fetch_offset()) == (0, 0), "of the hole nothing is known yet"
    assert bench.shared.acquire(wish, [(5, 9), (10, 14)], 0, 0) == [(10, 14, 1)]
    assert (bench.shared.start_offset, bench.shared.next_fetch_offset()) == (10, 15)


def test_a_log_that_begins_later_moves_the_start() -> None:
    bench = Bench()
    bench.acquire()
    bench.shared.note_log_start(7)
    assert bench.shared.start_offset == 7
    bench.acknowledge(0, 14, ACCEPT)
    assert bench.shared.start_offset == 15


def test_aborted_records_are_nobodys() -> None:
    bench = Bench()
    bench.acquire()
    bench.shared.archive(0, 4)
    assert bench.shared.start_offset == 5
    with pytest.raises(InvalidRecordState):
        bench.shared.archive(10, 14)
        bench.acknowledge(10, 14, ACCEPT)
