"""What a run of kt redrive did: the records that were sent by target and exception, and those that stay by reason."""

from __future__ import annotations

from typing import NamedTuple

from kafkatools.tools.redrive.offset_ranges import OffsetRanges
from kafkatools.tools.redrive.targets import Reason


class Sample(NamedTuple):
    """The first record of a group: its place in the dead-letter topic, where it came from (None: unknown), its key and
    the message of its exception."""

    partition: int
    offset: int
    origin_partition: int | None
    origin_offset: int | None
    key: bytes | None
    message: str | None


class SentRecords(NamedTuple):
    """The records with one target and exception."""

    records: int
    sample: Sample


class LeftPlace(NamedTuple):
    """Records that stay in one partition for one reason."""

    partition: int
    target: str | None
    reason: Reason


class Tally:
    """Counts of one run."""

    def __init__(self) -> None:
        self.sent: dict[tuple[str, str | None], SentRecords] = {}
        self.left: dict[LeftPlace, OffsetRanges] = {}
        self.sent_count = 0
        self.left_count = 0

    def add_sent(self, target: str, exception: str | None, sample: Sample) -> None:
        """Count a record that was, or would be, sent."""
        earlier = self.sent.get((target, exception))
        self.sent[target, exception] = (
            SentRecords(1, sample) if earlier is None else earlier._replace(records=earlier.records + 1)
        )
        self.sent_count += 1

    def add_left(self, place: LeftPlace, offset: int) -> None:
        """Note a record that stays."""
        self.left.setdefault(place, OffsetRanges()).add(offset, offset + 1)
        self.left_count += 1
