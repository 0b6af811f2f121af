"""kt configs --describe, in the format of kafka.admin.ConfigCommand.describeConfig or as JSON, one object per entity.

An entity that does not exist is named on stderr, with exit status 1. Quotas are printed in the order of Kafka's
HashMap, so that the text equals that of Kafka's tool.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from kafkatools.commands.configs.entities import check_topic_name
from kafkatools.console import Console
from kafkatools.core.admin import configs
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.admin.configs import ConfigEntry, describe_configs
from kafkatools.core.admin.groups import list_groups
from kafkatools.core.admin.quotas import Entity, describe_client_quotas
from kafkatools.core.admin.scram import describe_user_scram_credentials
from kafkatools.core.admin.topics import list_topics
from kafkatools.core.errors import UnsupportedVersion
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import string_hash
from kafkatools.core.java.text import java_double
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.tools.configs import entities as kinds
from kafkatools.tools.configs.entities import Entities, entity_words, own_source, quota_filter, resource_type, singular


def describe(console: Console, args: Args, admin: AdminClient, entities: Entities) -> ExitStatus:
    """Print the settings of entities. Returns FAILED when an entity does not exist or cannot be described."""
    if entities.kind in (kinds.USERS, kinds.CLIENTS, kinds.IPS):
        _describe_quotas(console, args, admin, entities)
        if kinds.CLIENTS not in entities.types and kinds.IPS not in entities.types and "" not in entities.names:
            return _describe_scram(console, args, admin, entities.names)
        return ExitStatus.OK
    return _describe_resources(console, args, admin, entities)


def _describe_resources(console: Console, args: Args, admin: AdminClient, entities: Entities) -> ExitStatus:
    kind, name = entities.kind, entities.name
    if name is None:
        names = _NAME_LISTS[kind](admin)
    else:
        if kind == kinds.TOPICS:
            check_topic_name(name)
        if not args.all and not (kind == kinds.BROKERS and name == "") and name not in _NAME_LISTS[kind](admin):
            console.error(f"The {singular(kind)} '{name}' doesn't exist and doesn't have dynamic config.")
            return ExitStatus.FAILED
        names = [name]
    number = resource_type(kind)
    configs = describe_configs(admin, [(number, entity_name) for entity_name in names], include_synonyms=True)
    status = ExitStatus.OK
    for entity_name in names:
        result = configs[number, entity_name]
        if result.error is not None:
            console.error(f"{singular(kind)} {entity_name}: {result.error}" if name is None else str(result.error))
            status = ExitStatus.FAILED
            continue
        source = None if args.all else own_source(kind, entity_name)
        entries = sorted(
            (entry for entry in result.entries if source is None or entry.source == source),
            key=lambda entry: entry.name,
        )
        _show_resource(console, args, kind, entity_name, entries)
    return status


def _brokers(admin: AdminClient) -> list[str]:
    return [*(str(node.id) for node in describe_cluster(admin).nodes), ""]


def _groups(admin: AdminClient) -> list[str]:
    names = [] if admin.through_controllers else [group.group_id for group in list_groups(admin).groups]
    with contextlib.suppress(UnsupportedVersion):  # before 4.1 only groups that exist can be found
        names += configs.list_config_resources(admin, configs.GROUP)
    return list(dict.fromkeys(names))


_NAME_LISTS: Mapping[str, Callable[[AdminClient], list[str]]] = {
    kinds.TOPICS: lambda admin: hash_order(listing.name for listing in list_topics(admin)),
    kinds.BROKERS: _brokers,
    kinds.BROKER_LOGGERS: _brokers,
    kinds.CLIENT_METRICS: lambda admin: configs.list_config_resources(admin, configs.CLIENT_METRICS),
    kinds.GROUPS: _groups,
}


def _show_resource(console: Console, args: Args, kind: str, name: str, entries: Sequence[ConfigEntry]) -> None:
    if args.json:
        rows = [
            {
                "name": entry.name,
                "value": entry.value,
                "source": entry.source_name,
                "sensitive": entry.is_sensitive,
                "read_only": entry.is_read_only,
                "synonyms": [
                    {"name": synonym.name, "value": synonym.value, "source": synonym.source_name}
                    for synonym in entry.synonyms
                ],
            }
            for entry in entries
        ]
        console.print_json({"entity": {singular(kind): name or None}, "configs": rows})
        return
    if kind == kinds.BROKERS and not name:
        console.print(f"Default configs for {kind} in the cluster are:")
    else:
        console.print(f"{'All' if args.all else 'Dynamic'} configs for {singular(kind)} {name} are:")
    for entry in entries:
        synonyms = ", ".join(
            f"{synonym.source_name}:{synonym.name}={_null(synonym.value)}" for synonym in entry.synonyms
        )
        sensitive = str(entry.is_sensitive).lower()
        console.print(f"  {entry.name}={_null(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def _null(value: str | None) -> str:
    return "null" if value is None else value


def _describe_quotas(console: Console, args: Args, admin: AdminClient, entities: Entities) -> None:
    quotas = {quota.entity: quota.values for quota in describe_client_quotas(admin, quota_filter(entities))}
    for entity in hash_order(quotas, _entity_hash, len(quotas)):
        values = quotas[entity]
        order = hash_order(values, capacity=len(values))
        text = ", ".join(f"{key}={java_double(values[key])}" for key in order)
        row = {"entity": dict(entity), "quotas": dict(sorted(values.items()))}
        console.print(f"Quota configs for {entity_words(entity)} are {text}", row)


def _entity_hash(entity: Entity) -> int:
    """Return ClientQuotaEntity.hashCode: Objects.hash of the hash of its map."""
    of_map = sum(string_hash(kind) ^ (0 if name is None else string_hash(name)) for kind, name in entity)
    return (31 + of_map) & 0xFFFFFFFF


def _describe_scram(console: Console, args: Args, admin: AdminClient, users: Sequence[str]) -> ExitStatus:
    status = ExitStatus.OK
    for credentials in describe_user_scram_credentials(admin, users):
        if credentials.error is not None:
            status = ExitStatus.FAILED
            text = f"Error retrieving SCRAM credential configs for user-principal '{credentials.user}'"
            console.error(f"{text}: {credentials.error}")
        else:
            scram = {mechanism: {"iterations": count} for mechanism, count in credentials.iterations.items()}
            text = ", ".join(f"{mechanism}=iterations={count}" for mechanism, count in credentials.iterations.items())
            row = {"entity": {"user": credentials.user}, "scram": scram}
            console.print(f"SCRAM credential configs for user-principal '{credentials.user}' are {text}", row)
    return status
