"""The delivery state of one partition for one share group (Kafka's SharePartition, KIP-932).

Each offset from the start offset (SPSO) to the end offset (SPEO) is available, acquired by a member until its lock
expires, acknowledged or archived. The start offset moves over acknowledged and archived offsets. Acknowledgements,
releases and expired locks are written to the share coordinator. In a cluster they take effect before its response, for
which the member's response waits. Acquisitions are not written: after a restart those records are available again. Nor
are offsets archived for an aborted transaction or because compaction removed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kafkatools.core.broker.coordinators.share_state.pending import ShareWrite
from kafkatools.core.broker.coordinators.share_state.share_state import ShareState, ShareUpdate, StateBatch, joined
from kafkatools.core.broker.replicas.share.partition_runs import NO_MEMBER, RecordState, Run, Runs
from kafkatools.core.errors import InvalidRecordState, InvalidRequest

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
STATE_OF_ACKNOWLEDGEMENT = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}
BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
NOT_ACQUIRED = {
    False: "The batch cannot be acknowledged. The batch is not in the acquired state.",
    True: "The offset cannot be acknowledged. The offset is not acquired.",
}


class Acquired(NamedTuple):
    """A range of offsets that a member acquired, and its delivery count."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """A member's acknowledgement of a range of offsets: one type for all of them, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Wish(NamedTuple):
    """The member and the limits of a share fetch: it acquires up to `max_records`, in ranges of about `batch_size`
    offsets. BATCH_OPTIMIZED may exceed `max_records` to the end of a batch."""

    member_id: str
    max_records: int
    batch_size: int
    mode: int = BATCH_OPTIMIZED


class Limits(NamedTuple):
    """Functions that return a share group's current settings: the acquisition lock's duration in ms, the maximum number
    of deliveries of a record, and the maximum number of records in flight."""

    lock_duration_ms: Callable[[], int]
    delivery_count_limit: Callable[[], int]
    max_record_locks: Callable[[], int]


class _Step(NamedTuple):
    run: Run
    state: RecordState
    delivery_count: int


class SharePartition:
    """The share-group state of one partition. `write` persists a state update, returns what to wait for, and may raise
    a KafkaError."""

    def __init__(
        self, state: ShareState, leader_epoch: int, limits: Limits, write: Callable[[ShareUpdate], ShareWrite]
    ) -> None:
        self.start_offset = state.start_offset
        self.state_epoch = state.state_epoch
        self._leader_epoch = leader_epoch
        self._limits = limits
        self._write = write
        self._runs = Runs()
        self.next_new_offset = state.start_offset
        for batch in state.batches:
            if batch.last_offset >= state.start_offset:
                record_state = RecordState(batch.delivery_state)
                self._runs.insert(
                    Run(
                        max(batch.first_offset, state.start_offset),
                        batch.last_offset,
                        record_state,
                        batch.delivery_count,
                    )
                )
                self.next_new_offset = batch.last_offset + 1
        self._move_start()

    # -- reading -------------------------------------------------------------------------------------------------------
    def next_fetch_offset(self) -> int:
        """Return the first available offset, or the offset after the last acquired one if none is available."""
        position = self.start_offset
        for run in self._runs:
            if run.first > position or run.state is RecordState.AVAILABLE:
                return position
            position = run.last + 1
        return self.next_new_offset

    def has_room(self) -> bool:
        """Return whether an available offset, or a new one within the limit of records in flight, can be acquired."""
        return self.next_fetch_offset() < self.next_new_offset or self._room() > 0

    def _room(self) -> int:
        return self._limits.max_record_locks() - self.in_flight_count

    @property
    def in_flight_count(self) -> int:
        """The number of offsets from start to end that are neither acknowledged nor archived."""
        return self.next_new_offset - self.start_offset - self.delivery_complete_count

    @property
    def delivery_complete_count(self) -> int:
        """The number of offsets from start to end that are acknowledged or archived."""
        return sum(run.count for run in self._runs if run.state.is_terminal)

    @property
    def next_expiration_ms(self) -> int | None:
        """Time in ms at which the first acquisition lock expires, None without locks."""
        return min((run.expires_ms for run in self._runs if run.state is RecordState.ACQUIRED), default=None)

    # -- acquiring -----------------------------------------------------------------------------------------------------
    def acquire(self, wish: Wish, batches: Sequence[tuple[int, int]], fetch_offset: int, now_ms: int) -> list[Acquired]:
        """Acquire available offsets of a read for a member and return them; the list may be empty. `batches` has (first
        offset, last offset) of each record batch that was read from `fetch_offset` on. Offsets missing before the first
        batch are archived. Records with many failed deliveries are acquired in small ranges, without others."""
        if not batches:
            return []
        first, last = max(batches[0][0], self.start_offset), batches[-1][1]
        self._archive_missing(fetch_offset, first - 1)
        acquired: list[Acquired] = []
        remaining = wish.max_records
        # The start offset may have passed the archived offsets and acknowledged ones behind them.
        position = max(first, fetch_offset, self.start_offset)
        while remaining > 0 and position <= last:
            is_failing = self._is_failing(position)
            if is_failing and acquired:
                break
            step, position = self._acquire_at(wish, position, (last, remaining), batches, now_ms)
            acquired += step
            remaining -= sum(acquired_range.last_offset - acquired_range.first_offset + 1 for acquired_range in step)
            if is_failing:
                break
        return acquired

    def _acquire_at(
        self, wish: Wish, position: int, limits: tuple[int, int], batches: Sequence[tuple[int, int]], now_ms: int
    ) -> tuple[list[Acquired], int]:
        """Acquire at `position`; `limits` is (last offset, records left). Returns acquired offsets and next
        position."""
        last, remaining = limits
        runs = self._runs.overlapping(position, last)
        if runs and runs[0].first <= position:
            run = runs[0]
            end = min(run.last, last)
            if run.state is not RecordState.AVAILABLE:
                return [], end + 1
            end = position + self._deliverable(run, end - position + 1, remaining, wish.mode) - 1
            available_runs = self._runs.within(position, end)
            for available_run in available_runs:
                self._lock(available_run, wish.member_id, now_ms)
            return [
                Acquired(available_run.first, available_run.last, available_run.delivery_count)
                for available_run in available_runs
            ], end + 1
        is_gap = position < self.next_new_offset
        end = min(last, self.next_new_offset - 1 if is_gap else last, runs[0].first - 1 if runs else last)
        count = remaining if is_gap else min(remaining, self._room())
        if count <= 0:
            return [], last + 1
        if position + count - 1 < end:
            last_allowed = position + count - 1
            end_of_batch = next((last for _, last in batches if last >= last_allowed), last_allowed)
            end = last_allowed if wish.mode == RECORD_LIMIT else min(end, end_of_batch)
        result = []
        for run_first, run_last in _chunks(batches, position, end, wish.batch_size):
            run = Run(run_first, run_last, RecordState.AVAILABLE, 0)
            self._runs.insert(run)
            self._lock(run, wish.member_id, now_ms)
            result.append(Acquired(run_first, run_last, 1))
        self.next_new_offset = max(self.next_new_offset, end + 1)
        return result, end + 1

    def _is_failing(self, offset: int) -> bool:
        """Return whether an available record failed so often that it is delivered in ever smaller ranges, at last
        alone."""
        runs = self._runs.overlapping(offset, offset)
        return bool(runs) and runs[0].state is RecordState.AVAILABLE and self._failures(runs[0]) >= 0

    def _failures(self, run: Run) -> int:
        """Return the deliveries of a run above half of the delivery limit, or above 2 if that is more; negative
        below."""
        return run.delivery_count - max(2, -(-self._limits.delivery_count_limit() // 2))

    def _deliverable(self, run: Run, count: int, remaining: int, mode: int) -> int:
        """Return how many offsets of an available run are delivered at once."""
        failures = self._failures(run)
        if failures >= 0:
            is_last = run.delivery_count >= self._limits.delivery_count_limit() - 1
            count = 1 if is_last else max(1, count >> (failures + 1))
        return min(count, remaining) if mode == RECORD_LIMIT else count

    def _lock(self, run: Run, member_id: str, now_ms: int) -> None:
        run.state = RecordState.ACQUIRED
        run.delivery_count += 1
        run.member_id = member_id
        run.expires_ms = now_ms + self._limits.lock_duration_ms()

    def _archive_missing(self, first: int, last: int) -> None:
        """Archive available offsets that compaction removed from the log."""
        if first > last or first >= self.next_new_offset:
            return
        last = min(last, self.next_new_offset - 1)
        for gap_first, gap_last in self._runs.gaps(first, last):
            self._runs.insert(Run(gap_first, gap_last, RecordState.ARCHIVED, 0))
        for run in self._runs.within(first, last):
            if run.state is RecordState.AVAILABLE:
                run.state = RecordState.ARCHIVED
        self._move_start()

    def archive(self, first: int, last: int) -> None:
        """Archive available and acquired offsets that must not be delivered: records of aborted transactions. Nothing
        is written to the share coordinator."""
        for run in self._runs.within(first, last):
            if not run.state.is_terminal:
                run.state, run.member_id = RecordState.ARCHIVED, NO_MEMBER
        self._runs.join_terminal(first, last)
        self._move_start()

    # -- acknowledging -------------------------------------------------------------------------------------------------
    def acknowledge(self, member_id: str, acknowledgements: Iterable[Acknowledgement], now_ms: int) -> ShareWrite:
        """Apply all acknowledgements, or none of them if one is invalid; RENEW extends the lock. Offsets below the
        start offset are ignored. Returns the write of the new state to wait for, None if nothing is written. Raises
        InvalidRequest, InvalidRecordState and the errors of `write`."""
        steps: list[_Step] = []
        renewed_runs: list[Run] = []
        count = 0
        for acknowledgement in acknowledgements:
            if acknowledgement.last_offset >= self.start_offset:
                self._ensure_in_flight(acknowledgement)
                for first, last, kind in _stretches(acknowledgement):
                    if last < self.start_offset:
                        continue
                    for run in self._owned(member_id, max(first, self.start_offset), last):
                        count += run.count
                        if kind == RENEW:
                            renewed_runs.append(run)
                        else:
                            steps.append(self._step(run, STATE_OF_ACKNOWLEDGEMENT[kind]))
        distinct_runs = {id(run): run for run in (*(step.run for step in steps), *renewed_runs)}
        if sum(run.count for run in distinct_runs.values()) != count:  # an offset is acknowledged twice
            raise InvalidRecordState(NOT_ACQUIRED[True])
        status = self._commit(steps)
        duration_ms = self._limits.lock_duration_ms()
        for run in renewed_runs:
            run.expires_ms = now_ms + duration_ms
        return status

    def _ensure_in_flight(self, batch: Acknowledgement) -> None:
        first, end = max(batch.first_offset, self.start_offset), self._runs.last_offset
        if end is not None and first > end:
            raise InvalidRequest("Batch record not found. The first offset in request is past acquired records.")
        if end is None or not self._runs.overlapping(first, first):
            raise InvalidRecordState("Batch record not found. The request batch offsets are not found in the cache.")
        if batch.last_offset > end:
            raise InvalidRequest("Batch record not found. The last offset in request is past acquired records.")

    def _owned(self, member_id: str, first: int, last: int) -> list[Run]:
        for run in self._runs.overlapping(first, last):
            if run.state is not RecordState.ACQUIRED:
                raise InvalidRecordState(NOT_ACQUIRED[run.is_part])
            if run.member_id != member_id:
                is_part = run.is_part or run.first < first or run.last > last
                raise InvalidRecordState(f"Member is not the owner of {'offset' if is_part else 'batch record'}")
        return self._runs.within(first, last)

    def _step(self, run: Run, state: RecordState) -> _Step:
        if state is RecordState.AVAILABLE and run.delivery_count >= self._limits.delivery_count_limit():
            state = RecordState.ARCHIVED
        return _Step(run, state, run.delivery_count)

    def release_member(self, member_id: str) -> ShareWrite:
        """Make the records that a member has acquired available again, after it left or closed its session. Records at
        the delivery limit are archived instead. Returns the write to wait for, None without acquired records. Raises
        the errors of `write`."""
        return self._release(lambda run: run.member_id == member_id)

    def expire_locks(self, now_ms: int) -> ShareWrite:
        """Make the records whose acquisition lock has expired available again; those at the delivery limit are archived
        instead. Returns the write to wait for, None without expired locks. Raises the errors of `write`."""
        return self._release(lambda run: run.expires_ms <= now_ms)

    def _release(self, is_released: Callable[[Run], bool]) -> ShareWrite:
        acquired = [run for run in self._runs if run.state is RecordState.ACQUIRED and is_released(run)]
        return self._commit([self._step(run, RecordState.AVAILABLE) for run in acquired])

    def _commit(self, steps: Sequence[_Step]) -> ShareWrite:
        """Send the new states to the share coordinator, then apply them without waiting for its response. Returns the
        write to wait for, None without steps."""
        if not steps:
            return None
        batches = joined(
            sorted(StateBatch(step.run.first, step.run.last, int(step.state), step.delivery_count) for step in steps)
        )
        terminal_count = sum(step.run.count for step in steps if step.state.is_terminal)
        update = ShareUpdate(
            self.state_epoch,
            self._leader_epoch,
            self.start_offset,
            self.delivery_complete_count + terminal_count,
            batches,
        )
        status = self._write(update)
        for run, state, delivery_count in steps:
            run.state, run.delivery_count, run.member_id = state, delivery_count, NO_MEMBER
        self._runs.join_terminal(batches[0].first_offset, batches[-1].last_offset)
        self._move_start()
        return status

    # -- the start -----------------------------------------------------------------------------------------------------
    def _move_start(self) -> None:
        while (run := self._runs.first) is not None and run.first <= self.start_offset and run.state.is_terminal:
            self.start_offset = run.last + 1
            self._runs.drop_below(self.start_offset)

    def note_log_start(self, offset: int) -> None:
        """Advance the start offset to the log start offset, after records were deleted; a lower offset changes
        nothing."""
        if offset > self.start_offset:
            self._runs.drop_below(offset)
            self.start_offset = offset
            self.next_new_offset = max(self.next_new_offset, offset)
            self._move_start()


def _stretches(batch: Acknowledgement) -> list[tuple[int, int, int]]:
    """Return (first offset, last offset, type) for each range of offsets with the same acknowledgement type."""
    if len(batch.types) == 1:
        return [(batch.first_offset, batch.last_offset, batch.types[0])]
    stretches: list[tuple[int, int, int]] = []
    for offset, kind in enumerate(batch.types, batch.first_offset):
        if stretches and stretches[-1][2] == kind:
            stretches[-1] = (stretches[-1][0], offset, kind)
        else:
            stretches.append((offset, offset, kind))
    return stretches


def _chunks(batches: Sequence[tuple[int, int]], first: int, last: int, batch_size: int) -> list[tuple[int, int]]:
    """Split the offsets `first` to `last` between record batches into ranges of about `batch_size` offsets."""
    if last - first + 1 <= batch_size:
        return [(first, last)]
    chunks = []
    start = first
    for _, end in batches:
        if end >= last:
            break
        if end - start + 1 >= batch_size:
            chunks.append((start, end))
            start = end + 1
    chunks.append((start, last))
    return chunks
