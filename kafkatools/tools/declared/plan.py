"""Compare a declaration with the present state of a cluster: the changes that lead from one to the other.

Pure: no I/O. Only what is declared is compared. What is present and not declared is kept and counted, or with `prune`
deleted, but only of the kinds that the files declare, and never internal topics. A change that cannot be made, or only
when asked, is IMPOSSIBLE with a reason and a remedy.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkatools.core.admin.acls import Acl
from kafkatools.core.admin.quotas import Entity
from kafkatools.core.admin.scram import DEFAULT_ITERATIONS
from kafkatools.tools.configs.changes import Difference, Setting, Value, differs
from kafkatools.tools.configs.entities import entity_words
from kafkatools.tools.declared.dangers import config_dangers, partition_danger
from kafkatools.tools.declared.model import (
    ACLS,
    QUOTAS,
    TOPICS,
    USERS,
    Credential,
    Declaration,
    DeclaredCredential,
    DeclaredTopic,
)
from kafkatools.tools.declared.present import TRANSIENT_CONFIGS, Present, PresentTopic

TOPIC, ACL, QUOTA, USER = "topic", "acl", "quotas", "user"
CREATE, CHANGE, DELETE, IMPOSSIBLE = "create", "change", "delete", "impossible"
CONFIGS = "configs"
PRUNABLE = (TOPICS, CONFIGS, ACLS, QUOTAS, USERS)
"""What can be pruned: the kinds of a file, and the undeclared overrides of declared topics."""
PARTITIONS, REPLICATION, ITERATIONS, PASSWORD = "partitions", "replication", "iterations", "password"
"""Names of differences that are no configs."""

Target = str | Acl | Entity | Credential


class Change(NamedTuple):
    """A change of one thing. `target`: the name of a topic, an ACL, a quota entity, or user and mechanism.

    `differences`: partitions, replication and configs of a topic, quotas, iterations of a credential; none for an ACL.
    `dangers`: what may be lost. `reason` and `remedy`: why a change is IMPOSSIBLE, and the command to use instead.
    `lacks_right`: it is IMPOSSIBLE only for this user.
    """

    kind: str
    target: Target
    action: str
    differences: tuple[Difference, ...] = ()
    dangers: tuple[str, ...] = ()
    reason: str = ""
    remedy: str = ""
    lacks_right: bool = False

    @property
    def is_dangerous(self) -> bool:
        """Return whether the change needs a confirmation: it may lose something, or deletes."""
        return bool(self.dangers) or self.action == DELETE

    @property
    def label(self) -> str:
        """The thing in words: `topic orders`, `acl User:alice ALLOW READ topic orders (literal) from *`."""
        target = self.target
        if isinstance(target, Acl):
            pattern = f"{target.resource_type.lower()} {target.resource_name} ({target.pattern_type.lower()})"
            return f"acl {target.principal} {target.permission} {target.operation} {pattern} from {target.host}"
        if self.kind == QUOTA:
            return f"quotas of {entity_words(entity_of(target))}"
        if self.kind == USER:
            return f"user {target[0]} {target[1]}"
        return f"topic {target}"

    @property
    def target_row(self) -> dict[str, object]:
        """The target as a JSON object."""
        target = self.target
        if isinstance(target, Acl):
            return dict(target._asdict())
        if self.kind == QUOTA:
            return dict(entity_of(target))
        if self.kind == USER:
            return {"user": target[0], "mechanism": target[1]}
        return {"topic": target}


@dataclass
class Plan:
    """The changes in their order, and how many present things of each kind are kept although no file declares them."""

    changes: list[Change] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)

    def count(self, action: str) -> int:
        """The number of changes with this action."""
        return sum(change.action == action for change in self.changes)


def make_plan(
    declaration: Declaration, present: Present, prune: Collection[str] = (), *, updates_passwords: bool = False
) -> Plan:
    """Compare. `prune`: the kinds of which undeclared things are deleted. `updates_passwords`: also set the password of
    declared credentials that exist, which cannot be compared."""
    plan = Plan()
    if USERS in declaration.kinds:
        for credential in declaration.users.values():
            plan.changes += _credential_changes(credential, present.users, updates_passwords)
    for topic in declaration.topics.values():
        there = present.topics.get(topic.name)
        plan.changes += [_new_topic(topic)] if there is None else _topic_changes(topic, there)
    acls = set(present.acls)
    plan.changes += [acl_change(acl, CREATE) for acl in declaration.acls if acl not in acls]
    for quotas in declaration.quotas.values():
        plan.changes += quota_change(quotas.entity, quotas.values, present.quotas.get(quotas.entity, {}))
    undeclared = list(_undeclared(declaration, present))
    for kind, _ in undeclared:
        if kind not in prune:
            plan.kept[kind] = plan.kept.get(kind, 0) + 1
    plan.changes += [change for kind, change in undeclared if kind in prune]
    return plan


def _differences(new: Mapping[str, Value | None], before: Mapping[str, Value]) -> tuple[Difference, ...]:
    """The new values (None: removed) that differ from the present ones."""
    settings = {name: Setting(before.get(name), name in before) for name in new}
    return tuple(
        Difference(name, settings[name], value)
        for name, value in new.items()
        if differs(settings[name], value) and not _are_same_policies(name, settings[name].value, value)
    )


def _are_same_policies(name: str, before: Value | None, new: Value | None) -> bool:
    """Return whether two values of cleanup.policy differ only in order."""
    if name != "cleanup.policy" or before is None:
        return False
    return {item.strip() for item in str(before).split(",")} == {item.strip() for item in str(new).split(",")}


# -- topics --


def _new_topic(topic: DeclaredTopic) -> Change:
    sizes = {PARTITIONS: topic.partitions, REPLICATION: topic.replication}
    differences = [Difference(name, Setting(), float(size)) for name, size in sizes.items() if size is not None]
    configs = [Difference(name, Setting(), value) for name, value in topic.configs.items()]
    dangers = config_dangers(configs, {}, topic.replication)
    return Change(TOPIC, topic.name, CREATE, (*differences, *configs), tuple(dangers))


def _topic_changes(topic: DeclaredTopic, there: PresentTopic) -> Iterator[Change]:
    if topic.partitions is not None and topic.partitions != there.partitions:
        yield _partition_change(topic.name, there.partitions, topic.partitions)
    if topic.replication is not None and there.replication and there.replication != {topic.replication}:
        yield _replication_change(topic.name, there.replication, topic.replication)
    yield from config_change(there, topic.configs)


def config_change(topic: PresentTopic, values: Mapping[str, Value | None]) -> Iterator[Change]:
    """The change of a topic's overrides to these values (None: removed); none if they are as requested."""
    configs = _differences(values, topic.overrides)
    if configs:
        dangers = config_dangers(configs, topic.values, min(topic.replication, default=None))
        yield Change(TOPIC, topic.name, CHANGE, configs, tuple(dangers))


def topic_deletion(topic: PresentTopic) -> Change:
    """The deletion of a topic."""
    sizes = {PARTITIONS: topic.partitions}
    if topic.replication:
        sizes[REPLICATION] = min(topic.replication)
    gone = tuple(Difference(size, Setting(float(number), True), None) for size, number in sizes.items())
    return Change(TOPIC, topic.name, DELETE, gone, ("all its records are deleted",))


def _partition_change(name: str, before: int, after: int) -> Change:
    difference = Difference(PARTITIONS, Setting(float(before), True), float(after))
    if after > before:
        return Change(TOPIC, name, CHANGE, (difference,), (partition_danger(before, after),))
    reason = "Kafka cannot take partitions away"
    remedy = f"kt copy {shlex.quote(name)} NEW-TOPIC, into a topic with {after} partition{'s' * (after != 1)}"
    return Change(TOPIC, name, IMPOSSIBLE, (difference,), (), reason, remedy)


def _replication_change(name: str, before: Collection[int], after: int) -> Change:
    # Partitions with different numbers of replicas are shown by the smallest number that is not the declared one.
    present = min(number for number in before if number != after)
    difference = Difference(REPLICATION, Setting(float(present), True), float(after))
    pattern = shlex.quote(name.replace(".", r"\."))
    remedy = (
        f"kt reassign-partitions plan set-rf --replication-factor {after} --topics {pattern} --out plan.json && "
        "kt reassign-partitions run --reassignment-json-file plan.json"
    )
    return Change(TOPIC, name, IMPOSSIBLE, (difference,), (), "replicas are moved by a reassignment", remedy)


# -- users --


def _credential_changes(
    declared: DeclaredCredential, present: Mapping[Credential, int], updates_passwords: bool
) -> Iterator[Change]:
    key = (declared.user, declared.mechanism)
    if key not in present:
        iterations = declared.iterations or DEFAULT_ITERATIONS
        yield Change(USER, key, CREATE, (Difference(ITERATIONS, Setting(), float(iterations)),))
        return
    before = present[key]
    after = declared.iterations or before
    differences = []
    if after != before:
        differences.append(Difference(ITERATIONS, Setting(float(before), True), float(after)))
    if updates_passwords and declared.password is not None:
        hidden = Difference(PASSWORD, Setting(None, True, True), "")
        same = Difference(ITERATIONS, Setting(float(before), True), float(after))
        yield Change(USER, key, CHANGE, (same, hidden), ("the password cannot be restored",))
    elif differences:
        reason = "an existing credential is changed only with --update-passwords, which also sets its password"
        yield Change(USER, key, IMPOSSIBLE, tuple(differences), (), reason, "kt apply --update-passwords ...")


def credential_deletion(credential: Credential, iterations: int) -> Change:
    """The deletion of a SCRAM credential."""
    danger = "the user can no longer log in with this mechanism, and the password cannot be restored"
    return Change(
        USER, credential, DELETE, (Difference(ITERATIONS, Setting(float(iterations), True), None),), (danger,)
    )


# -- ACLs and quotas --


def acl_change(acl: Acl, action: str) -> Change:
    """The creation or deletion of an ACL."""
    if action == CREATE:
        return Change(ACL, acl, CREATE)
    effect = "gain" if acl.permission == "DENY" else "lose"
    return Change(ACL, acl, DELETE, (), (f"{acl.principal} may {effect} access",))


def quota_change(entity: Entity, values: Mapping[str, Value | None], before: Mapping[str, float]) -> Iterator[Change]:
    """The change of an entity's quotas to these values (None: removed); none if they are as requested."""
    differences = _differences(values, before)
    if not differences:
        return
    if all(difference.new is None for difference in differences):
        yield Change(QUOTA, entity, DELETE, differences, ("clients are no longer limited by them",))
    else:
        yield Change(QUOTA, entity, CHANGE if before else CREATE, differences)


# -- what no file declares --


def _undeclared(declaration: Declaration, present: Present) -> Iterator[tuple[str, Change]]:
    """The deletions of present things that no file declares, each with what `prune` calls it: ACLs first, topics
    last."""
    if ACLS in declaration.kinds:
        for acl in sorted(set(present.acls) - set(declaration.acls)):
            yield ACLS, acl_change(acl, DELETE)
    if QUOTAS in declaration.kinds:
        yield from ((QUOTAS, change) for change in _undeclared_quotas(declaration, present))
    if USERS in declaration.kinds:
        for key in sorted(present.users.keys() - declaration.users.keys()):
            yield USERS, credential_deletion(key, present.users[key])
    if TOPICS in declaration.kinds:
        yield from _undeclared_in_topics(declaration, present)


def _undeclared_quotas(declaration: Declaration, present: Present) -> Iterator[Change]:
    for entity, values in sorted(present.quotas.items(), key=lambda item: str(item[0])):
        declared = declaration.quotas[entity].values if entity in declaration.quotas else {}
        removed = [name for name in values if name not in declared]
        yield from quota_change(entity, dict.fromkeys(removed), values)


def _undeclared_in_topics(declaration: Declaration, present: Present) -> Iterator[tuple[str, Change]]:
    for name, topic in present.topics.items():
        if topic.is_internal:
            continue
        if name not in declaration.topics:
            yield TOPICS, topic_deletion(topic)
            continue
        declared = declaration.topics[name].configs
        removed = dict.fromkeys(topic.overrides.keys() - declared.keys() - set(TRANSIENT_CONFIGS))
        yield from ((CONFIGS, change) for change in config_change(topic, dict(sorted(removed.items()))))


def entity_of(target: Target) -> Entity:
    """The target of a change of quotas, as its type."""
    return tuple(part for part in target if isinstance(part, tuple))
