"""Times and ranges of offsets on the command line: rpk's and kcl's notation, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kafkatools.options.slices import is_range, parse_range, parse_time
from kafkatools.tools.lines.slice import Anchor, Place, Slice

NOW = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)
HOUR = 3_600_000
DAY = 24 * HOUR
FEBRUARY = int(datetime(2026, 2, 1, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("-1h", NOW - HOUR),
        ("-1h30m", NOW - HOUR - HOUR // 2),
        ("-0ms", NOW),
        ("2026-02-01", FEBRUARY),
        ("2026-02-01T01", FEBRUARY + HOUR),
        ("2026-02-01T01:30", FEBRUARY + HOUR + HOUR // 2),
        ("2026-02-01 01:30:00", FEBRUARY + HOUR + HOUR // 2),
        ("2026-02-01T01:30:00.250Z", FEBRUARY + HOUR + HOUR // 2 + 250),
        ("2026-02-01T01:00:00,5", FEBRUARY + HOUR + 500),
        ("2026-02-01T01:00:00+01:00", FEBRUARY),
        ("2026-02-01T01:00:00+0100", FEBRUARY),
        ("2026-01-31T22:00-02", FEBRUARY),
        ("1769904000000", FEBRUARY),
        ("1769904000", FEBRUARY),
        ("0", 0),
    ],
)
def test_times(text: str, expected: int) -> None:
    assert parse_time(text, NOW) == expected


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "17", "20260201", "1h", "-", "-5", "--1h", "2026-02-30", "2026-13-01", "2026-02-01T25:00",
     "99999999999999999999",      "1.5", "-1x", "1969-12-31", "\u0663", "-9999999w", "2026-02-01T01:00:00+99:00"],
)  # fmt: skip
def test_texts_that_are_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_time(text, NOW)


START, END = Place(Anchor.LOG_START), Place(Anchor.LOG_END)


def at(offset: int) -> Place:
    return Place(Anchor.OFFSET, offset)


def before_end(distance: int) -> Place:
    return Place(Anchor.LOG_END, distance)


def behind_start(distance: int) -> Place:
    return Place(Anchor.LOG_START, distance)


def time(time_ms: int) -> Place:
    return Place(Anchor.TIME, time_ms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", Slice(START)),
        ("oldest", Slice(START)),
        ("beginning", Slice(START)),
        ("end", Slice(END)),
        ("newest", Slice(END)),
        (":end", Slice(START, END)),
        ("start:end", Slice(START, END)),
        ("+5", Slice(behind_start(5))),
        ("-5", Slice(before_end(5))),
        ("start+5", Slice(behind_start(5))),
        ("end-5", Slice(before_end(5))),
        ("100:", Slice(at(100))),
        (":200", Slice(START, at(200))),
        ("100:200", Slice(at(100), at(200))),
        ("100-200", Slice(at(100), at(200))),
        ("100:end", Slice(at(100), END)),
        ("100-end", Slice(at(100), END)),
        ("-100:-50", Slice(before_end(100), before_end(50))),
        ("-100:end", Slice(before_end(100), END)),
        ("+5:+10", Slice(behind_start(5), behind_start(10))),
        ("5:5", Slice(at(5), at(5))),
        ("@-1h", Slice(time(NOW - HOUR))),
        ("@-1h:", Slice(time(NOW - HOUR))),
        ("@:-1h", Slice(START, time(NOW - HOUR))),
        (":@-1h", Slice(START, time(NOW - HOUR))),
        ("@-48h:24h", Slice(time(NOW - 2 * DAY), time(NOW + DAY))),  # rpk: both durations are relative to now
        ("@-2h:-1h", Slice(time(NOW - 2 * HOUR), time(NOW - HOUR))),
        ("@-2h:@-1h", Slice(time(NOW - 2 * HOUR), time(NOW - HOUR))),
        ("@-1h:end", Slice(time(NOW - HOUR), END)),
        ("@:end", Slice(START, END)),
        ("@2026-02-01", Slice(time(FEBRUARY))),
        ("@2026-02-01:1h", Slice(time(FEBRUARY), time(FEBRUARY + HOUR))),
        ("@2026-02-01:2026-02-02", Slice(time(FEBRUARY), time(FEBRUARY + DAY))),
        ("@2026-02-01T01:00:2026-02-01T02:30", Slice(time(FEBRUARY + HOUR), time(FEBRUARY + 5 * HOUR // 2))),
        ("@2026-02-01T01:00:00Z:2026-02-01T02:00:00Z", Slice(time(FEBRUARY + HOUR), time(FEBRUARY + 2 * HOUR))),
        ("@1769904000000:1769904000001", Slice(time(FEBRUARY), time(FEBRUARY + 1))),
        ("@1769904000:1769907600", Slice(time(FEBRUARY), time(FEBRUARY + HOUR))),
    ],
)
def test_ranges(text: str, expected: Slice) -> None:
    assert is_range(text)
    assert parse_range(text, NOW) == expected


@pytest.mark.parametrize(
    "text",
    ["", ":", "a", "5:a", "a:5", "1:2:3", "@", "@:", "@end", "@5", "@a:b", "+", "-", "+-5", "--5", "5.0", "@-1h:-30",
     "\u0661", "99999999999999999999:", "end-", "start+"],
)  # fmt: skip
def test_texts_that_are_no_range(text: str) -> None:
    with pytest.raises(ValueError, match="is not a range"):
        parse_range(text, NOW)


@pytest.mark.parametrize("text", ["200:100", "-50:-100", "+10:+5", "@-1h:-2h", "@2026-02-02:2026-02-01"])
def test_ranges_that_end_before_they_start(text: str) -> None:
    with pytest.raises(ValueError, match="ends before it starts"):
        parse_range(text, NOW)


@pytest.mark.parametrize("text", ["0", "42", "earliest", "latest", "LATEST", "9223372036854775807"])
def test_offsets_of_apache_kafka_are_no_ranges(text: str) -> None:
    assert not is_range(text)
