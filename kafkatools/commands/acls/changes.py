"""Carry out the changes of kt acls: --add, --remove and --from-file.

Order: find the existing ACLs, print what a removal matches, prompt, write the undo file, change. --dry-run ends before
the prompt. If a change fails, the error is printed and the others are made. A file of changes is lines of JSON,
`{"action": "add" or "remove", "resource_type": ..., ...}` with all fields of an ACL; undo files have this format.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafkatools.commands.acls.entries import EntriesByPattern, Entry, Pattern, entry_of, pattern_of
from kafkatools.console import Console
from kafkatools.core.admin.acls import (
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
    Acl,
    AclFilter,
    create_acls,
    delete_acls,
    describe_acls,
    filter_of,
)
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.errors import KafkaError
from kafkatools.core.json_values import JsonValue
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.options.confirmation import agrees_to_remove
from kafkatools.output import json_line
from kafkatools.tools.undo_files import read_changes, write_undo_file

_ADD, _REMOVE = "add", "remove"
_OUTCOMES = {_ADD: "added", _REMOVE: "removed"}


class Change(NamedTuple):
    """An ACL to add or to remove."""

    action: str
    acl: Acl


def row(acl: Acl, **fields: object) -> dict[str, object]:
    """Return an ACL as a JSON row, after the keys of `fields`."""
    return {**fields, **acl._asdict()}


def add(console: Console, args: Args, admin: AdminClient, requested: EntriesByPattern) -> ExitStatus:
    """Add the ACLs that do not exist yet, and print those that do. With --dry-run only print them. Returns FAILED when
    one could not be added. Raises CommandError if the undo file cannot be written."""
    status = ExitStatus.OK
    planned = []
    _warn_of_types(console, requested)
    for pattern, entries in requested.items():
        existing = set(describe_acls(admin, _filter(pattern)))
        for entry in entries:
            acl = _acl(pattern, entry)
            if acl not in existing:
                planned.append(Change(_ADD, acl))
            else:
                text = f"Acl (pattern={pattern}, entry={entry}) already exists."
                console.print(text, row(acl, action=_ADD, outcome="exists", error=None))
    if args.dry_run:
        return _show(console, args, planned)
    if planned:
        _write_undo(args, planned)
        for pattern, changes in _by_pattern(planned).items():
            if not args.json:
                console.print(f"Adding ACLs for resource `{pattern}`: ")
                for number, change in enumerate(changes):
                    console.print(f"{'' if number else ' '}\t{entry_of(change.acl)}")
                console.print()
        status = _create(console, args, admin, [change.acl for change in planned])
    return status


def _warn_of_types(console: Console, requested: EntriesByPattern) -> None:
    """Warn of principals such as `user:alice`: types are case-sensitive, and Kafka's own principals are of type
    User."""
    principals = dict.fromkeys(entry.principal for entries in requested.values() for entry in entries)
    for principal in principals:
        kind, _, name = principal.partition(":")
        if kind != "User" and kind.lower() == "user":
            console.note(
                f"warning: Kafka's principals are of type User, so {principal} matches none of them. "
                f"Did you mean User:{name}?"
            )


def remove(console: Console, args: Args, admin: AdminClient, requested: EntriesByPattern) -> ExitStatus:
    """Remove the matching ACLs, after a prompt unless --force; with --dry-run only print them. Returns FAILED if a
    prompt was declined, then nothing is removed, or if a removal failed. Raises CommandError.

    An ACL that is added meanwhile stays: it was neither printed nor written to the undo file.
    """
    acls: dict[Acl, None] = {}
    is_first = True
    for pattern, entries in requested.items():
        matches = [
            acl for acl in sorted(describe_acls(admin, _filter(pattern))) if not entries or entry_of(acl) in entries
        ]
        acls |= dict.fromkeys(matches)
        if args.dry_run:
            continue
        _note_matches(console, pattern, matches)
        if not args.force and not _agrees(console, args, pattern, entries):
            console.error("Nothing was removed." if is_first else f"Nothing was removed from {pattern}.")
            return ExitStatus.FAILED
        is_first = False
    if args.dry_run:
        return _show(console, args, [Change(_REMOVE, acl) for acl in acls])
    _write_undo(args, [Change(_REMOVE, acl) for acl in acls])
    return _delete(console, args, admin, list(acls))


def _note_matches(console: Console, pattern: Pattern, matches: Sequence[Acl]) -> None:
    if not matches:
        console.note(f"No such ACL exists for resource filter `{pattern}`.")
        return
    console.note(f"{len(matches)} of the ACLs for resource filter `{pattern}` will be removed:")
    for acl in matches:
        console.note(f"\t{pattern_of(acl)} {entry_of(acl)}")


def _agrees(console: Console, args: Args, pattern: Pattern, entries: Sequence[Entry]) -> bool:
    """Prompt with Kafka's question. Raises CommandError when stdin is at its end."""
    question = f"Are you sure you want to delete all ACLs for resource filter `{pattern}`? (y/n)"
    if entries:
        lines = "\n".join(f"\t{entry}" for entry in entries)
        question = f"Are you sure you want to remove ACLs: \n {lines}\n from resource filter `{pattern}`? (y/n)"
    return agrees_to_remove(console, args, question, "--force")


def carry_out(console: Console, args: Args, admin: AdminClient, planned: Sequence[Change]) -> ExitStatus:
    """Apply a file of changes, except those that are already as requested; with --dry-run only print them. Returns
    FAILED if a change failed. ACLs are added before others are removed, so that no principal loses access meanwhile."""
    existing = set(describe_acls(admin, AclFilter()))
    changes = [change for change in dict.fromkeys(planned) if (change.acl in existing) == (change.action == _REMOVE)]
    if args.dry_run:
        return _show(console, args, changes)
    _write_undo(args, changes)
    added = [change.acl for change in changes if change.action == _ADD]
    removed = [change.acl for change in changes if change.action == _REMOVE]
    statuses = [
        _create(console, args, admin, added, prints_success=True),
        _delete(console, args, admin, removed, prints_success=True),
    ]
    if not args.json:
        console.print(
            f"{len(added)} to add, {len(removed)} to remove, {len(planned) - len(changes)} already as requested"
        )
    return max(statuses)


def _show(console: Console, args: Args, changes: Iterable[Change]) -> ExitStatus:
    count = 0
    for action, acl in changes:
        count += 1
        text = f"would be {_OUTCOMES[action]}: {pattern_of(acl)} {entry_of(acl)}"
        console.print(text, row(acl, action=action, outcome="planned", error=None))
    if not count and not args.json:
        console.note("Nothing would change.")
    return ExitStatus.OK


def _create(
    console: Console, args: Args, admin: AdminClient, acls: Sequence[Acl], *, prints_success: bool = False
) -> ExitStatus:
    console.flush()
    status = ExitStatus.OK
    for acl, error in (create_acls(admin, acls) if acls else {}).items():
        status = _report(console, args, Change(_ADD, acl), error, prints_success=prints_success) or status
    return status


def _delete(
    console: Console, args: Args, admin: AdminClient, acls: Sequence[Acl], *, prints_success: bool = False
) -> ExitStatus:
    console.flush()
    status = ExitStatus.OK
    outcomes: dict[Acl, KafkaError | None] = {}
    for result in (delete_acls(admin, map(filter_of, acls)) if acls else {}).values():
        if result.error is not None:
            raise result.error
        outcomes |= dict.fromkeys(result.acls) | result.errors
    for acl, error in outcomes.items():
        status = _report(console, args, Change(_REMOVE, acl), error, prints_success=prints_success) or status
    return status


def _report(
    console: Console, args: Args, change: Change, error: KafkaError | None, *, prints_success: bool
) -> ExitStatus:
    """Print the outcome of a change; without --json a success only with `prints_success`, since Kafka's tool prints
    failures only. Returns FAILED for an error."""
    action, acl = change
    text = f"{pattern_of(acl)} {entry_of(acl)}"
    state = _OUTCOMES[action] if error is None else "failed"
    outcome = row(acl, action=action, outcome=state, error=None if error is None else str(error))
    failure = "" if error is None else f"{args.command.error_prefix}{text}: {error}"
    console.print_outcome(outcome, f"{state} {text}" if prints_success else "", failure)
    return ExitStatus.OK if error is None else ExitStatus.FAILED


def _write_undo(args: Args, changes: Iterable[Change]) -> None:
    if args.undo_file is None:
        return
    inverse = {_ADD: _REMOVE, _REMOVE: _ADD}
    write_undo_file(args.undo_file, [json_line(row(acl, action=inverse[action])) + "\n" for action, acl in changes])


def read_file(path: str) -> list[Change]:
    """Read a file of changes. Raises OSError, or CommandError that names the line of a mistake."""
    return read_changes(path, _change)


def _change(fields: JsonValue) -> Change:
    """Parse one line of a file of ACL changes. Raises ValueError."""
    if not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
        raise ValueError("the line is not a JSON object of strings")
    missing = {"action", *Acl._fields} - fields.keys()
    if missing:
        raise ValueError(f"the JSON object lacks the keys {', '.join(sorted(missing))}")
    unknown = fields.keys() - {"action", *Acl._fields}
    if unknown:
        raise ValueError(f"unknown keys: {', '.join(sorted(unknown))}")
    if fields["action"] not in _OUTCOMES:
        raise ValueError(f"action is {fields['action']!r}, not 'add' or 'remove'")
    for field, names in (
        ("resource_type", RESOURCE_TYPES[2:]),
        ("operation", OPERATIONS[2:]),
        ("permission", PERMISSIONS[2:]),
        ("pattern_type", PATTERN_TYPES[3:]),
    ):
        if fields[field] not in names:
            raise ValueError(f"{field} is {fields[field]!r}, not one of {', '.join(names)}")
    return Change(fields.pop("action"), Acl(**fields))


def _by_pattern(changes: Iterable[Change]) -> dict[Pattern, list[Change]]:
    changes_by_pattern: dict[Pattern, list[Change]] = {}
    for change in changes:
        changes_by_pattern.setdefault(pattern_of(change.acl), []).append(change)
    return changes_by_pattern


def _acl(pattern: Pattern, entry: Entry) -> Acl:
    principal, host, operation, permission = entry
    return Acl(pattern.resource_type, pattern.name, principal, operation, permission, host, pattern.pattern_type)


def _filter(pattern: Pattern) -> AclFilter:
    return AclFilter(pattern.resource_type, pattern.name, pattern_type=pattern.pattern_type)
