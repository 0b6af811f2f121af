"""Iterate over the batches of a log as Kafka's tool does, and continue where Kafka's tool would end.

`LogWalk` yields batch headers and reports what is wrong between them. The consumer calls `give_up` when the records of
a batch are damaged, where Kafka's tool stops. The walk then continues at the next valid batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

from kafkatools.core.log.dump.batch_headers import Header, V2Header, next_batch
from kafkatools.core.log.dump.damage import Damage, Finding
from kafkatools.core.log.dump.options import DumpOptions
from kafkatools.core.log.dump.resync import next_valid_batch
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.dump.segment_limits import SegmentLimits

Forward = Callable[[int, "array[int]"], int]
"""Writes valid batches from a position on, updates the HeaderChecks.state, and returns the position after them."""

UNKNOWN = -1
LARGEST_OFFSET = (1 << 63) - 1


class LogWalk:
    """The batches of a segment file from byte `start`, where a batch begins, up to byte `end`. `has_stopped`: Kafka's
    tool would have ended by now. `trailing_bytes`: the invalid bytes that Kafka's tool reports at the end."""

    def __init__(self, file: SegmentFile, end: int, checks: HeaderChecks, options: DumpOptions, start: int = 0) -> None:
        self._file = file
        self._end = end
        self._name = checks.name
        self._report = checks.report
        self._position = start
        self._checks = checks
        self._is_legacy = False
        self._stop_at_damage = options.stop_at_damage
        self._salvage = options.salvage
        self.has_stopped = False
        self.trailing_bytes = 0

    def batches(self, forward: Forward | None = None) -> Iterator[Header]:
        """Yield batch headers in file order, until Kafka's end of the log. Damage is reported; the walk continues at
        the next valid batch, or ends with `stop_at_damage`.

        `forward(position, state)`, if given, is a fast path: it shows valid batches from a position on, updates `state`
        (HeaderChecks.state), and returns the position after them. Batches that it shows are not yielded.
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
                self._find_inner_batch(header)
        if self.has_stopped and self._stop_at_damage:
            return
        if not self.has_stopped:
            self.trailing_bytes = self._end - self._position
        if self._end == self._file.size:
            self._report_tail()

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the last v2 batch with a correct checksum; -1 before the first one and after damage."""
        return self._checks.state[1]

    def give_up(self, header: Header, damage: Damage, *, shows_records: bool) -> None:
        """Report damaged records in a batch. `shows_records`: the records before the damage were shown. The walk
        continues after the batch, or at the next valid batch inside it if its checksum is wrong."""
        start = header.position + (header.size_bytes if header.is_valid else 1)
        record_note = ""
        if shows_records:
            record_note = "records before it are shown" + ("" if header.is_valid else " although the checksum is wrong")
        self._resume(damage.reason, header.position, start, record_note)

    def salvage(self) -> Iterator[Header]:
        """Yield the valid batches after Kafka's end of the log."""
        position = self._next_valid(self._position)
        while position >= 0:
            header = next_batch(self._file, position, self._end, self._name)
            if header is None:
                return
            yield header
            position = self._next_valid(header.position + header.size_bytes)

    def _find_inner_batch(self, header: Header) -> None:
        """Report a valid batch that begins inside a batch with a wrong checksum; with `salvage` the walk continues
        there. Voids the outer batch's view."""
        start, end = header.position + 1, header.position + header.size_bytes
        inner = next_valid_batch(self._file, start, self._end, legacy=self._is_legacy, before=end)
        if inner < 0:
            return
        continuation = "continuing there" if self._salvage else "--salvage continues there"
        self._report(
            Finding(self._name, header.position, f"a valid batch begins inside it, at byte {inner}", continuation)
        )
        if self._salvage:
            self._position = inner

    def _next_valid(self, position: int) -> int:
        return next_valid_batch(self._file, position, self._end, legacy=self._is_legacy)

    def _resume(self, problem: str, position: int, start: int, record_note: str = "") -> bool:
        self.has_stopped = True
        self._checks.forget()
        next_position = self._next_valid(start)
        self._position = next_position if next_position >= 0 else self._end
        count = self._position - position
        loss = f"{record_note}; at most {count} bytes lost, " if record_note else f"{count} bytes lost, "
        loss += f"continuing at byte {next_position}" if next_position >= 0 else "no valid batch follows"
        self._report(Finding(self._name, position, problem, loss))
        return next_position >= 0

    def _report_tail(self) -> None:
        remaining = self._end - self._position
        if remaining <= 0:
            return
        next_position = self._next_valid(self._position)
        loss = f"{remaining} bytes are not part of a whole batch"
        if next_position >= 0:
            loss += f", but a valid batch begins at byte {next_position} (--salvage shows what follows)"
        self._report(Finding(self._name, self._position, "the log ends here", loss))


class HeaderChecks:
    """Checks of the batch header fields that the checksum does not cover: magic, rising offsets, leader epochs. Each
    batch is compared with the previous one, so a wrong batch causes one finding, or two with the next batch."""

    def __init__(self, name: str, report: Callable[[Finding], None], base_offset: int, limits: SegmentLimits) -> None:
        self.name = name
        self.report = report
        self._limits = limits
        self._is_beyond_limits = False
        self._epoch_problem = ""
        self.state = array("q", (base_offset, UNKNOWN))
        """The next offset due and the leader epoch reached."""

    def forget(self) -> None:
        """Reset the leader epoch after damage."""
        self.state[1] = UNKNOWN

    def check(self, header: Header) -> None:
        """Report the problems of a batch header, and keep its offset and leader epoch for the next batch."""
        if not header.is_valid:
            self._report_problem(header, "the checksum is wrong", f"batch of {header.size_bytes} bytes may be damaged")
        if not isinstance(header, V2Header):
            self._offsets(header, header.offset)
            return
        if header.magic != 2:
            self._report_problem(header, f"magic byte {header.magic} instead of 2 (the checksum does not cover it)", "")
        if header.is_valid:
            is_in_bounds = self._offsets(header, header.base_offset)
            self._epochs(header, is_compared=is_in_bounds)

    def _offsets(self, header: Header, first: int) -> bool:
        """Check a batch's offsets and report problems. Return whether they are in order and within the limits."""
        next_offset = self.state[0]
        problem = self._limits.offset_problem(next_offset, first, header.last_offset)
        if first < next_offset:
            self._report_problem(header, f"offset {first} where {next_offset} or more is expected", "")
        elif problem is not None and not self._is_beyond_limits:
            self._report_problem(header, problem, "")
        self._is_beyond_limits = problem is not None
        self.state[0] = min(header.last_offset + 1, LARGEST_OFFSET)
        return first >= next_offset and problem is None

    def _epochs(self, header: V2Header, *, is_compared: bool) -> None:
        epoch = self.state[1]
        if header.partition_leader_epoch < epoch:
            self._report_problem(header, f"leader epoch {header.partition_leader_epoch} after epoch {epoch}", "")
        problem = self._limits.epoch_problem(header.base_offset, header.partition_leader_epoch) if is_compared else None
        if problem and problem != self._epoch_problem:
            self._report_problem(header, problem, "")
        self._epoch_problem = problem or ""
        self.state[1] = header.partition_leader_epoch

    def _report_problem(self, header: Header, problem: str, loss: str) -> None:
        self.report(Finding(self.name, header.position, problem, loss))
