"""Acknowledgements of acquired records (KIP-932, KIP-1222): their types, ranges of offsets, and their form on the wire.

Rules: ranges are in offset order, do not overlap, and neighbours of the same type are one range, so that a batch of
accepted records costs one range. A gap is an acquired offset without a record, such as that of a control record.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

GAP = 0


@enum.unique
class AcknowledgeType(enum.IntEnum):
    """The outcome of a delivery: ACCEPT (processed), RELEASE (deliver again), REJECT (never deliver again), or RENEW
    (still processing: restart the acquisition lock, KIP-1222)."""

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcknowledgedRange(NamedTuple):
    """Offsets `first` to `last` with one acknowledgement: an AcknowledgeType or GAP."""

    first: int
    last: int
    kind: int


class Acknowledgements:
    """The acknowledgements of one partition that are sent together."""

    def __init__(self, ranges: Iterable[AcknowledgedRange]) -> None:
        self.ranges = joined(sorted(ranges))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __repr__(self) -> str:
        return f"Acknowledgements({self.ranges})"

    @property
    def has_renewals(self) -> bool:
        """Return whether any record's lock is renewed, which takes version 2 of the request."""
        return any(part.kind == AcknowledgeType.RENEW for part in self.ranges)

    @property
    def record_count(self) -> int:
        """The number of offsets, gaps included."""
        return sum(part.last - part.first + 1 for part in self.ranges)

    def offsets(self) -> set[int]:
        """Return all offsets, gaps included, as Kafka's commit callback reports them."""
        return {offset for part in self.ranges for offset in range(part.first, part.last + 1)}

    def renewed_offsets(self) -> Iterator[int]:
        """Yield the offsets that are acknowledged with RENEW."""
        for part in self.ranges:
            if part.kind == AcknowledgeType.RENEW:
                yield from range(part.first, part.last + 1)

    def batches(self) -> list[dict[str, object]]:
        """Return the acknowledgement batches of ShareFetch and ShareAcknowledge: one type for a whole range."""
        return [
            {"first_offset": part.first, "last_offset": part.last, "acknowledge_types": [int(part.kind)]}
            for part in self.ranges
        ]


def joined(ranges: Iterable[AcknowledgedRange]) -> list[AcknowledgedRange]:
    """Join neighbouring ranges of the same type; `ranges` are in offset order."""
    result: list[AcknowledgedRange] = []
    for part in ranges:
        before = result[-1] if result else None
        if before is not None and before.kind == part.kind and before.last + 1 == part.first:
            result[-1] = AcknowledgedRange(before.first, part.last, part.kind)
        else:
            result.append(part)
    return result


def ranges_of(kinds: Mapping[int, int]) -> list[AcknowledgedRange]:
    """Return the ranges of offsets with their types."""
    return joined(AcknowledgedRange(offset, offset, kinds[offset]) for offset in sorted(kinds))


def contiguous(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of each run of ascending offsets without a hole."""
    first = last = None
    for offset in offsets:
        if first is None or last is None:
            first = last = offset
        elif offset == last + 1:
            last = offset
        else:
            yield first, last
            first = last = offset
    if first is not None and last is not None:
        yield first, last
