"""Walking through the batches of a log as Kafka's tool does, and beyond the places where it would end.

`LogWalk` yields batches; what stands between them goes to `findings`. The consumer calls `give_up` when the records of
a batch turn out to be damaged: that is where Kafka's tool stops, and the walk goes on at the next valid batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

from kafkatools.core.log.dump.batch_headers import Header, V2Header, next_batch
from kafkatools.core.log.dump.damage import Damage, Finding
from kafkatools.core.log.dump.resync import next_valid_batch
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.dump.segment_limits import UNLIMITED, SegmentLimits

UNKNOWN = -1
LARGEST_OFFSET = (1 << 63) - 1


class LogWalk:
    """The batches of `file` up to `end`.

    `has_stopped`: Kafka's tool would have ended by now. `trailing_bytes`: what it calls invalid bytes at the end.
    """

    def __init__(
        self,
        file: SegmentFile,
        end: int,
        shown_name: str,
        report: Callable[[Finding], None],
        *,
        base_offset: int = UNKNOWN,
        limits: SegmentLimits = UNLIMITED,
        stop_at_damage: bool = False,
        salvage: bool = False,
    ) -> None:
        self._file = file
        self._end = end
        self._name = shown_name
        self._report = report
        self._position = 0
        self._checks = HeaderChecks(shown_name, report, base_offset, limits)
        self._is_legacy = False
        self._stop_at_damage = stop_at_damage
        self._salvage = salvage
        self.has_stopped = False
        self.trailing_bytes = 0

    def batches(self, forward: Callable[[int, array[int]], int] | None = None) -> Iterator[Header]:
        """Batches in the order of the file, until Kafka's end of the log.

        `forward(position, state)` may deal with sound batches from a position on itself; it gives the position after
        them and keeps `state` (HeaderChecks.state).
        """
        while not (self.has_stopped and self._stop_at_damage):
            if forward is not None:
                self._position = forward(self._position, self._checks.state)
            try:
                header = next_batch(self._file, self._position, self._end, self._name)
            except Damage as damage:
                if not self._resume(damage.reason, self._position, self._position + 1):
                    return
                continue
            if header is None:
                break
            self._is_legacy = not isinstance(header, V2Header)
            self._position = header.position + header.size_bytes
            self._checks.check(header)
            yield header
            if not header.is_valid and self._position == header.position + header.size_bytes:
                self._look_inside(header)
        if self.has_stopped and self._stop_at_damage:
            return
        if not self.has_stopped:
            self.trailing_bytes = self._end - self._position
        if self._end == self._file.size:
            self._report_tail()

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the last batch, UNKNOWN before the first one and behind damage."""
        return self._checks.state[1]

    def give_up(self, header: Header, damage: Damage) -> None:
        """The batch cannot be read any further; the walk goes on behind it, or at the next valid batch inside it."""
        start = header.position + (header.size_bytes if header.is_valid else 1)
        self._resume(damage.reason, header.position, start)

    def salvage(self) -> Iterator[Header]:
        """The batches behind Kafka's end of the log, those that are certainly ones."""
        position = self._next_valid(self._position)
        while position >= 0:
            header = next_batch(self._file, position, self._end, self._name)
            if header is None:
                return
            yield header
            position = self._next_valid(header.position + header.size_bytes)

    def _look_inside(self, header: Header) -> None:
        """A batch with a wrong checksum may only have a wrong length, with others inside. Its view is void then."""
        start, end = header.position + 1, header.position + header.size_bytes
        found = next_valid_batch(self._file, start, self._end, legacy=self._is_legacy, before=end)
        if found < 0:
            return
        how = "going on there" if self._salvage else "--salvage goes on there"
        self._report(Finding(self._name, header.position, f"a valid batch begins inside it, at byte {found}", how))
        if self._salvage:
            self._position = found

    def _next_valid(self, position: int) -> int:
        return next_valid_batch(self._file, position, self._end, legacy=self._is_legacy)

    def _resume(self, problem: str, position: int, start: int) -> bool:
        self.has_stopped = True
        self._checks.forget()
        found = self._next_valid(start)
        self._position = found if found >= 0 else self._end
        lost = f"{self._position - position} bytes lost, "
        going_on = f"going on at byte {found}" if found >= 0 else "no valid batch follows"
        self._report(Finding(self._name, position, problem, lost + going_on))
        return found >= 0

    def _report_tail(self) -> None:
        left = self._end - self._position
        if left <= 0:
            return
        found = self._next_valid(self._position)
        lost = f"{left} bytes are not part of a whole batch"
        if found >= 0:
            lost += f", but a valid batch begins at byte {found} (--salvage shows what follows)"
        self._report(Finding(self._name, self._position, "the log ends here", lost))


class HeaderChecks:
    """Checks of the header fields that a batch's checksum does not cover: magic, rising offsets, leader epochs.

    One wrong batch gives one finding, or two with the next batch: offsets and epochs are compared with the previous
    batch, whether that one was right or not.
    """

    def __init__(
        self, shown_name: str, report: Callable[[Finding], None], base_offset: int, limits: SegmentLimits
    ) -> None:
        self._name = shown_name
        self._report = report
        self._limits = limits
        self._is_beyond_limits = False
        self._epoch_problem = ""
        self.state = array("q", (base_offset, UNKNOWN))
        """The next offset due and the leader epoch reached."""

    def forget(self) -> None:
        """Begin anew after a gap."""
        self.state[1] = UNKNOWN

    def check(self, header: Header) -> None:
        """Report what is wrong with a header."""
        if not header.is_valid:
            self._found(header, "the checksum is wrong", f"batch of {header.size_bytes} bytes may be damaged")
        if not isinstance(header, V2Header):
            self._offsets(header, header.offset)
            return
        if header.magic != 2:
            self._found(header, f"magic byte {header.magic} instead of 2, which the checksum does not cover", "")
        if header.is_valid:
            is_in_bounds = self._offsets(header, header.base_offset)
            self._epochs(header, is_compared=is_in_bounds)

    def _offsets(self, header: Header, first: int) -> bool:
        """Whether the offsets of a batch are in order and within bounds."""
        due = self.state[0]
        problem = self._limits.offset_problem(due, first, header.last_offset)
        if first < due:
            self._found(header, f"offset {first} where {due} or more is due", "")
        elif problem is not None and not self._is_beyond_limits:
            self._found(header, problem, "")
        self._is_beyond_limits = problem is not None
        self.state[0] = min(header.last_offset + 1, LARGEST_OFFSET)
        return first >= due and problem is None

    def _epochs(self, header: V2Header, *, is_compared: bool) -> None:
        epoch = self.state[1]
        if header.partition_leader_epoch < epoch:
            self._found(header, f"leader epoch {header.partition_leader_epoch} after epoch {epoch}", "")
        problem = self._limits.epoch_problem(header.base_offset, header.partition_leader_epoch) if is_compared else None
        if problem and problem != self._epoch_problem:
            self._found(header, problem, "")
        self._epoch_problem = problem or ""
        self.state[1] = header.partition_leader_epoch

    def _found(self, header: Header, problem: str, lost: str) -> None:
        self._report(Finding(self._name, header.position, problem, lost))
