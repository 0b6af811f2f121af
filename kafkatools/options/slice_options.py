"""The options --since, --until, --last and the ranges of --offset, as a slice."""

from __future__ import annotations

from kafkatools.exit_status import UsageError
from kafkatools.options.args import Args
from kafkatools.options.slices import RANGE_FORM, TIME_FORM, parse_range, parse_time
from kafkatools.tools.lines.slice import LOG_END, LOG_START, Anchor, Place, Slice


def slice_of(args: Args, now_ms: int) -> Slice:
    """Return the slice of --since, --until and --last; times are relative to `now_ms`. Raises UsageError."""
    since, until = _time(args, "since", now_ms), _time(args, "until", now_ms)
    if since and until and since.value >= until.value:
        raise UsageError(f"--until {args.until} is not after --since {args.since}")
    if args.last is not None and args.last < 1:
        raise UsageError(f"--last {args.last} must be at least 1")
    end = LOG_END if until is None and args.last is not None else until
    return Slice(since or LOG_START, end, args.last)


def ended_slice_of(args: Args, now_ms: int) -> Slice:
    """Return the slice of --since, --until and --last; without an end up to the records that are there at the start.
    Raises UsageError."""
    requested = slice_of(args, now_ms)
    return requested if requested.end is not None else requested._replace(end=LOG_END)


def range_of(text: str, now_ms: int) -> Slice:
    """Return the slice of a range of --offset. Raises UsageError."""
    try:
        return parse_range(text, now_ms)
    except ValueError as error:
        raise UsageError(f"Invalid value of --offset: {error}", RANGE_FORM) from None


def _time(args: Args, name: str, now_ms: int) -> Place | None:
    text = getattr(args, name)
    if text is None:
        return None
    try:
        return Place(Anchor.TIME, parse_time(text, now_ms))
    except ValueError as error:
        raise UsageError(f"Invalid value of --{name}: {error}", TIME_FORM) from None
