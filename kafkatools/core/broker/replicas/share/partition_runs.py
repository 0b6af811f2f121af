"""The in-flight records of a share partition as runs of offsets with one state (KIP-932).

Rules: runs are sorted, do not overlap, and are split where an acknowledgement or a fetch ends within one. Offsets
between two runs have not been acquired since the state was loaded and are available. Adjacent runs of one terminal
state are joined after an acknowledgement.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum, unique

NO_MEMBER = ""


@unique
class RecordState(IntEnum):
    """The delivery state of a record; the values are those of the share coordinator's log."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Return whether the record is never delivered again."""
        return self >= RecordState.ACKNOWLEDGED


@dataclass(slots=True, eq=False, repr=False)
class Run:
    """The offsets `first` to `last`, both included, in one state. `is_part` is true for a run that was split."""

    first: int
    last: int
    state: RecordState
    delivery_count: int
    member_id: str = NO_MEMBER
    expires_ms: int = field(default=0, init=False)
    is_part: bool = field(default=False, init=False)

    @property
    def count(self) -> int:
        """The number of offsets in the run."""
        return self.last - self.first + 1

    def __repr__(self) -> str:
        return f"Run({self.first}-{self.last} {self.state.name} x{self.delivery_count} {self.member_id})"


class Runs:
    """All runs of a share partition in offset order."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._firsts: list[int] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def first(self) -> Run | None:
        """The run with the lowest offsets, None without runs."""
        return self._runs[0] if self._runs else None

    @property
    def last_offset(self) -> int | None:
        """The last offset of the last run, None without runs."""
        return self._runs[-1].last if self._runs else None

    def insert(self, run: Run) -> None:
        """Add a run that overlaps no other run."""
        index = bisect_right(self._firsts, run.first)
        self._runs.insert(index, run)
        self._firsts.insert(index, run.first)

    def split_at(self, offset: int) -> None:
        """Split the run that contains `offset`, so that one begins there. Does nothing if no run contains it or one
        begins there already."""
        index = bisect_right(self._firsts, offset) - 1
        if index < 0:
            return
        run = self._runs[index]
        if not run.first < offset <= run.last:
            return
        tail = Run(offset, run.last, run.state, run.delivery_count, run.member_id)
        tail.expires_ms = run.expires_ms
        tail.is_part = run.is_part = True
        run.last = offset - 1
        self._runs.insert(index + 1, tail)
        self._firsts.insert(index + 1, offset)

    def overlapping(self, first: int, last: int) -> list[Run]:
        """Return the runs with offsets between `first` and `last`, both included."""
        begin = max(0, bisect_right(self._firsts, first) - 1)
        return [run for run in self._runs[begin : bisect_right(self._firsts, last)] if run.last >= first]

    def within(self, first: int, last: int) -> list[Run]:
        """Split the runs at `first` and after `last`, and return those in between."""
        self.split_at(first)
        self.split_at(last + 1)
        return self.overlapping(first, last)

    def gaps(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return (first, last) of the ranges between `first` and `last` that no run covers."""
        gaps = []
        position = first
        for run in self.overlapping(first, last):
            if run.first > position:
                gaps.append((position, run.first - 1))
            position = max(position, run.last + 1)
        if position <= last:
            gaps.append((position, last))
        return gaps

    def drop_below(self, offset: int) -> None:
        """Remove all offsets below `offset`."""
        self.split_at(offset)
        count = bisect_right(self._firsts, offset - 1)
        del self._runs[:count]
        del self._firsts[:count]

    def join_terminal(self, first: int, last: int) -> None:
        """Join adjacent runs of one terminal state from `first` to `last` and at both borders."""
        index = max(0, bisect_right(self._firsts, first) - 2)
        while index + 1 < len(self._runs) and self._runs[index].first <= last:
            run, follower = self._runs[index], self._runs[index + 1]
            if run.state.is_terminal and follower.state is run.state and follower.first == run.last + 1:
                run.last = follower.last
                del self._runs[index + 1]
                del self._firsts[index + 1]
            else:
                index += 1
