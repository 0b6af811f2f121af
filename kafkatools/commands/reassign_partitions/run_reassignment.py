"""kt reassign-partitions run: carries a reassignment out and stays with it until it has ended.

It writes the present replicas to an undo file, limits what brokers copy (`run_throttle` has the rule), hands the
partitions over a few at a time, shows how far they are, and takes the limits away at the end, whatever the end is. A
run that was killed leaves a journal (`run_journal`), by which the next run of any reassignment on this cluster cleans
up. Ctrl-C and SIGTERM end the supervision: what has begun goes on in the cluster, without a limit, unless
--cancel-on-interrupt is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import (
    BOOTSTRAP_SERVER,
    Args,
    Command,
    Option,
    Refusal,
    client_settings,
    command_config,
    java_int,
)

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.tools.reassignment.journal import Journal, Setting
    from kafkatools.tools.reassignment.limits import TakenAway
    from kafkatools.tools.reassignment.plan_file import Plan
    from kafkatools.tools.reassignment.supervision import Report, Supervision
    from kafkatools.tools.reassignment.work import Work

_UNITS = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
_MAX_GROWTH = 4
_LEFTOVER = "An interrupted run had left throttles; they were taken away from"


def byte_rate(text: str) -> int:
    """`50M`: bytes per second, with k, M or G for thousands; ValueError otherwise."""
    factor = _UNITS.get(text[-1:], 1)
    number = java_int(text[:-1] if factor > 1 else text) * factor
    if number < 1:
        raise ValueError(text)
    return number


def positive_seconds(text: str) -> float:
    """A number of seconds above zero; ValueError otherwise."""
    seconds = float(text)
    if not 0 < seconds < 1e9:
        raise ValueError(text)
    return seconds


def positive_count(text: str) -> int:
    """A number from 1 on; ValueError otherwise."""
    count = java_int(text)
    if count < 1:
        raise ValueError(text)
    return count


class _Run(NamedTuple):
    """What a run works with."""

    console: Console
    args: Args
    connect: Callable[[], AdminClient]
    journal: Journal
    report: Report


def run(console: Console, args: Args) -> ExitStatus:
    """Reads the plan, looks at the cluster, and carries out what is left to do."""
    if args.max_throttle is not None and args.max_throttle < args.throttle:
        raise UsageError("--max-throttle is less than --throttle")
    settings = client_settings(args)
    from kafkatools.tools.reassignment.work import find_work, read_file

    plan = read_file(args.reassignment_json_file)
    servers = console.connect(args)
    from kafkatools.commands.reassign_partitions.run_report import report
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.cluster import describe_cluster
    from kafkatools.tools.reassignment.journal import Journal

    def connect() -> AdminClient:
        return AdminClient(servers, settings, console.clock)

    with connect() as admin:
        journal = Journal(console.home, describe_cluster(admin).cluster_id)
        try:
            if args.dry_run:
                return _show_plan(console, args, find_work(admin, plan, None, console.error))
            with report(console, args.json) as shown:
                this = _Run(console, args, connect, journal, shown)
                work = _find_work(this, admin, plan)
                return _carry_out(this, admin, work) if work.jobs else _clean_up(this, admin)
        finally:
            journal.close()


def _find_work(this: _Run, admin: AdminClient, plan: Plan) -> Work:
    """What is to be done; what an interrupted run left is taken away also when that cannot be done."""
    from kafkatools.tools.reassignment.work import find_work

    try:
        return find_work(admin, plan, this.journal.leftover, this.console.error)
    except CommandError:
        _take_leftover(this, admin)
        raise


def _show_plan(console: Console, args: Args, work: Work) -> ExitStatus:
    """--dry-run: the tables of what would be done."""
    from kafkatools.commands.reassign_partitions.plan_output import broker_rows, json_rows, summary
    from kafkatools.output import table
    from kafkatools.tools.reassignment.work import as_plan

    plan = as_plan(work)
    if args.json:
        for row in json_rows(plan):
            console.print_json(row)
        return ExitStatus.OK
    console.draw(table(*broker_rows(plan.brokers), terminal=console.is_terminal, width=console.width))
    console.print(summary(plan))
    return ExitStatus.OK


def _clean_up(this: _Run, admin: AdminClient) -> ExitStatus:
    """Nothing has to be moved; what an interrupted run left is taken away all the same."""
    is_clean = _take_leftover(this, admin)
    this.report.close()
    if this.args.json:
        _print_end(this, dict.fromkeys(("done", "failed", "moving", "waiting"), 0), is_clean)
    else:
        this.console.print("Nothing to move: all partitions have the replicas of the plan.")
    return ExitStatus.OK if is_clean else ExitStatus.FAILED


def _take_leftover(this: _Run, admin: AdminClient) -> bool:
    """Takes away what an interrupted run left; True when nothing of it is left then."""
    from kafkatools.tools.reassignment.limits import take_away

    leftover = this.journal.leftover
    if leftover is None:
        return True
    taken = take_away(admin, leftover.settings)
    _say_taken(this, taken, _LEFTOVER)
    return this.journal.keep(leftover, tuple(taken.left))


def _carry_out(this: _Run, admin: AdminClient, work: Work) -> ExitStatus:
    from kafkatools.commands.reassign_partitions.plan_output import counted
    from kafkatools.tools.reassignment.work import write_undo

    if not this.args.no_undo_file:
        path = write_undo(work, this.args.undo_file, this.console.clock.wall_ms())
        this.report.note(f"The previous replicas are saved in {path}.")
    if work.others:
        this.report.note(f"Being moved by somebody else at the same time: {counted(work.others)}.")
    supervision = _prepare(this, admin, work)
    is_interrupted = False
    try:
        supervision.run(admin)
    except KeyboardInterrupt:
        is_interrupted = True
        raise
    finally:
        taken = supervision.tidy(interrupted=is_interrupted)
        _say_taken(this, taken, "Throttles were taken away from" if is_interrupted else "")
        if is_interrupted:
            _say_interrupted(this, supervision)
    return _end(this, supervision, is_clean=not taken.left)


def _prepare(this: _Run, admin: AdminClient, work: Work) -> Supervision:
    """The supervision with its limits; throttles that an interrupted run left and nobody needs are taken away."""
    from kafkatools.tools.reassignment.adaptive_throttle import AdaptiveThrottle
    from kafkatools.tools.reassignment.journal import Record
    from kafkatools.tools.reassignment.limits import take_away
    from kafkatools.tools.reassignment.moves import Moves
    from kafkatools.tools.reassignment.supervision import WINDOW_LOOKS, Rules, Supervision

    args = this.args
    interval_ms = max(1, round(args.interval * 1000))
    rules = Rules(
        interval_ms,
        None if args.timeout is None else round(args.timeout * 1000),
        args.cancel_on_interrupt,
        not args.clear_throttles,
    )
    moves = Moves(work.jobs, work.under_way, args.batch_size, this.report.partition)
    supervision = Supervision(this.connect, this.console.clock, moves, this.journal, this.report, rules)
    settings, unneeded = _settings(this, admin, work)
    replicas = {key: (before, work.jobs[key].after) for key, before in work.before.items() if key in work.jobs}
    left: tuple[Setting, ...] = ()
    if unneeded:
        this.journal.write(Record((*settings, *unneeded), replicas))
        taken = take_away(admin, unneeded)
        _say_taken(this, taken, _LEFTOVER)
        left = tuple(taken.left)
    throttle = None
    if settings:
        maximum = args.max_throttle or args.throttle * _MAX_GROWTH
        minimum = min(args.min_throttle, args.throttle)
        throttle = AdaptiveThrottle(args.throttle, minimum, maximum, interval_ms * WINDOW_LOOKS)
    supervision.limit(settings, throttle, Record((*settings, *left), replicas))
    return supervision


def _settings(this: _Run, admin: AdminClient, work: Work) -> tuple[tuple[Setting, ...], tuple[Setting, ...]]:
    """What limits the moves, and what an interrupted run left besides."""
    from kafkatools.core.admin.replication_throttles import PartitionMove, brokers_of, find_throttles
    from kafkatools.tools.reassignment.limits import adopt, settings_of

    leftover = () if this.journal.leftover is None else this.journal.leftover.settings
    moves = {
        key: PartitionMove(frozenset(job.before), frozenset(job.added)) for key, job in work.jobs.items() if job.added
    }
    if this.args.no_throttle:
        moves = {}
    live = set(admin.brokers())
    found = find_throttles(admin, sorted({topic for topic, _ in moves}), sorted(live & {*brokers_of(moves)}))
    for error in found.errors.values():
        raise error
    settings = [one for one in settings_of(moves, this.args.throttle, found) if not _is_absent(one, live)]
    adopted, unneeded = adopt(settings, leftover, found)
    others = sorted({f"{one.setting} of {one.name}" for one in adopted if one.before is not None})
    if others:
        fate = "are taken away too" if this.args.clear_throttles else "are put back at the end"
        this.report.note(f"Throttles that this run did not set {fate}: {', '.join(others)}")
    return adopted, unneeded


def _is_absent(setting: Setting, live: set[int]) -> bool:
    """Whether it is a setting of a broker that is not there: it copies nothing and cannot be told."""
    from kafkatools.core.admin.configs import BROKER

    return setting.kind == BROKER and int(setting.name) not in live


# -- what is said at the end --


def _say_taken(this: _Run, taken: TakenAway, lead: str) -> None:
    if lead and taken.cleared:
        this.report.note(f"{lead} {', '.join(taken.cleared)}.")
    if taken.foreign:
        this.report.note(f"Left alone, since somebody else has changed it: {', '.join(taken.foreign)}.")
    for setting, reason in taken.left.items():
        this.report.note(f"{setting.setting} of {setting.name} is left, the next run takes it away: {reason}")


def _say_interrupted(this: _Run, supervision: Supervision) -> None:
    from kafkatools.commands.reassign_partitions.plan_output import counted

    moving, waiting = len(supervision.moves.moving), len(supervision.moves.waiting)
    if this.args.cancel_on_interrupt:
        this.report.note(f"Interrupted. Cancelled: {counted(moving)}; not begun: {waiting}.")
    elif moving or waiting:
        this.report.note(
            f"Interrupted. Still moving in the cluster, without a throttle: {counted(moving)}; not begun: {waiting}. "
            "The same command goes on with them, --cancel stops what moves."
        )


def _end(this: _Run, supervision: Supervision, *, is_clean: bool) -> ExitStatus:
    from kafkatools.commands.reassign_partitions.plan_output import counted

    this.report.close()
    moves = supervision.moves
    counts = {"done": len(moves.done), "failed": len(moves.failed)}
    counts |= {"moving": len(moves.moving), "waiting": len(moves.waiting)}
    if this.args.json:
        _print_end(this, counts, is_clean)
    else:
        text = f"{counted(counts['done'])} {'has its' if counts['done'] == 1 else 'have their'} new replicas"
        if moves.failed:
            text += f", {counts['failed']} failed"
        if supervision.is_timed_out:
            text += f"; still moving, without a throttle, after {this.args.timeout:g} s: {counts['moving']}"
            text += f"; not begun: {counts['waiting']}"
        this.console.print(text + ("; no throttle is left." if is_clean else "."))
    is_done = not (moves.failed or supervision.is_timed_out)
    return ExitStatus.OK if is_done and is_clean else ExitStatus.FAILED


def _print_end(this: _Run, counts: dict[str, int], is_clean: bool) -> None:

    this.console.print_json({"type": "end", **counts, "throttles_left": not is_clean})


COMMAND = Command(
    "run",
    "Carry a reassignment out and stay with it: throttled, with progress, an undo file, and no throttle left behind.",
    options=(
        BOOTSTRAP_SERVER,
        Option(
            "--reassignment-json-file",
            "The reassignment, as plan or --generate write it; - reads standard input.",
            value="FILE",
            required=True,
        ),
        Option(
            "--throttle",
            "The limit to begin with: bytes per second of each broker (k, M, G).",
            value="BYTES",
            type=byte_rate,
            default=50_000_000,
        ),
        Option(
            "--min-throttle",
            "The limit does not fall below this.",
            value="BYTES",
            type=byte_rate,
            default=1_000_000,
        ),
        Option(
            "--max-throttle",
            "The limit does not grow beyond this. Default: four times --throttle.",
            value="BYTES",
            type=byte_rate,
        ),
        Option("--no-throttle", "No limit."),
        Option(
            "--batch-size",
            "At most so many partitions move at the same time.",
            value="PARTITIONS",
            type=positive_count,
            default=50,
        ),
        Option("--interval", "Seconds between two looks.", value="SECONDS", type=positive_seconds, default=2.0),
        Option(
            "--timeout",
            "Stop waiting after so many seconds, exit status 1; what has begun goes on.",
            value="SECONDS",
            type=positive_seconds,
        ),
        Option("--cancel-on-interrupt", "Ctrl-C and SIGTERM cancel what is moving. Default: it goes on."),
        Option(
            "--clear-throttles",
            "Also take away throttles that were set on the same brokers and topics before. Default: put back.",
        ),
        Option(
            "--undo-file",
            "Where to write the replicas from before. Default: a new file in this directory.",
            value="FILE",
        ),
        Option("--no-undo-file", "Write no undo file."),
        Option("--dry-run", "Only show what would be moved."),
        command_config(),
    ),
    run=run,
    rules=(
        Refusal("no-throttle", ("throttle", "min-throttle", "max-throttle")),
        Refusal("undo-file", ("no-undo-file",)),
    ),
    examples=(
        "kt reassign-partitions run --reassignment-json-file drain.json",
        "kt reassign-partitions run --reassignment-json-file rf.json --throttle 20M --max-throttle 100M --json",
    ),
)
