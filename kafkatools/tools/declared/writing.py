"""Write the present state of a cluster as a declaration in TOML or YAML.

Needs no YAML library: every text that is not obviously plain is in double quotes with JSON's escapes, which YAML and
TOML share. The same cluster always gives the same file: everything is sorted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from kafkatools.core.admin.acls import CLUSTER_NAME, Acl
from kafkatools.tools.declared.documents import YAML
from kafkatools.tools.declared.model import ACLS, ENTITIES, QUOTAS, RESOURCES, TOPICS, USERS, operation_word
from kafkatools.tools.declared.present import TRANSIENT_CONFIGS, Present

Tree = dict[str, object]
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_TOML_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_YAML_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*", re.ASCII)
_YAML_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))


def tree_of(present: Present) -> Tree:
    """The state as the tree of a file, without empty sections. Topics whose partitions have different numbers of
    replicas, or unknown ones, have no `replication`; internal topics and the throttles of reassignments are left
    out."""
    sections: Tree = {
        TOPICS: {name: _topic(present, name) for name, topic in present.topics.items() if not topic.is_internal},
        ACLS: _acls(present.acls),
        QUOTAS: [_quotas(entity, present.quotas[entity]) for entity in sorted(present.quotas, key=str)],
        USERS: _users(present),
    }
    return {kind: section for kind, section in sections.items() if section}


def file_lines(tree: Tree, form: str) -> Iterator[str]:
    """The lines of a TOML or YAML file with this tree, without newlines."""
    return _yaml_lines(tree, 0) if form == YAML else _toml_lines(tree)


def _topic(present: Present, name: str) -> Tree:
    topic = present.topics[name]
    tree: Tree = {"partitions": topic.partitions}
    if len(topic.replication) == 1:
        tree["replication"] = next(iter(topic.replication))
    configs = {key: _plain(topic.overrides[key]) for key in sorted(topic.overrides) if key not in TRANSIENT_CONFIGS}
    return tree | ({"configs": configs} if configs else {})


def _plain(text: str) -> str | int:
    """A config value: a number if it is a whole one, for the eye."""
    return int(text) if _INTEGER.fullmatch(text) and text != "-0" else text


def _acls(acls: Sequence[Acl]) -> list[Tree]:
    operations: dict[Acl, list[str]] = {}
    for acl in sorted(acls):
        if acl.resource_type in RESOURCES.values():
            operations.setdefault(acl._replace(operation=""), []).append(operation_word(acl.operation))
    return [_acl(acl, names) for acl, names in operations.items()]


def _acl(acl: Acl, operations: list[str]) -> Tree:
    key = next(key for key, kind in RESOURCES.items() if kind == acl.resource_type)
    is_cluster = key == "cluster" and acl.resource_name == CLUSTER_NAME
    tree: Tree = {"principal": acl.principal, key: True if is_cluster else acl.resource_name}
    if acl.pattern_type != "LITERAL":
        tree["pattern"] = acl.pattern_type.lower()
    tree["operations"] = operations
    if acl.permission != "ALLOW":
        tree["permission"] = acl.permission.lower()
    return tree | ({"host": acl.host} if acl.host != "*" else {})


def _quotas(entity: Sequence[tuple[str, str | None]], values: Mapping[str, float]) -> Tree:
    keys = {kind_and_default: key for key, kind_and_default in ENTITIES.items()}
    tree: Tree = {keys[kind, name is None]: True if name is None else name for kind, name in entity}
    return tree | {name: int(value) if value.is_integer() else value for name, value in sorted(values.items())}


def _users(present: Present) -> Tree:
    users: dict[str, object] = {}
    for (user, mechanism), iterations in sorted(present.users.items()):
        mechanisms = users.setdefault(user, {})
        if isinstance(mechanisms, dict):
            mechanisms[mechanism] = {"iterations": iterations}
    return users


def _scalar(value: object) -> str:
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return quoted(str(value))


def quoted(text: str) -> str:
    """Text in double quotes, for TOML and YAML: JSON's escapes, without surrogate pairs, and DEL and C1 escaped."""
    escaped = json.dumps(text, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda match: f"\\u{ord(match[0]):04x}", escaped)


# -- TOML --


def toml_key(key: str) -> str:
    """A key of TOML, in double quotes unless it is a bare one."""
    return key if _TOML_KEY.fullmatch(key) else quoted(key)


def _toml_lines(tree: Tree) -> Iterator[str]:
    blocks: list[list[str]] = []
    for kind, section in tree.items():
        if isinstance(section, list):
            blocks += ([f"[[{kind}]]", *_toml_pairs(item)] for item in section)
        elif isinstance(section, dict):
            blocks += (_toml_table(f"{kind}.{toml_key(key)}", item) for key, item in section.items())
    for index, block in enumerate(blocks):
        yield from ["", *block] if index else block


def _toml_table(path: str, table: Tree) -> list[str]:
    return [f"[{path}]", *_toml_pairs(table)]


def _toml_pairs(table: Tree) -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict):  # a dotted key each, since configs are few
            yield from (f"{toml_key(key)}.{toml_key(name)} = {_scalar(item)}" for name, item in value.items())
        elif isinstance(value, list):
            yield f"{toml_key(key)} = [{', '.join(map(_scalar, value))}]"
        else:
            yield f"{toml_key(key)} = {_scalar(value)}"


# -- YAML --


def _yaml_key(key: str) -> str:
    return key if _YAML_KEY.fullmatch(key) and key.lower() not in _YAML_WORDS else quoted(key)


def _yaml_lines(tree: Tree, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for key, value in tree.items():
        name = f"{indent}{_yaml_key(key)}:"
        if isinstance(value, dict):
            yield name
            yield from _yaml_lines(value, depth + 1)
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            yield name
            for item in value:
                lines = list(_yaml_lines(item, depth + 2))
                yield f"{indent}  - {lines[0].lstrip()}"
                yield from lines[1:]
        elif isinstance(value, list):
            yield f"{name} [{', '.join(map(_scalar, value))}]"
        else:
            yield f"{name} {_scalar(value)}"
