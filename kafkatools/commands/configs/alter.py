"""kt configs --alter: what kafka.admin.ConfigCommand.alterConfig does.

Everything that can be wrong with the values is said before anything is changed. Passwords are never repeated: neither
in messages nor in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkatools.commands.configs.describe import quota_filter, quota_kind, resource_type
from kafkatools.commands.configs.entities import (
    BROKER_LOGGERS,
    BROKERS,
    CLIENTS,
    IPS,
    TOPICS,
    USERS,
    Entities,
    check_topic_name,
    singular,
)
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args
from kafkatools.options.patterns import java_map_order
from kafkatools.options.properties import read_properties

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.scram import ScramUpsertion

_OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"
_COMMA = re.compile("," + _OUTSIDE_BRACKETS)
_EQUALS = re.compile(r"\s*=\s*" + _OUTSIDE_BRACKETS)
_KEY = re.compile(r"[$a-zA-Z0-9._-]*")
_NOT_KEY_VALUE = (
    'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val" or  '
    '"key=[val1,val2]" to group values which contain commas.'
)
_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")
_USER_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
_IP_QUOTAS = ("connection_creation_rate",)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?", re.ASCII)
_TIMEOUT_MS = 30_000


def alter(console: Console, args: Args, admin: AdminClient, entities: Entities) -> ExitStatus:
    """Sets and removes what the command line says."""
    added, deleted = _added(args), _deleted(args)
    if entities.kind in (USERS, CLIENTS):
        _alter_user_or_client(admin, entities, added, deleted)
    elif entities.kind == IPS:
        unknown = [key for key in (*added, *deleted) if key not in _IP_QUOTAS]
        if unknown:
            raise UsageError(
                f"Only connection quota configs can be added for '{IPS}' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}"
            )
        _alter_quotas(admin, entities, added, deleted)
    else:
        _alter_resource(admin, entities, added, deleted)
    _report(console, args, entities)
    return ExitStatus.OK


def _report(console: Console, args: Args, entities: Entities) -> None:
    kind, name = entities.kind, entities.names[0]
    if args.json:
        from kafkatools.output import json_line

        if kind in (USERS, CLIENTS, IPS):
            names = {quota_kind(each): one or None for each, one in zip(entities.types, entities.names, strict=True)}
        else:
            names = {singular(kind): name or None}
        console.print(json_line({"entity": names, "altered": True}))
    elif name:
        console.print(f"Completed updating config for {singular(kind)} {name}.")
    else:
        console.print(f"Completed updating default config for {kind} in the cluster.")


def _added(args: Args) -> dict[str, str]:
    """--add-config or --add-config-file, in the order in which Kafka's tool goes through them."""
    added: dict[str, str] = read_properties(args.add_config_file) if args.add_config_file is not None else {}
    if args.add_config is not None:
        parts = _COMMA.split(args.add_config)
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        for part in parts:
            pair = _EQUALS.split(part)
            if len(pair) != 2:
                raise UsageError(_NOT_KEY_VALUE)
            added[pair[0].strip()] = pair[1].replace("[", "").replace("]", "").strip()
    for key in added:
        if not _KEY.fullmatch(key):
            raise UsageError(f"Invalid character found for config key: {key}")
    return {key: added[key] for key in java_map_order(added)}


def _deleted(args: Args) -> list[str]:
    return [] if args.delete_config is None else [name.strip() for name in args.delete_config.split(",")]


def _alter_resource(admin: AdminClient, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    from kafkatools.core.admin.configs import DELETE, ConfigChange, incremental_alter_configs

    kind, name = entities.kind, entities.names[0]
    if kind == TOPICS:
        check_topic_name(name)
    if kind in (BROKERS, BROKER_LOGGERS) and name:
        _ensure_broker(admin, name)
    if kind == BROKER_LOGGERS:
        _ensure_loggers(admin, name, [*deleted, *added])
    resource = (resource_type(kind), name)
    changes = [ConfigChange(key, "", DELETE) for key in deleted]
    changes += [ConfigChange(key, value) for key, value in added.items()]
    error = incremental_alter_configs(admin, {resource: changes}, timeout_ms=_TIMEOUT_MS)[resource]
    if error is not None:
        raise error


def _ensure_broker(admin: AdminClient, name: str) -> None:
    """A broker checks its settings itself, so it has to be there; Kafka's tool waits for it until a timeout."""
    from kafkatools.core.admin.cluster import describe_cluster

    brokers = [str(node.id) for node in describe_cluster(admin).nodes]
    if name not in brokers:
        raise CommandError(f"There is no broker {name}: the brokers are {', '.join(brokers)}")


def _ensure_loggers(admin: AdminClient, name: str, wanted: Sequence[str]) -> None:
    from kafkatools.core.admin.configs import BROKER_LOGGER, describe_configs

    found = describe_configs(admin, [(BROKER_LOGGER, name)])[BROKER_LOGGER, name]
    if found.error is not None:
        raise found.error
    known = {entry.name for entry in found.entries}
    invalid = [each for each in wanted if each not in known]
    if invalid:
        raise CommandError(f"Invalid broker logger(s): {','.join(invalid)}")


def _alter_user_or_client(
    admin: AdminClient, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    if entities.kind == CLIENTS or len(entities.types) == 2:
        _refuse_unknown(f"Only quota configs can be {{}} for '{CLIENTS}'", added, deleted, _USER_QUOTAS)
    else:
        known = (*_USER_QUOTAS, *_MECHANISMS)
        _refuse_unknown(f"Only quota and SCRAM credential configs can be {{}} for '{USERS}'", added, deleted, known)
        scram = [key for key in (*added, *deleted) if key in _MECHANISMS]
        if scram and "" in entities.names:
            raise UsageError(
                "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials "
                "using --bootstrap-server."
            )
        if scram and len(scram) < len(added) + len(deleted):
            raise UsageError(
                f"Cannot alter both quota and SCRAM credential configs simultaneously for '{USERS}' "
                "using --bootstrap-server."
            )
        if scram:
            _alter_scram(admin, entities.names[0], added, deleted)
            return
    _alter_quotas(admin, entities, added, deleted)


def _refuse_unknown(words: str, added: Iterable[str], deleted: Iterable[str], known: Sequence[str]) -> None:
    """Kafka's message names the collection in Scala's way: a set of what was to be added, a buffer of the rest."""
    for done, form, keys in (("added", "Set", added), ("deleted", "ArrayBuffer", deleted)):
        unknown = [key for key in keys if key not in known]
        if unknown:
            names = f"{form}({', '.join(unknown)})"
            raise UsageError(f"{words.format(done)} using --bootstrap-server. Unexpected config names: {names}")


def _alter_quotas(admin: AdminClient, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    from kafkatools.core.admin.quotas import alter_client_quotas, describe_client_quotas

    changes: dict[str, float | None] = {key: _quota(key, text) for key, text in added.items()}
    if deleted:
        found = describe_client_quotas(admin, quota_filter(entities))
        present = found[0].values if found else {}
        missing = [key for key in deleted if key not in present]
        if missing:
            raise CommandError(f"Invalid config(s): {','.join(missing)}")
    changes.update(dict.fromkeys(deleted))
    entity = tuple((quota_kind(kind), name or None) for kind, name in zip(entities.types, entities.names, strict=True))
    alter_client_quotas(admin, entity, changes)


def _quota(key: str, text: str) -> float:
    if not _NUMBER.fullmatch(text.strip()):
        raise UsageError(f"Cannot parse quota configuration value for {key}: {text}")
    return float(text.strip().rstrip("dDfF"))


def _alter_scram(admin: AdminClient, user: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    from kafkatools.core.admin.scram import alter_user_scram_credentials

    upsertions = [_credential(mechanism, text) for mechanism, text in added.items()]
    alter_user_scram_credentials(admin, user, upsertions, deleted)


def _credential(mechanism: str, text: str) -> ScramUpsertion:
    from kafkatools.core.admin.scram import DEFAULT_ITERATIONS, MIN_ITERATIONS, ScramUpsertion

    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        shown = re.sub(r"password=.*", "password=...", text)
        raise UsageError(f"Invalid credential property {mechanism.replace('-', '_')}={shown}")
    iterations = DEFAULT_ITERATIONS if match[1] in (None, "-1") else int(match[1] or 0)
    if iterations < MIN_ITERATIONS:
        message = f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for {mechanism}"
        raise UsageError(message)
    return ScramUpsertion(mechanism, iterations, match[2])
