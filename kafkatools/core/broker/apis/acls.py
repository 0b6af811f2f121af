"""Handlers for ACLs: DescribeAcls, CreateAcls, DeleteAcls."""

from __future__ import annotations

from typing import Any

from kafkatools.core.broker.apis.contexts import ChangeContext
from kafkatools.core.broker.metadata.controller.acls import UNKNOWN, Acl, AclFilter, ensure_enabled
from kafkatools.core.broker.server.apis import ensure_permitted
from kafkatools.core.broker.server.requests import CloseConnection, Request, Response, error_fields, outcome_fields
from kafkatools.core.errors import KafkaError
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.slices import paced


def handle_describe_acls(node: ChangeContext, request: Request) -> Response:
    """Answer DescribeAcls: the ACLs that match the filter, grouped by resource.

    Raises ClusterAuthorizationFailed, SecurityDisabled without an authorizer, and CloseConnection for a filter with
    UNKNOWN elements. ACLs of users (version 3) concern delegation tokens.
    """
    acl_filter = _filter_of(request.decode())
    if acl_filter.has_unknown:
        raise CloseConnection("DescribeAclsRequest contains UNKNOWN elements")
    ensure_permitted(node, request)
    ensure_enabled(node.authorizer is not None, "No Authorizer is configured on the broker")
    return request.respond({"error_message": "", "resources": _by_resource(node.image.acls.matching(acl_filter))})


def _filter_of(fields: Any) -> AclFilter:
    return AclFilter(
        int(fields.resource_type_filter),
        fields.resource_name_filter,
        int(fields.pattern_type_filter),
        fields.principal_filter,
        fields.host_filter,
        int(fields.operation),
        int(fields.permission_type),
    )


def _by_resource(acls: list[Acl]) -> list[Fields]:
    resources: dict[tuple[int, str, int], list[Fields]] = {}
    for acl in paced(acls):
        entry = {
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation,
            "permission_type": acl.permission_type,
        }
        resources.setdefault(acl[:3], []).append(entry)
    return [
        {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": entries}
        for (kind, name, pattern), entries in resources.items()
    ]


def handle_create_acls(node: ChangeContext, request: Request) -> Response:
    """Answer CreateAcls: create ACLs, with one result per ACL. When the whole request fails, as without ALTER on the
    cluster or without an authorizer, every result has the error. Raises CloseConnection for UNKNOWN elements."""
    acls = [
        Acl(
            int(creation.resource_type),
            creation.resource_name,
            int(creation.resource_pattern_type),
            creation.principal,
            creation.host,
            int(creation.operation),
            int(creation.permission_type),
        )
        for creation in request.decode().creations
    ]
    if any(UNKNOWN in (acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type) for acl in acls):
        raise CloseConnection("CreatableAcls contain unknown elements")
    try:
        ensure_permitted(node, request)
        ensure_enabled(node.authorizer is not None, "No Authorizer is configured.")
        outcomes = node.controller.create_acls(acls)
    except KafkaError as error:
        return request.respond({"results": [error_fields(error) for _ in acls]})
    return request.respond({"results": [{"error_message": "", **outcome_fields(error)} for error in outcomes]})


def handle_delete_acls(node: ChangeContext, request: Request) -> Response:
    """Answer DeleteAcls: delete the ACLs that match each filter; a filter's result lists the deleted ACLs. When the
    whole request fails, as without ALTER on the cluster or without an authorizer, every result has the error. Raises
    CloseConnection for UNKNOWN elements."""
    filters = [_filter_of(fields) for fields in request.decode().filters]
    if any(acl_filter.has_unknown for acl_filter in filters):
        raise CloseConnection("Filters contain UNKNOWN elements")
    try:
        ensure_permitted(node, request)
        ensure_enabled(node.authorizer is not None, "No Authorizer is configured.")
        deleted = node.controller.delete_acls(filters)
    except KafkaError as error:
        return request.respond({"filter_results": [error_fields(error) for _ in filters]})
    return request.respond({"filter_results": [{"matching_acls": [acl._asdict() for acl in acls]} for acls in deleted]})
