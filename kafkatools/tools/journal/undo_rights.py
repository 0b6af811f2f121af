"""The rights that reading and setting the value of a noted change need."""

from __future__ import annotations

from kafkatools.tools import rights
from kafkatools.tools.journal.entries import ACL, CONFIG, CREDENTIAL, OFFSET, REPLICAS, SHARE_OFFSET, TOPIC, Change
from kafkatools.tools.rights import CHANGE_ACLS, CHANGE_USERS, READ_ACLS, READ_USERS, Right

_READ_MOVES, _MOVE = Right("DESCRIBE", rights.CLUSTER), Right("ALTER", rights.CLUSTER)


def reading_rights(change: Change) -> tuple[Right, ...]:
    """The rights that reading the present value needs."""
    if change.kind == CONFIG:
        return (_of_entity("DESCRIBE_CONFIGS", change),)
    fixed = {ACL: READ_ACLS, CREDENTIAL: READ_USERS, REPLICAS: _READ_MOVES}.get(change.kind)
    others = () if fixed is None else (fixed,)
    return (*others, *_of_names("DESCRIBE", "DESCRIBE", change))


def changing_rights(change: Change) -> tuple[Right, ...]:
    """The rights that setting the earlier value needs."""
    if change.kind == CONFIG:
        return (_of_entity("ALTER_CONFIGS", change),)
    if change.kind == TOPIC:
        return _of_names("DELETE", "", change)
    if change.kind in (OFFSET, SHARE_OFFSET):
        return _of_names("READ", "DELETE" if change.before is None else "READ", change)
    fixed = {ACL: CHANGE_ACLS, CREDENTIAL: CHANGE_USERS, REPLICAS: _MOVE}.get(change.kind)
    return () if fixed is None else (fixed,)


def _of_entity(operation: str, change: Change) -> Right:
    """A right on the topic or group of a config. Quotas and configs of brokers belong to the cluster."""
    for word, kind in (("topic", rights.TOPIC), ("group", rights.GROUP)):
        if word in change.target:
            return Right(operation, kind, str(change.target[word]))
    return Right(operation, rights.CLUSTER)


def _of_names(of_topic: str, of_group: str, change: Change) -> tuple[Right, ...]:
    """Rights on the topic and the group that a target names."""
    found = []
    if "topic" in change.target:
        found.append(Right(of_topic, rights.TOPIC, str(change.target["topic"])))
    if "group" in change.target:
        found.append(Right(of_group, rights.GROUP, str(change.target["group"])))
    return tuple(found)
