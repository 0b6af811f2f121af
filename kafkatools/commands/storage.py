"""kt storage: format log directories or show their format (kafka-storage.sh, kafka.tools.StorageTool).

core/broker/metadata/formatter.py writes the directories. This module parses options and server.properties, and prints
Kafka's messages. Settings that formatting does not need are not validated.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import ARGPARSE4J, Args, Command, Option, java_short, read_properties

if TYPE_CHECKING:
    from kafkatools.console import Console

_PROGRAM = "kafka-storage"
_LEGACY = (
    "The kafka configuration file appears to be for a cluster in KRaft mode, but the directories are formatted for "
    "legacy mode."
)
_CONFIG = Option(
    "--config", "Properties file of the broker or controller.", value="FILE", aliases=("-c",), required=True
)
_RELEASE = Option(
    "--release-version",
    "Release of Apache Kafka whose feature levels to use, such as 4.0.",
    value="RELEASE",
    aliases=("-r",),
    default="4.3-IV0",
)
_FEATURE = Option(
    "--feature", "Feature and level, such as share.version=1.", value="NAME=LEVEL", aliases=("-f",), repeatable=True
)


class _OnlyOne:
    """A rule that refuses the second option of an argparse4j mutually exclusive group."""

    def __init__(self, *spellings: str) -> None:
        self._spellings = {spelling.split("/")[0].lstrip("-"): spelling for spelling in spellings}

    def violation(self, option_names: Collection[str]) -> str | None:
        spellings = [spelling for name, spelling in self._spellings.items() if name in option_names]
        return f"argument {spellings[1]}: not allowed with argument {spellings[0]}" if len(spellings) > 1 else None


def run_random_uuid(console: Console, args: Args) -> ExitStatus:
    """Run kt storage random-uuid: print a random cluster id."""
    from kafkatools.core.broker.metadata.formatter import random_uuid

    text = random_uuid()
    console.print(text, {"uuid": text})
    return ExitStatus.OK


def _server_settings(args: Args) -> dict[str, str]:
    """Read server.properties. Raises CommandError if process.roles or node.id is missing."""
    settings = args.indirect.resolved(read_properties(args.config), args.config)
    for name in ("process.roles", "node.id"):
        if name not in settings:
            raise CommandError(f'Missing required configuration "{name}" which has no default value.')
    return settings


def run_info(console: Console, args: Args) -> ExitStatus:
    """Run kt storage info: print log directories, their meta.properties and problems (StorageTool.infoCommand).

    Returns FAILED when there are problems.
    """
    from kafkatools.tools.storage_format import log_directories

    settings = _server_settings(args)
    metadata_directory = settings.get("metadata.log.dir")
    directories, metadata, problems = _inspect({*log_directories(settings), *filter(None, [metadata_directory])})
    if args.json:
        row = {"directories": directories, "metadata": dict(sorted(metadata.items())), "problems": problems}
        console.print_json(row)
    else:
        _print_list(console, "Found log directory:", "Found log directories:", directories)
        if metadata:
            console.print("Found metadata: {" + ", ".join(f"{k}={v}" for k, v in sorted(metadata.items())) + "}")
            console.print()
        _print_list(console, "Found problem:", "Found problems:", problems)
    return ExitStatus.FAILED if problems else ExitStatus.OK


def _print_list(console: Console, singular: str, plural: str, lines: Sequence[str]) -> None:
    if lines:
        console.print(singular if len(lines) == 1 else plural)
        for line in lines:
            console.print(f"  {line}")
        console.print()


def _inspect(directories: set[str]) -> tuple[list[str], dict[str, str], list[str]]:
    """Return the directories that exist, the first valid meta.properties, and the problems, in the order of the
    paths."""
    from kafkatools.tools.storage_format import meta_properties

    present_directories: list[str] = []
    first: dict[str, str] = {}
    problems: list[str] = []
    for directory in sorted(directories):
        path = os.path.join(directory, "meta.properties")
        if not os.path.isdir(directory):
            state = "is not a directory" if os.path.exists(directory) else "does not exist"
            problems.append(f"{directory} {state}")
            continue
        present_directories.append(directory)
        if not os.path.exists(path):
            problems.append(f"{directory} is not formatted.")
            continue
        try:
            properties = meta_properties(read_properties(path))
        except ValueError as error:
            problems.append(f"Error loading {path}: {error}")
            continue
        first = first or properties
        if first.get("cluster.id") != properties.get("cluster.id"):
            problems.append("Mismatched cluster IDs between storage directories.")
        elif first.get("node.id") != properties.get("node.id"):
            problems.append("Mismatched node IDs between storage directories.")
    if first.get("version") == "0":
        problems.append(_LEGACY)
    return present_directories, first, problems


def run_format(console: Console, args: Args) -> ExitStatus:
    """Run kt storage format: format the unformatted directories of a server, or with --dry-run print them
    (StorageTool.runFormatCommand). Raises CommandError for invalid settings or options, OSError if a directory cannot
    be made."""
    from kafkatools.core.broker.metadata import formatter
    from kafkatools.core.broker.metadata.feature_levels import METADATA_VERSION, release_of
    from kafkatools.core.log.files import RealFileSystem
    from kafkatools.tools.storage_format import FormatOptions, announcement, format_request, is_uuid

    options = FormatOptions(**{name: getattr(args, name) for name in FormatOptions._fields})
    request = format_request(options, _server_settings(args))
    files = RealFileSystem()
    directories = formatter.plan(files, request)
    if directories and not is_uuid(request.cluster_id):
        console.note(f"Warning: the cluster id {request.cluster_id} is not a UUID; kt storage random-uuid prints one.")
    release = release_of(request.levels[METADATA_VERSION])
    if args.dry_run:
        for directory in directories:
            _ensure_can_be_made(directory.path)
    if not args.json and not directories:
        console.print("All of the log directories are already formatted.")
    elif not args.json and not args.dry_run:
        console.print(announcement(request))
    for directory in directories:
        if args.json:
            directory_id = None if args.dry_run else directory.directory_id
            row = {"directory": directory.path, "kind": directory.kind, "directory_id": directory_id}
            fields = {"cluster_id": request.cluster_id, METADATA_VERSION: release, "formatted": not args.dry_run}
            console.print_json({**row, **fields})
        elif args.dry_run:
            kind = directory.kind.capitalize()
            console.print(f"{kind} {directory.path} would be formatted with metadata.version {release}.")
        else:
            console.print(f"Formatting {directory.kind} {directory.path} with metadata.version {release}.")
        if not args.dry_run:
            with _private_files():
                formatter.write_directory(files, request, directory, console.clock.wall_ms())
    return ExitStatus.OK


@contextmanager
def _private_files() -> Iterator[None]:
    """Create files readable by this user only within the context: bootstrap.checkpoint holds SCRAM keys."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _ensure_can_be_made(path: str) -> None:
    """Raise NotADirectoryError or PermissionError if the nearest existing parent of this directory is a file or
    read-only."""
    import errno

    above = os.path.abspath(path)
    while not os.path.exists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), above)
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), above)


def run_version_mapping(console: Console, args: Args) -> ExitStatus:
    """Run kt storage version-mapping: print the feature levels of a release. Raises CommandError for an unknown one."""
    from kafkatools.core.broker.metadata.feature_levels import metadata_level
    from kafkatools.tools.feature_levels import release_levels
    from kafkatools.tools.storage_format import unknown_release

    level = metadata_level(args.release_version)
    if level is None:
        raise CommandError(unknown_release(args.release_version))
    console.show(*release_levels(args.release_version, level))
    return ExitStatus.OK


def run_feature_dependencies(console: Console, args: Args) -> ExitStatus:
    """Run kt storage feature-dependencies: print the levels that a feature level requires.

    Follows StorageTool.runFeatureDependenciesCommand. Raises CommandError for a malformed or unknown feature.
    """
    from kafkatools.tools.feature_levels import dependencies

    for text in args.feature:
        name, equals, level = text.partition("=")
        if not equals:
            expected = "'feature=version' (e.g. 'group.version=1')"
            raise CommandError(f"Invalid feature format: {text}. Expected format: {expected}")
        try:
            number = java_short(level)
        except ValueError:
            raise CommandError(f"Invalid version format: {level} for feature {name}") from None
        console.show(*dependencies(name, number))
    return ExitStatus.OK


_FORMAT_OPTIONS = (
    _CONFIG,
    Option("--cluster-id", "Cluster id.", value="ID", aliases=("-t",), required=True),
    Option(
        "--add-scram",
        "SCRAM credential to create: SCRAM-SHA-256=[name=alice,password=secret].",
        value="CREDENTIAL",
        aliases=("-S",),
        repeatable=True,
    ),
    Option("--ignore-formatted", "Skip log directories that are formatted already.", aliases=("-g",)),
    _RELEASE._replace(
        about="Release of Apache Kafka whose feature levels to use, such as 4.0; the latest by default.", default=None
    ),
    _FEATURE,
    Option(
        "--standalone", "Format the only controller of a new dynamic quorum. Others can join later.", aliases=("-s",)
    ),
    Option("--no-initial-controllers", "Format a server that joins an existing dynamic quorum.", aliases=("-N",)),
    Option(
        "--initial-controllers",
        "Format a controller of a new dynamic quorum of these controllers. Use the same list on each of them.",
        value="ID@HOST:PORT:DIRECTORY,...",
        aliases=("-I",),
    ),
    Option("--dry-run", "Print which directories would be formatted, and write nothing.", ours=True),
)

COMMAND = Command(
    "storage",
    "Format log directories, or show their format.",
    style=ARGPARSE4J,
    program=_PROGRAM,
    needs_arguments=False,
    subcommands=(
        Command(
            "info",
            "Show the log directories of a broker or controller and whether they are formatted.",
            (_CONFIG,),
            run_info,
            ARGPARSE4J,
        ),
        Command(
            "format",
            "Format the log directories of a broker or controller before its first start, by Apache Kafka or kt"
            " server-start.",
            _FORMAT_OPTIONS,
            run_format,
            ARGPARSE4J,
            rules=(_OnlyOne("--standalone/-s", "--no-initial-controllers/-N", "--initial-controllers/-I"),),
        ),
        Command(
            "version-mapping",
            "Show the feature levels of a release of Apache Kafka.",
            (_RELEASE,),
            run_version_mapping,
            ARGPARSE4J,
        ),
        Command(
            "feature-dependencies",
            "Show which other feature levels a feature level requires.",
            (_FEATURE._replace(required=True),),
            run_feature_dependencies,
            ARGPARSE4J,
        ),
        Command("random-uuid", "Print a random cluster id.", (), run_random_uuid, ARGPARSE4J),
    ),
    examples=(
        "kt storage format -t $(kt storage random-uuid) -c server.properties",
        "kt storage info -c server.properties",
    ),
)
