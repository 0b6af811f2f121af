"""DescribeAcls (key 29), versions 1-3: the ACLs that a filter fits, by resource.

Not done: nothing; user resources (version 3) are stored and described, delegation tokens do not exist here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import (
    CLUSTER,
    CLUSTER_NAME,
    DESCRIBE,
    Acl,
    AclFilter,
    ensure_enabled,
)
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.server.requests import CloseConnection, Request, Response
from kafkatools.core.errors import KafkaError
from kafkatools.core.protocol.slices import paced

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """One filter, one answer."""
    entity = request.decode()
    wanted = AclFilter(
        int(entity.resource_type_filter),
        entity.resource_name_filter,
        int(entity.pattern_type_filter),
        entity.principal_filter,
        entity.host_filter,
        int(entity.operation),
        int(entity.permission_type),
    )
    if wanted.has_unknown:
        raise CloseConnection("DescribeAclsRequest contains UNKNOWN elements")
    try:
        node.authorize_or_raise(request, DESCRIBE, CLUSTER, CLUSTER_NAME)
        ensure_enabled(node.authorizer is not None, "No Authorizer is configured on the broker")
    except KafkaError as error:
        return request.respond({**error_fields(error), "resources": []})
    found = node.image.acls.matching(wanted)
    return request.respond({"error_code": 0, "error_message": "", "resources": _by_resource(found)})


def _by_resource(acls: list[Acl]) -> list[dict[str, Any]]:
    resources: dict[tuple[int, str, int], list[dict[str, Any]]] = {}
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
