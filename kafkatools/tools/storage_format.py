"""Read what kt storage format is to format: server.properties and the options, checked with StorageTool's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.broker.metadata import feature_levels as table
from kafkatools.core.broker.metadata.formatter import FormatRequest, Voter, bootstrap_records, random_uuid
from kafkatools.core.broker.metadata.scram_credentials import parse_credential
from kafkatools.core.protocol.definitions import camel_case
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.uuids import uuid_from_text
from kafkatools.exit_status import CommandError

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
    "Cannot set kraft.version to 1 unless controller.quorum.voters is empty and one of the flags --standalone, "
    "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try using one of "
    "--standalone, --initial-controllers, or --no-initial-controllers and removing controller.quorum.voters."
)
_KRAFT_VERSION_0 = (
    "Cannot set kraft.version to 0 if one of the flags --standalone, --initial-controllers, or "
    "--no-initial-controllers is used. For static controllers support, try removing the flag."
)


class FormatOptions(NamedTuple):
    """The options of kt storage format that decide what is written."""

    cluster_id: str
    release_version: str
    feature: Sequence[str] = ()
    add_scram: Sequence[str] = ()
    initial_controllers: str | None = None
    standalone: bool = False
    no_initial_controllers: bool = False
    ignore_formatted: bool = False


def log_directories(settings: Mapping[str, str]) -> list[str]:
    """Return the directories of log.dirs or log.dir, with Kafka's default without them."""
    text = settings.get("log.dirs") or settings.get("log.dir") or _DEFAULT_LOG_DIR
    return [name.strip() for name in text.split(",") if name.strip()]


def format_request(options: FormatOptions, settings: Mapping[str, str]) -> FormatRequest:
    """Return what to format, from the options and server.properties. Raises CommandError or ScramSyntaxError."""
    levels = _levels(options)
    voters = _voters(options, settings)
    _check_quorum(options, settings, levels)
    directories = log_directories(settings)
    return FormatRequest(
        cluster_id=options.cluster_id,
        node_id=int(settings["node.id"]),
        directories=directories,
        metadata_directory=settings.get("metadata.log.dir") or directories[0],
        levels=levels,
        credentials=[parse_credential(text) for text in options.add_scram],
        voters=voters,
        controller_listener=_controller_listener(settings),
        ignore_formatted=options.ignore_formatted,
    )


def _levels(options: FormatOptions) -> dict[str, int]:
    """Return the levels of all features: --feature over the defaults of --release-version. Raises CommandError for an
    unknown release, feature or level."""
    requested_levels = dict(map(_feature, options.feature))
    unknown = [name for name in requested_levels if name not in table.FEATURES and name != table.METADATA_VERSION]
    if unknown:
        supported = ", ".join(sorted(table.FEATURES))
        raise CommandError(f"Unsupported feature: {unknown[0]}. Supported features are: {supported}")
    level = requested_levels.get(table.METADATA_VERSION)
    if level is None:
        level = table.metadata_level(options.release_version)
    elif level not in table.METADATA_LEVELS.values():
        raise CommandError(f"No feature:{table.METADATA_VERSION} with feature level {level}")
    if level is None:
        raise CommandError(unknown_release(options.release_version))
    for name, number in requested_levels.items():
        if name != table.METADATA_VERSION and not 0 <= number <= table.FEATURES[name].highest:
            raise CommandError(f"No feature:{name} with feature level {number}")
    return {table.METADATA_VERSION: level, **table.default_levels(level), **requested_levels}


def unknown_release(release: str) -> str:
    """Return Kafka's message for a release that is not known."""
    return f"Unknown metadata.version '{release}'. Supported metadata.version are: {', '.join(table.METADATA_LEVELS)}"


def _feature(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not equals:
        raise CommandError(f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        return name.strip(), int(level)
    except ValueError:
        problem = f"unable to parse {level.strip()} as a short."
        raise CommandError(f"Can't parse feature=level string {text}: {problem}") from None


def _check_quorum(options: FormatOptions, settings: Mapping[str, str], levels: Mapping[str, int]) -> None:
    """Raise CommandError if a controller's voters come from neither controller.quorum.voters nor a flag, or a node's
    from both. Also if an explicit kraft.version contradicts the flags."""
    is_dynamic = options.standalone or options.no_initial_controllers or options.initial_controllers is not None
    static = bool(settings.get("controller.quorum.voters"))
    if static and (options.standalone or options.initial_controllers):
        raise CommandError(_VOTERS_AND_DYNAMIC)
    if "controller" in settings["process.roles"] and not static and not is_dynamic:
        raise CommandError(_NO_VOTERS)
    if not any(text.startswith("kraft.version=") for text in options.feature):
        return
    if levels["kraft.version"] > 0 and not is_dynamic:
        raise CommandError(_KRAFT_VERSION_1)
    if levels["kraft.version"] == 0 and is_dynamic:
        raise CommandError(_KRAFT_VERSION_0)


def _voters(options: FormatOptions, settings: Mapping[str, str]) -> list[Voter]:
    if options.initial_controllers is not None:
        return [_voter(text.strip()) for text in options.initial_controllers.split(",")]
    if not options.standalone:
        return []
    if "controller" not in settings["process.roles"]:
        raise CommandError("You can only use --standalone on a controller.")
    host, port = _controller_endpoint(settings)
    return [Voter(int(settings["node.id"]), host, port, random_uuid())]


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
            if separator and label == name and colon and port.isdecimal():
                return host.strip("[]") or "localhost", int(port)
    raise CommandError(f"Neither advertised.listeners nor listeners has a listener named {name}")


def _voter(text: str) -> Voter:
    """Parse `1@localhost:9093:AAAAAAAAAAAAAAAAAAAAAw`. Raises CommandError with the messages of DynamicVoter.of."""
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
    if not is_uuid(directory_id):
        raise CommandError(f"Failed to parse directory ID in dynamic voter string: {directory_id}")
    return Voter(node, host, int(port), directory_id)


def _split_host(text: str) -> tuple[str, str, str]:
    """Split a text into host, `:` and the rest; the last two are empty without a colon. An IPv6 address is in brackets.
    Raises CommandError for a missing right bracket."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise CommandError("Hostname began with left bracket, but no right bracket was found.")
        return host, rest[:1], rest[1:]
    host, colon, rest = text.partition(":")
    return host, colon, rest


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
