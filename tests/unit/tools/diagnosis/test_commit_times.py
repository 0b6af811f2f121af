"""The usual time between commits, from their times."""

from __future__ import annotations

from kafkatools.tools.diagnosis.observations import CommitTimes


def test_the_median_of_at_least_three_pauses() -> None:
    times = CommitTimes({("t", 0): (1000, 31_000, 61_000, 91_000), ("t", 1): (500, 1000)}, None)
    assert (times.last_ms(), times.usual_ms(("t", 0)), times.usual_ms()) == (91_000, 30_000, 30_000)
    assert times.usual_ms(("t", 1)) is None and times.usual_ms(("t", 2)) is None


def test_no_commits_are_unknown() -> None:
    assert CommitTimes({}, 5).last_ms() is None and CommitTimes({}, 5).usual_ms() is None
