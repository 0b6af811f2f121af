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
    """Return ALLOW, DENY, or an empty text if no ACL is about it (StandardAuthorizerData: a deny wins). Where the
    client connects from is unknown: an ACL of a single host may allow, and denies nothing."""
    allowing = {operation, "ALL"} | (set(_IMPLY_DESCRIBE) if operation == "DESCRIBE" else set())
    matching = [acl for acl in acls if _covers(acl, kind, name, principal)]
    denying = [acl for acl in matching if acl.permission == DENY and acl.host == WILDCARD]
    if any(acl.operation in (operation, "ALL") for acl in denying):
        return DENY
    return ALLOW if any(acl.permission == ALLOW and acl.operation in allowing for acl in matching) else ""


def permission_missing(obs: Observations) -> Iterator[Finding]:
    """The principal of --principal may not do what the subject needs, as far as ACLs say."""
    if obs.acls is None:
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
_LEAST_PERCENT = 1.0
CONSUMER_RATE, PRODUCER_RATE, REQUESTS = "consumer_byte_rate", "producer_byte_rate", "request_percentage"


def quota(obs: Observations) -> Iterator[Finding]:
    """A quota limits a client of the group to less than its lag needs: consumer_byte_rate, or a request_percentage
    below one per cent."""
    for group in obs.view.groups:
        description = obs.descriptions.get(group.group_id)
        if description is None or obs.earlier is None or not obs.lagging(group):
            continue
        for client_id in sorted({member.client_id for member in description.members}):
            finding = _by_bytes(obs, group, client_id) or _by_requests(obs, group, client_id)
            if finding is not None:
                yield finding
                break


def _by_bytes(obs: Observations, group: GroupView, client_id: str) -> Finding | None:
    limit = _limit(obs.quotas, client_id, CONSUMER_RATE)
    waiting_bytes, record_bytes = _waiting(obs, group)
    if limit is None or waiting_bytes is None or limit.values[CONSUMER_RATE] <= 0:
        return None
    rate = limit.values[CONSUMER_RATE]
    needed_ms = waiting_bytes / rate * 1000
    used = (group.consumed or 0) * record_bytes
    is_limited = has_stopped(obs, group) or (has_progressed(obs, group) and used > rate / 2)
    if needed_ms <= _CATCH_UP_MS or not is_limited:
        return None
    return _quota_finding(
        obs,
        group,
        limit,
        f"The quota of {_owner(limit)} limits group {group.group_id} to {size(rate)}/s: its lag of about "
        f"{size(waiting_bytes)} takes {duration(needed_ms)}",
        f"It consumes about {size(used)}/s, {CONSUMER_RATE}={rate:g}",
    )


def _by_requests(obs: Observations, group: GroupView, client_id: str) -> Finding | None:
    limit = _limit(obs.quotas, client_id, REQUESTS)
    if limit is None or limit.values[REQUESTS] >= _LEAST_PERCENT or not has_stopped(obs, group):
        return None
    percent = limit.values[REQUESTS]
    return _quota_finding(
        obs,
        group,
        limit,
        f"The quota of {_owner(limit)} limits the requests of group {group.group_id} to {percent:g} % of a thread of "
        f"the broker, {percent * 10:g} ms in each second",
        f"{REQUESTS}={percent:g}; throttled clients wait before each request",
    )


def _quota_finding(obs: Observations, group: GroupView, limit: EntityQuotas, sentence: str, use: str) -> Finding:
    return Finding(
        sentence,
        (lag_text(obs, group), use),
        ("configs", "--describe", *_entity_words(limit)),
        places(("group", group.group_id), partition_places(keys_of(obs.lagging(group)))),
    )


_LEAST_SHARE, _MOST_SHARE = 0.8, 1.2


def producer_quota(obs: Observations) -> Iterator[Finding]:
    """The leaders of a topic on one broker grow as fast as a producer_byte_rate allows. Quotas hold for each broker."""
    if obs.earlier is None or not obs.seconds:
        return
    growth: dict[int, int] = {}
    for part in obs.partitions():
        before = obs.earlier.by_partition.get((part.topic, part.partition))
        if before is None or before.leader != part.leader or None in (before.size_bytes, part.size_bytes):
            return
        growth[part.leader] = growth.get(part.leader, 0) + (part.size_bytes or 0) - (before.size_bytes or 0)
    for broker, grown in growth.items():
        written = grown / obs.seconds
        for limit in obs.quotas:
            rate = limit.values.get(PRODUCER_RATE, 0)
            if rate <= 0 or not _LEAST_SHARE <= written / rate <= _MOST_SHARE:
                continue
            yield Finding(
                f"Producers write {size(written)}/s to {obs.subject.text} on broker {broker}, as much as the quota of "
                f"{_owner(limit)} allows",
                (
                    f"{PRODUCER_RATE}={rate:g} of {_owner(limit)}, measured for {obs.seconds:.1f} s",
                    "The client ids and users of producers are not visible from here",
                ),
                ("configs", "--describe", *_entity_words(limit)),
                places(("topic", obs.subject.name), partition_places(_keys(obs))),
            )


def _keys(obs: Observations) -> list[tuple[str, int]]:
    return [(part.topic, part.partition) for part in obs.partitions()]


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


def _limit(quotas: tuple[EntityQuotas, ...], client_id: str, key: str) -> EntityQuotas | None:
    """Return the quota that decides for a client id: the most specific of the default user's, the client id's and the
    default client id's (ClientQuotaManager.DefaultQuotaCallback). Quotas of named users are left out: the users of
    members are not visible."""
    default, named, others = ("user", None), ("client-id", client_id), ("client-id", None)
    for entity in ({default, named}, {default, others}, {default}, {named}, {others}):
        for found in quotas:
            if set(found.entity) == entity and key in found.values:
                return found
    return None


def _owner(limit: EntityQuotas) -> str:
    return ", ".join(f"{kind} {name or '<default>'}" for kind, name in limit.entity)


_ENTITY_OPTIONS = {"client-id": "clients", "user": "users"}


def _entity_words(limit: EntityQuotas) -> tuple[str, ...]:
    words: list[str] = []
    for kind, name in limit.entity:
        words += ["--entity-type", _ENTITY_OPTIONS[kind]]
        words += ["--entity-default"] if name is None else ["--entity-name", name]
    return tuple(words)
