"""Undo files of kt configs, as --undo-file writes and --from-file reads them: lines of JSON, `{"entity": {"topic":
"orders"}, "set": {"retention.ms": "60000"}, "delete": ["cleanup.policy"]}`.

Entities are named as in the JSON of --describe. Errors name the line, and are raised before a broker is contacted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kafkatools.commands.configs.alter import IP_QUOTAS, USER_QUOTAS
from kafkatools.commands.configs.entities import WITH_DEFAULTS, check_topic_name
from kafkatools.core.json_values import JsonValue
from kafkatools.options import java_int
from kafkatools.tools.configs.changes import RequestedConfigs, Value
from kafkatools.tools.configs.entities import (
    BROKER_LOGGERS,
    BROKERS,
    IPS,
    QUOTA_KINDS,
    TOPICS,
    Entities,
    entity_types_by_word,
    words_of,
)
from kafkatools.tools.undo_files import read_changes

_KEYS = ("entity", "set", "delete")


def read_file(path: str) -> list[tuple[Entities, RequestedConfigs]]:
    """Read the changes of each entity from a file. Raises OSError, or CommandError that names the line of a mistake."""
    changes: dict[Entities, RequestedConfigs] = {}

    def add(line: JsonValue) -> None:
        entities, requested = _change(line)
        if entities in changes:
            raise ValueError(f"{words_of(entities)} is already in an earlier line")
        changes[entities] = requested

    read_changes(path, add)
    return list(changes.items())


def _change(line: JsonValue) -> tuple[Entities, RequestedConfigs]:
    """Parse one line of an undo file of kt configs. Raises ValueError or UsageError."""
    if not isinstance(line, dict):
        raise ValueError("the line is not a JSON object")
    missing = [key for key in _KEYS if key not in line]
    if missing:
        raise ValueError(f"the JSON object lacks the keys {', '.join(missing)}")
    unknown = [key for key in line if key not in _KEYS]
    if unknown:
        raise ValueError(f"unknown keys: {', '.join(unknown)}")
    entities = _entities(line["entity"])
    deleted, values = line["delete"], line["set"]
    if not isinstance(deleted, list) or not all(isinstance(name, str) and name for name in deleted):
        raise ValueError("delete must be a list of names")
    if not isinstance(values, dict):
        raise ValueError("set must be an object")
    conflicts = [name for name in deleted if name in values]
    if conflicts:
        raise ValueError(f'{conflicts[0]} is in both "set" and "delete"; remove it from one')
    if entities.kind in QUOTA_KINDS:
        quotas = IP_QUOTAS if entities.kind == IPS else USER_QUOTAS
        unknown_quotas = [name for name in (*values, *deleted) if name not in quotas]
        if unknown_quotas:
            raise ValueError(f"{unknown_quotas[0]} is not a quota; quotas are {', '.join(quotas)}")
    requested: list[tuple[str, Value | None]] = [(name, None) for name in dict.fromkeys(deleted)]
    return entities, [*requested, *((name, _value(entities, name, value)) for name, value in values.items())]


def _value(entities: Entities, name: str, value: JsonValue) -> Value:
    if entities.kind not in QUOTA_KINDS:
        if not isinstance(value, str):
            raise ValueError(f"the value of {name} must be a string")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"the value of {name} must be a number")
    return float(value)


def _entities(entity: JsonValue) -> Entities:
    types = entity_types_by_word()
    if not isinstance(entity, Mapping) or not entity:
        raise ValueError("entity must be an object with entity types and names")
    unknown = [word for word in entity if word not in types]
    if unknown:
        raise ValueError(f"unknown entity type {unknown[0]}; types are {', '.join(types)}")
    if len(entity) > 1 and set(entity) != {"user", "client-id"}:
        raise ValueError("only user and client-id can be combined")
    words = [word for word in types if word in entity]
    for word in words:
        name = entity[word]
        if name is None and types[word] in WITH_DEFAULTS:
            continue
        if not isinstance(name, str) or not name:
            raise ValueError(f"the name of the {word} must be a string that is not empty")
    entities = Entities(tuple(types[word] for word in words), tuple(str(entity[word] or "") for word in words))
    if entities.kind == TOPICS:
        check_topic_name(entities.names[0])
    if entities.kind in (BROKERS, BROKER_LOGGERS) and entities.names[0]:
        try:
            java_int(entities.names[0])
        except ValueError:
            raise ValueError(f"the name of a broker must be its id, not {entities.names[0]}") from None
    return entities
