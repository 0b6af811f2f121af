"""Parse the part of a topic to read: `--since`, `--until`, `--last` and the ranges of `--offset`.

A time is a duration before now (`-1h`), an ISO 8601 date with or without time and zone (UTC without zone), ms since
1970, or with exactly ten digits seconds since 1970. A range is in rpk's and kcl's notation:

    start, end            from the log start offset; from the log end offset
    100, 100:, :200       from an offset; up to an offset, which is excluded
    +5, -5                five offsets after the log start; five before the log end (also start+5, end-5)
    100:200, -100:end     from one place to another; `end` is the log end offset at the start of the command
    @T, @T:, @:T, @T:T    the same by timestamps
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kafkatools.options.quantities import duration_ms
from kafkatools.tools.lines.slice import LOG_END, LOG_START, Anchor, Place, Slice

TIME_FORM = (
    "Write a duration before now, such as -1h30m, a date such as 2026-01-31, 2026-01-31T13:45 or "
    "2026-01-31T13:45:00+02:00 (UTC without a zone), or milliseconds since 1970 (ten digits: seconds)."
)
RANGE_FORM = (
    "Write an offset (100), a distance (-5 before the end, +5 after the start), start or end, two of them (100:200, "
    "-100:end), or times (@-1h, @-1h:@-30m, @2026-01-31:2026-02-01)."
)
PLACE_FORM = (
    "Write an offset (100), a distance (-5 before the end, +5 after the start), a duration before now (-7d), a date "
    "such as 2026-01-31 or 2026-01-31T13:45 (UTC without a zone), or @ and milliseconds since 1970."
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_SECONDS_DIGITS = 10
_MAX_LONG = (1 << 63) - 1
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d(:\d\d(:\d\d([.,]\d{1,9})?)?)?(Z|z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII)
_START_WORDS = frozenset({"start", "oldest", "earliest", "beginning"})
_END_WORDS = frozenset({"end", "newest", "latest"})


def parse_time(text: str, now_ms: int) -> int:
    """Parse a time to ms since 1970. Raises ValueError with a sentence on the text."""
    time_ms = _time(text.strip(), now_ms)
    if time_ms is None:
        raise ValueError(f"'{text}' is not a time")
    return time_ms


def _time(text: str, now_ms: int, base_ms: int | None = None) -> int | None:
    """Return a time in ms, None for other text. A duration without `-` is counted from `base_ms`, if there is one."""
    if text == "now":
        return now_ms
    if _NUMBER.fullmatch(text):
        number = int(text)
        if len(text) < _SECONDS_DIGITS and number:
            return None  # a date or a duration with something missing rather than January 1970
        return _within_long(number * 1000 if len(text) == _SECONDS_DIGITS else number)
    if text.startswith("-"):
        duration = duration_ms(text[1:])
        return None if duration is None or duration > now_ms else now_ms - duration
    if _DATE.fullmatch(text):
        return _date(text)
    duration = duration_ms(text.removeprefix("+"))
    return None if duration is None or base_ms is None else _within_long(base_ms + duration)


def _within_long(number: int) -> int | None:
    return number if number <= _MAX_LONG else None


def _date(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text.upper().replace(",", "."))
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    time_ms = (moment - _EPOCH) // _MS
    return time_ms if time_ms >= 0 else None


def is_range(text: str) -> bool:
    """Return whether --offset has a form that Apache Kafka's console consumer does not know."""
    return _NUMBER.fullmatch(text) is None and text.lower() not in ("earliest", "latest")


def parse_range(text: str, now_ms: int) -> Slice:
    """Parse a range of --offset. Raises ValueError with a sentence on the text."""
    is_time = text.startswith(("@", ":@"))
    bounds = _times(text.replace("@", "", 1), now_ms) if is_time else _offsets(text.lower())
    if bounds is None:
        raise ValueError(f"'{text}' is not a range of offsets or times")
    start, end = bounds
    if end is not None and start.anchor is end.anchor and _is_behind(start, end):
        raise ValueError(f"'{text}' ends before it starts")
    return Slice(start, end)


def parse_place(text: str, now_ms: int) -> Place:
    """Parse one place: an offset (100), a distance (-5, +5), `start`, `end`, or a time with or without `@`. A number
    alone is an offset. Raises ValueError with a sentence on the text."""
    place = _place(text.lower())
    if place is None:
        place = _time_place(text.removeprefix("@"), now_ms)
    if place is None:
        raise ValueError(f"'{text}' is neither an offset nor a time")
    return place


def _is_behind(start: Place, end: Place) -> bool:
    return start.value < end.value if start.anchor is Anchor.LOG_END else start.value > end.value


def _offsets(text: str) -> tuple[Place, Place | None] | None:
    first, colon, second = text.partition(":")
    if not colon and (match := re.fullmatch(r"(\d+)-(\d+|end)", text, re.ASCII)):
        first, second = match.groups()
        colon = "-"
    start = _place(first) if first else LOG_START
    end = _place(second) if second else None
    if start is None or (second and end is None) or not (first or second):
        return None
    return start, end


def _place(text: str) -> Place | None:
    if text in _START_WORDS:
        return LOG_START
    if text in _END_WORDS:
        return LOG_END
    text = text.removeprefix("end") if text.startswith("end-") else text
    text = text.removeprefix("start") if text.startswith("start+") else text
    anchor = {"+": Anchor.LOG_START, "-": Anchor.LOG_END}.get(text[:1], Anchor.OFFSET)
    digits = text if anchor is Anchor.OFFSET else text[1:]
    if _NUMBER.fullmatch(digits) is None or int(digits) > _MAX_LONG:
        return None
    return Place(anchor, int(digits))


def _times(text: str, now_ms: int) -> tuple[Place, Place | None] | None:
    """Parse what follows the first `@`. A date may have colons: the text is tried as one time, then cut at each colon
    from the left. A duration as the second time is counted from the first if that is no duration, as in rpk."""
    whole = _time_place(text, now_ms)
    if whole is not None:
        return whole, None
    for match in re.finditer(":", text):
        first, second = text[: match.start()], text[match.end() :].removeprefix("@")
        start = _time_place(first, now_ms) if first else LOG_START
        if start is None:
            continue
        if not second:
            return (start, None) if first else None
        base = Place(Anchor.TIME, now_ms) if first.startswith("-") else start
        end = LOG_END if second in _END_WORDS else _time_place(second, now_ms, base)
        if end is not None:
            return start, end
    return None


def _time_place(text: str, now_ms: int, start: Place | None = None) -> Place | None:
    time_ms = _time(text, now_ms, start.value if start and start.anchor is Anchor.TIME else None)
    return None if time_ms is None or text == "0" else Place(Anchor.TIME, time_ms)
