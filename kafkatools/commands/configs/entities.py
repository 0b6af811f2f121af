"""The entities that the options of kt configs name, with the checks and messages of ConfigCommandOptions."""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.exit_status import UsageError
from kafkatools.options import Args, java_int
from kafkatools.options.connection import BOTH_SERVERS
from kafkatools.tools.configs.entities import (
    BROKER_LOGGERS,
    BROKERS,
    CLIENT_METRICS,
    CLIENTS,
    GROUPS,
    IPS,
    TOPICS,
    USERS,
    Entities,
)  # fmt: skip

ENTITY_TYPES = (TOPICS, CLIENTS, USERS, BROKERS, IPS, CLIENT_METRICS, GROUPS, BROKER_LOGGERS)
"""All entity types, in the order of Kafka's message."""

ENTITY_FLAGS = {
    "topic": TOPICS,
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker-logger": BROKER_LOGGERS,
    "ip": IPS,
    "client-metrics": CLIENT_METRICS,
    "group": GROUPS,
}
"""Options that name an entity, with their types, in Kafka's order."""

DEFAULT_FLAGS = {"client-defaults": CLIENTS, "user-defaults": USERS, "broker-defaults": BROKERS, "ip-defaults": IPS}
WITH_DEFAULTS = (USERS, CLIENTS, BROKERS, IPS)


def entities_of(args: Args) -> Entities:
    """Return the entities of a command line. Raises UsageError in Kafka's words."""
    flags = [(flag, kind) for flag, kind in (ENTITY_FLAGS | DEFAULT_FLAGS).items() if args.has_option(flag)]
    entity_names = iter(args.entity_name)
    names = [
        next(entity_names) if option == "entity-name" else ""
        for option in args.option_names()
        if option in ("entity-name", "entity-default")
    ]
    names += ["" if flag in DEFAULT_FLAGS else getattr(args, flag.replace("-", "_")) for flag, _ in flags]
    entities = Entities((*args.entity_type, *(kind for _, kind in flags)), tuple(names))
    _check_types(entities.types)
    if flags and any(args.has_option(name) for name in ("entity-name", "entity-type", "entity-default")):
        raise UsageError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    if args.bootstrap_server is not None and args.bootstrap_controller is not None:
        raise UsageError(BOTH_SERVERS)
    _check_names(entities)
    if args.describe:
        _check_describe(args, entities)
    else:
        _check_alter(args, entities)
    if len(entities.names) > len(entities.types):
        raise UsageError("More entity names specified than entity types")
    return entities


def _check_types(types: Sequence[str]) -> None:
    twice = [kind for position, kind in enumerate(types) if kind in types[:position]]
    if twice:
        raise UsageError(f"Duplicate entity type(s) specified: {','.join(twice)}")
    for kind in types:
        if kind not in ENTITY_TYPES:
            raise UsageError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(ENTITY_TYPES)} "
                "with a --bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        raise UsageError("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {USERS, CLIENTS}:
        raise UsageError(f"Only '{USERS}' and '{CLIENTS}' entity types may be specified together")


def _check_names(entities: Entities) -> None:
    for name in filter(None, entities.names):
        if BROKERS in entities.types or BROKER_LOGGERS in entities.types:
            try:
                java_int(name)
            except ValueError:
                message = f"The entity name for {entities.kind} must be a valid integer broker id, but it is: {name}"
                raise UsageError(message) from None
        elif IPS in entities.types:
            _check_address(entities.kind, name)


def _check_address(kind: str, name: str) -> None:
    from kafkatools.core.errors import NameResolutionFailed
    from kafkatools.core.net.addresses import resolve

    try:
        resolve(name, 0)
    except NameResolutionFailed:
        raise UsageError(
            f"The entity name for {kind} must be a valid IP or resolvable host, but it is: {name}"
        ) from None


def _check_describe(args: Args, entities: Entities) -> None:
    kinds = ",".join(entities.types)
    if args.entity_default and not any(kind in WITH_DEFAULTS for kind in entities.types):
        raise UsageError(f"--entity-default must not be specified with --describe of {kinds}")
    if BROKER_LOGGERS in entities.types and not any(entities.names):
        raise UsageError(f"An entity name must be specified with --describe of {kinds}")


def _check_alter(args: Args, entities: Entities) -> None:
    kinds = ",".join(entities.types)
    if any(kind in WITH_DEFAULTS for kind in entities.types):
        if not entities.names:
            raise UsageError(
                "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
            )
    elif not any(entities.names):
        raise UsageError(f"An entity name must be specified with --alter of {kinds}")
    if args.has_option("add-config") and args.has_option("add-config-file"):
        raise UsageError("Only one of --add-config or --add-config-file must be specified")
    if not any(args.has_option(name) for name in ("add-config", "add-config-file", "delete-config")):
        raise UsageError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    if len(entities.types) != len(entities.names):
        raise UsageError("An entity name must be specified for every entity type")


def check_topic_name(name: str) -> None:
    """Check a topic name with the messages of Topic.validate. Raises UsageError."""
    from kafkatools.core.topic_names import topic_name_problem

    problem = topic_name_problem(name)
    if problem is not None:
        raise UsageError(problem)
