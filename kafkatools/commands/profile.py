"""kt profile import: make profiles of the configuration files of other tools.

Everything is read and checked before the first file is written. Files with passwords are written before the file of
profiles, which names them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args, Command, Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkatools.console import Console
    from kafkatools.options.profile_import.sources import Leftover, Source

_FORMATS = ("properties", "kcat", "rpk", "kafkactl", "kcl")


def _import(console: Console, args: Args) -> ExitStatus:
    """Write the profiles of a file. Returns FAILED if one of its clusters could not become a profile. Raises UsageError
    and CommandError; nothing was written then."""
    from kafkatools.options.profile_import.cluster_files import read_sources
    from kafkatools.options.profiles import user_file

    if args.operand is None:
        raise UsageError("The file is missing: kt profile import FILE")
    if args.format not in (None, *_FORMATS):
        raise UsageError(f"--format must be one of {', '.join(_FORMATS)}, not '{args.format}'")
    file_format, sources, beside = read_sources(args.operand, args.format)
    if args.name is not None:
        if len(sources) > 1:
            names = ", ".join(source.name for source in sources)
            raise UsageError(f"--name is for a file with one cluster; {args.operand} has {names}")
        sources = [sources[0]._replace(name=args.name)]
    path = os.path.abspath(user_file(console.environ))
    possible = [source for source in sources if not source.problem]
    existing = _write(console, args, path, possible)
    for source in possible:
        outcome = "planned" if args.dry_run else "replaced" if source.name in existing else "created"
        _print(console, file_format, source, path, outcome)
        if source.note:
            console.note(source.note)
    _note(console, beside)
    for source in sources:
        if source.problem:
            console.error(f"The profile '{source.name}' was not made: {source.problem}")
    return ExitStatus.OK if len(possible) == len(sources) else ExitStatus.FAILED


def _write(console: Console, args: Args, path: str, sources: list[Source]) -> set[str]:
    """Write the profiles, unless --dry-run; return the names that the file had before. Raises CommandError."""
    from kafkatools.tools import profile_file

    text, existing = _present(path)
    if any(not source.name for source in sources):
        raise UsageError("The name of a profile is empty: pass --name")
    names = [source.name for source in sources]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise CommandError(f"{args.operand} has the name '{twice}' twice, so nothing was changed")
    secrets: dict[str, str] = {}
    for source in sources:
        if source.name in existing and not args.force:
            raise CommandError(
                f"{path}: there is a profile '{source.name}' already, so nothing was changed",
                hint="Pass --force to replace it, or --name for another name.",
            )
        keys = _keys(source)
        if source.secrets:
            secrets_path = os.path.join(os.path.dirname(path), keys["command_config"])
            if os.path.lexists(secrets_path):
                _ensure_replaceable(console, secrets_path, source.name, is_forced=args.force)
            secrets[secrets_path] = profile_file.secrets_text(source.name, source.secrets)
        table = profile_file.profile_table(source.name, keys, source.settings)
        text = profile_file.with_profile(text, source.name, table, path)
    if sources and not args.dry_run:
        profile_file.write_profile_files(path, text, secrets)
    return existing


def _ensure_replaceable(console: Console, path: str, name: str, *, is_forced: bool) -> None:
    """Refuse to replace a file that a user wrote or that another profile uses: it may hold the only copy of a
    password."""
    from kafkatools.options.profiles import profiles_with_file
    from kafkatools.tools.profile_file import is_made_for

    hint = "Move it to another name and change command_config where a profile names it, or pass --name."
    if not is_made_for(path, name):
        made = f"was not made by kt profile import for the profile '{name}'"
        raise CommandError(f"{path} exists and {made}, so nothing was changed", hint=hint)
    other = next((user for user in profiles_with_file(path, console.environ, os.getcwd()) if user != name), None)
    if other is not None:
        raise CommandError(f"{path} exists and is the command_config of '{other}', so nothing was changed", hint=hint)
    if not is_forced:
        raise CommandError(f"{path} exists, so nothing was changed", hint="Pass --force to replace it.")


def _present(path: str) -> tuple[str, set[str]]:
    """The text of the file of profiles and the names in it. Raises UsageError for an invalid file."""
    from kafkatools.options.profiles import names_in

    if not os.path.exists(path):
        return "", set()
    names = names_in(path)
    with open(path, encoding="utf-8", newline="") as file:
        return file.read(), names


def _keys(source: Source) -> Mapping[str, str]:
    from urllib.parse import quote

    keys = {} if source.bootstrap_servers is None else {"bootstrap_servers": source.bootstrap_servers}
    if source.command_config is not None:
        return {**keys, "command_config": source.command_config}
    return {**keys, "command_config": f"{quote(source.name, safe='')}.properties"} if source.secrets else keys


def _print(console: Console, file_format: str, source: Source, path: str, outcome: str) -> None:
    keys = _keys(source)
    named = keys.get("command_config")
    row = {
        "profile": source.name,
        "file": path,
        "format": file_format,
        "bootstrap_servers": source.bootstrap_servers,
        "command_config": None if named is None else os.path.join(os.path.dirname(path), named),
        "settings": sorted(source.settings),
        "outcome": outcome,
        "not_imported": [{"place": place, "reason": reason} for place, reason in source.leftovers],
    }
    console.print(f"{source.name}: {outcome} in {path} ({source.bootstrap_servers or 'no brokers'})", row)
    if not console.is_json:
        _note(console, source.leftovers)


def _note(console: Console, leftovers: list[Leftover]) -> None:
    for place, reason in leftovers:
        console.note(f"Not imported: {place}: {reason}")


COMMAND = Command(
    "profile",
    "Make profiles of clusters from the configuration files of other tools.",
    subcommands=(
        Command(
            "import",
            "Import client.properties, kcat.conf, rpk.yaml, or the files of kafkactl and kcl.",
            (
                Option("--name", "Name of the profile. Default: the tool's name for it.", value="NAME", ours=True),
                Option(
                    "--format",
                    "Format of the file. Default: by its name and content.",
                    value="FORMAT",
                    choices=_FORMATS,
                    ours=True,
                ),
                Option("--dry-run", "Print what would be made, and write nothing.", ours=True),
                Option("--force", "Replace a profile that exists.", ours=True),
            ),
            _import,
            operand="FILE",
            needs_arguments=False,
            examples=(
                "kt profile import client.properties --name prod",
                "kt profile import ~/.config/rpk/rpk.yaml --dry-run",
            ),
        ),
    ),
)
