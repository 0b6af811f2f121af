"""Patterns of times; the expected texts were made with Java 17's SimpleDateFormat (Locale.US, UTC)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kafkatools.options.date_patterns import check_date_pattern, format_date

_SHOWN = [
    (1795231594512, "yyyy-MM-dd HH:mm:ss:SSS", "2026-11-21 03:26:34:512"),
    (1795231594512, "yy M/d h:mm a", "26 11/21 3:26 AM"),
    (1795231594512, "EEEE, d MMMM yyyy", "Saturday, 21 November 2026"),
    (1795231594512, "EEE MMM D w W F u k K", "Sat Nov 325 47 3 3 6 3 3"),
    (1795231594512, "YYYY-'W'ww 'o''clock' '' X XX XXX Z z G", "2026-W47 o'clock ' Z Z Z +0000 UTC AD"),
    (1795231594512, "SS S SSSS y yyy YY", "512 512 0512 2026 2026 26"),
    (1703980800001, "yyyy-MM-dd HH:mm:ss:SSS", "2023-12-31 00:00:00:001"),
    (1703980800001, "yy M/d h:mm a", "23 12/31 12:00 AM"),
    (1703980800001, "EEEE, d MMMM yyyy", "Sunday, 31 December 2023"),
    (1703980800001, "EEE MMM D w W F u k K", "Sun Dec 365 1 6 5 7 24 0"),
    (1703980800001, "YYYY-'W'ww 'o''clock' '' X XX XXX Z z G", "2024-W01 o'clock ' Z Z Z +0000 UTC AD"),
    (1703980800001, "SS S SSSS y yyy YY", "01 1 0001 2023 2023 24"),
    (1735603199999, "yyyy-MM-dd HH:mm:ss:SSS", "2024-12-30 23:59:59:999"),
    (1735603199999, "yy M/d h:mm a", "24 12/30 11:59 PM"),
    (1735603199999, "EEEE, d MMMM yyyy", "Monday, 30 December 2024"),
    (1735603199999, "EEE MMM D w W F u k K", "Mon Dec 365 1 5 5 1 23 11"),
    (1735603199999, "YYYY-'W'ww 'o''clock' '' X XX XXX Z z G", "2025-W01 o'clock ' Z Z Z +0000 UTC AD"),
    (1735603199999, "SS S SSSS y yyy YY", "999 999 0999 2024 2024 25"),
    (951782400000, "yyyy-MM-dd HH:mm:ss:SSS", "2000-02-29 00:00:00:000"),
    (951782400000, "yy M/d h:mm a", "00 2/29 12:00 AM"),
    (951782400000, "EEEE, d MMMM yyyy", "Tuesday, 29 February 2000"),
    (951782400000, "EEE MMM D w W F u k K", "Tue Feb 60 10 5 5 2 24 0"),
    (951782400000, "YYYY-'W'ww 'o''clock' '' X XX XXX Z z G", "2000-W10 o'clock ' Z Z Z +0000 UTC AD"),
    (951782400000, "SS S SSSS y yyy YY", "00 0 0000 2000 2000 00"),
]


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(("wall_ms", "pattern", "expected"), _SHOWN)
def test_times_look_as_java_writes_them(wall_ms: int, pattern: str, expected: str) -> None:
    check_date_pattern(pattern)
    assert format_date(pattern, wall_ms) == expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("b", "Illegal pattern character 'b'"), ("'x", "Unterminated quote"), ("yyyy'", "Unterminated quote")],
)
def test_what_is_no_pattern_is_refused_in_javas_words(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_date_pattern(pattern)
