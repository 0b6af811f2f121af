"""What kt redrive prints: the records by target and exception, those that stay, and the total."""

from __future__ import annotations

from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.output import json_bytes, visible
from kafkatools.tools.redrive.offset_ranges import OffsetRanges
from kafkatools.tools.redrive.tally import LeftPlace, Sample, SentRecords, Tally

_MOST_RANGES = 10


def report(console: Console, topic: str, tally: Tally, *, is_sent: bool) -> ExitStatus:
    """Print the outcome of a run that is complete. Returns FINDINGS when records stay that cannot be sent back."""
    for (target, exception), sent in sorted(tally.sent.items(), key=lambda item: (item[0][0], item[0][1] or "")):
        _print_sent(console, topic, target, exception, sent, is_sent=is_sent)
    for place, ranges in sorted(tally.left.items(), key=lambda item: (item[0].partition, item[1].first())):
        _print_left(console, topic, place, ranges)
    verb = "Sent back" if is_sent else "Would send back"
    left = f"; left {_records(tally.left_count)}" if tally.left_count else ""
    console.note(f"{verb} a total of {_records(tally.sent_count)}{left}")
    return ExitStatus.FINDINGS if tally.left_count else ExitStatus.OK


def _print_sent(
    console: Console, topic: str, target: str, exception: str | None, sent: SentRecords, *, is_sent: bool
) -> None:
    sample = sent.sample
    row = {
        "target": target,
        "exception": exception,
        "records": sent.records,
        "sent": is_sent,
        "sample": {
            "partition": sample.partition,
            "offset": sample.offset,
            "origin_partition": sample.origin_partition,
            "origin_offset": sample.origin_offset,
            "key": json_bytes(sample.key),
            "message": sample.message,
        },
    }
    reason = f" of {exception}" if exception is not None else ""
    console.print(f"{target}: {_records(sent.records)}{reason}; for example {_example(topic, sample)}", row)


def _example(topic: str, sample: Sample) -> str:
    text = f"{topic}-{sample.partition} offset {sample.offset}"
    if sample.origin_offset is not None:
        text += f" (from offset {sample.origin_offset} of partition {sample.origin_partition})"
    if sample.key is not None:
        text += f", key {visible(sample.key.decode('utf-8', 'replace'))}"
    message = (sample.message or "").strip()
    return f"{text}: {visible(message.splitlines()[0])}" if message else text


def _print_left(console: Console, topic: str, place: LeftPlace, ranges: OffsetRanges) -> None:
    count = sum(end - start for start, end in ranges)
    offsets = [(start, end - 1) for start, end in ranges]
    row = {
        "partition": place.partition,
        "target": place.target,
        "reason": place.reason.word,
        "records": count,
        "offsets": [list(pair) for pair in offsets],
        "message": place.reason.text,
    }
    shown = ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in offsets[:_MOST_RANGES])
    if len(offsets) > _MOST_RANGES:
        shown += f" and {len(offsets) - _MOST_RANGES} more ranges (--json has all)"
    what = f"Left {_records(count)} of {topic}-{place.partition}, offset" + ("s" if count > 1 else "")
    console.print_outcome(row, error=f"{what} {shown}: {visible(place.reason.text)}")


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"
