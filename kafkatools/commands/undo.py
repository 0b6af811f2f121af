"""kt undo: list the changes that kt made on clusters, show one, and undo it.

Order of `kt undo N`: read the entry, compare the cluster's id, read the present values, print the plan, refuse
conflicts, prompt, and change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_int, rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.errors import KafkaError
    from kafkatools.tools.journal.entries import Entry
    from kafkatools.tools.journal.undoing import Step

_NO_ENTRIES = "The journal has no entries: no change of a cluster is noted in {}."

_LAST = "last"
_RECENT_MS = 10_000
_PAUSE_MS, _ATTEMPTS = 200, 11


def _number(console: Console, text: str) -> int:
    """Return the number that an operand names. Raises UsageError, and CommandError for `last` in an empty journal."""
    if text == _LAST:
        from kafkatools.tools.journal.files import JournalFiles

        numbers = JournalFiles(console.home).numbers()
        if not numbers:
            raise CommandError("There is no last entry: the journal is empty")
        return numbers[-1]
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) > 0):
        raise UsageError(f"'{text}' is no number of an entry, nor last", "kt undo list prints the numbers.")
    return int(text)


def _positive(text: str) -> int:
    number = java_int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _entry(console: Console, number: int) -> Entry:
    """Read an entry. Raises CommandError if there is none or it is damaged, OSError if it cannot be read."""
    from kafkatools.tools.journal.files import JournalFiles

    files = JournalFiles(console.home)
    try:
        return files.read(number)
    except FileNotFoundError:
        numbers = files.numbers()
        held = f"the journal has {numbers[0]} to {numbers[-1]}" if numbers else "the journal is empty"
        hint = "kt undo list prints the entries."
        raise CommandError(f"There is no entry {number}: {held}", hint=hint) from None
    except ValueError as error:
        raise CommandError(f"{files.path(number)} is damaged: {error}") from None


def _list(console: Console, args: Args) -> ExitStatus:
    """Print the entries, the newest first. Returns FAILED if one cannot be read."""
    from kafkatools.output import table
    from kafkatools.tools.journal.files import JournalFiles
    from kafkatools.tools.journal.texts import list_row, list_texts, undone_by

    files = JournalFiles(console.home)
    numbers = files.numbers()
    entries: list[Entry] = []
    status = ExitStatus.OK
    for number in reversed(numbers):
        try:
            entries.append(files.read(number))
        except FileNotFoundError:  # another run has just removed it
            continue
        except (OSError, ValueError) as error:
            cause = error.strerror if isinstance(error, OSError) else error
            console.error(f"Entry {number} cannot be read: {files.path(number)}: {cause}")
            status = ExitStatus.FAILED
    undone = undone_by(entries)
    chosen = [entry for entry in entries if args.cluster is None or entry.run.cluster_id == args.cluster]
    if args.cluster is not None and entries and not chosen:
        ids = ", ".join(sorted({entry.run.cluster_id or "unknown" for entry in entries}))
        raise CommandError(f"There is no entry of the cluster '{args.cluster}'; the journal has {ids}")
    chosen = chosen if args.limit is None else chosen[: args.limit]
    if args.json:
        for entry in chosen:
            console.print_json(list_row(entry, undone))
    elif chosen:
        headers, rows = list_texts(chosen, undone)
        console.draw(table(headers, rows, terminal=console.is_terminal, width=console.width))
    elif status == ExitStatus.OK:
        console.note(_NO_ENTRIES.format(files.directory))
    if numbers and numbers[0] > 1 and not args.json:
        console.note(f"Entries before {numbers[0]} were deleted: the journal keeps the newest ones.")
    return status


def _show(console: Console, args: Args) -> ExitStatus:
    """Print an entry: the run, its changes, and what undoing takes."""
    from kafkatools.tools.journal.texts import show_lines, show_row, undone_by

    if args.operand is None:
        raise UsageError("The number of the entry is missing: kt undo show N", "kt undo list prints the numbers.")
    entry = _entry(console, _number(console, args.operand))
    undone = undone_by(_later_entries(console, entry))
    if args.json:
        console.print_json(show_row(entry, undone))
        return ExitStatus.OK
    for line in show_lines(entry, undone):
        console.print(line)
    return ExitStatus.OK


def _later_entries(console: Console, entry: Entry) -> list[Entry]:
    from contextlib import suppress

    from kafkatools.tools.journal.files import JournalFiles

    files = JournalFiles(console.home)
    entries = []
    for number in files.numbers():
        if number > entry.run.number:
            with suppress(OSError, ValueError):
                entries.append(files.read(number))
    return entries


def run(console: Console, args: Args) -> ExitStatus:
    """Undo an entry of the journal; with --dry-run only print the plan. Returns FAILED if something was not undone, or
    the prompt was declined. Raises UsageError, CommandError or KafkaError."""
    if args.operand is None:
        raise UsageError("The number of the entry is missing: kt undo N", "kt undo list prints the numbers.")
    if args.operand not in ("list", "show"):
        entry = _entry(console, _number(console, args.operand))
    else:
        raise UsageError(f"Options follow the subcommand: kt undo {args.operand} ...")
    from kafkatools.options.connection import connect_admin
    from kafkatools.tools.journal.entries import RUNNING

    if entry.state == RUNNING and not args.force:
        hint = "Wait for its end, or pass --force."
        raise CommandError(f"The command of entry {entry.run.number} is still running", hint=hint)
    if not entry.undoable:
        reasons = "; ".join(entry.reasons) or "none of its changes was made"
        raise CommandError(f"Entry {entry.run.number} cannot be undone: {reasons}")
    _use_connection_of(entry, args)
    with connect_admin(console, args, undoes=entry.run.number) as admin:
        _ensure_cluster(admin, entry)
        return _undo(console, args, admin, entry)


def _use_connection_of(entry: Entry, args: Args) -> None:
    """Connect as the command of the entry did, unless the command line or a profile names brokers. Raises UsageError if
    that command used a profile or a controller."""
    run = entry.run
    if args.bootstrap_server is not None or args.profile is not None:
        return
    if run.profile is not None:
        raise UsageError(
            f"Entry {run.number} was made with the profile '{run.profile}'",
            f"Run kt --profile {run.profile} undo {run.number}.",
        )
    if run.through_controllers:
        raise UsageError(
            f"Entry {run.number} was made through the controller {run.bootstrap}", "Pass --bootstrap-server."
        )
    args.note(BOOTSTRAP_SERVER, run.bootstrap)
    if args.command_config is None and run.command_config is not None:
        args.note(command_config(), run.command_config)


def _ensure_cluster(admin: AdminClient, entry: Entry) -> None:
    """Raise CommandError if the client is connected to another cluster than that of the entry."""
    from kafkatools.core.admin.cluster import describe_cluster

    cluster_id = describe_cluster(admin).cluster_id
    if entry.run.cluster_id is not None and cluster_id != entry.run.cluster_id:
        raise CommandError(
            f"Entry {entry.run.number} was made on the cluster {entry.run.cluster_id} at {entry.run.bootstrap}, "
            f"and this is the cluster {cluster_id}",
            hint="Name the brokers of that cluster with --bootstrap-server or --profile.",
        )


def _plan(console: Console, args: Args, admin: AdminClient, entry: Entry) -> list[Step]:
    """Return the steps. A broker may report earlier values for a moment after a change, so a recent change that seems
    to be undone already, or to be overwritten, is compared again for two seconds."""
    from kafkatools.tools.journal import undoing
    from kafkatools.tools.journal.entries import DONE
    from kafkatools.tools.journal.files import JournalFiles

    changed_ms = JournalFiles(console.home).changed_ms(entry.run.number)
    is_recent = not args.force and 0 <= console.clock.wall_ms() - changed_ms < _RECENT_MS
    for attempt in range(_ATTEMPTS):
        steps = undoing.plan(admin, entry.undoable)
        unexpected = [step for step in steps if step.action in (undoing.NOTHING, undoing.CONFLICT)]
        if not is_recent or not any(step.noted.outcome.state == DONE for step in unexpected):
            break
        if attempt + 1 < _ATTEMPTS:
            console.clock.sleep_ms(_PAUSE_MS)
    return steps


def _undo(console: Console, args: Args, admin: AdminClient, entry: Entry) -> ExitStatus:
    from kafkatools.tools.journal import undoing
    from kafkatools.tools.journal.texts import plan_lines, step_row
    from kafkatools.tools.rights import ADVICE

    steps = _plan(console, args, admin, entry)
    kept = [noted for noted in entry.noted if noted.change.reason and noted.outcome.state != "failed"]
    chosen = [step for step in steps if step.action == undoing.UNDO or (args.force and step.action == undoing.CONFLICT)]
    conflicts = [step for step in steps if step.action == undoing.CONFLICT and not args.force]
    left = [step for step in steps if step.action == undoing.IMPOSSIBLE]
    status = ExitStatus.FAILED if kept or left or entry.unnoted else ExitStatus.OK
    if args.json and (args.dry_run or conflicts or not chosen):
        for step in steps:
            console.print_json(step_row(step, "planned" if step in chosen else "kept"))
    elif not args.json:
        for line in plan_lines(steps, kept, entry.unnoted):
            console.print(line)
    if any(step.lacks_right for step in steps):
        console.note(ADVICE)
    if conflicts:
        raise CommandError(
            f"Values that were changed after entry {entry.run.number}: {len(conflicts)}. Nothing was undone",
            hint="Pass --force to set the earlier values nevertheless.",
        )
    if args.dry_run or not chosen:
        return status
    if not args.yes and not _agrees(console, args, chosen):
        console.error("Nothing was undone.")
        return ExitStatus.FAILED
    if not args.yes:
        _ensure_unchanged(steps, _plan(console, args, admin, entry))
    return max(status, _carry_out(console, args, admin, chosen))


def _agrees(console: Console, args: Args, chosen: Sequence[Step]) -> bool:
    """Ask whether to make these steps. Raises CommandError when stdin is at its end."""
    from kafkatools.options.confirmation import agrees

    losses = ", and delete topics with their records" if any(step.loses_records for step in chosen) else ""
    question = f"Undo {len(chosen)} change{'s' * (len(chosen) > 1)}{losses}? (y/n)"
    hint = "Pass --yes to undo without a prompt."
    return agrees(console, question, "Nothing was undone", hint, is_json=args.json)


def _ensure_unchanged(shown: Sequence[Step], present: Sequence[Step]) -> None:
    """Raise CommandError if the plan is no longer the one that the user has agreed to."""
    if present != shown:
        hint = "Run the same command again for the present plan."
        raise CommandError("Values were changed before the answer. Nothing was undone", hint=hint)


def _carry_out(console: Console, args: Args, admin: AdminClient, steps: Sequence[Step]) -> ExitStatus:
    from kafkatools.tools.journal.texts import change_text, step_row
    from kafkatools.tools.journal.undoing import carry_out
    from kafkatools.tools.rights import ADVICE, is_missing_right

    errors: list[KafkaError | None] = []
    for step, error in carry_out(admin, steps):
        errors.append(error)
        row = step_row(step, "undone" if error is None else "failed", error)
        console.print_outcome(row, error="" if error is None else f"{change_text(step.change)}: not undone: {error}")
    if any(map(is_missing_right, errors)):
        console.note(ADVICE)
    failed = sum(error is not None for error in errors)
    if not args.json:
        console.print(f"Undone: {len(errors) - failed}{f'; failed: {failed}' if failed else ''}.")
    return ExitStatus.FAILED if failed else ExitStatus.OK


def _subcommand(name: str, summary: str, *options: Option, **fields: object) -> Command:
    command = Command(name, summary, tuple(option._replace(ours=True) for option in options))
    return command._replace(**fields)  # type: ignore[arg-type]


COMMAND = Command(
    "undo",
    "List, show and undo the changes that kt made on clusters.",
    tuple(
        option._replace(ours=True)
        for option in (
            BOOTSTRAP_SERVER,
            command_config(),
            Option("--dry-run", "Print what would be undone, and change nothing."),
            Option("--force", "Set the earlier values also where a value was changed since."),
            Option("--yes", "Undo without a prompt."),
        )
    ),
    run,
    rules=(rules.Refusal("dry-run", ("yes",)),),
    operand="N|last",
    subcommands=(
        _subcommand(
            "list",
            "List the changes, the newest first.",
            Option("--cluster", "Only the changes of the cluster with this id.", value="ID"),
            Option("--limit", "Only this many of the newest entries.", value="COUNT", type=_positive),
            run=_list,
            needs_arguments=False,
        ),
        _subcommand("show", "Show the changes of an entry.", run=_show, operand="N|last", needs_arguments=False),
    ),
    destructive=("undo",),
    examples=(
        "kt undo list",
        "kt undo show 17",
        "kt undo 17 --dry-run",
        "kt undo last",
        "kt undo 17 --bootstrap-server broker1:9092 --yes",
    ),
)
