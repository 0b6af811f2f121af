"""The rule by which the limit of a supervised reassignment changes, look by look."""

from __future__ import annotations

from kafkatools.tools.reassignment.adaptive_throttle import AdaptiveThrottle, Change, Sample

T0 = ("t", 0)


def sample(
    now_ms: int, copied: int, left: int, *, out_of_sync: int = 0, moving: tuple[tuple[str, int], ...] = (T0,)
) -> Sample:
    flows = {("to", 3): copied, ("from", 1): copied}
    return Sample(now_ms, flows, left, frozenset(moving), out_of_sync)


def throttle(rate: int = 1000, minimum: int = 100, maximum: int = 10_000) -> AdaptiveThrottle:
    """One that has had its first look at time 0, when 50,000 bytes were left."""
    made = AdaptiveThrottle(rate, minimum, maximum, 10_000)
    assert made.observe(sample(0, 0, 50_000)) is None
    return made


def test_nothing_changes_within_a_window() -> None:
    made = throttle()
    assert made.observe(sample(9_999, 0, 50_000, out_of_sync=1)) is None
    assert made.rate == 1000


def test_moves_that_stand_still_double_it() -> None:
    made = throttle()
    assert made.observe(sample(10_000, 0, 50_000)) == Change(2000, "the remaining bytes do not decrease")
    assert made.rate == 2000


def test_replicas_that_fall_behind_though_they_copy_double_it() -> None:
    change = throttle().observe(sample(10_000, 9_000, 51_000))
    assert change is not None and change.rate == 2000


def test_other_partitions_than_before_are_progress() -> None:
    assert throttle().observe(sample(10_000, 5_000, 60_000, moving=(("t", 1),))) is None


def test_limit_that_is_used_up_grows_by_half() -> None:
    assert throttle().observe(sample(10_000, 7_999, 42_001)) is None
    change = throttle().observe(sample(10_000, 8_000, 42_000))
    assert change is not None and change.rate == 1500


def test_replicas_out_of_sync_halve_it_whatever_else_holds() -> None:
    made = throttle()
    change = made.observe(sample(10_000, 0, 50_000, out_of_sync=2))
    assert change == Change(500, "2 replicas that are not being moved are out of sync")


def test_it_stays_within_its_bounds() -> None:
    made = throttle(150)
    rates = [made.observe(sample(10_000 * each, 0, 50_000, out_of_sync=1)) for each in (1, 2, 3)]
    assert [change.rate if change else None for change in rates] == [100, None, None]
    up = throttle(4000)
    rates = [up.observe(sample(10_000 * each, 0, 50_000)) for each in (1, 2, 3)]
    assert [change.rate if change else None for change in rates] == [8000, 10_000, None]
    assert up.is_at_maximum


def test_nothing_that_moves_is_nothing_that_stands_still() -> None:
    assert throttle().observe(sample(10_000, 0, 50_000, moving=())) is None
