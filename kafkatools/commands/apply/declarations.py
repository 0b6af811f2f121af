"""Parse the documents of `kt apply` to a Declaration. Every mistake is an error with file, line (YAML) and key path.

Unknown keys, wrong types and unknown names are errors, each with the closest name. Two declarations of the same thing
are an error that names both places. Whether a config exists is checked later, against the brokers' names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from kafkatools.core.topic_names import is_topic_name
from kafkatools.exit_status import CommandError
from kafkatools.options.hints import did_you_mean_name
from kafkatools.options.quantities import plain_settings
from kafkatools.tools.declared.documents import Node, invalid, read_documents
from kafkatools.tools.declared.model import (
    ACLS,
    ENTITIES,
    IP_QUOTAS,
    KINDS,
    QUOTAS,
    RESOURCES,
    TOPICS,
    USER_QUOTAS,
    USERS,
    Declaration,
    DeclaredCredential,
    DeclaredQuotas,
    DeclaredTopic,
    PasswordSource,
    Place,
    operation_word,
    ordered_entity,
)

T = TypeVar("T")
K = TypeVar("K")

_TOPIC_KEYS = ("partitions", "replication", "configs")
_MOST_PARTITIONS = 2**31 - 1
_MOST_REPLICAS = 32767
_TYPES = {bool: "true or false", int: "a whole number", str: "text", dict: "a table of keys", list: "a list"}


def read_files(paths: Iterable[str]) -> Declaration:
    """Read and merge files. Raises CommandError with exit status USAGE for the first mistake."""
    declaration = Declaration()
    for path in paths:
        for document in read_documents(path):
            sections = {TOPICS: _topics, ACLS: _acls, QUOTAS: _quotas, USERS: _users}
            for kind, node in keys_of(document, KINDS).items():
                declaration.kinds.add(kind)
                sections[kind](declaration, node)
    return declaration


# -- values --


def _typed(node: Node, kind: type[T]) -> T:
    """The value of a node, if it is of this type; a Boolean is no number. Raises CommandError."""
    value = node.value
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise node.error(f"must be {_TYPES[kind]}, not {_shown(value)}")
    return value


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a table of keys"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "empty"
    return f"'{value}'" if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def keys_of(node: Node, names: Iterable[str]) -> dict[str, Node]:
    """The items of a mapping whose keys must be among these names. Raises CommandError."""
    items: dict[str, Node] = _typed(node, dict)
    known = tuple(names)
    for key, item in items.items():
        if key not in known:
            keys = f"The keys are {', '.join(known)}." if len(known) < 12 else ""
            raise item.error(f"unknown key '{key}'", f"{did_you_mean_name(key, known)} {keys}".strip())
    return items


def _number(node: Node, least: int, most: int) -> int:
    number = _typed(node, int)
    if not least <= number <= most:
        raise node.error(f"must be from {least} to {most}, not {number}")
    return number


def _text(node: Node) -> str:
    text = _typed(node, str)
    if not text.strip():
        raise node.error("must not be empty")
    return text


def _texts(node: Node) -> list[tuple[str, Node]]:
    """The texts of a list, or a single text, each with its node. Raises CommandError."""
    nodes = node.value if isinstance(node.value, list) else [node]
    if not nodes:
        raise node.error("must not be empty")
    return [(_text(item), item) for item in nodes]


def _add(table: dict[K, T], key: K, value: T, what: str, place: Place, place_of: Callable[[T], Place]) -> None:
    """Add a declaration. Raises CommandError with both places if the key is declared already."""
    if key in table:
        raise invalid(f"{place}: {what} is already declared in {place_of(table[key])}")
    table[key] = value


# -- topics --


def _topics(declaration: Declaration, section: Node) -> None:
    for name, node in _typed(section, dict).items():
        if not is_topic_name(name):
            raise node.error(
                f"'{name}' is not a valid topic name",
                "A name has up to 249 letters, digits, dots, underscores or hyphens.",
            )
        _add(declaration.topics, name, _topic(name, node), f"topic {name}", node.place, lambda topic: topic.place)


def _topic(name: str, node: Node) -> DeclaredTopic:
    if node.value is None:  # a name without anything in YAML
        node = Node({}, node.place)
    _refuse_split_name(name, node)
    keys = keys_of(node, _TOPIC_KEYS)
    configs, places = _configs(keys["configs"]) if "configs" in keys else ({}, {})
    return DeclaredTopic(
        name,
        _number(keys["partitions"], 1, _MOST_PARTITIONS) if "partitions" in keys else None,
        _number(keys["replication"], 1, _MOST_REPLICAS) if "replication" in keys else None,
        configs,
        places,
        node.place,
    )


def _refuse_split_name(name: str, node: Node) -> None:
    """Raise CommandError for `[topics.a.b]` of TOML, which is a key b in topic a, not a topic a.b."""
    if node.place.line is None and isinstance(node.value, dict):
        for key, item in node.value.items():
            if key not in _TOPIC_KEYS and isinstance(item.value, dict):
                hint = f'TOML needs quotes around a name with dots: [topics."{name}.{key}"].'
                raise item.error(f"unknown key '{key}'", hint)


def _configs(node: Node) -> tuple[dict[str, str], dict[str, Place]]:
    """The configs of a topic as text, and their places. Tables are flattened: `retention.ms` without quotes is one in
    TOML."""
    configs: dict[str, str] = {}
    places: dict[str, Place] = {}
    if node.value is None:
        return configs, places
    for name, item in _flat("", node):
        _add(places, name, item.place, name, item.place, lambda place: place)
        configs[name] = _config_text(item)
        try:
            configs[name] = plain_settings({name: configs[name]})[name]
        except CommandError as error:
            raise item.error(str(error), error.hint) from None
        _check_config(item, name, configs[name])
    return configs, places


def _flat(prefix: str, node: Node) -> Iterable[tuple[str, Node]]:
    for key, item in _typed(node, dict).items():
        name = f"{prefix}{key}"
        if isinstance(item.value, dict):
            yield from _flat(f"{name}.", item)
        else:
            yield name, item


def _config_text(node: Node) -> str:
    value = node.value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, list) and all(isinstance(item.value, (str, int)) for item in value):
        return ",".join(str(item.value) for item in value)
    raise node.error(f"must be text, a number, true, false or a list of texts, not {_shown(value)}")


def _check_config(node: Node, name: str, text: str) -> None:
    """Raise CommandError with Kafka's message for a value that the config cannot have. Names that only the brokers may
    know are left for later."""
    from kafkatools.core.config import TOPIC
    from kafkatools.core.errors import ConfigError

    if name in TOPIC:
        try:
            TOPIC[name].parse(text)
        except ConfigError as error:
            raise node.error(str(error)) from None


# -- ACLs --

_ACL_KEYS = ("principal", *RESOURCES, "pattern", "operations", "permission", "host")


def _acls(declaration: Declaration, section: Node) -> None:
    from kafkatools.core.admin.acls import Acl

    for node in _typed(section, list):
        keys = keys_of(node, _ACL_KEYS)
        kind, names = _resources(node, keys)
        pattern = _choice(keys, "pattern", ("literal", "prefixed"), "literal")
        permission = _choice(keys, "permission", ("allow", "deny"), "allow")
        hosts = [host for host, _ in _texts(keys["host"])] if "host" in keys else ["*"]
        operations = _operations(node, keys, kind)
        for name in names:
            for principal in _principals(node, keys):
                for host in hosts:
                    for operation in operations:
                        acl = Acl(kind, name, principal, operation, permission, host, pattern)
                        what = f"{operation} of {principal} on {kind.lower()} {name}"
                        _add(declaration.acls, acl, node.place, what, node.place, lambda place: place)


def _resources(node: Node, keys: Mapping[str, Node]) -> tuple[str, list[str]]:
    from kafkatools.core.admin.acls import CLUSTER_NAME

    named = [key for key in RESOURCES if key in keys]
    if len(named) != 1:
        names = ", ".join(RESOURCES)
        raise node.error(f"an ACL needs one resource, and this one has {len(named)}", f"Resources are {names}.")
    key = named[0]
    if key != "cluster":
        return RESOURCES[key], [name for name, _ in _texts(keys[key])]
    if keys[key].value is not True:
        raise keys[key].error("must be true; without the cluster omit the key")
    if keys.get("pattern", Node("literal", node.place)).value != "literal":
        raise keys["pattern"].error("the pattern of the cluster must be literal")
    return RESOURCES[key], [CLUSTER_NAME]


def _choice(keys: Mapping[str, Node], key: str, choices: tuple[str, ...], default: str) -> str:
    if key not in keys:
        return default.upper()
    text = _text(keys[key])
    if text.lower() not in choices:
        raise keys[key].error(f"must be {' or '.join(choices)}, not '{text}'")
    return text.upper()


def _principals(node: Node, keys: Mapping[str, Node]) -> list[str]:
    if "principal" not in keys:
        raise node.error("an ACL needs a principal, such as User:alice")
    principals = []
    for principal, item in _texts(keys["principal"]):
        kind, colon, name = principal.partition(":")
        if not kind or not colon or not name:
            raise item.error(f"must be TYPE:NAME, such as User:alice, not '{principal}'")
        principals.append(principal)
    return principals


def _operations(node: Node, keys: Mapping[str, Node], kind: str) -> list[str]:
    from kafkatools.core.admin.acls import OPERATIONS, RESOURCE_TYPES
    from kafkatools.core.broker.server.authorizer import SUPPORTED_OPERATIONS

    if "operations" not in keys:
        raise node.error("an ACL needs operations, such as [Read, Describe]")
    names = {"ALL", *(OPERATIONS[number] for number in SUPPORTED_OPERATIONS[RESOURCE_TYPES.index(kind)])}
    by_letters = {name.replace("_", ""): name for name in names}
    operations = []
    for text, item in _texts(keys["operations"]):
        name = by_letters.get(text.replace("_", "").upper())
        if name is None:
            words = sorted(map(operation_word, names))
            hint = f"{did_you_mean_name(text, words)} Operations are {', '.join(words)}.".strip()
            raise item.error(f"'{text}' is not an operation on a {kind.lower().replace('_', ' ')}", hint)
        operations.append(name)
    return operations


# -- quotas --


def _quotas(declaration: Declaration, section: Node) -> None:
    from kafkatools.core.admin.quotas import Entity

    for node in _typed(section, list):
        keys = keys_of(node, (*ENTITIES, *USER_QUOTAS, *IP_QUOTAS))
        parts: dict[str, str | None] = {}
        for key, item in keys.items():
            if key in ENTITIES:
                kind, is_default = ENTITIES[key]
                if kind in parts:
                    raise item.error(f"{kind} is given twice")
                if is_default and item.value is not True:
                    raise item.error("must be true; for a name use another key")
                parts[kind] = None if is_default else _text(item)
        entity: Entity = ordered_entity(tuple(parts.items()))
        _check_entity(node, entity)
        quotas = IP_QUOTAS if "ip" in parts else USER_QUOTAS
        values = {key: _quota(key, item, quotas) for key, item in keys.items() if key not in ENTITIES}
        if not values:
            raise node.error("has no quota", f"Quotas are {', '.join(quotas)}.")
        what = "the quotas of this entity are"
        declared = DeclaredQuotas(entity, values, node.place)
        if entity in declaration.quotas:
            raise node.error(f"{what} already declared in {declaration.quotas[entity].place}")
        declaration.quotas[entity] = declared


def _check_entity(node: Node, entity: tuple[tuple[str, str | None], ...]) -> None:
    kinds = {kind for kind, _ in entity}
    if not kinds:
        raise node.error("quotas need an entity", f"Entities are {', '.join(ENTITIES)}.")
    if "ip" in kinds and len(kinds) > 1:
        raise node.error("ip cannot be combined with user or client-id")


def _quota(name: str, node: Node, allowed: tuple[str, ...]) -> float:
    if name not in allowed:
        raise node.error(f"this entity has no quota {name}", f"Its quotas are {', '.join(allowed)}.")
    value = node.value
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise node.error(f"must be a number, not {_shown(value)}")
    try:
        number = float(plain_settings({name: str(value)})[name])
    except (ValueError, CommandError) as error:
        hint = error.hint if isinstance(error, CommandError) else ""
        raise node.error(f"must be a number, not {_shown(value)}", hint) from None
    if not 0 <= number < float("inf"):
        raise node.error(f"must not be negative or infinite, not {_shown(value)}")
    return number


# -- users --

_CREDENTIAL_KEYS = ("iterations", "password-env", "password-file")


def _users(declaration: Declaration, section: Node) -> None:
    from kafkatools.core.admin.scram import MECHANISMS

    for user, node in _typed(section, dict).items():
        if not user:
            raise node.error("the name of a user must not be empty")
        mechanisms = keys_of(node, MECHANISMS)
        if not mechanisms:
            raise node.error(f"user {user} has no SCRAM mechanism", f"Mechanisms are {', '.join(MECHANISMS)}.")
        for mechanism, item in mechanisms.items():
            credential = _credential(user, mechanism, item)
            what = f"{mechanism} of user {user}"
            _add(declaration.users, (user, mechanism), credential, what, item.place, lambda declared: declared.place)


def _credential(user: str, mechanism: str, node: Node) -> DeclaredCredential:
    from kafkatools.core.admin.scram import MIN_ITERATIONS

    if isinstance(node.value, dict) and "password" in node.value:
        raise node.value["password"].error(
            "a password does not belong in this file",
            "Name its variable with password-env or its file with password-file.",
        )
    keys: dict[str, Node] = keys_of(node, _CREDENTIAL_KEYS) if node.value is not None else {}
    if "password-env" in keys and "password-file" in keys:
        raise node.error("has both password-env and password-file; remove one")
    source = None
    if "password-env" in keys:
        source = PasswordSource(_text(keys["password-env"]), None)
    elif "password-file" in keys:
        import os

        name = _text(keys["password-file"])
        if "\0" in name:
            raise keys["password-file"].error("a file name must not have a null character")
        path = os.path.join(os.path.dirname(node.place.file), name)
        source = PasswordSource(None, path)
    iterations = _number(keys["iterations"], MIN_ITERATIONS, 16384) if "iterations" in keys else None
    return DeclaredCredential(user, mechanism, iterations, source, node.place)
