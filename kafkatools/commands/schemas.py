"""kt schemas: list, show, check, register and delete the schemas of a schema registry with Confluent's API."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import ARGPARSE4J, Args, Command, Option, command_config
from kafkatools.options.schema_registry import SCHEMA_REGISTRY, registry_settings

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.tools.schemas.subjects import NewSchema, Subjects, Version

_TYPES = ("AVRO", "PROTOBUF", "JSON")
_LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
_TIMEOUT_MS = 10_000


def _with_subjects(action: Callable[[Console, Args, Subjects], ExitStatus]) -> Callable[[Console, Args], ExitStatus]:
    """Turn `action(console, args, subjects)` into a command's `run` function."""

    def run(console: Console, args: Args) -> ExitStatus:
        from kafkatools.tools.schemas.access import registry_access
        from kafkatools.tools.schemas.registry import SchemaRegistry
        from kafkatools.tools.schemas.subjects import Subjects

        access = registry_access(registry_settings(args), args.schema_registry, _TIMEOUT_MS)
        return action(console, args, Subjects(SchemaRegistry(access, clock=console.clock)))

    return run


def _subject(args: Args) -> str:
    if args.operand is None:
        raise UsageError(f"kt schemas {args.command.name} needs a subject; list them with kt schemas list")
    return args.operand


def _subject_and_version(args: Args) -> tuple[str, int | None]:
    """Split SUBJECT:VERSION; the version is None if it is missing or `latest`. A subject may contain colons."""
    from kafkatools.tools.schemas.subjects import split_version

    return split_version(_subject(args))


def _list(console: Console, args: Args, subjects: Subjects) -> ExitStatus:
    names = subjects.names(deleted=args.deleted)
    present = set(subjects.names()) if args.deleted else set(names)
    rows = ({"subject": name, "deleted": name not in present} for name in names)
    console.show(rows, (name if name in present else f"{name} (deleted)" for name in names))
    return ExitStatus.OK


def _versions(console: Console, args: Args, subjects: Subjects) -> ExitStatus:
    subject = _subject(args)
    found = [subjects.version(subject, number) for number in subjects.versions(subject)]
    if args.json:
        for version in found:
            row = _row(version)
            del row["schema"]
            console.print_json(row)
        return ExitStatus.OK
    from kafkatools.output import table

    rows = [(version.version, version.id, version.kind, _references_text(version)) for version in found]
    text = table(("VERSION", "ID", "TYPE", "REFERENCES"), rows, terminal=console.is_terminal, width=console.width)
    console.draw(text)
    return ExitStatus.OK


def _references_text(version: Version) -> str:
    return ", ".join(f"{one.name}={one.subject}:{one.version}" for one in version.references) or "-"


def _row(version: Version) -> dict[str, object]:
    return {
        "subject": version.subject, "version": version.version, "id": version.id, "type": version.kind,
        "references": [reference._asdict() for reference in version.references], "schema": version.text,
    }  # fmt: skip


def _show(console: Console, args: Args, subjects: Subjects) -> ExitStatus:
    if (args.id is None) == (args.operand is None):
        raise UsageError("kt schemas show needs either SUBJECT[:VERSION] or --id ID")
    version = subjects.by_id(args.id) if args.id is not None else subjects.version(*_subject_and_version(args))
    if args.json:
        console.print_json(_row(version))
        return ExitStatus.OK
    if version.subject is not None:
        console.note(f"{version.subject} version {version.version}, ID {version.id}, {version.kind}")
    for line in _indented(version).rstrip("\n").split("\n"):
        console.print(line.rstrip("\r"))
    return ExitStatus.OK


def _indented(version: Version) -> str:
    """Return the schema's text, with JSON indented."""
    import json

    from kafkatools.core.json_texts import parse_json

    if version.kind != "PROTOBUF":
        try:
            return json.dumps(parse_json(version.text), indent=2, ensure_ascii=False)
        except ValueError:
            pass
    return version.text


def _new_schema(args: Args) -> NewSchema:
    """Read the schema of --schema. Raises UsageError for an unknown type or a bad reference, CommandError for an
    unreadable or invalid file."""
    from kafkatools.tools.schemas.schema_files import kind_of_file, read_schema
    from kafkatools.tools.schemas.subjects import NewSchema, parse_reference

    kind = args.type.upper() if args.type is not None else kind_of_file(args.schema)
    if kind not in _TYPES:
        raise UsageError(f"--type may be avro, protobuf or json, not {args.type}")
    return NewSchema(read_schema(args.schema, kind), kind, [parse_reference(text) for text in args.reference])


def _check(console: Console, args: Args, subjects: Subjects) -> ExitStatus:
    from kafkatools.tools.schemas.subjects import NoVersions

    subject, version = _subject_and_version(args)
    text = f"Compatible with {subject}"
    try:
        messages = subjects.check(subject, _new_schema(args), version)
    except NoVersions:
        messages, text = None, f"The registry has no subject {subject} yet, so any valid schema can be registered."
    console.print_outcome(
        {"subject": subject, "compatible": messages is None, "messages": list(messages or ())},
        text,
        "" if messages is None else f"Not compatible with {subject}: {'; '.join(messages)}",
    )
    return ExitStatus.OK if messages is None else ExitStatus.FINDINGS


def _register(console: Console, args: Args, subjects: Subjects) -> ExitStatus:
    subject, schema = _subject(args), _new_schema(args)
    existing = subjects.find(subject, schema)
    if existing is not None:
        row = {"subject": subject, "id": existing.id, "version": existing.version, "registered": False}
        console.print(f"{subject} version {existing.version} already has this schema, ID {existing.id}", row)
        return ExitStatus.OK
    if args.dry_run:
        messages = subjects.refusal(subject, schema)
        if messages is not None:
            raise CommandError(f"Not compatible with {subject}: {'; '.join(messages)}")
        row = {"subject": subject, "id": None, "version": None, "registered": False}
        console.print(f"The schema can be registered under {subject}.", row)
        return ExitStatus.OK
    number = subjects.register(subject, schema)
    found = subjects.find(subject, schema)
    version = None if found is None else found.version
    row = {"subject": subject, "id": number, "version": version, "registered": True}
    console.print(f"Registered {subject} version {version}, ID {number}", row)
    return ExitStatus.OK


def _delete(console: Console, args: Args, subjects: Subjects) -> ExitStatus:
    from kafkatools.tools.schemas.errors import SchemaError
    from kafkatools.tools.schemas.subjects import names_latest

    subject, version = _subject_and_version(args)
    if names_latest(_subject(args)):  # without a version the whole subject would be deleted
        version = subjects.version(subject).version
    numbers = subjects.versions(subject, deleted=args.permanent)
    if version is not None:
        if version not in numbers:
            raise CommandError(f"{subject} has no version {version}, only {', '.join(map(str, numbers))}")
        numbers = [version]
    if not args.dry_run:
        is_present = not args.permanent or _is_present(subjects, subject, version)
        if is_present:
            subjects.delete(subject, version)
        if args.permanent:
            try:
                subjects.delete(subject, version, permanent=True)
            except SchemaError:
                if subject in subjects.names(deleted=True) or not is_present:
                    raise  # some registries remove a subject completely at once
    row = {"subject": subject, "versions": numbers, "deleted": not args.dry_run, "permanent": args.permanent}
    verb = "Would delete" if args.dry_run else "Deleted"
    how = " permanently" if args.permanent else ""
    console.print(f"{verb} {subject} version {', '.join(map(str, numbers))}{how}", row)
    return ExitStatus.OK


def _is_present(subjects: Subjects, subject: str, version: int | None) -> bool:
    """Return whether a subject or version is not soft-deleted yet."""
    if subject not in subjects.names():
        return False
    return version is None or version in subjects.versions(subject)


def _compatibility(console: Console, args: Args, subjects: Subjects) -> ExitStatus:
    own = None if args.operand is None else subjects.compatibility(args.operand)
    level = own or subjects.compatibility()
    row = {"subject": args.operand, "level": level, "inherited": args.operand is not None and own is None}
    console.print(f"{level}{' (of the registry)' if row['inherited'] else ''}", row)
    return ExitStatus.OK


def _set_compatibility(console: Console, args: Args, subjects: Subjects) -> ExitStatus:
    subject = args.operand
    if (args.level is None) == (not args.inherit):
        raise UsageError("kt schemas set-compatibility needs either --level LEVEL or --inherit")
    if args.inherit and subject is None:
        raise UsageError("--inherit needs a subject: the registry has no level to inherit")
    level = None if args.level is None else args.level.upper()
    if level is not None and level not in _LEVELS:
        raise UsageError(f"--level may be {', '.join(_LEVELS)}, not {args.level}")
    before = subjects.compatibility(subject)
    if not args.dry_run and before != level:
        if level is not None:
            subjects.set_compatibility(level, subject)
        elif subject is not None:
            subjects.unset_compatibility(subject)
    row = {"subject": subject, "level": level, "previous": before, "changed": before != level and not args.dry_run}
    verb = "would become" if args.dry_run else "is"
    text = "that of the registry" if level is None else level
    console.print(f"The compatibility level of {subject or 'the registry'} {verb} {text} (was {before or 'none'})", row)
    return ExitStatus.OK


_SUBJECT, _SUBJECT_VERSION = "SUBJECT", "SUBJECT[:VERSION]"
_DRY_RUN = Option("--dry-run", "Print the change, and change nothing.")
_SCHEMA = (
    Option("--schema", "File with the schema.", value="FILE", required=True),
    Option(
        "--type",
        "Type of the schema. Default: by the extension of the file, .avsc, .proto or .json.",
        value="TYPE",
        choices=("avro", "protobuf", "json"),
    ),
    Option(
        "--reference",
        "A schema in the registry that this one refers to. NAME is the record's full name, the imported .proto file "
        "or the $ref.",
        value="NAME=SUBJECT:VERSION",
        repeatable=True,
    ),
)
_subcommand = partial(Command, style=ARGPARSE4J, needs_arguments=False)

COMMAND = Command(
    "schemas",
    "List, show, check, register and delete the schemas of a schema registry.",
    options=(SCHEMA_REGISTRY, command_config("Properties file with settings of the schema registry.")),
    style=ARGPARSE4J,
    program="kt schemas",
    subcommands=(
        _subcommand(
            "list",
            "List the subjects.",
            (Option("--deleted", "Also list subjects that are deleted, but not permanently."),),
            _with_subjects(_list),
        ),
        _subcommand("versions", "List the versions of a subject.", (), _with_subjects(_versions), operand=_SUBJECT),
        _subcommand(
            "show",
            "Print a schema, by default the newest version of the subject.",
            (Option("--id", "Print the schema with this ID.", value="ID", type=int),),
            _with_subjects(_show),
            operand=f"[{_SUBJECT_VERSION}]",
        ),
        _subcommand(
            "check",
            "Check whether a schema is compatible with a version of a subject (default: the newest); exit 3 if not.",
            _SCHEMA,
            _with_subjects(_check),
            operand=_SUBJECT_VERSION,
        ),
        _subcommand(
            "register",
            "Register a schema as the next version of a subject.",
            (*_SCHEMA, _DRY_RUN),
            _with_subjects(_register),
            operand=_SUBJECT,
        ),
        _subcommand(
            "delete",
            "Delete a version, or without VERSION all versions of the subject.",
            (
                Option("--permanent", "Delete it irrevocably: records with its schema IDs can no longer be decoded."),
                _DRY_RUN,
            ),
            _with_subjects(_delete),
            operand=_SUBJECT_VERSION,
        ),
        _subcommand(
            "compatibility",
            "Show the compatibility level of a subject, or without SUBJECT that of the registry.",
            (),
            _with_subjects(_compatibility),
            operand=f"[{_SUBJECT}]",
        ),
        _subcommand(
            "set-compatibility",
            "Set the compatibility level of a subject, or without SUBJECT that of the registry.",
            (
                Option("--level", "The compatibility level.", value="LEVEL", choices=_LEVELS),
                Option("--inherit", "Remove the subject's level, so that the registry's applies."),
                _DRY_RUN,
            ),
            _with_subjects(_set_compatibility),
            operand=f"[{_SUBJECT}]",
        ),
    ),
    examples=(
        "kt schemas list --schema-registry http://localhost:8081",
        "kt schemas show orders-value",
        "kt schemas check orders-value --schema order.avsc",
        "kt schemas register orders-value --schema order.avsc",
        "kt schemas delete orders-value:2",
    ),
    destructive=("delete", "set-compatibility"),
)
