"""kt storage: format log directories or show their format (kafka-storage.sh, kafka.tools.StorageTool).

core/broker/metadata/formatter.py writes the directories. This module parses options and server.properties, and prints
Kafka's messages. Settings that formatting does not need are not validated.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import ARGPARSE4J, Args, Command, Option, read_properties

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.broker.metadata.formatter import FormatRequest, Voter
    from kafkatools.core.protocol.entities import Entity

_PROGRAM = "kafka-storage"
_DEFAULT_LOG_DIR = "/tmp/kafka-logs"
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
_VOTERS_AND_DYNAMIC = (
    "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. "
    "If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
    "controller.quorum.bootstrap.servers instead."
)
_NO_VOTERS = (
    "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
    "--standalone, --initial-controllers, or --no-initial-controllers."
)
_KRAFT_VERSION_1 = (
    "Cannot set kraft.version to 1 unless controller.quorum.voters is empty and one of the flags --standalone, "
    "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try using one of "
    "--standalone, --initial-controllers, or --no-initial-controllers and removing controller.quorum.voters."
)
_KRAFT_VERSION_0 = (
    "Cannot set kraft.version to 0 if one of the flags --standalone, --initial-controllers, or "
    "--no-initial-controllers is used. For static controllers support, try removing the flag."
)


class _OnlyOne:
    """A mutually exclusive group of argparse4j: two of its options are refused."""

    def __init__(self, *spellings: str) -> None:
        self._spellings = {spelling.split("/")[0].lstrip("-"): spelling for spelling in spellings}

    def broken(self, given: Collection[str]) -> str | None:
        """Return argparse4j's message when two of the options are used, else None."""
        found = [spelling for name, spelling in self._spellings.items() if name in given]
        return f"argument {found[1]}: not allowed with argument {found[0]}" if len(found) > 1 else None


def run_random_uuid(console: Console, args: Args) -> ExitStatus:
    """Run kt storage random-uuid: print a random cluster id."""
    from kafkatools.core.broker.metadata.formatter import random_uuid

    text = random_uuid()
    console.print(text, {"uuid": text})
    return ExitStatus.OK


def _server_settings(path: str) -> dict[str, str]:
    """Read server.properties. Raises CommandError if process.roles or node.id is missing."""
    settings = read_properties(path)
    for name in ("process.roles", "node.id"):
        if name not in settings:
            raise CommandError(f'Missing required configuration "{name}" which has no default value.')
    return settings


def _directories(settings: Mapping[str, str]) -> list[str]:
    text = settings.get("log.dirs") or settings.get("log.dir") or _DEFAULT_LOG_DIR
    return [name.strip() for name in text.split(",") if name.strip()]


def run_info(console: Console, args: Args) -> ExitStatus:
    """Run kt storage info: print log directories, their meta.properties and problems (StorageTool.infoCommand).

    Returns FAILED when there are problems.
    """
    settings = _server_settings(args.config)
    found, metadata, problems = _inspect({*_directories(settings), *_metadata_directory(settings)})
    if args.json:
        row = {"directories": found, "metadata": dict(sorted(metadata.items())), "problems": problems}
        console.print_json(row)
    else:
        _print_list(console, "Found log directory:", "Found log directories:", found)
        if metadata:
            console.print("Found metadata: {" + ", ".join(f"{k}={v}" for k, v in sorted(metadata.items())) + "}")
            console.print()
        _print_list(console, "Found problem:", "Found problems:", problems)
    return ExitStatus.FAILED if problems else ExitStatus.OK


def _print_list(console: Console, one: str, many: str, lines: Sequence[str]) -> None:
    if lines:
        console.print(one if len(lines) == 1 else many)
        for line in lines:
            console.print(f"  {line}")
        console.print()


def _metadata_directory(settings: Mapping[str, str]) -> list[str]:
    given = settings.get("metadata.log.dir")
    return [given] if given else []


def _inspect(directories: set[str]) -> tuple[list[str], dict[str, str], list[str]]:
    """Return the directories that exist, the first meta.properties, and the problems, in the order of the paths."""
    found: list[str] = []
    first: dict[str, str] = {}
    problems: list[str] = []
    for directory in sorted(directories):
        path = os.path.join(directory, "meta.properties")
        if not os.path.isdir(directory):
            state = "is not a directory" if os.path.exists(directory) else "does not exist"
            problems.append(f"{directory} {state}")
            continue
        found.append(directory)
        if not os.path.exists(path):
            problems.append(f"{directory} is not formatted.")
            continue
        properties = read_properties(path)
        if not first:
            first = properties
        elif first.get("cluster.id") != properties.get("cluster.id"):
            problems.append("Mismatched cluster IDs between storage directories.")
        elif first.get("node.id") != properties.get("node.id"):
            problems.append("Mismatched node IDs between storage directories.")
    return found, first, problems


def run_format(console: Console, args: Args) -> ExitStatus:
    """Run kt storage format: format the unformatted directories of a server (StorageTool.runFormatCommand)."""
    from kafkatools.core.broker.metadata import formatter
    from kafkatools.core.broker.metadata.feature_levels import METADATA_VERSION, release_of
    from kafkatools.core.log.files import RealFileSystem

    request = _request(args, _server_settings(args.config))
    files = RealFileSystem()
    directories = formatter.plan(files, request)
    if directories and not _is_uuid(request.cluster_id):
        console.note(f"Warning: the cluster id {request.cluster_id} is not a UUID; kt storage random-uuid prints one.")
    release = release_of(request.levels[METADATA_VERSION])
    if args.dry_run:
        for directory in directories:
            _ensure_can_be_made(directory.path)
    if not args.json and not directories:
        console.print("All of the log directories are already formatted.")
    elif not args.json and not args.dry_run:
        console.print(_announcement(request))
    for directory in directories:
        if args.json:
            directory_id = None if args.dry_run else directory.directory_id
            row = {"directory": directory.path, "kind": directory.kind, "directory_id": directory_id}
            more = {"cluster_id": request.cluster_id, METADATA_VERSION: release, "formatted": not args.dry_run}
            console.print_json({**row, **more})
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
    """Raise the OSError that creating this directory would raise."""
    import errno

    above = os.path.abspath(path)
    while not os.path.exists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), above)
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), above)


def _announcement(request: FormatRequest) -> str:
    """Return the line that Kafka prints before it formats: the bootstrap records in Java's toString form."""
    from kafkatools.core.broker.metadata.feature_levels import METADATA_VERSION
    from kafkatools.core.broker.metadata.formatter import bootstrap_records

    records = ", ".join(
        f"ApiMessageAndVersion({_java_text(record)} at version {record.__version__})"
        for record in bootstrap_records(request)
    )
    level = request.levels[METADATA_VERSION]
    metadata = f"records=[{records}], metadataVersionLevel={level}, source=format command"
    return f"Bootstrap metadata: BootstrapMetadata({metadata})"


def _java_text(record: Entity) -> str:
    """Return the Java toString of a generated message: camelCase fields, bytes as a list of signed numbers."""
    from kafkatools.core.protocol.definitions import camel_case

    fields = []
    for field in record.__fields__:
        value = getattr(record, field.name)
        if isinstance(value, bytes):
            text = "[" + ", ".join(str(byte - 256 if byte > 127 else byte) for byte in value) + "]"
        else:
            text = f"'{value}'" if isinstance(value, str) else str(value)
        fields.append(f"{camel_case(field.name)}={text}")
    return f"{record.__schema__.name}({', '.join(fields)})"


def _is_uuid(text: str) -> bool:
    from kafkatools.core.protocol.uuids import uuid_from_text

    try:
        return len(text) == 22 and bool(uuid_from_text(text))
    except ValueError:
        return False


def _request(args: Args, settings: Mapping[str, str]) -> FormatRequest:
    from kafkatools.core.broker.metadata.formatter import FormatRequest
    from kafkatools.core.broker.metadata.scram_credentials import parse_credential

    levels = _levels(args)
    voters = _voters(args, settings)
    is_dynamic = bool(voters) or args.no_initial_controllers
    _check_quorum(args, settings, levels, is_dynamic)
    directories = _directories(settings)
    return FormatRequest(
        cluster_id=args.cluster_id,
        node_id=int(settings["node.id"]),
        directories=directories,
        metadata_directory=(_metadata_directory(settings) or directories)[0],
        levels=levels,
        credentials=[parse_credential(text) for text in args.add_scram],
        voters=voters,
        controller_listener=_controller_listener(settings),
        ignore_formatted=args.ignore_formatted,
    )


def _levels(args: Args) -> dict[str, int]:
    """Return the levels of all features: --feature over the defaults of --release-version."""
    from kafkatools.core.broker.metadata import feature_levels as table

    given = dict(map(_feature, args.feature))
    unknown = [name for name in given if name not in table.FEATURES and name != table.METADATA_VERSION]
    if unknown:
        supported = ", ".join(sorted(table.FEATURES))
        raise CommandError(f"Unsupported feature: {unknown[0]}. Supported features are: {supported}")
    level = given.get(table.METADATA_VERSION)
    if level is None:
        level = table.metadata_level(args.release_version)
    elif level not in table.METADATA_LEVELS.values():
        raise CommandError(f"No feature:{table.METADATA_VERSION} with feature level {level}")
    if level is None:
        raise CommandError(_unknown_release(args.release_version))
    for name, number in given.items():
        if name != table.METADATA_VERSION and not 0 <= number <= table.FEATURES[name].highest:
            raise CommandError(f"No feature:{name} with feature level {number}")
    return {table.METADATA_VERSION: level, **table.default_levels(level), **given}


def _unknown_release(release: str) -> str:
    from kafkatools.core.broker.metadata.feature_levels import METADATA_LEVELS

    return f"Unknown metadata.version '{release}'. Supported metadata.version are: {', '.join(METADATA_LEVELS)}"


def _feature(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not equals:
        raise CommandError(f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        return name.strip(), int(level)
    except ValueError:
        problem = f"unable to parse {level.strip()} as a short."
        raise CommandError(f"Can't parse feature=level string {text}: {problem}") from None


def _check_quorum(args: Args, settings: Mapping[str, str], levels: Mapping[str, int], is_dynamic: bool) -> None:
    """Raise CommandError if the voters come from neither or from both of controller.quorum.voters and the flags."""
    static = bool(settings.get("controller.quorum.voters"))
    if static and (args.standalone or args.initial_controllers):
        raise CommandError(_VOTERS_AND_DYNAMIC)
    if "controller" in settings["process.roles"] and not static and not is_dynamic:
        raise CommandError(_NO_VOTERS)
    if not any(text.startswith("kraft.version=") for text in args.feature):
        return
    if levels["kraft.version"] > 0 and not is_dynamic:
        raise CommandError(_KRAFT_VERSION_1)
    if levels["kraft.version"] == 0 and is_dynamic:
        raise CommandError(_KRAFT_VERSION_0)


def _controller_listener(settings: Mapping[str, str]) -> str:
    return settings.get("controller.listener.names", "CONTROLLER").split(",")[0].strip()


def _voters(args: Args, settings: Mapping[str, str]) -> list[Voter]:
    if args.initial_controllers is not None:
        return [_voter(text.strip()) for text in args.initial_controllers.split(",")]
    if not args.standalone:
        return []
    if "controller" not in settings["process.roles"]:
        raise CommandError("You can only use --standalone on a controller.")
    from kafkatools.core.broker.metadata.formatter import Voter, random_uuid

    host, port = _controller_endpoint(settings)
    return [Voter(int(settings["node.id"]), host, port, random_uuid())]


def _controller_endpoint(settings: Mapping[str, str]) -> tuple[str, int]:
    """Return host and port of the controller's listener, from advertised.listeners if it is there, else from
    listeners."""
    name = _controller_listener(settings)
    for key in ("advertised.listeners", "listeners"):
        for listener in settings.get(key, "").split(","):
            label, separator, address = listener.strip().partition("://")
            host, colon, port = address.rpartition(":")
            if separator and label == name and colon and port.isdecimal():
                return host.strip("[]") or "localhost", int(port)
    raise CommandError(f"Neither advertised.listeners nor listeners has a listener named {name}")


def _voter(text: str) -> Voter:
    """Parse `1@localhost:9093:AAAAAAAAAAAAAAAAAAAAAw` (DynamicVoter.of, with its messages)."""
    from kafkatools.core.broker.metadata.formatter import Voter

    node_id, at, rest = text.partition("@")
    if not at:
        raise CommandError("No @ found in dynamic voter string.")
    try:
        node = int(node_id)
    except ValueError:
        raise CommandError(f"Failed to parse node id in dynamic voter string: {node_id}") from None
    host, colon, rest = _split_host(rest)
    if not colon:
        raise CommandError("No colon following hostname could be found.")
    port, colon, directory_id = rest.partition(":")
    if not colon:
        raise CommandError("No colon following port could be found.")
    if not port.isdecimal() or int(port) > 65535:
        raise CommandError(f"Failed to parse port in dynamic voter string: {port}")
    if not _is_uuid(directory_id):
        raise CommandError(f"Failed to parse directory ID in dynamic voter string: {directory_id}")
    return Voter(node, host, int(port), directory_id)


def _split_host(text: str) -> tuple[str, str, str]:
    """Split a text into host, `:` and the rest. An IPv6 address is in brackets."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise CommandError("Hostname began with left bracket, but no right bracket was found.")
        return host, rest[:1], rest[1:]
    host, colon, rest = text.partition(":")
    return host, colon, rest


def run_version_mapping(console: Console, args: Args) -> ExitStatus:
    """Run kt storage version-mapping: print the feature levels of a release. Raises CommandError for an unknown one."""
    from kafkatools.core.broker.metadata.feature_levels import metadata_level
    from kafkatools.tools.feature_levels import release_levels

    level = metadata_level(args.release_version)
    if level is None:
        raise CommandError(_unknown_release(args.release_version))
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
            number = int(level)
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
    _RELEASE,
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
