"""Causes that limit a group from outside: ACLs of a named principal, and client quotas."""

from __future__ import annotations

from collections.abc import Iterator

from kafkatools.core.admin.acls import ALLOW, DENY, LITERAL, PREFIXED, WILDCARD, Acl
from kafkatools.core.admin.quotas import EntityQuotas
from kafkatools.tools.diagnosis.findings import Finding, duration, partition_places, places
from kafkatools.tools.diagnosis.group_causes import has_progressed, has_stopped, keys_of, lag_text
from kafkatools.tools.diagnosis.observations import GROUP, PARTITION, TOPIC, Observations
from kafkatools.tools.monitor.figures import size
from kafkatools.tools.monitor.view import GroupView

_IMPLY_DESCRIBE = ("READ", "WRITE", "DELETE", "ALTER")


def _covers(acl: Acl, kind: str, name: str, principal: str) -> bool:
    if acl.resource_type != kind or acl.principal not in (principal, "User:*"):
        return False
    if acl.pattern_type == PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.pattern_type == LITERAL and acl.resource_name in (name, WILDCARD)


def _permission(acls: tuple[Acl, ...], kind: str, name: str, principal: str, operation: str) -> str:
    """Return ALLOW, DENY, or an empty text if no ACL is about it (StandardAuthorizerData: a deny wins)."""
    allowing = {operation, "ALL"} | (set(_IMPLY_DESCRIBE) if operation == "DESCRIBE" else set())
    matching = [acl for acl in acls if _covers(acl, kind, name, principal)]
    if any(acl.permission == DENY and acl.operation in (operation, "ALL") for acl in matching):
        return DENY
    return ALLOW if any(acl.permission == ALLOW and acl.operation in allowing for acl in matching) else ""


def permission_missing(obs: Observations) -> Iterator[Finding]:
    """The principal of --principal may not do what the subject needs, as far as ACLs say."""
    if not obs.acls:
        return
    kind = obs.subject.kind
    needs = [("GROUP", obs.subject.name, "READ")] if kind == GROUP else []
    operations = ("READ", "WRITE") if kind in (TOPIC, PARTITION) else ("READ",)
    topics = [topic.name for topic in obs.view.topics if not topic.is_internal]
    needs += [("TOPIC", topic, operation) for topic in topics for operation in operations]
    for resource, name, operation in needs:
        permission = _permission(obs.acls, resource, name, obs.principal, operation)
        if permission == ALLOW:
            continue
        reason = "an ACL denies it" if permission == DENY else "no ACL allows it"
        option = "--group" if resource == "GROUP" else "--topic"
        yield Finding(
            f"{obs.principal} has no {operation} permission on {resource.lower()} {name}: {reason}",
            ("Super users and allow.everyone.if.no.acl.found of the brokers are not visible from here",),
            ("acls", "--list", option, name),
            places(
                ("group", obs.subject.name) if resource == "GROUP" else ("topic", name),
                [("group", group.group_id) for group in obs.view.groups],
            ),
        )


_CATCH_UP_MS = 60_000


def quota(obs: Observations) -> Iterator[Finding]:
    """A consumer_byte_rate limits a client of the group to less than its lag needs."""
    for group in obs.view.groups:
        description = obs.descriptions.get(group.group_id)
        if description is None or obs.earlier is None or not group.least_lag:
            continue
        waiting_bytes, record_bytes = _waiting(obs, group)
        for member in description.members:
            limit = _limit(obs.quotas, member.client_id)
            if limit is None or waiting_bytes is None or limit.values["consumer_byte_rate"] <= 0:
                continue
            rate = limit.values["consumer_byte_rate"]
            needed_ms = waiting_bytes / rate * 1000
            used = (group.consumed or 0) * record_bytes
            is_limited = has_stopped(obs, group) or (has_progressed(obs, group) and used > rate / 2)
            if needed_ms > _CATCH_UP_MS and is_limited:
                owner = ", ".join(f"{kind} {name or '<default>'}" for kind, name in limit.entity)
                yield Finding(
                    f"The quota of {owner} limits group {group.group_id} to {size(rate)}/s: its lag of about "
                    f"{size(waiting_bytes)} takes {duration(needed_ms)}",
                    (lag_text(obs, group), f"It consumes about {size(used)}/s"),
                    ("configs", "--describe", *_entity_words(limit)),
                    places(("group", group.group_id), partition_places(keys_of(obs.lagging(group)))),
                )
                break


def _waiting(obs: Observations, group: GroupView) -> tuple[float | None, float]:
    """Return the bytes of a group's lag and of a record, estimated from the sizes of the leaders' logs; None if no size
    is known."""
    total, records = 0.0, 0
    for part in obs.lagging(group):
        view = obs.partition((part.topic, part.partition))
        if view is None or view.size_bytes is None or view.end_offset is None:
            continue
        held = view.end_offset - (view.start_offset or 0)
        if held > 0:
            total += view.size_bytes / held * (part.lag or 0)
            records += part.lag or 0
    return (total, total / records) if records else (None, 0)


def _limit(quotas: tuple[EntityQuotas, ...], client_id: str) -> EntityQuotas | None:
    """Return the consumer quota of a client id, else the default of client ids, else that of all users (the users of
    members are not visible)."""
    for entity in ((("client-id", client_id),), (("client-id", None),), (("user", None),)):
        for found in quotas:
            if found.entity == entity and "consumer_byte_rate" in found.values:
                return found
    return None


_ENTITY_OPTIONS = {"client-id": "clients", "user": "users"}


def _entity_words(limit: EntityQuotas) -> tuple[str, ...]:
    kind, name = limit.entity[0]
    entity = ("--entity-type", _ENTITY_OPTIONS[kind])
    return (*entity, "--entity-default") if name is None else (*entity, "--entity-name", name)
