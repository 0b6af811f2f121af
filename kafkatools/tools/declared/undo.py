"""Undo files of `kt apply`: lines of JSON with the inverse of each change, and the plan that takes changes back.

A line is `{"kind": "topic", "target": ..., "set": {...}, "delete": [...]}` for values, or has `"exists": true` or
`false` for a thing that was there before or not. What cannot be noted is refused before anything is changed: deleted
topics, added partitions, passwords.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.acls import Acl
from kafkatools.core.json_values import JsonValue
from kafkatools.exit_status import CommandError
from kafkatools.tools.configs.changes import Value
from kafkatools.tools.declared.model import ACLS, QUOTAS, TOPICS, USERS, ordered_entity
from kafkatools.tools.declared.plan import (
    ACL,
    CHANGE,
    CREATE,
    DELETE,
    IMPOSSIBLE,
    PARTITIONS,
    QUOTA,
    TOPIC,
    USER,
    Change,
    Plan,
    Target,
    acl_change,
    config_change,
    credential_deletion,
    entity_of,
    quota_change,
    topic_deletion,
)
from kafkatools.tools.declared.present import Present

_KINDS = {TOPIC: TOPICS, ACL: ACLS, QUOTA: QUOTAS, USER: USERS}
_ACL_FIELDS = Acl._fields


class Reversal(NamedTuple):
    """The state that a line of an undo file restores: `values` of a target (None: not set), or whether it `exists`."""

    kind: str
    target: Target
    values: Mapping[str, Value | None] = {}
    exists: bool | None = None


def reversals(changes: Sequence[Change]) -> list[dict[str, object]]:
    """The lines of an undo file, the last change first. Raises CommandError for a change that cannot be taken back."""
    return [_line(change) for change in reversed(changes) if change.action != IMPOSSIBLE]


def _line(change: Change) -> dict[str, object]:
    line: dict[str, object] = {"kind": change.kind, "target": change.target_row}
    if change.kind == ACL or (change.action == CREATE and change.kind in (TOPIC, USER)):
        return line | {"exists": change.action == DELETE}
    if change.kind == USER:
        raise _refusal(change, "its password cannot be restored")
    if change.action == DELETE and change.kind == TOPIC:
        raise _refusal(change, "its records cannot be restored")
    if any(difference.name == PARTITIONS for difference in change.differences):
        raise _refusal(change, "partitions cannot be removed")
    before = {item.name: item.before.value for item in change.differences if item.before.is_set}
    return line | {"set": before, "delete": [item.name for item in change.differences if not item.before.is_set]}


def _refusal(change: Change, reason: str) -> CommandError:
    hint = "Run without --undo-file to make this change."
    return CommandError(f"Nothing was changed: {change.label} cannot be undone, since {reason}", hint=hint)


def read_reversal(line: JsonValue) -> Reversal:
    """Parse a line of an undo file. Raises ValueError."""
    kind = line.get("kind") if isinstance(line, dict) else None
    row = line.get("target") if isinstance(line, dict) else None
    if not isinstance(line, dict) or not isinstance(kind, str) or kind not in _KINDS or not isinstance(row, dict):
        raise ValueError("not a change that kt apply --undo-file wrote")
    target = _target(kind, row)
    if isinstance(line.get("exists"), bool) and kind != QUOTA:
        return Reversal(kind, target, exists=line["exists"] is True)
    before, absent = line.get("set"), line.get("delete")
    if not isinstance(before, dict) or not isinstance(absent, list) or kind not in (TOPIC, QUOTA):
        raise ValueError('the line needs "exists", or "set" and "delete"')
    if not all(isinstance(name, str) for name in absent):
        raise ValueError("delete must be a list of names")
    values: dict[str, Value | None] = {str(name): None for name in absent}
    for name, value in before.items():
        if name in values:
            raise ValueError(f'{name} is in both "set" and "delete"; remove it from one')
        if isinstance(value, bool) or not isinstance(value, str if kind == TOPIC else (int, float)):
            raise ValueError(f"the value of {name} must be {'a string' if kind == TOPIC else 'a number'}")
        values[name] = value if isinstance(value, str) else float(str(value))
    return Reversal(kind, target, values)


class Restored:
    """The states that the lines of an undo file restore. A line that contradicts an earlier one is refused: the order
    in which the changes were made is unknown."""

    def __init__(self) -> None:
        self._existence: dict[tuple[str, Target], bool | None] = {}
        self._values: dict[tuple[str, Target, str], Value | None] = {}

    def add(self, reversal: Reversal) -> None:
        """Raise ValueError if the reversal contradicts one that was added before."""
        thing = (reversal.kind, reversal.target)
        is_contrary = self._existence.setdefault(thing, reversal.exists) != reversal.exists
        for name, value in reversal.values.items():
            is_contrary |= self._values.setdefault((*thing, name), value) != value
        if is_contrary:
            label = Change(reversal.kind, reversal.target, CHANGE).label
            raise ValueError(
                f"an earlier line restores another state of {label}; if these are the lines of two undo files, pass "
                "them one after the other, the newest first"
            )


def _target(kind: str, row: Mapping[str, JsonValue]) -> Target:
    keys = {TOPIC: ("topic",), ACL: _ACL_FIELDS, USER: ("user", "mechanism")}.get(kind)
    if keys is None:
        entity = tuple((name, None if value is None else str(value)) for name, value in row.items())
        if not entity or not {name for name, _ in entity} <= {"user", "client-id", "ip"}:
            raise ValueError("the target of quotas needs user, client-id or ip")
        return ordered_entity(entity)
    texts = [row.get(key) for key in keys]
    if set(row) != set(keys) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"the target needs the texts {', '.join(keys)}")
    words = [str(text) for text in texts]
    if kind == ACL:
        return Acl(*words)
    return words[0] if kind == TOPIC else (words[0], words[1])


def kinds_of(requested: Sequence[Reversal]) -> set[str]:
    """The kinds of a file, for reading the present state."""
    return {_KINDS[reversal.kind] for reversal in requested}


def undo_plan(requested: Sequence[Reversal], present: Present) -> Plan:
    """The changes that the lines of an undo file still need."""
    return Plan([change for reversal in requested for change in _changes(reversal, present)])


def _changes(reversal: Reversal, present: Present) -> Iterator[Change]:
    kind, target = reversal.kind, reversal.target
    if isinstance(target, Acl):
        if (target in present.acls) != reversal.exists:
            yield acl_change(target, CREATE if reversal.exists else DELETE)
    elif kind == USER:
        user, mechanism = str(target[0]), str(target[1])
        if (user, mechanism) in present.users and not reversal.exists:
            yield credential_deletion((user, mechanism), present.users[user, mechanism])
    elif kind == QUOTA:
        entity = entity_of(target)
        yield from quota_change(entity, reversal.values, present.quotas.get(entity, {}))
    elif str(target) in present.topics:
        topic = present.topics[str(target)]
        if reversal.exists is None:
            yield from config_change(topic, reversal.values)
        elif not reversal.exists:
            yield topic_deletion(topic)
    elif reversal.exists is None:
        gone = "the topic does not exist"
        yield Change(TOPIC, target, IMPOSSIBLE, reason=gone)
