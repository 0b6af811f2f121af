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


def test_only_the_newest_are_kept() -> None:
    made = history(*((1000 * n, 10 * n) for n in range(1000)))
    assert made.age_ms(PART, 9980, 999_000) == 1000
    assert made.age_ms(PART, 10, 999_000) is None
