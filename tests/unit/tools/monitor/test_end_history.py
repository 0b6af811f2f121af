"""How long ago the record at an offset came in, from ends of a log at certain times."""

from __future__ import annotations

import pytest

from kafkatools.tools.monitor.end_history import EndHistory

PART = ("t", 0)


def history(*ends: tuple[int, int]) -> EndHistory:
    """(time, end)"""
    made = EndHistory()
    for now_ms, end in ends:
        made.add({PART: end}, now_ms)
    return made


@pytest.mark.parametrize(
    ("offset", "age_ms"),
    [
        (300, 0),  # there is no such record yet
        (301, 0),
        (299, 20),
        (200, 2000),
        (150, 3000),  # half-way between two snapshots
        (100, 4000),
        (99, None),  # before the first look
    ],
)
def test_ends_move_evenly_between_looks(offset: int, age_ms: int | None) -> None:
    made = history((1000, 100), (3000, 200), (5000, 300))
    assert made.age_ms(PART, offset, 5000) == age_ms


def test_what_came_in_after_a_silence_is_not_older_than_the_silence() -> None:
    made = history((0, 5), (1000, 5), (60_000, 5), (61_000, 15))
    assert made.age_ms(PART, 5, 61_000) == 1000
    assert made.age_ms(PART, 14, 61_000) == 100


def test_an_end_that_went_back_begins_anew() -> None:
    made = history((0, 100), (1000, 10), (2000, 20))
    assert made.age_ms(PART, 15, 2000) == 500
    assert made.age_ms(PART, 9, 2000) is None


def test_what_is_not_known() -> None:
    made = history((0, 100))
    assert made.age_ms(("t", 1), 5, 0) is None
    assert made.age_ms(PART, 50, 9000) is None
    assert made.age_ms(PART, 100, 9000) == 0
    made.forget_others([("t", 1)])
    assert made.age_ms(PART, 100, 9000) is None


def test_what_is_older_than_the_first_snapshot_has_a_least_age() -> None:
    made = history((1000, 100), (3000, 200))
    assert (made.age_ms(PART, 99, 61_000), made.least_age_ms(PART, 99, 61_000)) == (None, 60_000)
    assert made.least_age_ms(PART, 100, 61_000) == made.least_age_ms(("t", 1), 5, 61_000) == 0


def test_a_long_history_reaches_back_to_the_first_snapshot() -> None:
    made = history(*((1000 * n, 10 * n) for n in range(10_000)))
    for offset in (0, 10, 5000, 50_000, 99_900, 99_985):
        assert made.age_ms(PART, offset, 9_999_000) == 9_999_000 - 100 * offset
    assert len(made._ends[PART]) <= 128


def test_a_long_history_keeps_bursts_and_silences() -> None:
    """A record each second by day, none for eight hours, then a burst and a record each second again."""
    arrivals = [(1000 * n, n) for n in range(5000)]
    morning_ms = arrivals[-1][0] + 8 * 3_600_000
    arrivals += [(morning_ms, 4999), (morning_ms + 1000, 6999)]
    arrivals += [(morning_ms + 1000 * n, 6998 + n) for n in range(2, 1000)]
    made = history(*arrivals)
    now_ms = arrivals[-1][0]
    for arrived_ms, end in arrivals[1:5000:499] + arrivals[5001::97]:
        age_ms = made.age_ms(PART, end - 1, now_ms)
        assert age_ms is not None and abs(age_ms - (now_ms - arrived_ms)) <= 0.05 * (now_ms - arrived_ms) + 1001


def test_many_partitions_are_thinned_a_part_at_a_time() -> None:
    kept = EndHistory()
    sizes = []
    for number in range(200):
        kept.add({("t", partition): number * (partition % 3 + 1) for partition in range(320)}, number * 2000)
        sizes.append([len(ends) for ends in kept._ends.values()])
    assert max(map(max, sizes)) <= 128 + 5, "five snapshots reach every partition"
    pairs = zip(sizes, sizes[1:], strict=False)
    thinned = [sum(new < old for old, new in zip(*pair, strict=True)) for pair in pairs]
    assert 0 < max(thinned) <= 64
