"""Carry out a plan: users, topics, ACLs and quotas, then deletions.

Each request has its own items, and an item that fails does not stop the others. After a request that failed as a whole
(no connection, timeout) nothing more is tried. Deletions are not tried after any failure. A second run compares again,
so it makes the remaining changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin import configs as topic_configs
from kafkatools.core.admin.acls import Acl, create_acls, delete_acls, filter_of
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import ConfigChange, Resource, incremental_alter_configs
from kafkatools.core.admin.quotas import alter_client_quotas
from kafkatools.core.admin.scram import ScramUpsertion, alter_user_scram_credentials
from kafkatools.core.admin.topics import (
    NewPartitions,
    NewTopic,
    create_partitions,
    create_topics,
    delete_topics,
)
from kafkatools.core.errors import UNKNOWN_CODE, KafkaError, UnknownServerError, UnknownTopicOrPartition
from kafkatools.tools import rights
from kafkatools.tools.declared.model import Credential
from kafkatools.tools.declared.plan import (
    ACL,
    CHANGE,
    CREATE,
    DELETE,
    IMPOSSIBLE,
    ITERATIONS,
    PARTITIONS,
    PASSWORD,
    QUOTA,
    REPLICATION,
    TOPIC,
    USER,
    Change,
    Plan,
    Target,
    entity_of,
)
from kafkatools.tools.rights import CHANGE_ACLS, CHANGE_QUOTAS, CHANGE_USERS, Right, is_missing_right, naming

_AT_A_TIME = 100
_WITHOUT_PROGRESS_MS = 10_000
DONE, FAILED, NOT_TRIED = "done", "failed", "not tried"
Passwords = Callable[[Credential], str]
"""Returns the password of a credential."""
_ChangedValue = tuple[str, Target, str]
"""The kind and target of a change, and the name of a value; "" for the target itself."""


class Outcome(NamedTuple):
    """The outcome of a change: DONE, FAILED with an error, or NOT_TRIED."""

    change: Change
    state: str
    error: KafkaError | None = None


def validate(admin: AdminClient, changes: Sequence[Change]) -> list[Change]:
    """Ask the brokers whether they would make the changes of topics and quotas, and return all changes; a refused one
    is IMPOSSIBLE with Kafka's error as the reason. Raises KafkaError when a request fails."""
    refusals: dict[int, KafkaError] = {}
    for stage in _stages(changes):
        if stage[0].kind in (TOPIC, QUOTA) and (stage[0].kind == QUOTA or stage[0].action != DELETE):
            for change, error in zip(stage, _send(admin, stage, validate_only=True), strict=True):
                if error is not None:
                    refusals[id(change)] = naming(error, *_rights(change))
    return [_refused(change, refusals[id(change)]) if id(change) in refusals else change for change in changes]


def _refused(change: Change, error: KafkaError) -> Change:
    return change._replace(action=IMPOSSIBLE, reason=str(error), lacks_right=is_missing_right(error))


def carry_out(admin: AdminClient, changes: Sequence[Change], password_of: Passwords) -> Iterator[Outcome]:
    """Make the changes, and return the outcome of each as soon as it is known; none for an IMPOSSIBLE one."""
    has_failed = is_cut_off = False
    for stage in _stages(changes):
        if is_cut_off or (has_failed and stage[0].action == DELETE):
            yield from (Outcome(change, NOT_TRIED) for change in stage)
            continue
        try:
            errors = _send(admin, stage, password_of)
        except KafkaError as cause:
            errors = [cause] * len(stage)
            is_cut_off = True
        for change, failure in zip(stage, errors, strict=True):
            has_failed = has_failed or failure is not None
            is_cut_off = is_cut_off or _is_local(failure)
            error = None if failure is None else naming(failure, *_rights(change))
            yield Outcome(change, DONE if failure is None else FAILED, error)


def _rights(change: Change) -> tuple[Right, ...]:
    """The rights that making a change needs."""
    if change.kind == ACL:
        return (CHANGE_ACLS,)
    if change.kind == QUOTA:
        return (CHANGE_QUOTAS,)
    if change.kind == USER:
        return (CHANGE_USERS,)
    operation = "ALTER" if _has_partitions(change) else "ALTER_CONFIGS"
    if change.action != CHANGE:
        operation = "CREATE" if change.action == CREATE else "DELETE"
    return (Right(operation, rights.TOPIC, str(change.target)),)


def wait_until_visible(admin: AdminClient, outcomes: Sequence[Outcome], replan: Callable[[], Plan]) -> bool:
    """Wait until `replan`, which compares with the cluster again, repeats none of the changes that were made. Returns
    False if it still does after 10 s without progress; does not wait after a lost connection. Raises KafkaError if the
    brokers cannot be asked.

    The controller responds when a change is committed. Brokers apply it later, for 2,000 new topics by seconds, and
    describe the former state until then.
    """
    changed = _changed_values(outcome.change for outcome in outcomes if outcome.state == DONE)
    if not changed or any(_is_local(outcome.error) for outcome in outcomes):
        return True
    repeated = _repeated_values(changed, replan)
    attempts, deadline_ms = 0, admin.deadline_ms(_WITHOUT_PROGRESS_MS)
    while repeated:
        if not admin.wait_before_retry(attempts, deadline_ms):
            return False
        attempts += 1
        before, repeated = repeated, _repeated_values(changed, replan)
        if len(repeated) < len(before):
            attempts, deadline_ms = 0, admin.deadline_ms(_WITHOUT_PROGRESS_MS)
    return True


def _repeated_values(changed: set[_ChangedValue], replan: Callable[[], Plan]) -> set[_ChangedValue]:
    """Those of the changed values that a new plan changes again; all, if a broker does not know a topic yet that
    another one lists."""
    try:
        return changed & _changed_values(replan().changes)
    except UnknownTopicOrPartition:
        return changed


def _changed_values(changes: Iterable[Change]) -> set[_ChangedValue]:
    """The values that the changes set, without passwords, which brokers do not describe."""
    values: set[_ChangedValue] = set()
    for change in changes:
        names = [difference.name for difference in change.differences] or [""]
        values.update((change.kind, change.target, name) for name in names if name != PASSWORD)
    return values


def _stages(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """The changes in the order in which they are made, in lists of one kind that fit into a request."""
    groups = (
        (USER, (CREATE, CHANGE), None, 1),
        (TOPIC, (CREATE,), None, _AT_A_TIME),
        (TOPIC, (CHANGE,), True, _AT_A_TIME),
        (TOPIC, (CHANGE,), False, _AT_A_TIME),
        (ACL, (CREATE,), None, _AT_A_TIME),
        (QUOTA, (CREATE, CHANGE), None, 1),
        (ACL, (DELETE,), None, _AT_A_TIME),
        (QUOTA, (DELETE,), None, 1),
        (USER, (DELETE,), None, 1),
        (TOPIC, (DELETE,), None, _AT_A_TIME),
    )
    for kind, actions, has_partitions, size in groups:
        group = [
            change
            for change in changes
            if change.kind == kind
            and change.action in actions
            and (has_partitions is None or has_partitions == _has_partitions(change))
        ]
        yield from (group[at : at + size] for at in range(0, len(group), size))


def _has_partitions(change: Change) -> bool:
    return any(difference.name == PARTITIONS for difference in change.differences)


def _send(
    admin: AdminClient, stage: Sequence[Change], password_of: Passwords | None = None, *, validate_only: bool = False
) -> list[KafkaError | None]:
    """Send a stage and return the error of each change or None. Raises KafkaError when the request fails."""
    first = stage[0]
    if first.kind == ACL:
        return _send_acls(admin, stage)
    if first.kind == QUOTA:
        return [_attempt(lambda: _send_quotas(admin, first, validate_only))]
    if first.kind == USER:
        return [_attempt(lambda: _send_credential(admin, first, password_of))]
    names = [str(change.target) for change in stage]
    if first.action == DELETE:
        deletions = delete_topics(admin, names)
        return [deletions[name].error for name in names]
    if first.action == CREATE:
        creations = create_topics(admin, [_new_topic(change) for change in stage], validate_only=validate_only)
        return [creations[name].error for name in names]
    if _has_partitions(first):
        totals = [NewPartitions(str(change.target), _size(change, PARTITIONS)) for change in stage]
        additions = create_partitions(admin, totals, validate_only=validate_only)
        return [additions[name].error for name in names]
    configs: dict[Resource, list[ConfigChange]] = {}
    for change in stage:  # --prune gives a topic a second change, which succeeds or fails with the first one
        configs.setdefault((topic_configs.TOPIC, str(change.target)), []).extend(_config_changes(change))
    errors = incremental_alter_configs(admin, configs, validate_only=validate_only)
    return [errors[topic_configs.TOPIC, name] for name in names]


def _attempt(work: Callable[[], None]) -> KafkaError | None:
    """Return the broker's error of a request with a single item, None without one. Raises errors of the connection."""
    try:
        work()
    except KafkaError as error:
        if _is_local(error):
            raise
        return error
    return None


def _is_local(error: KafkaError | None) -> bool:
    """Return whether an error comes from the connection and not from a broker."""
    return error is not None and error.code == UNKNOWN_CODE and not isinstance(error, UnknownServerError)


def _size(change: Change, name: str) -> int:
    """The new number of partitions, replicas or iterations; -1 if the change does not set it."""
    return next((int(float(item.new)) for item in change.differences if item.name == name and item.new is not None), -1)


def _new_topic(change: Change) -> NewTopic:
    configs = {
        difference.name: str(difference.new)
        for difference in change.differences
        if difference.name not in (PARTITIONS, REPLICATION) and difference.new is not None
    }
    partitions, replication = _size(change, PARTITIONS), _size(change, REPLICATION)
    return NewTopic(str(change.target), partitions, replication, configs=configs)


def _config_changes(change: Change) -> list[ConfigChange]:
    return [
        ConfigChange(item.name, None, topic_configs.DELETE)
        if item.new is None
        else ConfigChange(item.name, str(item.new))
        for item in change.differences
    ]


def _send_acls(admin: AdminClient, stage: Sequence[Change]) -> list[KafkaError | None]:
    acls = [change.target for change in stage if isinstance(change.target, Acl)]
    if stage[0].action == CREATE:
        errors: Mapping[Acl, KafkaError | None] = create_acls(admin, acls)
        return [errors[acl] for acl in acls]
    results = delete_acls(admin, [filter_of(acl) for acl in acls])
    deletions = [results[filter_of(acl)] for acl in acls]
    return [result.error or next(iter(result.errors.values()), None) for result in deletions]


def _send_quotas(admin: AdminClient, change: Change, validate_only: bool) -> None:
    values = {item.name: None if item.new is None else float(item.new) for item in change.differences}
    alter_client_quotas(admin, entity_of(change.target), values, validate_only=validate_only)


def _send_credential(admin: AdminClient, change: Change, password_of: Passwords | None) -> None:
    user, mechanism = str(change.target[0]), str(change.target[1])
    if change.action == DELETE:
        alter_user_scram_credentials(admin, user, deletions=[mechanism])
        return
    if password_of is None:
        raise TypeError("the passwords of credentials are needed")
    password = password_of((user, mechanism))
    alter_user_scram_credentials(admin, user, [ScramUpsertion(mechanism, _size(change, ITERATIONS), password)])
