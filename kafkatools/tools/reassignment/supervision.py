"""Carries a reassignment out: limits first, then the moves, then the limits away again, however it ends.

Order: undo file, journal, topics' lists and brokers' rates, the partitions; at the end (all arrived, an error, Ctrl-C,
SIGTERM) the limits, by a connection of its own since the first may have been cut off in the middle, then the journal.
What cannot be taken away stays in the journal for the next run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.reassignments import active_reassignments
from kafkatools.core.clock import Clock
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import CommandError
from kafkatools.tools.reassignment.adaptive_throttle import AdaptiveThrottle, Change, Sample, is_stalled
from kafkatools.tools.reassignment.journal import Journal, Record, Setting
from kafkatools.tools.reassignment.limits import TakenAway, rates_of, set_limits, take_away, with_rate
from kafkatools.tools.reassignment.moves import Moves, Progress, TopicPartition

_TIDY_MS = 30_000
_FAILURES_IN_A_ROW = 5
_STALLED_WINDOWS = 3
_CANCEL_MS = 10_000


class Rules(NamedTuple):
    """How a run goes: time between looks, when to give up waiting (None: never), what an interruption does to the
    moves, whether limits of others on the same brokers and topics are put back."""

    interval_ms: int
    timeout_ms: int | None
    cancel_on_interrupt: bool
    keep_others: bool


class Report(Protocol):
    """Where a run tells how far it is."""

    def progress(self, progress: Progress, rate: int | None) -> None:
        """The figures of a look, and the limit in bytes per second (None: no limit)."""
        ...

    def partition(self, key: TopicPartition, error: str | None) -> None:
        """A partition has arrived, or will not."""
        ...

    def limit(self, change: Change) -> None: ...

    def note(self, message: str) -> None: ...

    def close(self) -> None: ...


@dataclass(eq=False, repr=False)
class Supervision:
    """One run, from its limits to their end."""

    connect: Callable[[], AdminClient]
    clock: Clock
    moves: Moves
    journal: Journal
    report: Report
    rules: Rules
    settings: tuple[Setting, ...] = field(default=(), init=False)
    throttle: AdaptiveThrottle | None = field(default=None, init=False)
    is_timed_out: bool = field(default=False, init=False)
    _record: Record = field(default_factory=lambda: Record((), {}), init=False)
    _stalled: int = field(default=0, init=False)
    _stall: Sample | None = field(default=None, init=False)
    _absent: frozenset[int] = field(default_factory=frozenset, init=False)

    def limit(self, settings: tuple[Setting, ...], throttle: AdaptiveThrottle | None, record: Record) -> None:
        """What is to be limited, and how. `record`: what the journal holds, these settings and what is left of others;
        nothing is set before `run`."""
        self._record = record
        self.settings = settings
        self.throttle = throttle

    def run(self, admin: AdminClient) -> None:
        """Limits, moves and waits until all have ended or the time is over. The limits stay: call `tidy` after it,
        whatever is raised."""
        if self.settings:
            self.journal.write(self._record)
            errors = set_limits(admin, self.settings)
            if errors:
                name, error = next(iter(errors.items()))
                raise CommandError(f"No throttle on {name}, so nothing was moved: {error}")
        started_ms = self.clock.now_ms()
        failures = 0
        while True:
            failures = self._step(admin, failures)
            if self.moves.is_over:
                return
            timeout_ms = self.rules.timeout_ms
            if timeout_ms is not None and self.clock.now_ms() - started_ms >= timeout_ms:
                self.is_timed_out = True
                return
            self.clock.sleep_ms(self.rules.interval_ms)

    def _step(self, admin: AdminClient, failures: int) -> int:
        """One look; how many failed in a row. Raises KafkaError when that is too many."""
        try:
            self.moves.begin_more(admin)
            sample = self.moves.look(admin, self.clock.now_ms())
            self._adapt(admin, sample)
            self._watch_brokers()
        except KafkaError as error:
            if not error.retriable or failures + 1 >= _FAILURES_IN_A_ROW:
                raise
            self.report.note(f"The cluster does not answer, trying again: {error}")
            return failures + 1
        rate = None if self.throttle is None else self.throttle.rate
        self.report.progress(self.moves.progress(), rate)
        return 0

    def _adapt(self, admin: AdminClient, sample: Sample) -> None:
        if self.throttle is None:
            return
        change = self.throttle.observe(sample)
        self._watch_stall(sample)
        if change is None:
            return
        others = tuple(one for one in self._record.settings if one not in self.settings)
        self.settings = with_rate(self.settings, change.rate)
        self._record = self._record._replace(settings=self.settings + others)
        self.journal.write(self._record)
        for name, error in set_limits(admin, rates_of(self.settings)).items():
            self.report.note(f"No new throttle on {name}: {error}")
        self.report.limit(change)

    def _watch_brokers(self) -> None:
        """Says when a broker goes that should get replicas, and when it is back."""
        gone, back = self.moves.absent - self._absent, self._absent - self.moves.absent
        self._absent = self.moves.absent
        for broker in sorted(gone):
            self.report.note(f"Broker {broker} is not there; the replicas that it should get wait for it.")
        for broker in sorted(back):
            self.report.note(f"Broker {broker} is there again, or waited for no more.")

    def _watch_stall(self, sample: Sample) -> None:
        """Says once that the largest limit is not enough."""
        if self._stall is None or not is_stalled(self._stall, sample):
            self._stall, self._stalled = sample, 0
            return
        window_ms = self.rules.interval_ms * WINDOW_LOOKS * _STALLED_WINDOWS
        if (
            not (self._stalled or self._absent)
            and sample.now_ms - self._stall.now_ms >= window_ms
            and self._is_at_maximum()
        ):
            self._stalled = 1
            self.report.note(
                "Nothing comes nearer to its end with the largest throttle: does more come in than --max-throttle lets "
                "through?"
            )

    def _is_at_maximum(self) -> bool:
        return self.throttle is None or self.throttle.is_at_maximum

    def tidy(self, *, interrupted: bool) -> TakenAway:
        """Cancels where that is wanted, takes the limits away, and ends the journal when nothing is left of them."""
        taken = TakenAway((), (), {})
        try:
            with self.connect() as admin:
                admin.timeout_ms = _TIDY_MS
                if interrupted and self.rules.cancel_on_interrupt:
                    self._cancel(admin)
                if self._record.settings:
                    taken = take_away(admin, self._record.settings, keep_before=self.rules.keep_others)
        except KafkaError as error:
            taken = TakenAway((), (), dict.fromkeys(self._record.settings, str(error)))
        self.journal.keep(self._record, tuple(taken.left))
        return taken

    def _cancel(self, admin: AdminClient) -> None:
        for (topic, partition), error in self.moves.cancel(admin).items():
            self.report.note(f"{topic}-{partition} could not be cancelled: {error}")
        deadline_ms = self.clock.now_ms() + _CANCEL_MS
        while active_reassignments(admin, list(self.moves.moving)) and self.clock.now_ms() < deadline_ms:
            self.clock.sleep_ms(100)


WINDOW_LOOKS = 5
"""How many looks make the window of time in which the limit changes at most once."""
