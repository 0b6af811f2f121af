"""Run a reassignment: set throttles, move partitions, and remove the throttles however the run ends.

Order: journal, throttled replicas of topics and rates of brokers, then the partitions. At the end (all moved, an error,
Ctrl-C, SIGTERM) the throttles are removed over a new connection, because the first may have been cut off in the middle
of a request, then the journal. A throttle that cannot be removed stays in the journal for the next run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import BROKER
from kafkatools.core.admin.reassignments import active_reassignments
from kafkatools.core.clock import Clock
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import CommandError
from kafkatools.tools.reassignment.adaptive_throttle import AdaptiveThrottle, Change, Sample, is_stalled
from kafkatools.tools.reassignment.journal import Journal, Record, Setting
from kafkatools.tools.reassignment.limits import (
    RemovedThrottles,
    remove_throttles,
    set_limits,
    wait_until_limited,
    with_rate,
)
from kafkatools.tools.reassignment.moves import Moves, Progress, TopicPartition

_TIDY_MS = 30_000
_FAILURES_IN_A_ROW = 5
_STALLED_WINDOWS = 3
_CANCEL_MS = 10_000


class Rules(NamedTuple):
    """The rules of a supervised reassignment. `interval_ms` is the time between two samples, `timeout_ms` the maximum
    duration (None: none). `cancel_on_interrupt`: Ctrl-C cancels the moves. `keep_others`: previous throttles of other
    users are restored."""

    interval_ms: int
    timeout_ms: int | None
    cancel_on_interrupt: bool
    keep_others: bool


class Report(Protocol):
    """Receives the progress of a supervised reassignment."""

    def progress(self, progress: Progress, rate: int | None) -> None:
        """Called after each sample, with the throttle in bytes per second (None: no throttle)."""

    def partition(self, key: TopicPartition, error: str | None) -> None:
        """Called when a partition has moved (error None) or failed."""

    def limit(self, change: Change) -> None:
        """Called when the throttle has changed."""

    def note(self, message: str) -> None:
        """Called with a message for the user."""

    def close(self) -> None:
        """End the output of progress."""


@dataclass(eq=False, repr=False)
class Supervision:
    """One supervised reassignment, from setting its throttles to removing them."""

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
    _has_reported_stall: bool = field(default=False, init=False)
    _stall: Sample | None = field(default=None, init=False)
    _absent: frozenset[int] = field(default_factory=frozenset, init=False)

    def limit(self, settings: tuple[Setting, ...], throttle: AdaptiveThrottle | None, record: Record) -> None:
        """Store the throttles that `run` sets; sends nothing. `throttle` is None without a throttle. `record` for the
        journal also has throttles of an interrupted run that are left to remove."""
        self._record = record
        self.settings = settings
        self.throttle = throttle

    def run(self, admin: AdminClient) -> None:
        """Set the throttles, move the partitions and wait until all have ended. After `timeout_ms` it returns with
        `is_timed_out`. Raises CommandError or KafkaError. The throttles stay: call `tidy` afterwards in any case."""
        if self.settings:
            self.journal.write(self._record)
            errors = set_limits(admin, self.settings)
            if errors:
                name, error = next(iter(errors.items()))
                raise CommandError(f"The throttle of {name} could not be set, so nothing was moved: {error}")
            wait_until_limited(admin, self.settings)
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
        """Take one sample. Returns the number of retriable failures in a row: 0 after success. Raises KafkaError at
        once if it is not retriable, else at the fifth in a row."""
        try:
            self.moves.begin_more(admin)
            sample = self.moves.read_progress(admin, self.clock.now_ms())
            self._adapt(admin, sample)
            self._watch_brokers()
        except KafkaError as error:
            if not error.retriable or failures + 1 >= _FAILURES_IN_A_ROW:
                raise
            self.report.note(f"The cluster does not respond, retrying: {error}")
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
        other_throttles = tuple(throttle for throttle in self._record.settings if throttle not in self.settings)
        self.settings = with_rate(self.settings, change.rate)
        self._record = self._record._replace(settings=self.settings + other_throttles)
        self.journal.write(self._record)
        for name, error in set_limits(admin, [setting for setting in self.settings if setting.kind == BROKER]).items():
            self.report.note(f"The throttle of {name} could not be changed: {error}")
        self.report.limit(change)

    def _watch_brokers(self) -> None:
        """Report brokers that should get replicas when they go down, and when they are back or no move waits for
        them."""
        stopped_brokers, returned_brokers = self.moves.absent - self._absent, self._absent - self.moves.absent
        self._absent = self.moves.absent
        for broker in sorted(stopped_brokers):
            self.report.note(f"Broker {broker} is down; the moves of replicas to it wait.")
        for broker in sorted(returned_brokers):
            self.report.note(f"No move waits for broker {broker} any more.")

    def _watch_stall(self, sample: Sample) -> None:
        """Report that the moves made no progress during three time windows with the highest throttle. Each stall is
        reported once, and none while a broker that gets replicas is down."""
        if self._stall is None or not is_stalled(self._stall, sample):
            self._stall, self._has_reported_stall = sample, False
            return
        window_ms = self.rules.interval_ms * WINDOW_SAMPLES * _STALLED_WINDOWS
        if self._has_reported_stall or self._absent or sample.now_ms - self._stall.now_ms < window_ms:
            return
        if self.throttle is None or self.throttle.is_at_maximum:
            self._has_reported_stall = True
            self.report.note(
                "The moves make no progress with the highest throttle. More may be produced than it lets through. "
                "Raise --max-throttle."
            )

    def tidy(self, *, interrupted: bool) -> RemovedThrottles:
        """Remove the throttles over a new connection, and delete the journal if none is left. When interrupted, cancel
        the moves if the rules say so. After a KafkaError all throttles count as left; it is not raised."""
        removal = RemovedThrottles((), (), {})
        try:
            with self.connect() as admin:
                admin.timeout_ms = _TIDY_MS
                if interrupted and self.rules.cancel_on_interrupt:
                    self._cancel(admin)
                if self._record.settings:
                    removal = remove_throttles(admin, self._record.settings, keep_before=self.rules.keep_others)
        except KafkaError as error:
            removal = RemovedThrottles((), (), dict.fromkeys(self._record.settings, str(error)))
        self.journal.save_remaining(self._record, tuple(removal.remaining))
        return removal

    def _cancel(self, admin: AdminClient) -> None:
        for (topic, partition), error in self.moves.cancel(admin).items():
            self.report.note(f"{topic}-{partition} could not be cancelled: {error}")
        deadline_ms = self.clock.now_ms() + _CANCEL_MS
        while active_reassignments(admin, list(self.moves.moving)) and self.clock.now_ms() < deadline_ms:
            self.clock.sleep_ms(100)


WINDOW_SAMPLES = 5
"""The number of samples in the time window in which the throttle changes at most once."""
