"""Describe, create and delete ACLs (KafkaAdminClient, KIP-140, KIP-290).

Resource types, pattern types, operations and permissions have Kafka's names, such as `TOPIC`, `PREFIXED`, `READ`,
`DENY`. Only this module knows their numbers in the protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.results import filled, refusals
from kafkatools.core.errors import KafkaError
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields

ANY = "ANY"
MATCH = "MATCH"
LITERAL = "LITERAL"
PREFIXED = "PREFIXED"
ALLOW = "ALLOW"
DENY = "DENY"
UNKNOWN = "UNKNOWN"
WILDCARD = "*"
CLUSTER_NAME = "kafka-cluster"

RESOURCE_TYPES = ("UNKNOWN", ANY, "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER")
"""Kafka's names; a name's position is its number in the protocol, as in the tables below."""
PATTERN_TYPES = (UNKNOWN, ANY, MATCH, LITERAL, PREFIXED)
PERMISSIONS = (UNKNOWN, ANY, DENY, ALLOW)
OPERATIONS = (
    UNKNOWN,
    ANY,
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "CREATE_TOKENS",
    "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
)


class Acl(NamedTuple):
    """Allows or denies a principal (such as User:alice) from `host` an operation on resources. `resource_type`,
    `operation`, `permission` and `pattern_type` are Kafka's names. The `pattern_type` PREFIXED covers resources whose
    names start with `resource_name`; the name `*` covers all resources of the type."""

    resource_type: str
    resource_name: str
    principal: str
    operation: str
    permission: str = ALLOW
    host: str = WILDCARD
    pattern_type: str = LITERAL


class AclFilter(NamedTuple):
    """A filter of ACLs; None and ANY match all. `pattern_type` MATCH: ACLs that apply to a resource of that name."""

    resource_type: str = ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: str = ANY
    permission: str = ANY
    host: str | None = None
    pattern_type: str = ANY


class DeletedAcls(NamedTuple):
    """The ACLs that a filter deleted, the errors of matching ACLs that remain, or the filter's own error."""

    acls: list[Acl]
    errors: dict[Acl, KafkaError]
    error: KafkaError | None = None


def filter_of(acl: Acl) -> AclFilter:
    """Return a filter that matches exactly this ACL."""
    return AclFilter(**acl._asdict())


def describe_acls(admin: AdminClient, acl_filter: AclFilter = AclFilter()) -> list[Acl]:  # noqa: B008 (it cannot change)
    """Return the ACLs that match a filter, in the broker's order. Raises KafkaError, such as SecurityDisabled, and
    ValueError for a name in the filter that Kafka does not have."""
    response = admin.send(ApiKey.DESCRIBE_ACLS, _filter_fields(acl_filter), check=error_in)
    return [_acl(resource, acl) for resource in response.resources for acl in resource.acls]


def _filter_fields(acl_filter: AclFilter) -> Fields:
    return {
        "resource_type_filter": _number(RESOURCE_TYPES, acl_filter.resource_type),
        "resource_name_filter": acl_filter.resource_name,
        "pattern_type_filter": _number(PATTERN_TYPES, acl_filter.pattern_type),
        "principal_filter": acl_filter.principal,
        "host_filter": acl_filter.host,
        "operation": _number(OPERATIONS, acl_filter.operation),
        "permission_type": _number(PERMISSIONS, acl_filter.permission),
    }


def _acl(resource: Entity, binding: Entity) -> Acl:
    return Acl(
        _name(RESOURCE_TYPES, resource.resource_type),
        resource.resource_name,
        binding.principal,
        _name(OPERATIONS, binding.operation),
        _name(PERMISSIONS, binding.permission_type),
        binding.host,
        _name(PATTERN_TYPES, resource.pattern_type),
    )


def create_acls(admin: AdminClient, acls: Iterable[Acl]) -> dict[Acl, KafkaError | None]:
    """Create ACLs; return None (also for an existing ACL) or the error for each. Raises KafkaError when the request
    itself fails, and ValueError for a name that Kafka does not have."""

    def once(items: list[Acl], deadline_ms: int) -> Mapping[Acl, KafkaError | bool]:
        creations = [
            {
                "resource_type": _number(RESOURCE_TYPES, acl.resource_type),
                "resource_name": acl.resource_name,
                "resource_pattern_type": _number(PATTERN_TYPES, acl.pattern_type),
                "principal": acl.principal,
                "host": acl.host,
                "operation": _number(OPERATIONS, acl.operation),
                "permission_type": _number(PERMISSIONS, acl.permission),
            }
            for acl in items
        ]
        response = admin.send_to_controller(ApiKey.CREATE_ACLS, {"creations": creations}, deadline_ms)
        return {acl: error_in(result) or True for acl, result in zip(items, response.results, strict=False)}

    return refusals(admin.retry_items(acls, once))


def delete_acls(admin: AdminClient, filters: Iterable[AclFilter]) -> dict[AclFilter, DeletedAcls]:
    """Delete the ACLs that each filter matches; return the deleted ACLs and errors by filter. An ACL matched by several
    filters may be in all their results. Raises KafkaError when the request itself fails, and ValueError for a name that
    Kafka does not have."""

    def once(items: list[AclFilter], deadline_ms: int) -> Mapping[AclFilter, KafkaError | DeletedAcls]:
        fields = {"filters": [_filter_fields(acl_filter) for acl_filter in items]}
        response = admin.send_to_controller(ApiKey.DELETE_ACLS, fields, deadline_ms)
        matches = zip(items, response.filter_results, strict=False)
        return {acl_filter: error_in(result) or _deleted(result) for acl_filter, result in matches}

    return filled(admin.retry_items(filters, once), lambda error: DeletedAcls([], {}, error))


def _deleted(result: Entity) -> DeletedAcls:
    deletions: list[Acl] = []
    errors: dict[Acl, KafkaError] = {}
    for match in result.matching_acls:
        acl = _acl(match, match)
        error = error_in(match)
        if error is None:
            deletions.append(acl)
        else:
            errors[acl] = error
    return DeletedAcls(deletions, errors)


def _number(names: tuple[str, ...], name: str) -> int:
    """Return the protocol number of a name. Raises ValueError for an unknown name and for UNKNOWN."""
    if name not in names or name == UNKNOWN:
        raise ValueError(f"Unknown value {name!r}: expected one of {', '.join(names[1:])}")
    return names.index(name)


def _name(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= int(number) < len(names) else UNKNOWN
