"""Undo the changes of an entry: compare them with the present values, then set the earlier ones.

The steps go from the last change to the first. A value that is neither the earlier one nor the one that kt set was
changed by somebody else since: a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.acls import Acl, AclFilter, create_acls, delete_acls, describe_acls, filter_of
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import alter_offsets, delete_offsets
from kafkatools.core.admin.reassignments import alter_reassignments
from kafkatools.core.admin.results import AlteredOffsets
from kafkatools.core.admin.scram import alter_user_scram_credentials
from kafkatools.core.admin.share_groups import NO_START, alter_share_group_offsets
from kafkatools.core.admin.topics import delete_topics, describe_topics
from kafkatools.core.errors import (
    KafkaError,
    NoReassignmentInProgress,
    TopicAuthorizationFailed,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.json_values import JsonValue
from kafkatools.tools.configs.changes import Setting, Value, apply, differs
from kafkatools.tools.configs.entities import Entities, entity_types_by_word
from kafkatools.tools.journal import values
from kafkatools.tools.journal.entries import (
    ACL,
    CONFIG,
    CREDENTIAL,
    OFFSET,
    REPLICAS,
    SHARE_OFFSET,
    TOPIC,
    UNKNOWN,
    Change,
    Noted,
)
from kafkatools.tools.journal.undo_rights import changing_rights, reading_rights
from kafkatools.tools.rights import READ_ACLS, READ_USERS, is_missing_right, naming, needs

UNDO, NOTHING, CONFLICT, IMPOSSIBLE = "undo", "nothing", "conflict", "impossible"
_Present = Callable[[Noted], "JsonValue | KafkaError"]
_UNKNOWN_CREATOR = "it is not known whether kt created this topic; kt topics --delete deletes it"
_UNKNOWN_PASSWORD = "it is not known whether kt created this credential; kt configs --alter --delete-config deletes it"
_ANOTHER = "the topic was deleted, and another one has its name"


class Step(NamedTuple):
    """The action that undoes a change: UNDO; NOTHING, as the earlier value is present; CONFLICT, as the value was
    changed since; or IMPOSSIBLE, for `reason`, or as the user `lacks_right`."""

    noted: Noted
    action: str
    present: JsonValue = None
    reason: str = ""
    lacks_right: bool = False

    @property
    def change(self) -> Change:
        """The change to undo."""
        return self.noted.change

    @property
    def loses_records(self) -> bool:
        """Return whether the step deletes a topic."""
        return self.change.kind == TOPIC


def plan(admin: AdminClient, undoable: Sequence[Noted]) -> list[Step]:
    """Compare changes with the present values, the last change first. Raises KafkaError."""
    by_kind: dict[str, list[Noted]] = {}
    for noted in undoable:
        by_kind.setdefault(noted.change.kind, []).append(noted)
    present = {kind: _PRESENT[kind](admin, group) for kind, group in by_kind.items() if kind in _PRESENT}
    steps = []
    for noted in reversed(undoable):
        if noted.change.kind in present:
            steps.append(_step(noted, present[noted.change.kind](noted)))
        else:
            steps.append(Step(noted, IMPOSSIBLE, None, f"this version of kt does not know {noted.change.kind}"))
    return steps


def _step(noted: Noted, present: JsonValue | KafkaError) -> Step:
    change = noted.change
    if isinstance(present, KafkaError):
        reason = str(naming(present, *reading_rights(change)))
        return Step(noted, IMPOSSIBLE, None, reason, lacks_right=is_missing_right(present))
    if _equal(change, present, change.before):
        return Step(noted, NOTHING, present)
    return Step(noted, UNDO if _equal(change, present, change.after) else CONFLICT, present)


def _equal(change: Change, present: JsonValue, value: JsonValue) -> bool:
    if change.kind == CONFIG:
        if present is None or value is None:
            return present is value
        return not differs(Setting(_value(present), True), _value(value))
    if change.kind == OFFSET:
        return _offset(present) == _offset(value)
    return present == value


def _value(value: JsonValue) -> Value:
    return value if isinstance(value, str) else float(str(value))


def _offset(value: JsonValue) -> JsonValue:
    return value["offset"] if isinstance(value, Mapping) else value


# -- present values --


def _entities(change: Change) -> Entities:
    types = entity_types_by_word()
    words = [word for word in types if word in change.target]
    return Entities(tuple(types[word] for word in words), tuple(str(change.target[word] or "") for word in words))


def _present_settings(admin: AdminClient, noted: Sequence[Noted]) -> _Present:
    requested: dict[Entities, list[str]] = {}
    for one in noted:
        requested.setdefault(_entities(one.change), []).append(one.change.name)
    found = values.settings(admin, requested)

    def present(one: Noted) -> JsonValue | KafkaError:
        settings = found.get(_entities(one.change)) or UnknownServerError("no broker reported it")
        if isinstance(settings, KafkaError):
            return settings
        setting = settings[one.change.name]
        return setting.value if setting.is_set else None

    return present


def _present_acls(admin: AdminClient, noted: Sequence[Noted]) -> _Present:
    with needs(READ_ACLS):
        existing = set(describe_acls(admin, AclFilter()))
    return lambda one: _acl(one.change) in existing


def _acl(change: Change) -> Acl:
    return Acl(*(str(change.target[field]) for field in Acl._fields))


def _present_topics(admin: AdminClient, noted: Sequence[Noted]) -> _Present:
    described = describe_topics(admin, names=list(dict.fromkeys(_topic(one.change) for one in noted)))

    def present(one: Noted) -> JsonValue | KafkaError:
        topic = described[_topic(one.change)]
        if topic.error is not None:
            return False if isinstance(topic.error, UnknownTopicOrPartition) else topic.error
        made = one.outcome.topic_id
        if made is None and one.outcome.state == UNKNOWN:
            return KafkaError(_UNKNOWN_CREATOR)
        return KafkaError(_ANOTHER) if made is not None and topic.topic_id not in (made, None) else True

    return present


def _topic(change: Change) -> str:
    return str(change.target["topic"])


def _present_offsets(admin: AdminClient, noted: Sequence[Noted]) -> _Present:
    groups = dict.fromkeys(_group(one.change) for one in noted)
    found = values.offsets(admin, groups, of_share_groups=noted[0].change.kind == SHARE_OFFSET)
    hidden = _hidden_topics(admin, dict.fromkeys(_topic(one.change) for one in noted))

    def present(one: Noted) -> JsonValue | KafkaError:
        offsets = found[_group(one.change)]
        return offsets if isinstance(offsets, KafkaError) else offsets.get(_partition(one.change))

    return lambda one: hidden.get(_topic(one.change)) or present(one)


def _hidden_topics(admin: AdminClient, names: Iterable[str]) -> dict[str, KafkaError]:
    """Return the errors of topics that the user may not describe: brokers leave out the offsets of their partitions."""
    described = describe_topics(admin, list(names))
    return {name: topic.error for name, topic in described.items() if isinstance(topic.error, TopicAuthorizationFailed)}


def _group(change: Change) -> str:
    return str(change.target["group"])


def _partition(change: Change) -> tuple[str, int]:
    return _topic(change), int(str(change.target["partition"]))


def _present_replicas(admin: AdminClient, noted: Sequence[Noted]) -> _Present:
    found = values.replicas(admin, [_partition(one.change) for one in noted])
    return lambda one: found.get(_partition(one.change), UnknownTopicOrPartition("the partition does not exist"))


def _present_credentials(admin: AdminClient, noted: Sequence[Noted]) -> _Present:
    with needs(READ_USERS):
        found = values.credentials(admin, list(dict.fromkeys(str(one.change.target["user"]) for one in noted)))

    def present(one: Noted) -> JsonValue | KafkaError:
        if (str(one.change.target["user"]), str(one.change.target["mechanism"])) not in found:
            return False
        return KafkaError(_UNKNOWN_PASSWORD) if one.outcome.state == UNKNOWN else True

    return present


_PRESENT: Mapping[str, Callable[[AdminClient, Sequence[Noted]], _Present]] = {
    CONFIG: _present_settings,
    ACL: _present_acls,
    TOPIC: _present_topics,
    OFFSET: _present_offsets,
    SHARE_OFFSET: _present_offsets,
    REPLICAS: _present_replicas,
    CREDENTIAL: _present_credentials,
}


# -- the requests --


def carry_out(admin: AdminClient, steps: Sequence[Step]) -> Iterator[tuple[Step, KafkaError | None]]:
    """Set the earlier values of these steps, one request for each thing that is changed, or for all of a kind where its
    API takes many. Returns each step with its error, None where the earlier value is set."""
    for group in _groups(steps):
        try:
            errors = _SEND[group[0].change.kind](admin, [step.change for step in group])
        except KafkaError as error:
            errors = [error for _ in group]
        for step, failure in zip(group, errors, strict=True):
            yield step, None if failure is None else naming(failure, *changing_rights(step.change))


def _groups(steps: Sequence[Step]) -> list[list[Step]]:
    groups: dict[object, list[Step]] = {}
    for step in steps:
        change = step.change
        key: object = change.kind
        if change.kind == CONFIG:
            key = (change.kind, _entities(change))
        elif change.kind in (OFFSET, SHARE_OFFSET):
            key = (change.kind, _group(change))
        elif change.kind == CREDENTIAL:
            key = (change.kind, change.key)
        groups.setdefault(key, []).append(step)
    return list(groups.values())


def _set_settings(admin: AdminClient, changes: Sequence[Change]) -> list[KafkaError | None]:
    requested = [(change.name, None if change.before is None else _value(change.before)) for change in changes]
    apply(admin, _entities(changes[0]), requested)
    return [None for _ in changes]


def _set_acls(admin: AdminClient, changes: Sequence[Change]) -> list[KafkaError | None]:
    """Add ACLs before others are removed, so that no principal loses access meanwhile."""
    errors: dict[Acl, KafkaError | None] = {}
    added = [_acl(change) for change in changes if change.before]
    removed = [_acl(change) for change in changes if not change.before]
    errors |= create_acls(admin, added) if added else {}
    for acl_filter, result in (delete_acls(admin, map(filter_of, removed)) if removed else {}).items():
        acl = Acl(*map(str, acl_filter))
        errors[acl] = result.error or result.errors.get(acl)
    return [errors.get(_acl(change)) for change in changes]


def _delete_topics(admin: AdminClient, changes: Sequence[Change]) -> list[KafkaError | None]:
    results = delete_topics(admin, [_topic(change) for change in changes])
    return [results[_topic(change)].error for change in changes]


def _set_offsets(admin: AdminClient, changes: Sequence[Change]) -> list[KafkaError | None]:
    group = _group(changes[0])
    committed = {_partition(change): _committed(change.before) for change in changes if change.before is not None}
    deleted = [_partition(change) for change in changes if change.before is None]
    errors: dict[tuple[str, int], KafkaError | None] = {}
    if committed:
        errors |= _errors(alter_offsets(admin, {group: committed})[group], list(committed))
    if deleted:
        errors |= _errors(delete_offsets(admin, group, deleted), deleted)
    return [errors[_partition(change)] for change in changes]


def _committed(value: JsonValue) -> OffsetAndMetadata:
    if isinstance(value, Mapping):
        return OffsetAndMetadata(int(str(value["offset"])), -1, str(value["metadata"]))
    return OffsetAndMetadata(int(str(value)), -1, "")


def _errors(result: AlteredOffsets, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], KafkaError | None]:
    return {key: result.error or result.errors.get(key) for key in partitions}


def _set_share_offsets(admin: AdminClient, changes: Sequence[Change]) -> list[KafkaError | None]:
    starts = {_partition(change): NO_START if change.before is None else int(str(change.before)) for change in changes}
    errors = _errors(alter_share_group_offsets(admin, _group(changes[0]), starts), list(starts))
    return [errors[_partition(change)] for change in changes]


def _set_replicas(admin: AdminClient, changes: Sequence[Change]) -> list[KafkaError | None]:
    """Move partitions back. A move that is in progress is cancelled first: Apache Kafka never completes one whose added
    replicas are removed by another request. Cancelling may leave another order of replicas, which is set afterwards."""
    targets = {_partition(change): _brokers(change.before) for change in changes}
    cancelled = values.replicas_without_moves(admin, list(targets))
    errors = alter_reassignments(admin, dict.fromkeys(cancelled)) if cancelled else {}
    for key, error in list(errors.items()):
        if isinstance(error, NoReassignmentInProgress):  # it was completed meanwhile
            errors[key] = None
            del cancelled[key]
    remaining = {
        key: brokers for key, brokers in targets.items() if errors.get(key) is None and cancelled.get(key) != brokers
    }
    errors |= alter_reassignments(admin, remaining) if remaining else {}
    return [errors[_partition(change)] for change in changes]


def _brokers(value: JsonValue) -> list[int]:
    return [int(str(broker)) for broker in value] if isinstance(value, list) else []


def _delete_credentials(admin: AdminClient, changes: Sequence[Change]) -> list[KafkaError | None]:
    target = changes[0].target
    alter_user_scram_credentials(admin, str(target["user"]), deletions=[str(target["mechanism"])])
    return [None for _ in changes]


_SEND: Mapping[str, Callable[[AdminClient, Sequence[Change]], list[KafkaError | None]]] = {
    CONFIG: _set_settings,
    ACL: _set_acls,
    TOPIC: _delete_topics,
    OFFSET: _set_offsets,
    SHARE_OFFSET: _set_share_offsets,
    REPLICAS: _set_replicas,
    CREDENTIAL: _delete_credentials,
}
