"""A supervised reassignment from its plan to its end, for `kt reassign-partitions run`.

Order: remove throttles of an interrupted run that are no longer needed, write the previous replicas to the undo file,
prepare the throttles, run the supervision. Messages go to the Report; nothing is printed here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import BROKER
from kafkatools.core.admin.replication_throttles import PartitionMove, brokers_of, find_throttles
from kafkatools.core.clock import Clock
from kafkatools.exit_status import CommandError
from kafkatools.tools.reassignment.adaptive_throttle import AdaptiveThrottle
from kafkatools.tools.reassignment.journal import Journal, Record, Setting
from kafkatools.tools.reassignment.limits import RemovedThrottles, adopt, remove_throttles, settings_of
from kafkatools.tools.reassignment.listings import count_text
from kafkatools.tools.reassignment.moves import Moves
from kafkatools.tools.reassignment.plan_file import Plan
from kafkatools.tools.reassignment.supervision import WINDOW_SAMPLES, Report, Rules, Supervision
from kafkatools.tools.reassignment.work import Work, find_work, write_undo

_LEFTOVER = "Removed the throttles of an interrupted run from"


class Limits(NamedTuple):
    """The throttle of each broker in bytes per second: at the start, and its bounds."""

    rate: int
    minimum: int
    maximum: int


class RunOptions(NamedTuple):
    """The options of a supervised reassignment. `limits` is None without a throttle. `batch_size` is the number of
    partitions that move at the same time. `undo_file` is None for an unused name in the working directory."""

    rules: Rules
    limits: Limits | None
    batch_size: int
    writes_undo_file: bool
    undo_file: str | None


class End(NamedTuple):
    """The result of a supervised reassignment: partitions by state. `is_clean`: all throttles were removed."""

    done: int
    failed: int
    moving: int
    waiting: int
    is_timed_out: bool
    is_clean: bool


@dataclass(eq=False, repr=False)
class Run:
    """One supervised reassignment. The caller closes the journal."""

    connect: Callable[[], AdminClient]
    clock: Clock
    journal: Journal
    report: Report
    options: RunOptions

    def find_work(self, admin: AdminClient, plan: Plan, complain: Callable[[str], None]) -> Work:
        """Return the moves of a plan that are still to be made. Before a CommandError it tries to remove the throttles
        of an interrupted run. Raises CommandError and KafkaError."""
        try:
            return find_work(admin, plan, self.journal.leftover, complain)
        except CommandError:
            self.take_leftover(admin)
            raise

    def take_leftover(self, admin: AdminClient) -> bool:
        """Remove the throttles of an interrupted run. Returns whether none is left, also True without such a run.
        Raises KafkaError."""
        leftover = self.journal.leftover
        if leftover is None:
            return True
        removal = remove_throttles(admin, leftover.settings)
        self._note_removal(removal, _LEFTOVER)
        return self.journal.save_remaining(leftover, tuple(removal.remaining))

    def carry_out(self, admin: AdminClient, work: Work) -> End:
        """Move the partitions and wait until they have moved, failed or timed out. The throttles are removed at the
        end, also after an error or Ctrl-C, which is raised again.

        Raises CommandError if the undo file cannot be written or a throttle cannot be set, else KafkaError. A throttle
        that cannot be removed stays in the journal.
        """
        if self.options.writes_undo_file:
            path = write_undo(work, self.options.undo_file, self.clock.wall_ms())
            self.report.note(f"The previous replicas are saved in {path}.")
        if work.others:
            self.report.note(f"Also being reassigned by other users: {count_text(work.others)}.")
        supervision = self._prepare(admin, work)
        is_interrupted = False
        try:
            supervision.run(admin)
        except KeyboardInterrupt:
            is_interrupted = True
            raise
        finally:
            removal = supervision.tidy(interrupted=is_interrupted)
            self._note_removal(removal, "Removed the throttles from" if is_interrupted else "")
            if is_interrupted:
                self._note_interrupted(supervision.moves)
        moves = supervision.moves
        counts = len(moves.done), len(moves.failed), len(moves.moving), len(moves.waiting)
        return End(*counts, is_timed_out=supervision.is_timed_out, is_clean=not removal.remaining)

    def _prepare(self, admin: AdminClient, work: Work) -> Supervision:
        """A supervision with its throttles. Removes throttles of an interrupted run that are no longer needed."""
        rules, limits = self.options.rules, self.options.limits
        moves = Moves(work.jobs, work.under_way, self.options.batch_size, self.report.partition)
        supervision = Supervision(self.connect, self.clock, moves, self.journal, self.report, rules)
        settings, unneeded = self._settings(admin, work)
        replicas = {key: (before, work.jobs[key].after) for key, before in work.before.items() if key in work.jobs}
        log_dirs = {replica: path for replica, path in work.log_dirs_before.items() if replica[:2] in replicas}
        remaining: tuple[Setting, ...] = ()
        if unneeded:
            self.journal.write(Record((*settings, *unneeded), replicas, log_dirs))
            removal = remove_throttles(admin, unneeded)
            self._note_removal(removal, _LEFTOVER)
            remaining = tuple(removal.remaining)
        throttle = None
        if settings and limits is not None:
            throttle = AdaptiveThrottle(*limits, rules.interval_ms * WINDOW_SAMPLES)
        supervision.limit(settings, throttle, Record((*settings, *remaining), replicas, log_dirs))
        return supervision

    def _settings(self, admin: AdminClient, work: Work) -> tuple[tuple[Setting, ...], tuple[Setting, ...]]:
        """The throttles of the moves, and those of an interrupted run that are no longer needed. Reports throttles that
        other users set. Raises KafkaError."""
        leftover = () if self.journal.leftover is None else self.journal.leftover.settings
        limits = self.options.limits
        moves = {
            key: PartitionMove(frozenset(job.before), frozenset(job.added))
            for key, job in work.jobs.items()
            if job.added and limits is not None
        }
        live = set(admin.brokers())
        log_dir_brokers: set[int] = set()
        if limits is not None:
            log_dir_brokers.update(broker for job in work.jobs.values() for broker in job.log_dirs)
        brokers = live & {*brokers_of(moves), *log_dir_brokers}
        throttles = find_throttles(admin, sorted({topic for topic, _ in moves}), sorted(brokers))
        for error in throttles.errors.values():
            raise error
        rate = 0 if limits is None else limits.rate
        # A broker that is down copies nothing and cannot be configured.
        settings = [
            setting
            for setting in settings_of(moves, rate, throttles, log_dir_brokers)
            if setting.kind != BROKER or int(setting.name) in live
        ]
        merged_settings, unneeded = adopt(settings, leftover, throttles)
        foreign_names = sorted(
            {f"{setting.setting} of {setting.name}" for setting in merged_settings if setting.before is not None}
        )
        if foreign_names:
            fate = "are restored at the end" if self.options.rules.keep_others else "are removed too"
            self.report.note(f"Throttles that this run did not set {fate}: {', '.join(foreign_names)}")
        return merged_settings, unneeded

    def _note_removal(self, removal: RemovedThrottles, lead: str) -> None:
        if lead and removal.cleared:
            self.report.note(f"{lead} {', '.join(removal.cleared)}.")
        if removal.foreign:
            self.report.note(f"Kept because another user has changed it: {', '.join(removal.foreign)}.")
        for setting, reason in removal.remaining.items():
            self.report.note(f"{setting.setting} of {setting.name} is left for the next run to remove: {reason}")

    def _note_interrupted(self, moves: Moves) -> None:
        moving_count, waiting_count = len(moves.moving), len(moves.waiting)
        if self.options.rules.cancel_on_interrupt:
            self.report.note(
                f"Interrupted. Cancellation requested: {count_text(moving_count)}; not begun: {waiting_count}."
            )
        elif moving_count or waiting_count:
            self.report.note(
                f"Interrupted. Still moving in the cluster, without a throttle: {count_text(moving_count)}; "
                f"not begun: {waiting_count}. "
                "Run the same command to continue, or kt reassign-partitions --cancel to stop the moves."
            )
