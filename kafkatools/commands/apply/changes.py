"""Print the plan of `kt apply`, ask, carry it out and print the outcome.

Order: unknown config names and missing passwords are errors before anything is changed, then the brokers validate, the
plan is printed, dangerous changes are confirmed, and the changes are made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence

from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.errors import KafkaError
from kafkatools.core.java.text import java_double
from kafkatools.core.json_values import JsonValue
from kafkatools.core.secrets import remember
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import Args
from kafkatools.options.confirmation import agrees
from kafkatools.options.hints import did_you_mean_name
from kafkatools.options.secret_files import warn_if_others_can_read
from kafkatools.output import json_line
from kafkatools.tools.configs.changes import Difference
from kafkatools.tools.declared.carry_out import (
    DONE,
    FAILED,
    NOT_TRIED,
    Outcome,
    carry_out,
    validate,
    wait_until_visible,
)
from kafkatools.tools.declared.documents import invalid
from kafkatools.tools.declared.model import Credential, Declaration, DeclaredCredential
from kafkatools.tools.declared.plan import (
    CHANGE,
    CREATE,
    DELETE,
    IMPOSSIBLE,
    PASSWORD,
    TOPIC,
    USER,
    Change,
    Plan,
    make_plan,
)
from kafkatools.tools.declared.present import Present, read_present
from kafkatools.tools.declared.undo import Restored, Reversal, kinds_of, read_reversal, reversals, undo_plan
from kafkatools.tools.rights import ADVICE, is_missing_right
from kafkatools.tools.undo_files import read_changes, write_undo_file

_SIGNS = {CREATE: "+", CHANGE: "~", DELETE: "-", IMPOSSIBLE: "!"}
_KEPT = {
    "topics": ("topic", "topics"),
    "configs": ("topic with other overrides", "topics with other overrides"),
    "acls": ("ACL", "ACLs"),
    "quotas": ("quota entity", "quota entities"),
    "users": ("SCRAM credential", "SCRAM credentials"),
}
_PLANNED = "planned"


def apply_declaration(
    console: Console, args: Args, admin: AdminClient, declaration: Declaration, prune: Collection[str]
) -> ExitStatus:
    """Compare a declaration with the cluster, and print or carry out the plan. Raises CommandError or KafkaError."""
    if not declaration.kinds:
        console.note("warning: the files declare nothing")
    present = read_present(admin, declaration.kinds, declaration.topics.keys())
    ensure_config_names(declaration, present)
    if not present.is_replication_known and any(topic.replication is not None for topic in declaration.topics.values()):
        console.note("warning: replication is not compared: no broker listed the reassignments in progress in time")
    _warn_of_principals(console, declaration)
    plan = make_plan(declaration, present, prune, updates_passwords=args.update_passwords)
    passwords = {}
    if not args.check:  # --check needs neither passwords nor a permission to change anything
        passwords = _passwords(console, declaration, plan)
        plan.changes = validate(admin, plan.changes)

    def replan() -> Plan:
        return make_plan(declaration, read_present(admin, declaration.kinds, declaration.topics.keys()), prune)

    return _finish(console, args, admin, plan, passwords, replan)


def read_undo_file(path: str) -> list[Reversal]:
    """Read a file that --undo-file wrote. Raises CommandError with exit status USAGE, with the line of a mistake."""
    restored = Restored()

    def read(line: JsonValue) -> Reversal:
        reversal = read_reversal(line)
        restored.add(reversal)
        return reversal

    try:
        return read_changes(path, read)
    except OSError as error:
        raise invalid(f"{path}: {error.strerror}") from None
    except CommandError as error:
        raise invalid(str(error)) from None


def take_back(console: Console, args: Args, admin: AdminClient, requested: Sequence[Reversal]) -> ExitStatus:
    """Take back the changes of an undo file (--undo). Raises CommandError or KafkaError."""
    topics = {str(item.target) for item in requested if item.kind == TOPIC}

    def replan() -> Plan:
        return undo_plan(requested, read_present(admin, kinds_of(requested), topics))

    plan = replan()
    if not args.check:
        plan.changes = validate(admin, plan.changes)
    return _finish(console, args, admin, plan, {}, replan)


def _finish(
    console: Console,
    args: Args,
    admin: AdminClient,
    plan: Plan,
    passwords: dict[Credential, str],
    replan: Callable[[], Plan],
) -> ExitStatus:
    """Print a plan, and without --check and --dry-run carry it out. Raises CommandError if a prompt is unanswered."""
    is_only_shown = args.check or args.dry_run
    _note_kept(console, plan)
    if not console.is_json:
        _print_plan(console, plan, is_declared=args.undo is None)
    elif is_only_shown:
        for change in plan.changes:
            console.print_json(row(Outcome(change, _PLANNED)))
    if args.check:
        return ExitStatus.FINDINGS if plan.changes else ExitStatus.OK
    status = ExitStatus.FAILED if plan.count(IMPOSSIBLE) else ExitStatus.OK
    if any(change.lacks_right for change in plan.changes):
        console.note(ADVICE)
    if is_only_shown or not plan.changes:
        return status
    undo_lines = [json_line(line) + "\n" for line in reversals(plan.changes)] if args.undo_file is not None else []
    if not args.yes and not _agrees(console, plan):
        console.error("Nothing was changed.")
        return ExitStatus.FAILED
    if undo_lines:
        write_undo_file(args.undo_file, undo_lines)
    return _carry_out(console, admin, plan, passwords, replan)


def _carry_out(
    console: Console, admin: AdminClient, plan: Plan, passwords: dict[Credential, str], replan: Callable[[], Plan]
) -> ExitStatus:
    """Make the changes of a plan and print their outcomes. Returns FAILED if one failed or is impossible."""
    outcomes: list[Outcome] = []
    try:
        for outcome in carry_out(admin, plan.changes, passwords.__getitem__):
            outcomes.append(_report(console, outcome))
    except KeyboardInterrupt:
        console.note(f"Interrupted: {_made(outcomes)}; the last request may be done, too. Run the command again.")
        raise
    for change in plan.changes:
        if change.action == IMPOSSIBLE and console.is_json:
            console.print_json(row(Outcome(change, NOT_TRIED)))
    _wait(console, admin, outcomes, replan)
    _print_totals(console, plan, outcomes)
    if any(is_missing_right(outcome.error) for outcome in outcomes):
        console.note(ADVICE)
    are_all_made = not plan.count(IMPOSSIBLE) and all(outcome.state == DONE for outcome in outcomes)
    return ExitStatus.OK if are_all_made else ExitStatus.FAILED


def _wait(console: Console, admin: AdminClient, outcomes: Sequence[Outcome], replan: Callable[[], Plan]) -> None:
    """Wait until the brokers describe what was changed; a note says so if they do not."""
    try:
        if not wait_until_visible(admin, outcomes, replan):
            console.note("The brokers do not describe all changes yet: the next plan may repeat them.")
    except KafkaError as error:
        console.note(f"Whether the brokers describe the changes is unknown: {error}")
    except KeyboardInterrupt:
        console.note(f"Interrupted: {_made(outcomes)}.")
        raise


# -- checks --


def ensure_config_names(declaration: Declaration, present: Present) -> None:
    """Raise CommandError for a config that neither this version of Kafka nor the brokers have."""
    from kafkatools.core.config import TOPIC

    known = present.config_names | TOPIC.settings.keys()
    for topic in declaration.topics.values():
        for name in topic.configs:
            if name not in known:
                hint = did_you_mean_name(name, known)
                raise invalid(f"{topic.config_places[name]}: there is no topic config '{name}'", hint)


def _warn_of_principals(console: Console, declaration: Declaration) -> None:
    """Warn of principals such as `user:alice`: types are case-sensitive, and Kafka's own principals are of type
    User."""
    for principal in dict.fromkeys(acl.principal for acl in declaration.acls):
        kind, _, name = principal.partition(":")
        if kind != "User" and kind.lower() == "user":
            console.note(
                f"warning: Kafka's principals are of type User, so {principal} matches none of them. "
                f"Did you mean User:{name}?"
            )


def _passwords(console: Console, declaration: Declaration, plan: Plan) -> dict[Credential, str]:
    """The passwords of the credentials that the plan sets. Raises CommandError if one is missing."""
    passwords = {}
    for change in plan.changes:
        if change.kind == USER and change.action in (CREATE, CHANGE):
            credential = (str(change.target[0]), str(change.target[1]))
            passwords[credential] = _password(console, declaration.users[credential])
            remember(passwords[credential])
    return passwords


def _password(console: Console, declared: DeclaredCredential) -> str:
    source = declared.password
    place = f"{declared.place}: user {declared.user}"
    if source is None:
        raise invalid(f"{place} does not exist and has no password", "Name it with password-env or password-file.")
    if source.variable is not None:
        password = console.environ.get(source.variable, "")
        where = f"the environment variable {source.variable} is not set"
    else:
        path = str(source.path)
        try:
            with open(path, encoding="utf-8") as file:
                password = file.readline().rstrip("\r\n")
        except OSError as error:
            raise invalid(f"{place}: {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise invalid(f"{place}: {path} is not UTF-8 text") from None
        warn_if_others_can_read(path, {"password": password})
        where = f"{os.path.basename(path)} has no password in its first line"
    if not password:
        raise invalid(f"{place}: {where}")
    return password


def _agrees(console: Console, plan: Plan) -> bool:
    """Prompt if the plan has dangerous changes. Raises CommandError when stdin is at its end."""
    count = sum(change.is_dangerous and change.action != IMPOSSIBLE for change in plan.changes)
    if not count:
        return True
    if console.is_json:
        for change in plan.changes:
            if change.is_dangerous:
                console.note("; ".join([f"{_SIGNS[change.action]} {change.label}", *change.dangers]))
    question = f"{count} of these changes may delete or lose something. Make all changes? (y/n)"
    hint = "Pass --yes to make these changes without a prompt."
    return agrees(console, question, "Nothing was changed", hint, is_json=console.is_json)


# -- output --


def _print_plan(console: Console, plan: Plan, *, is_declared: bool) -> None:
    for change in plan.changes:
        for line in lines(change):
            console.print(line)
    if not plan.changes:
        state = "as declared" if is_declared else "as before the changes"
        console.print(f"Nothing to change: the cluster is {state}.")
        return
    dangerous = sum(change.is_dangerous for change in plan.changes)
    counts = f"{plan.count(CREATE)} to create, {plan.count(CHANGE)} to change, {plan.count(DELETE)} to delete"
    impossible = f"; {plan.count(IMPOSSIBLE)} cannot be made" if plan.count(IMPOSSIBLE) else ""
    console.print(f"Plan: {counts}{impossible}{f'; {dangerous} dangerous' if dangerous else ''}.")


def _note_kept(console: Console, plan: Plan) -> None:
    if plan.kept:
        words = ", ".join(f"{count} {_KEPT[kind][count > 1]}" for kind, count in plan.kept.items())
        console.note(f"Not declared and kept: {words}. --prune deletes what no file declares.")


def lines(change: Change) -> list[str]:
    """A change as lines of the plan."""
    differences = [each for each in change.differences if each.name == PASSWORD or each.before.value != each.new]
    texts = [_difference(change, difference) for difference in differences]
    text = f"{_SIGNS[change.action]} {change.label}{': ' if texts else ''}{', '.join(texts)}"
    found = [text, *(f"    DANGER: {danger}" for danger in change.dangers)]
    if change.reason:
        found.append(f"    cannot be made: {change.reason}")
    if change.remedy:
        found.append(f"    instead: {change.remedy}")
    return found


def _difference(change: Change, difference: Difference) -> str:
    if difference.name == PASSWORD:
        return "a new password"
    if change.action == CREATE:
        return f"{difference.name}={_text(difference.new)}"
    if change.action == DELETE:
        return f"{difference.name}={_text(difference.before.value)}"
    return f"{difference.name}: {_text(difference.before.value)} -> {_text(difference.new)}"


def _text(value: str | float | None) -> str:
    if value is None:
        return "(not set)"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else java_double(value)
    return value


def row(outcome: Outcome) -> dict[str, object]:
    """A change and its outcome as a JSON object."""
    change = outcome.change
    return {
        "kind": change.kind,
        "target": change.target_row,
        "action": change.action,
        "changes": [_json_difference(difference) for difference in change.differences],
        "dangers": list(change.dangers),
        "reason": change.reason or None,
        "remedy": change.remedy or None,
        "outcome": outcome.state,
        "error": None if outcome.error is None else str(outcome.error),
    }


def _json_difference(difference: Difference) -> dict[str, object]:
    """The names and values of a difference; whole numbers without a fraction, a password without a value."""
    values = {key: value for key, value in difference.row().items() if key != "sensitive"}
    return {
        key: int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value
        for key, value in values.items()
    }


def _report(console: Console, outcome: Outcome) -> Outcome:
    """Print the outcome of a change: with --json its row, else only a failure."""
    text = f"{outcome.change.label}: {outcome.change.action} failed: {outcome.error}"
    if outcome.state == NOT_TRIED:
        text = f"{outcome.change.label}: {outcome.change.action} was not tried"
    console.print_outcome(row(outcome), error="" if outcome.state == DONE else text)
    return outcome


def _print_totals(console: Console, plan: Plan, outcomes: Sequence[Outcome]) -> None:
    if console.is_json:
        return
    counts = {
        "failed": sum(outcome.state == FAILED for outcome in outcomes),
        "not tried": sum(outcome.state == NOT_TRIED for outcome in outcomes),
        "cannot be made": plan.count(IMPOSSIBLE),
    }
    rest = "".join(f"; {count} {word}" for word, count in counts.items() if count)
    console.print(f"Applied: {_made(outcomes)}{rest}.")


def _made(outcomes: Sequence[Outcome]) -> str:
    """The numbers of changes that were made: `1 created, 0 changed, 2 deleted`."""
    words = {CREATE: "created", CHANGE: "changed", DELETE: "deleted"}
    actions = [outcome.change.action for outcome in outcomes if outcome.state == DONE]
    return ", ".join(f"{actions.count(action)} {word}" for action, word in words.items())
