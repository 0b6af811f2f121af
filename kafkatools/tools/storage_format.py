"""Read what kt storage format is to format: server.properties and the options, checked with StorageTool's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from kafkatools.core.broker.metadata import feature_levels as table
from kafkatools.core.broker.metadata.formatter import FormatRequest, Voter, bootstrap_records, random_uuid
from kafkatools.core.broker.metadata.scram_credentials import parse_credential
from kafkatools.core.config import BROKER
from kafkatools.core.errors import ConfigError
from kafkatools.core.protocol.definitions import camel_case
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.uuids import uuid_from_text
from kafkatools.exit_status import CommandError
from kafkatools.java_numbers import java_int, java_short

_CONFIG_ERROR = "CONFIG_ERROR"
_DEFAULT_LOG_DIR = "/tmp/kafka-logs"  # nosec B108
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
    "Cannot set kraft.version to {level} unless controller.quorum.voters is empty and one of the flags --standalone, "
    "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try using one of "
    "--standalone, --initial-controllers, or --no-initial-controllers and removing controller.quorum.voters."
)
_KRAFT_VERSION_0 = (
    "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags --standalone, "
    "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try removing the "
    "--feature flag for kraft.version."
)
_SCRAM_RELEASE = "3.5-IV2"


class FormatOptions(NamedTuple):
    """The options of kt storage format that decide what is written. `release_version`: None for the latest."""

    cluster_id: str
    release_version: str | None
    feature: Sequence[str] = ()
    add_scram: Sequence[str] = ()
    initial_controllers: str | None = None
    standalone: bool = False
    no_initial_controllers: bool = False
    ignore_formatted: bool = False


def meta_properties(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the values that Kafka reads from a meta.properties file. Raises ValueError with Kafka's message for a
    missing or invalid one (MetaProperties)."""
    text = stored.get("version", "0")
    try:
        version = str(java_int(text.strip()))
    except ValueError:
        raise ValueError(f"Invalid meta.properties version string '{text}'") from None
    if version not in ("0", "1"):
        raise ValueError(f"Unknown meta.properties version number {version}")
    id_name = "node.id" if version == "1" else "broker.id"
    if version == "1" and id_name not in stored:
        raise ValueError(f"Failed to find {id_name}")
    values = {"version": version} | {name: stored[name] for name in ("cluster.id", "directory.id") if name in stored}
    try:
        if id_name in stored:
            values[id_name] = str(java_int(stored[id_name]))
    except ValueError:
        raise ValueError(f"Unable to read {id_name} as a base-10 number.") from None
    try:
        if "directory.id" in stored:
            uuid_from_text(stored["directory.id"])
    except ValueError as error:
        raise ValueError(f"Unable to read directory.id as a Uuid: {error}") from None
    if version == "1" and "cluster.id" not in stored:
        raise ValueError("cluster.id was not found.")
    return values


def log_directories(settings: Mapping[str, str]) -> list[str]:
    """Return the directories of log.dirs or log.dir, with Kafka's default without them."""
    text = settings.get("log.dirs") or settings.get("log.dir") or _DEFAULT_LOG_DIR
    return [name.strip() for name in text.split(",") if name.strip()]


def format_request(options: FormatOptions, settings: Mapping[str, str]) -> FormatRequest:
    """Return what to format, from the options and server.properties. Raises CommandError or ScramSyntaxError."""
    node = _node(settings)
    release_level = None if options.release_version is None else _release_level(options.release_version)
    requested_levels = dict(map(_feature, options.feature))
    has_static_voters = bool(settings.get("controller.quorum.voters"))
    _check_quorum(options, node, has_static_voters=has_static_voters)
    voters = _voters(options, settings, node)
    levels = _levels(release_level, requested_levels, has_static_voters=has_static_voters)
    if options.add_scram and levels[table.METADATA_VERSION] < table.METADATA_LEVELS[_SCRAM_RELEASE]:
        raise CommandError(f"SCRAM is only supported in {table.METADATA_VERSION} {_SCRAM_RELEASE} or later.")
    return FormatRequest(
        cluster_id=options.cluster_id,
        node_id=node.node_id,
        directories=node.directories,
        metadata_directory=settings.get("metadata.log.dir") or node.directories[0],
        levels=levels,
        credentials=[parse_credential(text) for text in options.add_scram],
        voters=voters,
        controller_listener=_controller_listener(settings),
        ignore_formatted=options.ignore_formatted,
    )


class _Node(NamedTuple):
    """The node whose directories are formatted: values of node.id, process.roles, and log.dirs or log.dir."""

    node_id: int
    roles: Sequence[str]
    directories: Sequence[str]


def _node(settings: Mapping[str, str]) -> _Node:
    """Parse the settings of the node. Raises CommandError with the message of ConfigDef for an invalid node.id or
    process.roles, and if log.dirs names no directory."""
    try:
        node_id = int(str(BROKER["node.id"].parse(settings["node.id"])))
        roles = cast("tuple[str, ...]", BROKER["process.roles"].parse(settings["process.roles"]))
    except ConfigError as error:
        raise CommandError(str(error), kind=_CONFIG_ERROR) from None
    if not roles:
        message = "Configuration 'process.roles' must not be empty. Valid values include: [broker, controller]"
        raise CommandError(message, kind=_CONFIG_ERROR)
    directories = log_directories(settings)
    if not directories:
        raise CommandError("log.dirs names no directory", kind=_CONFIG_ERROR)
    return _Node(node_id, roles, directories)


def _levels(release_level: int | None, requested: Mapping[str, int], *, has_static_voters: bool) -> dict[str, int]:
    """Return the levels of all features: those of --feature over the defaults of the release
    (Formatter.calculateEffectiveFeatureLevels). Raises CommandError for an unknown or contradictory level."""
    level = _metadata_level(release_level, requested)
    unknown = [name for name in sorted(requested) if name not in table.FEATURES and name != table.METADATA_VERSION]
    if unknown:
        supported = ", ".join(sorted(table.FEATURES))
        raise CommandError(f"Unsupported feature: {unknown[0]}. Supported features are: {supported}")
    kraft_version = requested.get("kraft.version")
    if kraft_version == 0 and not has_static_voters:
        raise CommandError(_KRAFT_VERSION_0)
    if kraft_version and has_static_voters:
        raise CommandError(_KRAFT_VERSION_1.format(level=kraft_version))
    levels = {table.METADATA_VERSION: level, **table.default_levels(level), **requested}
    for name, number in sorted(requested.items()):
        if name == table.METADATA_VERSION:
            continue
        if not 0 <= number <= table.FEATURES[name].highest:
            raise CommandError(f"No feature:{name} with feature level {number}")
        for required_name, lowest in table.required_levels(name, number).items():
            if levels[required_name] < lowest:
                needs = f"it depends on {required_name} level {lowest}"
                raise CommandError(f"{name} could not be set to {number} because {needs}")
    return levels


def _metadata_level(release_level: int | None, requested: Mapping[str, int]) -> int:
    """Return the metadata.version of --release-version or --feature, else the latest. Raises CommandError for both, and
    for an unknown or unstable level."""
    known = table.METADATA_LEVELS.values()
    level = requested.get(table.METADATA_VERSION)
    if level is None:
        return max(known) if release_level is None else release_level
    if release_level is not None:
        option = f"--feature {table.METADATA_VERSION}=X"
        raise CommandError(f"Use --release-version instead of {option} to avoid ambiguity.")
    for release, number in table.UNSTABLE_LEVELS.items():
        if level == number:
            raise CommandError(f"{table.METADATA_VERSION} {release} is not yet stable.")
    if level not in known:
        valid = f"Valid feature levels are from {min(known)} to {max(table.UNSTABLE_LEVELS.values())}."
        raise CommandError(f"No MetadataVersion with feature level {level}. {valid}")
    return level


def _release_level(release: str) -> int:
    """Return the metadata.version of a release. Raises CommandError for an unknown one."""
    level = table.metadata_level(release)
    if level is None:
        raise CommandError(unknown_release(release))
    return level


def unknown_release(release: str) -> str:
    """Return Kafka's message for a release that is not known."""
    return f"Unknown metadata.version '{release}'. Supported metadata.version are: {', '.join(table.METADATA_LEVELS)}"


def _feature(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not equals:
        raise CommandError(f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        return name.strip(), java_short(level.strip())
    except ValueError:
        problem = f"unable to parse {level.strip()} as a short."
        raise CommandError(f"Can't parse feature=level string {text}: {problem}") from None


def _check_quorum(options: FormatOptions, node: _Node, *, has_static_voters: bool) -> None:
    """Raise CommandError if a controller's voters come from neither controller.quorum.voters nor a flag, or a node's
    from both."""
    is_dynamic = options.standalone or options.no_initial_controllers or options.initial_controllers is not None
    if has_static_voters and (options.standalone or options.initial_controllers is not None):
        raise CommandError(_VOTERS_AND_DYNAMIC)
    if "controller" in node.roles and not has_static_voters and not is_dynamic:
        raise CommandError(_NO_VOTERS)


def _voters(options: FormatOptions, settings: Mapping[str, str], node: _Node) -> list[Voter]:
    """Return the voters of a new dynamic quorum (DynamicVoters.parse). Raises CommandError."""
    if options.initial_controllers is not None:
        voters = [_voter(text.strip()) for text in options.initial_controllers.strip().split(",") if text]
        if not voters:
            raise CommandError("No voters given.")
        ids = [voter.node_id for voter in voters]
        for node_id in ids:
            if ids.count(node_id) > 1:
                raise CommandError(f"Node id {node_id} was specified more than once.")
        return voters
    if not options.standalone:
        return []
    if "controller" not in node.roles:
        raise CommandError("You can only use --standalone on a controller.")
    host, port = _controller_endpoint(settings)
    return [Voter(node.node_id, host, port, random_uuid())]


def _controller_listener(settings: Mapping[str, str]) -> str:
    return settings.get("controller.listener.names", "CONTROLLER").split(",")[0].strip().upper()


def _controller_endpoint(settings: Mapping[str, str]) -> tuple[str, int]:
    """Return host and port of the controller's listener, from advertised.listeners if it is there, else from listeners.
    Raises CommandError if it is in neither."""
    name = _controller_listener(settings)
    for key in ("advertised.listeners", "listeners"):
        for listener in settings.get(key, "").split(","):
            label, separator, address = listener.strip().partition("://")
            host, colon, port = address.rpartition(":")
            if separator and label.upper() == name and colon and port.isdecimal():
                return host.strip("[]") or "localhost", _checked_port(int(port))
    raise CommandError(f"Neither advertised.listeners nor listeners has a listener named {name}")


def _voter(text: str) -> Voter:
    """Parse `1@localhost:9093:AAAAAAAAAAAAAAAAAAAAAw`. Raises CommandError with the messages of DynamicVoter.parse."""
    node_id, at, rest = text.partition("@")
    if not at:
        raise CommandError("No @ found in dynamic voter string.")
    if not node_id:
        raise CommandError("Invalid @ at beginning of dynamic voter string.")
    try:
        node = java_int(node_id)
    except ValueError:
        raise CommandError(f"Failed to parse node id in dynamic voter string: {node_id}") from None
    if node < 0:
        raise CommandError(f"Invalid negative node id {node} in dynamic voter string.")
    host, rest = _split_host(rest)
    port_text, colon, directory_id = rest.partition(":")
    if not colon:
        raise CommandError("No colon following port could be found.")
    try:
        port = java_int(port_text)
    except ValueError:
        raise CommandError(f"Failed to parse port in dynamic voter string: {port_text}") from None
    _checked_port(port)
    if not is_uuid(directory_id):
        raise CommandError(f"Failed to parse directory ID in dynamic voter string: {directory_id}")
    return Voter(node, host, port, directory_id)


def _checked_port(port: int) -> int:
    if not 0 <= port <= 65535:
        raise CommandError(f"Invalid port {port} in dynamic voter string.")
    return port


def _split_host(text: str) -> tuple[str, str]:
    """Split the part behind `@` into the host and the text behind its colon. An IPv6 address is in brackets. Raises
    CommandError."""
    if not text:
        raise CommandError("No hostname found after node id.")
    if not text.startswith("["):
        host, colon, rest = text.partition(":")
        if not colon:
            raise CommandError("No colon following hostname could be found.")
        return host, rest
    host, bracket, rest = text[1:].partition("]")
    if not bracket:
        raise CommandError("Hostname began with left bracket, but no right bracket was found.")
    if not rest.startswith(":"):
        raise CommandError("Port section must start with a colon.")
    return host, rest[1:]


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID other than zero in Kafka's base64 form."""
    try:
        return len(text) == 22 and bool(uuid_from_text(text))
    except ValueError:
        return False


def announcement(request: FormatRequest) -> str:
    """Return the line that Kafka prints before it formats: the bootstrap records in Java's toString form."""
    records = ", ".join(
        f"ApiMessageAndVersion({_java_text(record)} at version {record.__version__})"
        for record in bootstrap_records(request)
    )
    level = request.levels[table.METADATA_VERSION]
    metadata = f"records=[{records}], metadataVersionLevel={level}, source=format command"
    return f"Bootstrap metadata: BootstrapMetadata({metadata})"


def _java_text(record: Entity) -> str:
    """Return the Java toString of a generated message: camelCase fields, bytes as a list of signed numbers."""
    fields = []
    for field in record.__fields__:
        value = getattr(record, field.name)
        if isinstance(value, bytes):
            text = "[" + ", ".join(str(byte - 256 if byte > 127 else byte) for byte in value) + "]"
        else:
            text = f"'{value}'" if isinstance(value, str) else str(value)
        fields.append(f"{camel_case(field.name)}={text}")
    return f"{record.__schema__.name}({', '.join(fields)})"
